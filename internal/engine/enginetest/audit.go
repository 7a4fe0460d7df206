package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f fixture) anEntry(action string) audit.Entry {
	return audit.Entry{
		Tenant: tenant.Default, At: f.now(), By: "ann ✓", Role: tenant.Admin, Key: "k1", From: "192.0.2.1", Request: "r1", Action: action, Object: "o", Count: 2,
		Detail: []byte(`{"after":{"a":"b"}}`),
	}
}

// actions returns the actions in the log, earliest first.
func (f fixture) actions() []string {
	f.Helper()
	var out []string
	for _, e := range must(f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: tenant.Default}, engine.Page{Limit: 1000})).Entries {
		out = append(out, e.Action)
	}
	slices.Reverse(out)
	return out
}

// sealAll seals until nothing is left.
func (f fixture) sealAll(ts ...tenant.ID) {
	f.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		more := must(f.SealAudit(f.ctx))
		var left int64
		for _, t := range ts {
			left += must(f.Unsealed(f.ctx, t))
		}
		if !more && left == 0 {
			return
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // what others of the same server do must end first
	}
	f.Fatal("not all was sealed")
}

// verify checks the whole chain of a tenant.
func (f fixture) verify(t tenant.ID) (entries int, broken *audit.Broken) {
	f.Helper()
	prev := audit.Seal{}
	for {
		some := must(f.AuditSeals(f.ctx, t, prev.Number, 3))
		if len(some) == 0 {
			return entries, nil
		}
		for _, s := range some {
			if b := audit.Verify(prev, s.Seal, s.Entries); b != nil {
				return entries, b
			}
			prev, entries = s.Seal, entries+len(s.Entries)
		}
	}
}

// oldSealsGo checks that old seals are dropped, however many there are, and that a chain continues after what was
// dropped.
func oldSealsGo(t *testing.T, h Harness) {
	f := open(t, h)
	put := func(of tenant.ID) {
		t.Helper()
		e := f.anEntry("a")
		e.Tenant = of
		if err := f.Record(f.ctx, e); err != nil {
			t.Fatal(err)
		}
		f.sealAll(of)
	}
	const old = 2*engine.TidiedSeals + 5
	for range old {
		put("busy")
	}
	put("idle")
	h.AgeSeals(t, f.where, engine.AuditLife+time.Hour)
	put("busy")
	for must(f.Tidy(f.ctx)) {
	}
	if got := must(f.AuditSeals(f.ctx, "busy", 0, 100)); len(got) != 1 || got[0].Number != old+1 || len(got[0].Entries) != 1 {
		t.Errorf("busy: %+v", got)
	}
	put("idle")
	got := must(f.AuditSeals(f.ctx, "idle", 0, 100))
	if len(got) != 2 || got[0].Number != 1 || got[1].Number != 2 {
		t.Fatalf("idle: %+v", got)
	}
	if broken := audit.Verify(got[0].Seal, got[1].Seal, got[1].Entries); broken != nil {
		t.Error(broken)
	}
}

func auditLog(t *testing.T, h Harness) {
	t.Run("old seals go", func(t *testing.T) { oldSealsGo(t, h) })
	t.Run("entries", func(t *testing.T) { auditEntries(t, h) })
	t.Run("with changes", func(t *testing.T) { auditChanges(t, h) })
	t.Run("creations of one commit", func(t *testing.T) {
		f := open(t, h)
		var cs []engine.Creation
		for i := range 60 {
			j := f.sample("j")
			e := f.anEntry("job.create")
			e.At, e.Object, e.Request, e.Count = j.CreatedAt, j.ID.String(), fmt.Sprintf("r%d", i), 1
			if i == 7 {
				e.Key = "k7"
			}
			cs = append(cs, engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Entry: &e})
		}
		for _, part := range [][]engine.Creation{cs[:5], cs, cs[5:]} { // what is stored already leaves nothing more
			must(f.CreateJobs(f.ctx, part))
		}
		requests := 0
		for _, e := range must(f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: tenant.Default}, engine.Page{Limit: 100})).Entries {
			requests += 1 + len(e.Others())
		}
		if requests != 60 {
			t.Errorf("%d requests in the log, want 60", requests)
		}
		for _, c := range cs {
			if got := must(f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: tenant.Default, Object: c.Entry.Object}, engine.Page{Limit: 10})); len(got.Entries) != 1 || got.Total.Count != 1 {
				t.Errorf("%d entries of a job", len(got.Entries))
			}
		}
		f.sealAll(tenant.Default)
		if _, b := f.verify(tenant.Default); b != nil {
			t.Error(b)
		}
	})
	t.Run("seals", func(t *testing.T) {
		f := open(t, h)
		if more := must(f.SealAudit(f.ctx)); more {
			t.Error("nothing, and more of it")
		}
		for i := range 5 {
			e := f.anEntry(fmt.Sprintf("a.%d", i))
			if err := f.Record(f.ctx, e); err != nil {
				t.Fatal(err)
			}
			e.Tenant = "other"
			if err := f.Record(f.ctx, e); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				f.sealAll(tenant.Default, "other")
			}
		}
		f.sealAll(tenant.Default, "other")
		for _, id := range []tenant.ID{tenant.Default, "other"} {
			if n, b := f.verify(id); n != 5 || b != nil {
				t.Errorf("%s: %d entries, %v", id, n, b)
			}
		}
		some := must(f.AuditSeals(f.ctx, tenant.Default, 0, 10))
		for i, s := range some {
			if s.Number != int64(i+1) {
				t.Errorf("seal %d has the number %d", i+1, s.Number)
			}
		}
		if len(some) < 2 {
			t.Errorf("%d seals", len(some))
		}
	})
	t.Run("an unbroken chain of many writers and sealers", func(t *testing.T) {
		f := open(t, h)
		stores := []engine.Store{f.Store}
		if h.Shared {
			stores = append(stores, reopen(t, h, f.where).Store, reopen(t, h, f.where).Store)
		}
		const each = 40
		var writers, sealers sync.WaitGroup
		ctx, stop := context.WithCancel(f.ctx)
		for i, s := range stores {
			for k := range 2 {
				writers.Go(func() {
					for n := range each {
						var err error
						if k == 0 {
							err = s.Record(f.ctx, f.anEntry("a"))
						} else {
							j := f.sample(fmt.Sprintf("%d %d", i, n))
							_, err = s.CreateJobs(f.ctx, []engine.Creation{{Tenant: j.Tenant, Jobs: []job.Job{j}, Entry: new(f.anEntry("job.create"))}})
						}
						if err != nil {
							t.Errorf("write: %v", err)
							return
						}
					}
				})
			}
			sealers.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.SealAudit(f.ctx); err != nil {
						t.Errorf("seal: %v", err)
						return
					}
				}
			})
		}
		writers.Wait()
		stop()
		sealers.Wait()
		f.sealAll(tenant.Default)
		if n, b := f.verify(tenant.Default); n != 2*each*len(stores) || b != nil {
			t.Errorf("%d entries of %d, %v", n, 2*each*len(stores), b)
		}
	})
}

func auditEntries(t *testing.T, h Harness) {
	f := open(t, h)
	var all []audit.Entry
	for i := range 7 {
		e := f.anEntry(fmt.Sprintf("job.%d", i))
		e.Detail = slices.Clone(e.Detail)
		if i == 3 {
			e.By, e.Key, e.Object, e.Detail, e.At = "bob", "k2", "x", nil, e.At.Add(-time.Hour)
		}
		if err := f.Record(f.ctx, e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := f.Record(f.ctx, audit.Entry{Tenant: "other", At: f.now(), Action: "job.0"}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	find := func(q engine.AuditFilter, p engine.Page) engine.AuditPage {
		if q.Tenant == "" {
			q.Tenant = tenant.Default
		}
		return must(f.AuditEntries(f.ctx, q, p))
	}
	got := find(engine.AuditFilter{}, engine.Page{Limit: 10})
	if diff := cmp.Diff(all, got.Entries, cmpopts.IgnoreFields(audit.Entry{}, "Seq"), cmpopts.EquateEmpty()); diff != "" || got.Total.Count != 7 || got.Next != "" {
		t.Errorf("%s %+v", diff, got.Total)
	}
	for i := 1; i < len(got.Entries); i++ {
		if got.Entries[i].Seq >= got.Entries[i-1].Seq {
			t.Error("they are not in order")
		}
	}
	// A list under concurrent writes neither skips nor repeats entries.
	var seen []string
	for p := (engine.Page{Limit: 3}); ; {
		page := find(engine.AuditFilter{}, p)
		for _, e := range page.Entries {
			seen = append(seen, e.Action)
		}
		if err := f.Record(f.ctx, f.anEntry("late")); err != nil {
			t.Fatal(err)
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if !slices.Equal(seen, []string{"job.6", "job.5", "job.4", "job.3", "job.2", "job.1", "job.0"}) {
		t.Errorf("page by page: %v", seen)
	}
	hour := f.now().Add(-30 * time.Minute)
	for name, c := range map[string]struct {
		f    engine.AuditFilter
		want int
	}{
		"action": {engine.AuditFilter{Action: "job.2"}, 1}, "kind": {engine.AuditFilter{Action: "job."}, 7}, "no action": {engine.AuditFilter{Action: "job"}, 0},
		"object": {engine.AuditFilter{Object: "x"}, 1}, "by": {engine.AuditFilter{By: "bob"}, 1}, "key": {engine.AuditFilter{Key: "k2"}, 1},
		"from": {engine.AuditFilter{From: hour, Action: "job."}, 6}, "until": {engine.AuditFilter{Until: hour}, 1}, "other": {engine.AuditFilter{Tenant: "other"}, 1},
		"all": {engine.AuditFilter{Action: "job.3", Object: "x", By: "bob", Key: "k2", Until: hour}, 1},
	} {
		if got := find(c.f, engine.Page{Limit: 10}); len(got.Entries) != c.want || got.Total.Count != int64(c.want) {
			t.Errorf("%s: %d of %d, want %d", name, len(got.Entries), got.Total.Count, c.want)
		}
	}
	if _, err := f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: tenant.Default}, engine.Page{Limit: 1, Cursor: "x"}); !errors.Is(err, engine.ErrCursor) {
		t.Errorf("a bad cursor: %v", err)
	}
}

// Every method that changes something writes its entry once, and none if it changes nothing.
func auditChanges(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	var want []string
	with := func(action string) *audit.Entry {
		want = append(want, action)
		return new(f.anEntry(action))
	}
	without := func(action string) *audit.Entry { return new(f.anEntry("not " + action)) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	once := func(key string) engine.Idempotency {
		return engine.Idempotency{Key: key, Answer: []byte("{}"), Until: now.Add(time.Hour)}
	}
	create := func(c engine.Creation, action string) {
		c.Entry = new(f.anEntry(action))
		must(f.CreateJobs(f.ctx, []engine.Creation{c}))
	}

	one := f.sample("one")
	e := f.due(one)
	e.ID = job.ExecutionID(one.ID)
	c := engine.Creation{Tenant: one.Tenant, Jobs: []job.Job{one}, Executions: []job.Execution{e}, Idempotency: once("c")}
	want = append(want, "create")
	create(c, "create")
	create(c, "not create")
	many := engine.Creation{Tenant: one.Tenant}
	for range 60 { // by another way into the store
		many.Jobs = append(many.Jobs, f.sample("many"))
	}
	want = append(want, "create many")
	create(many, "create many")

	one.Priority = 7
	must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: one, Revision: 1, AsOf: now, Entry: with("update")}))
	if _, err := f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: one, Revision: 1, AsOf: now, Entry: without("update")}); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("update: %v", err)
	}
	x := f.due(one)
	must(f.Trigger(f.ctx, tenant.Default, x, once("t"), with("trigger")))
	must(f.Trigger(f.ctx, tenant.Default, f.due(one), once("t"), without("trigger")))
	if _, err := f.Trigger(f.ctx, "nobody", f.due(one), engine.Idempotency{}, without("trigger")); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("trigger: %v", err)
	}
	must(f.Cancel(f.ctx, tenant.Default, x.ID, "why", with("cancel")))
	_, as := f.take(e.ID)
	f.report(die(as[0], 1))
	again := f.rerunOf(f.execution(e.ID), job.ByRetry)
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{again}, Idempotency: once("r"), Entry: with("rerun")}))
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{f.rerunOf(f.execution(e.ID), job.ByRetry)}, Idempotency: once("r"), Entry: without("rerun")}))
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{f.rerunOf(f.execution(e.ID), job.ByRedrive)}, DeadOnly: true, Entry: without("rerun")}))
	if n, _, err := f.Discard(f.ctx, tenant.Default, []job.ExecutionID{e.ID}, engine.Idempotency{}, nil, without("discard")); n != 0 || err != nil { // it is no dead letter
		t.Errorf("discard: %d, %v", n, err)
	}
	op := job.Operation{ID: newID(), Tenant: tenant.Default, Kind: job.OpDiscard, State: job.OpRunning, CreatedAt: now, UpdatedAt: now, Version: 1}
	must(f.AddOperation(f.ctx, op, once("o"), with("operation")))
	must(f.AddOperation(f.ctx, op, once("o"), without("operation")))
	must(f.CancelOperation(f.ctx, tenant.Default, op.ID, with("cancel operation")))
	k := engine.Key{ID: "kkkkkkkk", Tenant: tenant.Default, Role: tenant.Viewer, Name: "k", Hash: [32]byte{1}, CreatedAt: now}
	must(f.AddKey(f.ctx, tenant.Default, k, 10, once("k"), with("key")))
	must(f.AddKey(f.ctx, tenant.Default, k, 10, once("k"), without("key")))
	check(f.RevokeKey(f.ctx, tenant.Default, k.ID, now, with("revoke")))
	must(f.PutSecret(f.ctx, engine.Secret{Tenant: tenant.Default, Name: "s", Key: "k", Sealed: []byte("x"), CreatedAt: now, UpdatedAt: now}, 10, with("secret")))
	check(f.DeleteSecret(f.ctx, tenant.Default, "s", with("delete secret")))
	if err := f.DeleteSecret(f.ctx, tenant.Default, "s", without("delete secret")); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("secret: %v", err)
	}
	sign := engine.SigningSecret{Tenant: tenant.Default, ID: "s", Prefix: "p", Sealed: []byte("x"), CreatedAt: now}
	must(f.AddSigningSecret(f.ctx, sign, now, engine.Idempotency{}, with("signing")))
	must(f.AddSigningSecret(f.ctx, sign, now, engine.Idempotency{}, without("signing")))
	check(f.DeleteSigningSecret(f.ctx, tenant.Default, "s", with("delete signing")))
	check(f.PutCalendar(f.ctx, engine.Calendar{Tenant: tenant.Default, Name: "c", Spec: []byte("{}"), UpdatedAt: now}, with("calendar")))
	check(f.DeleteCalendar(f.ctx, tenant.Default, "c", with("delete calendar")))
	check(f.SetLimit(f.ctx, job.Limit{Tenant: tenant.Default, Max: 5}, with("limit")))
	check(f.CreateTenant(f.ctx, tenant.Tenant{ID: "a", Name: "a", Tier: tenant.Free, CreatedAt: now}, with("tenant")))
	if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: "a", Name: "a", Tier: tenant.Free, CreatedAt: now}, without("tenant")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("tenant: %v", err)
	}
	check(f.UpdateTenant(f.ctx, tenant.Tenant{ID: "a", Name: "b", Tier: tenant.Pro}, with("update tenant")))
	check(f.Drain(f.ctx, tenant.Default, f.worker(), with("drain")))
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: one.ID, AsOf: now, Entry: with("delete")}))
	if got := f.actions(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
