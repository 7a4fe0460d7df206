package enginetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// pastSecrets tests what is kept of earlier secrets.
func pastSecrets(t *testing.T, h Harness) {
	f := open(t, h)
	were := func() (out []string) {
		t.Helper()
		for _, x := range must(f.PastSecrets(f.ctx, tenant.Default, 10)) {
			if x.Tenant != tenant.Default || x.Name != "db" || x.Key == "" || x.UpdatedAt.IsZero() {
				t.Errorf("%+v", x)
			}
			out = append(out, string(x.Sealed))
		}
		return out
	}
	expect := func(when string, want ...string) {
		t.Helper()
		got := were()
		if len(got) != len(want) {
			t.Fatalf("%s: %q, want %q", when, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
	}
	must(f.PutSecret(f.ctx, f.secret("db", "one"), 9, nil))
	expect("the first value")
	must(f.PutSecret(f.ctx, f.secret("db", "two"), 9, nil))
	expect("the second value", "one")
	x := must(f.Secret(f.ctx, tenant.Default, "db"))
	again := x
	again.Key, again.Sealed = "k9", []byte("two, sealed anew")
	if err := f.ResealSecret(f.ctx, again, x.Sealed); err != nil {
		t.Fatal(err)
	}
	expect("sealed anew", "one")
	if err := f.DeleteSecret(f.ctx, tenant.Default, "db", nil); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "two, sealed anew", "one")
	if got := must(f.PastSecrets(f.ctx, tenant.Default, 1)); len(got) != 1 || string(got[0].Sealed) != "two, sealed anew" {
		t.Errorf("the latest: %+v", got)
	}
	if got := must(f.PastSecrets(f.ctx, "other", 10)); len(got) != 0 {
		t.Errorf("another tenant's: %+v", got)
	}
	must(f.Tidy(f.ctx))
	expect("tidied, and too young to go", "two, sealed anew", "one")
}

// pastSecretsAreBounded changes secrets often: only the newest of the earlier values are kept.
func pastSecretsAreBounded(t *testing.T, h Harness) {
	longForGuests(t, h)
	f := open(t, h)
	past := func() (names map[string]int, newest string, bytes int) {
		t.Helper()
		names = map[string]int{}
		all := must(f.PastSecrets(f.ctx, tenant.Default, 5000))
		for _, x := range all {
			names[x.Name]++
			bytes += len(x.Sealed)
		}
		return names, string(all[0].Sealed), bytes
	}
	must(f.PutSecret(f.ctx, f.secret("calm", "a"), 2000, nil))
	must(f.PutSecret(f.ctx, f.secret("calm", "b"), 2000, nil))
	for n := range 30 {
		must(f.PutSecret(f.ctx, f.secret("db", fmt.Sprint(n)), 2000, nil))
	}
	if names, newest, _ := past(); names["db"] != 20 || names["calm"] != 1 || newest != "28" {
		t.Errorf("of names: %v, the newest %q", names, newest)
	}
	large := strings.Repeat("x", 65_000)
	for n := range 4 {
		for range 7 {
			must(f.PutSecret(f.ctx, f.secret(fmt.Sprintf("large%d", n), large), 2000, nil))
		}
	}
	if names, newest, bytes := past(); bytes > 1<<20 || bytes < 1<<20-70_000 || newest != large || names["large3"] != 6 || names["calm"] != 0 {
		t.Errorf("of a tenant: %v with %d bytes", names, bytes)
	}
	for n := range 1010 {
		must(f.PutSecret(f.ctx, f.secret(fmt.Sprintf("s%d", n), "x"), 2000, nil))
		if err := f.DeleteSecret(f.ctx, tenant.Default, fmt.Sprintf("s%d", n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if names, _, _ := past(); len(names) != 1000 || names["s1009"] != 1 || names["s9"] != 0 {
		t.Errorf("of a tenant: %d names, %d, %d", len(names), names["s1009"], names["s9"])
	}
	// Also for a job's headers, under however many names.
	j := f.sample("it")
	e := f.due(j)
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Executions: []job.Execution{e}, Secrets: []engine.Secret{f.managed(j, "x-token-0", "0")}})
	for n := range 30 {
		j = must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{
			Job: j, AsOf: f.now(), Secrets: []engine.Secret{f.managed(j, fmt.Sprintf("x-token-%d", n+1), fmt.Sprint(n+1))}, Unused: []string{f.managed(j, fmt.Sprintf("x-token-%d", n), "").Name},
		}))
	}
	got := map[string]bool{}
	for _, x := range must(f.SecretsOf(f.ctx, []job.ExecutionID{e.ID}))[0].Managed {
		got[string(x.Sealed)] = true
	}
	if len(got) != 21 || !got["30"] || !got["29"] || !got["10"] || got["9"] {
		t.Errorf("of a job: %v", got)
	}
	if names, _, _ := past(); len(names) != 1000 {
		t.Errorf("what people named went for it: %d", len(names))
	}
}

// secretStampsDoNotComeBack adds and removes a secret: the stamp differs, although everything else is as before.
func secretStampsDoNotComeBack(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.secret("b", "x")
	must(f.PutSecret(f.ctx, b, 9, nil))
	seen := map[string]bool{must(f.SecretStamp(f.ctx, tenant.Default)): true}
	for n := range 3 {
		a := f.secret("a", fmt.Sprint(n))
		a.CreatedAt, a.UpdatedAt = b.CreatedAt.Add(-time.Hour), b.UpdatedAt.Add(-time.Hour)
		must(f.PutSecret(f.ctx, a, 9, nil))
		if err := f.DeleteSecret(f.ctx, tenant.Default, "a", nil); err != nil {
			t.Fatal(err)
		}
		stamp := must(f.SecretStamp(f.ctx, tenant.Default))
		if seen[stamp] {
			t.Errorf("%d: it is %s again", n, stamp)
		}
		seen[stamp] = true
	}
}
