package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f fixture) park(a job.Attempt, until time.Time) job.Verdict {
	f.Helper()
	vs := must(f.Park(f.ctx, []engine.Parking{{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeParked}, Until: until}}))
	if len(vs) != 1 || vs[0].Execution != a.Execution {
		f.Fatalf("park: %+v", vs)
	}
	return vs[0]
}

func park(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("it outlives its worker", func(t *testing.T) {
		for name, end := range map[string]func(job.WorkerID, job.Attempt) []job.Ready{
			"release": func(_ job.WorkerID, a job.Attempt) []job.Ready {
				return must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease})).Ready
			},
			"leave": func(w job.WorkerID, _ job.Attempt) []job.Ready { return must(f.Leave(f.ctx, w)).Ready },
			"disown": func(w job.WorkerID, _ job.Attempt) []job.Ready {
				return must(f.Disown(f.ctx, w, nil, time.Time{})).Ready
			},
			"reap": func(w job.WorkerID, _ job.Attempt) []job.Ready {
				f.expire(w)
				return must(f.Reap(f.ctx, 10, 3)).Ready
			},
		} {
			_, e := f.add("parked: " + name)
			_, beside := f.add("beside: " + name)
			w, as := f.take(e.ID, beside.ID)
			if v := f.park(as[0], f.now().Add(time.Hour)); !v.Accepted {
				t.Fatalf("%s: %+v", name, v)
			}
			if v := f.park(as[0], f.now().Add(time.Hour)); !v.Accepted {
				t.Errorf("%s: parked again: %+v", name, v)
			}
			rs := end(w, as[0])
			if slices.ContainsFunc(rs, func(r job.Ready) bool { return r.ID == e.ID }) {
				t.Errorf("%s: it was handed back: %+v", name, rs)
			}
			got := f.execution(e.ID)
			if got.Status != job.Running || got.Token != as[0].Token || got.Attempt != 1 || got.Lost != 0 {
				t.Errorf("%s: got %+v", name, got)
			}
			if name != "release" && f.execution(beside.ID).Status == job.Running {
				t.Errorf("%s: what was not parked still runs", name)
			}
			running := must(f.Running(f.ctx, nil))
			n := 0
			for _, r := range running {
				if r.ID == e.ID && r.Token == as[0].Token {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s: %d times in what runs", name, n)
			}
			if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 0 {
				t.Errorf("%s: attempts %+v", name, past)
			}
			events := must(f.Events(f.ctx, tenant.Default, e.ID))
			if len(events) != 1 || events[0].Kind != job.EventParked || events[0].Token != as[0].Token || events[0].Worker != w {
				t.Errorf("%s: events %+v", name, events)
			}
			if v := f.report(succeed(as[0]))[0]; !v.Accepted || f.execution(e.ID).Status != job.Succeeded {
				t.Errorf("%s: completed: %+v, %v", name, v, f.execution(e.ID).Status)
			}
			if v := f.report(succeed(as[0]))[0]; !v.Accepted {
				t.Errorf("%s: completed again: %+v", name, v)
			}
			if v := f.park(as[0], f.now().Add(time.Hour)); !v.Accepted {
				t.Errorf("%s: parked after it was completed: %+v", name, v)
			}
		}
	})
	t.Run("what is not completed in time is overdue", func(t *testing.T) {
		_, late := f.add("late", func(_ *job.Job, e *job.Execution) { e.Timeout = time.Hour })
		_, early := f.add("early")
		_, asked := f.add("asked to stop")
		w, as := f.take(late.ID, early.ID, asked.ID)
		for i, until := range []time.Duration{-time.Second, time.Hour, -time.Second} {
			f.park(as[i], f.now().Add(until))
		}
		if got := must(f.Cancel(f.ctx, tenant.Default, asked.ID, "enough", nil)).Status; got != job.Cancelled {
			t.Errorf("a cancel of what is parked: %v", got)
		}
		must(f.Leave(f.ctx, w))
		over := must(f.Overrun(f.ctx, time.Hour, 10))
		if len(over) != 1 || over[0].ID != late.ID || !over[0].Parked || over[0].Stalled || over[0].Token != as[0].Token || over[0].Retry.MaxRetries != 2 {
			t.Fatalf("overdue: %+v", over)
		}
		if over := must(f.Overrun(f.ctx, time.Hour, 0)); len(over) != 0 {
			t.Errorf("none asked for: %+v", over)
		}
		if vs := f.report(again(as[0], f.now(), 1)); !vs[0].Accepted {
			t.Fatalf("ended: %+v", vs)
		}
		if over := must(f.Overrun(f.ctx, time.Hour, 10)); len(over) != 0 {
			t.Errorf("after its end: %+v", over)
		}
		// Its next attempt is no longer parked.
		next, as2 := f.take(late.ID)
		if rs := must(f.Leave(f.ctx, next)).Ready; len(rs) != 1 || rs[0].ID != late.ID {
			t.Errorf("the attempt after it: %+v", rs)
		}
		if v := f.park(as2[0], f.now()); v.Accepted || v.Reason != job.RefusedStale {
			t.Errorf("under a token that is over: %+v", v)
		}
		if n := len(must(f.Force(f.ctx, -time.Minute, 10))); n != 0 {
			t.Errorf("forced %d", n)
		}
	})
	t.Run("a cancel ends it at once", func(t *testing.T) {
		_, before := f.add("asked, then parked")
		_, after := f.add("parked, then asked")
		_, as := f.take(before.ID, after.ID)
		if got := must(f.Cancel(f.ctx, tenant.Default, before.ID, "enough", nil)).Status; got != job.Cancelling {
			t.Errorf("while its worker has it: %v", got)
		}
		for _, a := range as {
			if v := f.park(a, f.now().Add(time.Hour)); !v.Accepted {
				t.Errorf("park: %+v", v)
			}
		}
		for range 2 {
			if got := must(f.Cancel(f.ctx, tenant.Default, after.ID, "enough", nil)).Status; got != job.Cancelled {
				t.Errorf("parked: %v", got)
			}
		}
		for i, e := range []job.Execution{before, after} {
			got := f.execution(e.ID)
			if got.Status != job.Cancelled || got.Error == nil || got.Error.Message != "enough" || got.Token != as[i].Token || got.Attempt != 1 {
				t.Errorf("%s: it is %+v", e.JobName, got)
			}
			if v := f.report(succeed(as[i]))[0]; v.Accepted || v.Reason != job.RefusedStale {
				t.Errorf("%s: completed: %+v", e.JobName, v)
			}
		}
		if rs := must(f.Running(f.ctx, nil)); slices.ContainsFunc(rs, func(r engine.Running) bool { return r.ID == after.ID || r.ID == before.ID }) {
			t.Errorf("it runs: %+v", rs)
		}
	})
	t.Run("a stale token parks nothing", func(t *testing.T) {
		_, e := f.add("stale")
		w, as := f.take(e.ID)
		f.expire(w)
		must(f.Reap(f.ctx, 10, 3))
		if v := f.park(as[0], f.now().Add(time.Hour)); v.Accepted || v.Reason != job.RefusedStale {
			t.Errorf("a lost lease: %+v", v)
		}
		if v := f.park(job.Attempt{Lease: job.Lease{Execution: newID(), Token: 7}}, f.now()); v.Accepted || v.Reason != job.RefusedUnknown {
			t.Errorf("an unknown execution: %+v", v)
		}
		_, as = f.take(e.ID)
		f.report(again(as[0], f.now(), 1))
		if v := f.park(as[0], f.now().Add(time.Hour)); !v.Accepted || f.execution(e.ID).Status != job.Retrying {
			t.Errorf("its target was quicker: %+v, %v", v, f.execution(e.ID).Status)
		}
	})
}

// seeds creates the secret that a tenant has from the start, and shows it once.
func seeds(f fixture, now time.Time) {
	f.Helper()
	var wg sync.WaitGroup
	var made, shown, refused atomic.Int64
	for i := range 4 {
		wg.Go(func() {
			ok, err := f.SeedSigningSecret(f.ctx, engine.SigningSecret{Tenant: tenant.Default, ID: fmt.Sprintf("seed%d", i), Sealed: []byte{9}, CreatedAt: now}, nil)
			if err != nil {
				f.Error(err)
			}
			if ok {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	all := must(f.SigningSecrets(f.ctx, tenant.Default))
	if made.Load() != 1 || len(all) != 1 || all[0].Prefix != "" || !all[0].ExpiresAt.IsZero() {
		f.Fatalf("made %d of four at once: %+v", made.Load(), all)
	}
	if err := f.ShowSigningSecret(f.ctx, "other", all[0].ID, "whsec_x", nil); !errors.Is(err, engine.ErrNotFound) {
		f.Errorf("another tenant is shown it: %v", err)
	}
	for range 4 {
		wg.Go(func() {
			switch err := f.ShowSigningSecret(f.ctx, tenant.Default, all[0].ID, "whsec_x", nil); {
			case err == nil:
				shown.Add(1)
			case errors.Is(err, engine.ErrConflict):
				refused.Add(1)
			default:
				f.Error(err)
			}
		})
	}
	wg.Wait()
	if shown.Load() != 1 || refused.Load() != 3 {
		f.Errorf("shown %d times, refused %d times", shown.Load(), refused.Load())
	}
	if all = must(f.SigningSecrets(f.ctx, tenant.Default)); all[0].Prefix != "whsec_x" {
		f.Errorf("shown: %+v", all)
	}
	if err := f.DeleteSigningSecret(f.ctx, tenant.Default, all[0].ID, nil); err != nil {
		f.Fatal(err)
	}
	if ok, err := f.SeedSigningSecret(f.ctx, engine.SigningSecret{Tenant: tenant.Default, ID: "again", Sealed: []byte{9}, CreatedAt: now}, nil); !ok || err != nil {
		f.Errorf("after all were revoked: %v, %v", ok, err)
	}
}

func signingSecrets(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	secret := func(n int, of tenant.ID) engine.SigningSecret {
		return engine.SigningSecret{
			Tenant: of, ID: fmt.Sprintf("s%02d", n), Prefix: "whsec_ab", Sealed: []byte{0, 1, byte(n)}, CreatedAt: now.Add(time.Duration(n) * time.Millisecond),
		}
	}
	other := tenant.ID("other")
	if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: other, Name: "other", Tier: tenant.Free, CreatedAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	add := func(s engine.SigningSecret, until time.Time) {
		t.Helper()
		if _, err := f.AddSigningSecret(f.ctx, s, until, engine.Idempotency{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	seeds(f, now)
	add(secret(1, tenant.Default), now.Add(time.Hour))
	if got := must(f.SigningSecrets(f.ctx, tenant.Default)); len(got) != 1 || got[0].ID != "s01" {
		t.Errorf("one that nobody was shown outlived the next: %+v", got)
	}
	add(secret(1, other), now.Add(time.Hour))
	add(secret(2, tenant.Default), now.Add(time.Hour))
	add(secret(2, tenant.Default), now.Add(time.Minute)) // again: it changes nothing
	first := secret(1, tenant.Default)
	first.ExpiresAt = now.Add(time.Hour)
	if d := cmp.Diff([]engine.SigningSecret{secret(2, tenant.Default), first}, must(f.SigningSecrets(f.ctx, tenant.Default))); d != "" {
		t.Errorf("after a rotation (-want +got):\n%s", d)
	}
	add(secret(3, tenant.Default), now.Add(2*time.Hour)) // an end is never put off
	got := must(f.SigningSecrets(f.ctx, tenant.Default))
	if len(got) != 3 || !got[1].ExpiresAt.Equal(now.Add(2*time.Hour)) || !got[2].ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("after another: %+v", got)
	}
	add(secret(4, tenant.Default), now.Add(-time.Second)) // the others end at once
	if got := must(f.SigningSecrets(f.ctx, tenant.Default)); len(got) != 1 || got[0].ID != "s04" {
		t.Errorf("without an overlap: %+v", got)
	}
	for n := 5; n < 4+engine.MaxSigningSecrets; n++ {
		add(secret(n, tenant.Default), now.Add(time.Hour))
	}
	once := engine.Idempotency{Key: "sign", Hash: [32]byte{4}, Answer: []byte("signed"), Until: now.Add(time.Hour)}
	if _, err := f.AddSigningSecret(f.ctx, secret(99, tenant.Default), now.Add(time.Hour), once, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
	if err := f.DeleteSigningSecret(f.ctx, other, "s04", nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	if err := f.DeleteSigningSecret(f.ctx, tenant.Default, "s04", nil); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"", "signed"} { // the key of the refused request is free
		if got := must(f.AddSigningSecret(f.ctx, secret(99, tenant.Default), now.Add(time.Hour), once, nil)); string(got.Replay) != want {
			t.Errorf("under a key: %q, want %q", got.Replay, want)
		}
	}
	if err := f.DeleteSigningSecret(f.ctx, tenant.Default, "s04", nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	if got := must(f.SigningSecrets(f.ctx, other)); len(got) != 1 || !got[0].ExpiresAt.IsZero() {
		t.Errorf("the other tenant's: %+v", got)
	}
	if a, b := must(f.Share(f.ctx, "k", []byte{1})), must(f.Share(f.ctx, "k", []byte{2})); !slices.Equal(a, []byte{1}) || !slices.Equal(b, a) {
		t.Errorf("shared: %v, then %v", a, b)
	}
	for _, was := range [][]byte{{1}, {1}} { // the second finds it changed
		if err := f.Reshare(f.ctx, "k", was, []byte{3}); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Share(f.ctx, "k", []byte{4})); !slices.Equal(got, []byte{3}) {
			t.Errorf("shared anew: %v", got)
		}
	}
	all := must(f.SigningSecrets(f.ctx, ""))
	if len(all) < 2 || all[0].Tenant == all[len(all)-1].Tenant {
		t.Fatalf("of all tenants: %+v", all)
	}
	x := all[0]
	was := x.Sealed
	for _, sealed := range []string{"anew", "too late"} {
		x.Sealed = []byte(sealed)
		if err := f.ResealSigningSecret(f.ctx, x, was); err != nil {
			t.Fatal(err)
		}
		if got := must(f.SigningSecrets(f.ctx, x.Tenant)); string(got[0].Sealed) != "anew" {
			t.Errorf("sealed anew: %q", got[0].Sealed)
		}
	}
}
