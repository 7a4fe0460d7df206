package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f fixture) operation(n int) job.Operation {
	now := f.now()
	return job.Operation{
		ID: newID(), Tenant: tenant.Default, Kind: job.OpRedrive, State: job.OpRunning, Spec: []byte(`{"n":1}`), Rate: 2.5, Total: 10,
		By: "someone", CreatedAt: now.Add(time.Duration(n) * time.Second), UpdatedAt: now.Add(time.Duration(n) * time.Second), Version: 1,
	}
}

func operations(t *testing.T, h Harness) {
	f := open(t, h)
	if _, err := f.TakeOperation(f.ctx, time.Hour); !errors.Is(err, engine.ErrNotFound) {
		t.Fatalf("take where there is none: %v", err)
	}
	var all []job.Operation
	for n := range 5 {
		o := f.operation(n)
		i := engine.Idempotency{Key: fmt.Sprint("op ", n), Answer: []byte("x"), Until: f.now().Add(time.Hour)}
		if got := must(f.AddOperation(f.ctx, o, i, nil)); got.Replay != nil {
			t.Fatalf("add: %+v", got)
		}
		if got := must(f.AddOperation(f.ctx, f.operation(n), i, nil)); string(got.Replay) != "x" {
			t.Errorf("add again under its key: %+v", got)
		}
		all = append(all, o)
	}
	if got := must(f.Operation(f.ctx, tenant.Default, all[0].ID)); !cmp.Equal(got, all[0]) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(all[0], got))
	}
	if _, err := f.Operation(f.ctx, "other", all[0].ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	first := must(f.FindOperations(f.ctx, tenant.Default, engine.Page{Limit: 3}))
	rest := must(f.FindOperations(f.ctx, tenant.Default, engine.Page{Limit: 3, Cursor: first.Next}))
	var listed []job.OperationID
	for _, o := range append(slices.Clone(first.Operations), rest.Operations...) {
		listed = append(listed, o.ID)
	}
	if want := []job.OperationID{all[4].ID, all[3].ID, all[2].ID, all[1].ID, all[0].ID}; !slices.Equal(listed, want) || rest.Next != "" || first.Total.Count != 5 {
		t.Errorf("listed %v, total %+v", listed, first.Total)
	}
	// Each is handed out once, the one saved longest ago first.
	o := must(f.TakeOperation(f.ctx, time.Hour))
	if o.ID != all[0].ID {
		t.Errorf("took another")
	}
	o.Done, o.Passed, o.UpdatedAt = 3, 1, f.now()
	saved := must(f.SaveOperation(f.ctx, o, time.Hour))
	if saved.Version != o.Version+1 || saved.Done != 3 {
		t.Errorf("saved: %+v", saved)
	}
	if _, err := f.SaveOperation(f.ctx, o, time.Hour); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("saved under an old version: %v", err)
	}
	var mu sync.Mutex
	taken := map[job.OperationID]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				x, err := f.TakeOperation(f.ctx, time.Hour)
				if errors.Is(err, engine.ErrNotFound) {
					return
				}
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				mu.Lock()
				taken[x.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, x := range all[1:] {
		if taken[x.ID] != 1 {
			t.Errorf("one was taken %d times", taken[x.ID])
		}
	}
	// An abandoned one is available again; a finished one is not.
	saved = must(f.SaveOperation(f.ctx, saved, 0))
	again0 := must(f.TakeOperation(f.ctx, -time.Second))
	if again0.ID != saved.ID {
		t.Fatal("what was given up is not to be had")
	}
	if x := must(f.TakeOperation(f.ctx, time.Hour)); x.ID != saved.ID {
		t.Error("what ran out is not to be had")
	} else {
		x.State, x.FinishedAt, x.Error = job.OpFailed, f.now(), "why"
		x = must(f.SaveOperation(f.ctx, x, 0))
		if got := must(f.Operation(f.ctx, tenant.Default, x.ID)); got.State != job.OpFailed || got.Error != "why" || got.FinishedAt.IsZero() {
			t.Errorf("finished: %+v", got)
		}
		if _, err := f.CancelOperation(f.ctx, tenant.Default, x.ID, nil); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("cancel of a finished one: %v", err)
		}
	}
	if _, err := f.TakeOperation(f.ctx, time.Hour); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("take where none is left: %v", err)
	}
	was := must(f.Operation(f.ctx, tenant.Default, all[1].ID))
	for range 2 {
		if got := must(f.CancelOperation(f.ctx, tenant.Default, was.ID, nil)); got.State != job.OpCancelled || got.FinishedAt.IsZero() {
			t.Errorf("cancelled: %+v", got)
		}
	}
	if _, err := f.SaveOperation(f.ctx, was, time.Hour); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("saved after a cancel: %v", err)
	}
	if _, err := f.CancelOperation(f.ctx, "other", all[2].ID, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("cancel another tenant's: %v", err)
	}
}

func limits(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	if all := must(f.Tenants(f.ctx)); len(all) != 1 || all[0].ID != tenant.Default || all[0].Tier != tenant.Enterprise {
		t.Errorf("tenants at first: %+v", all)
	}
	acme := tenant.Tenant{ID: "acme", Name: "Acme ✓", Tier: tenant.Pro, CreatedAt: now}
	if err := f.CreateTenant(f.ctx, acme, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.CreateTenant(f.ctx, acme, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	if ok := must(f.HasTenant(f.ctx, "acme")); !ok {
		t.Error("it is not there")
	}
	if all := must(f.Tenants(f.ctx)); len(all) != 2 || !cmp.Equal(all[0], acme) {
		t.Errorf("got %+v", all)
	}
	acme.Tier, acme.Name = tenant.Enterprise, "Acme"
	if err := f.UpdateTenant(f.ctx, acme, nil); err != nil {
		t.Fatal(err)
	}
	if all := must(f.Tenants(f.ctx)); !cmp.Equal(all[0], acme) {
		t.Errorf("changed: %+v", all[0])
	}
	acme.CutAt = now
	for _, at := range []time.Time{now, now.Add(-time.Hour), {}} { // as seen by those who knew it before
		x := acme
		x.CutAt = at
		if err := f.UpdateTenant(f.ctx, x, nil); err != nil {
			t.Fatal(err)
		}
		if all := must(f.Tenants(f.ctx)); !cmp.Equal(all[0], acme) {
			t.Errorf("cut: %+v", all[0])
		}
	}
	if err := f.UpdateTenant(f.ctx, tenant.Tenant{ID: "nobody", Tier: tenant.Free}, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}

	own := job.Limit{Tenant: "acme", Max: 5, Rate: job.Rate{Count: 100, Per: time.Minute, Burst: 10}}
	queue := job.Limit{Tenant: "acme", Queue: "slow", Max: 2}
	other := job.Limit{Tenant: tenant.Default, Queue: "slow", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}}
	for _, l := range []job.Limit{queue, {Tenant: "acme", Max: 99}, own, other} {
		if err := f.SetLimit(f.ctx, l, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(f.Limits(f.ctx, "acme")); !slices.Equal(got, []job.Limit{own, queue}) {
		t.Errorf("acme's: %+v", got)
	}
	if got := must(f.Limits(f.ctx, "")); !slices.Equal(got, []job.Limit{own, queue, other}) {
		t.Errorf("all: %+v", got)
	}
	if err := f.SetLimit(f.ctx, job.Limit{Tenant: "acme", Queue: "slow"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := must(f.Limits(f.ctx, "acme")); !slices.Equal(got, []job.Limit{own}) {
		t.Errorf("after one was removed: %+v", got)
	}
}

func buckets(t *testing.T, h Harness) {
	f := open(t, h)
	slow := job.Rate{Count: 1, Per: time.Hour, Burst: 5}
	draw := func(bucket string, r job.Rate, n int) engine.Drawn {
		return must(f.Draw(f.ctx, []engine.Draw{{Bucket: bucket, Rate: r, N: n}}))[0]
	}
	if got := draw("a", slow, 3); got.N != 3 {
		t.Errorf("of a full bucket: %+v", got)
	}
	if got := draw("a", slow, 0); got.N != 0 || got.Wait > 0 {
		t.Errorf("a look at one with tokens: %+v", got)
	}
	if got := draw("a", slow, 9); got.N != 2 || got.Wait < 50*time.Minute || got.Wait > time.Hour {
		t.Errorf("of the rest: %+v", got)
	}
	if got := draw("a", slow, 1); got.N != 0 || got.Wait < 50*time.Minute {
		t.Errorf("of an empty bucket: %+v", got)
	}
	got := must(f.Draw(f.ctx, []engine.Draw{{Bucket: "z", Rate: slow, N: 1}, {Bucket: "a", Rate: slow, N: 1}, {Bucket: "b", Rate: slow, N: 9}}))
	if len(got) != 3 || got[0].N != 1 || got[1].N != 0 || got[2].N != 5 {
		t.Errorf("several at once: %+v", got)
	}
	fast := job.Rate{Count: 1000, Per: time.Second, Burst: 1}
	if draw("c", fast, 5).N != 1 {
		t.Error("a burst of 1 gave another number")
	}
	<-time.After(5 * time.Millisecond)
	if got := draw("c", fast, 5); got.N != 1 {
		t.Errorf("a millisecond later: %+v", got)
	}
	rerated(t, f)
	// However many draw at once, they share.
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				got, err := f.Draw(f.ctx, []engine.Draw{{Bucket: "shared", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 20}, N: 1}, {Bucket: "other", Rate: slow, N: 0}})
				if err != nil {
					t.Errorf("draw: %v", err)
					return
				}
				mu.Lock()
				total += got[0].N
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if total != 20 {
		t.Errorf("%d tokens were drawn of 20", total)
	}
}

// rerated changes the rates of buckets: a bucket keeps its tokens, and refills at the new rate.
func rerated(t *testing.T, f fixture) {
	t.Helper()
	hourly, fast := job.Rate{Count: 1, Per: time.Hour, Burst: 1}, job.Rate{Count: 1000, Per: time.Second, Burst: 100}
	draw := func(bucket string, r job.Rate, n int) engine.Drawn {
		return must(f.Draw(f.ctx, []engine.Draw{{Bucket: bucket, Rate: r, N: n}}))[0]
	}
	draw("raised", hourly, 1)
	if got := draw("raised", hourly, 1); got.N != 0 || got.Wait < 50*time.Minute {
		t.Fatalf("before it is raised: %+v", got)
	}
	if got := draw("raised", fast, 0); got.Wait > 5*time.Millisecond {
		t.Errorf("a look at one that was raised: %+v", got)
	}
	for began, n := time.Now(), 0; n < 20; n += draw("raised", fast, 20).N {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%d started in %v after the rate was raised to 1000 a second", n, time.Since(began))
		}
		<-time.After(2 * time.Millisecond)
	}
	// After lowering the rate, earlier draws count, and what is left stays.
	slow := job.Rate{Count: 1, Per: time.Hour, Burst: 10}
	many := job.Rate{Count: 100, Per: time.Hour, Burst: 100}
	if got := draw("lowered", many, 100); got.N != 100 {
		t.Fatalf("before it is lowered: %+v", got)
	}
	if got := draw("lowered", slow, 5); got.N != 0 || got.Wait < 50*time.Minute {
		t.Errorf("of one that held nothing when it was lowered: %+v", got)
	}
	if draw("some left", many, 96); draw("some left", slow, 10).N != 4 {
		t.Error("of one that held 4 when it was lowered another number came")
	}
	if draw("much left", many, 1); draw("much left", slow, 20).N != 10 {
		t.Error("of one that held 99 when it was lowered another number came than the new burst")
	}
	// And back: the debt of the slow rate is not one of the fast rate.
	if got := draw("lowered", many, 1); got.N != 0 || got.Wait > 37*time.Second {
		t.Errorf("raised again: %+v", got)
	}
}
