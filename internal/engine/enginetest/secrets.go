package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// secret returns a sealed value in the form that the store takes.
func (f fixture) secret(name, sealed string) engine.Secret {
	f.Helper()
	now := f.now()
	return engine.Secret{Tenant: tenant.Default, Name: name, CreatedAt: now, UpdatedAt: now, Key: "k1", Sealed: []byte(sealed)}
}

// managed is the secret of a job's header.
func (f fixture) managed(j job.Job, name, sealed string) engine.Secret {
	s := f.secret("~"+j.ID.String()+"/"+name, sealed)
	s.Job = j.ID
	return s
}

func secrets(t *testing.T, h Harness) {
	t.Run("named", func(t *testing.T) { namedSecrets(t, h) })
	t.Run("managed", func(t *testing.T) { managedSecrets(t, h) })
	t.Run("many at once", func(t *testing.T) { manyManaged(t, h) })
	t.Run("keys", func(t *testing.T) { secretKeys(t, h) })
	t.Run("past", func(t *testing.T) { pastSecrets(t, h) })
	t.Run("past, bounded", func(t *testing.T) { pastSecretsAreBounded(t, h) })
	t.Run("stamps", func(t *testing.T) { secretStampsDoNotComeBack(t, h) })
}

func namedSecrets(t *testing.T, h Harness) {
	f := open(t, h)
	if _, err := f.Secret(f.ctx, tenant.Default, "db"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	empty := must(f.SecretStamp(f.ctx, tenant.Default))
	x := f.secret("db", "sealed 1")
	first := must(f.PutSecret(f.ctx, x, 2, nil))
	want := x
	want.Version, want.Sealed = 1, nil
	if !cmp.Equal(first, want) {
		t.Errorf("stored: %s", cmp.Diff(want, first))
	}
	one := must(f.SecretStamp(f.ctx, tenant.Default))
	y := f.secret("db", "sealed 2")
	y.Key = "k2"
	second := must(f.PutSecret(f.ctx, y, 2, nil))
	if second.Version != 2 || !second.CreatedAt.Equal(x.CreatedAt) || !second.UpdatedAt.Equal(y.UpdatedAt) || second.Key != "k2" {
		t.Errorf("stored again: %+v", second)
	}
	got := must(f.Secret(f.ctx, tenant.Default, "db"))
	second.Sealed = []byte("sealed 2")
	if !cmp.Equal(got, second) {
		t.Errorf("read: %s", cmp.Diff(second, got))
	}
	two := must(f.SecretStamp(f.ctx, tenant.Default))
	a := must(f.PutSecret(f.ctx, f.secret("a", "x"), 2, nil))
	if _, err := f.PutSecret(f.ctx, f.secret("b", "x"), 2, nil); !errors.Is(err, engine.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if again := must(f.PutSecret(f.ctx, f.secret("a", "y"), 2, nil)); again.Version != 2 {
		t.Errorf("the next version where there is no room for more: %+v", again)
	}
	all, stamp, err := f.SealedSecrets(f.ctx, tenant.Default)
	if err != nil || len(all) != 2 || all[0].Name != a.Name || string(all[0].Sealed) != "y" || !cmp.Equal(all[1], second) {
		t.Errorf("all: %+v, %v", all, err)
	}
	if three := must(f.SecretStamp(f.ctx, tenant.Default)); three != stamp || three == two || two == one || one == empty {
		t.Errorf("stamps: %s, %s, %s, %s, %s", empty, one, two, three, stamp)
	}
	if list := must(f.Secrets(f.ctx, tenant.Default)); len(list) != 2 || list[0].Sealed != nil || list[1].Name != "db" {
		t.Errorf("listed: %+v", list)
	}
	if lack := must(f.LackSecrets(f.ctx, tenant.Default, []string{"z", "db", "c"})); !cmp.Equal(lack, []string{"z", "c"}) {
		t.Errorf("lacking: %v", lack)
	}
	if lack := must(f.LackSecrets(f.ctx, "other", []string{"db"})); len(lack) != 1 {
		t.Errorf("another tenant has it, too")
	}
	if _, err := f.Secret(f.ctx, "other", "db"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	if err := f.DeleteSecret(f.ctx, "other", "db", nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("deleted by another tenant: %v", err)
	}
	if err := f.DeleteSecret(f.ctx, tenant.Default, "db", nil); err != nil {
		t.Error(err)
	}
	if err := f.DeleteSecret(f.ctx, tenant.Default, "db", nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if four := must(f.SecretStamp(f.ctx, tenant.Default)); four == stamp {
		t.Error("the stamp does not change with a deletion")
	}
}

func managedSecrets(t *testing.T, h Harness) {
	f := open(t, h)
	j := f.sample("it")
	e := f.due(j)
	auth, token := f.managed(j, "authorization", "a1"), f.managed(j, "x-token", "t1")
	creation := engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Executions: []job.Execution{e}, Secrets: []engine.Secret{auth, token}}
	f.store(creation)
	f.store(creation) // its answer was lost
	_, plain := f.add("other")
	uses := must(f.SecretsOf(f.ctx, []job.ExecutionID{e.ID, plain.ID, newID()}))
	if len(uses) != 2 {
		t.Fatalf("uses: %+v", uses)
	}
	for _, u := range uses {
		if u.Tenant != tenant.Default || u.Execution == e.ID && (len(u.Managed) != 2 || string(u.Managed[1].Sealed) != "t1" || u.Managed[0].Job != j.ID || u.Managed[0].Version != 1) || u.Execution == plain.ID && u.Managed != nil {
			t.Errorf("use: %+v", u)
		}
	}
	if list := must(f.Secrets(f.ctx, tenant.Default)); len(list) != 0 {
		t.Errorf("they are listed: %+v", list)
	}
	if lack := must(f.LackSecrets(f.ctx, tenant.Default, []string{auth.Name})); len(lack) != 1 {
		t.Error("they can be named")
	}
	if err := f.DeleteSecret(f.ctx, tenant.Default, auth.Name, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("they can be deleted: %v", err)
	}
	u := engine.Update{Job: j, AsOf: f.now(), Secrets: []engine.Secret{f.managed(j, "authorization", "a2")}, Unused: []string{token.Name}}
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	if got := must(f.Secret(f.ctx, tenant.Default, auth.Name)); string(got.Sealed) != "a2" || got.Version != 2 || got.Job != j.ID {
		t.Errorf("updated: %+v", got)
	}
	if _, err := f.Secret(f.ctx, tenant.Default, token.Name); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("unused: %v", err)
	}
	u.Revision, u.Secrets = 99, []engine.Secret{f.managed(j, "authorization", "a3")}
	if _, err := f.UpdateJob(f.ctx, tenant.Default, u); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another revision: %v", err)
	}
	if got := must(f.Secret(f.ctx, tenant.Default, auth.Name)); string(got.Sealed) != "a2" {
		t.Errorf("an update that was refused left %s", got.Sealed)
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	must(f.Tidy(f.ctx))
	if _, err := f.Secret(f.ctx, tenant.Default, auth.Name); err != nil {
		t.Errorf("what runs of a deleted job still needs it: %v", err)
	}
}

// manyManaged stores so many that a store may take a different path.
func manyManaged(t *testing.T, h Harness) {
	f := open(t, h)
	c := engine.Creation{Tenant: tenant.Default, Idempotency: engine.Idempotency{Key: "k", Answer: []byte("a"), Until: f.now().Add(time.Hour)}}
	for i := range 120 {
		j := f.sample(fmt.Sprint(i))
		c.Jobs, c.Secrets = append(c.Jobs, j), append(c.Secrets, f.managed(j, "authorization", fmt.Sprint(i)))
	}
	f.store(c)
	for i, s := range c.Secrets {
		if got, err := f.Secret(f.ctx, tenant.Default, s.Name); err != nil || string(got.Sealed) != fmt.Sprint(i) {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
	}
	taken := f.sample("taken")
	taken.Key = "k"
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{taken}})
	other := f.sample("other")
	other.Key = "k"
	s := f.managed(other, "authorization", "x")
	if got := must(f.CreateJobs(f.ctx, []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{other}, Secrets: []engine.Secret{s}}})); got[0].Taken != "k" {
		t.Errorf("created: %+v", got)
	}
	if _, err := f.Secret(f.ctx, tenant.Default, s.Name); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a job that was refused left its secret: %v", err)
	}
}

func secretKeys(t *testing.T, h Harness) {
	f := open(t, h)
	if got := must(f.SecretKeys(f.ctx)); len(got) != 0 {
		t.Errorf("of none: %+v", got)
	}
	for i := range 5 {
		s := f.secret(fmt.Sprintf("s%d", i), fmt.Sprint(i))
		s.Key = fmt.Sprintf("k%d", i%2)
		must(f.PutSecret(f.ctx, s, 10, nil))
	}
	if got := must(f.SecretKeys(f.ctx)); len(got) != 2 || got[0].Key != "k0" || got[1].Key != "k1" || got[0].Sealed == nil {
		t.Errorf("keys: %+v", got)
	}
	first := must(f.SecretsNotUnder(f.ctx, "k1", engine.Secret{}, 2))
	if len(first) != 2 || first[0].Name != "s0" || first[1].Name != "s2" {
		t.Fatalf("under others: %+v", first)
	}
	if rest := must(f.SecretsNotUnder(f.ctx, "k1", first[1], 2)); len(rest) != 1 || rest[0].Name != "s4" {
		t.Errorf("the rest: %+v", rest)
	}
	again := first[0]
	again.Key, again.Sealed = "k1", []byte("again")
	for _, was := range []string{"other", "0"} {
		if err := f.ResealSecret(f.ctx, again, []byte(was)); err != nil {
			t.Fatal(err)
		}
		got := must(f.Secret(f.ctx, tenant.Default, "s0"))
		if done := was == "0"; (string(got.Sealed) == "again") != done || (got.Key == "k1") != done || got.Version != 1 {
			t.Errorf("sealed again, as it was %s: %+v", was, got)
		}
	}
}
