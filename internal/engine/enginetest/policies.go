package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fence makes a server the owner of every partition, if the store has owners.
func (f fixture) fence() engine.Fence {
	f.Helper()
	o, ok := f.Store.(engine.Owners)
	if !ok {
		return engine.Fence{}
	}
	s := engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "here", StartedAt: f.now()}
	must(o.Attend(f.ctx, s, time.Hour))
	var all []job.Partition
	for p := range job.Partition(job.Partitions) {
		all = append(all, p)
	}
	if err := o.Take(f.ctx, s.ID, all); err != nil {
		f.Fatal(err)
	}
	x := engine.Fence{Server: s.ID, Epochs: map[job.Partition]int64{}}
	for _, p := range must(o.Attend(f.ctx, s, time.Hour)).Partitions {
		if p.Owner == s.ID {
			x.Epochs[p.Part] = p.Epoch
		}
	}
	return x
}

func inGroup(key job.GroupKey, max int, rate job.Rate) func(*job.Job, *job.Execution) {
	return func(j *job.Job, e *job.Execution) {
		j.MaxConcurrent, j.Rate = max, rate
		j.Group = job.Group{Key: key, Max: max, Rate: rate}
		e.Join(j.Group)
	}
}

func concurrencyGroups(t *testing.T, h Harness) {
	f := open(t, h)
	rate := job.Rate{Count: 7, Per: time.Minute, Burst: 2}
	j, e := f.add("grouped", inGroup(-5, 3, rate))
	if got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID})); got.Group != j.Group || got.MaxConcurrent != 3 || got.Rate != rate {
		t.Errorf("the job came back with the group %+v, %d at once, rate %v", got.Group, got.MaxConcurrent, got.Rate)
	}
	if got := f.execution(e.ID); got.Group != e.Group || got.Partition != e.Group.Partition() {
		t.Errorf("the execution came back in %+v, partition %d", got.Group, got.Partition)
	}
	lanes := must(f.Lanes(f.ctx, nil, 100))
	if want := e.Ready().Lane(); len(lanes) != 1 || lanes[0] != want {
		t.Fatalf("lanes %+v, want %+v", lanes, want)
	}
	rs := must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: lanes[0]}}, 10))
	if len(rs) != 1 || rs[0].Group != e.Group {
		t.Fatalf("ready: %+v", rs)
	}
	x := f.fence()
	w := f.worker()
	as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, x))
	if len(as) != 1 {
		t.Fatalf("leased %d", len(as))
	}
	_, plain := f.add("in no group")
	p := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{plain.ID}}}, engine.Fence{}))
	running := map[job.ExecutionID]engine.Running{}
	for _, r := range must(f.Running(f.ctx, nil)) {
		running[r.ID] = r
	}
	for _, want := range []struct {
		e job.Execution
		a job.Attempt
	}{{e, as[0]}, {plain, p[0]}} {
		got := running[want.e.ID]
		if got.Token != want.a.Token || got.Lane() != want.e.Ready().Lane() || got.Group != want.e.Group {
			t.Errorf("running: %+v, want %+v under %d", got, want.e.Ready(), want.a.Token)
		}
	}
	if one := must(f.Running(f.ctx, []job.Partition{e.Partition})); !slices.ContainsFunc(one, func(r engine.Running) bool { return r.ID == e.ID }) ||
		plain.Partition != e.Partition && len(one) != 1 {
		t.Errorf("running in its partition: %+v", one)
	}
	rs = must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease})).Ready
	if len(rs) != 1 || rs[0].Group != e.Group {
		t.Errorf("released: %+v", rs)
	}
	f.report(succeed(p[0]))
	if left := must(f.Running(f.ctx, nil)); len(left) != 0 {
		t.Errorf("still running: %+v", left)
	}
	if got := must(f.Held(f.ctx, []job.Lease{as[0].Lease})); len(got) != 0 {
		t.Errorf("still held: %+v", got)
	}
	again0 := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, x))
	f.report(again(again0[0], f.now(), 1))
	if got := f.execution(e.ID); got.Group != e.Group || got.Partition != e.Partition || got.Status != job.Retrying {
		t.Errorf("after a failure it is %v in %+v, partition %d", got.Status, got.Group, got.Partition)
	}
}

func unique(key string) func(*job.Job, *job.Execution) {
	return func(j *job.Job, e *job.Execution) { j.UniqueKey, e.UniqueKey = key, key }
}

func uniqueKeys(t *testing.T, h Harness) {
	f := open(t, h)
	creation := func(keys ...string) engine.Creation {
		c := engine.Creation{Tenant: tenant.Default}
		for _, k := range keys {
			j := f.sample("unique " + k)
			e := f.due(j)
			unique(k)(&j, &e)
			c.Jobs, c.Executions = append(c.Jobs, j), append(c.Executions, e)
		}
		return c
	}
	t.Run("a second create answers the first", func(t *testing.T) {
		first := creation("a", "")
		f.store(first)
		second := creation("b", "a")
		second.Idempotency = engine.Idempotency{Key: "not kept", Answer: []byte("x"), Until: f.now().Add(time.Hour)}
		got := must(f.CreateJobs(f.ctx, []engine.Creation{second}))[0]
		want := engine.Incumbent{Key: "a", Job: first.Jobs[0].ID, Execution: first.Executions[0].ID}
		if len(got.Unique) != 1 || got.Unique[0] != want || got.Replay != nil || got.Taken != "" {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for _, j := range second.Jobs {
			if _, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("something of it was stored: %v", err)
			}
		}
		if got := must(f.CreateJobs(f.ctx, []engine.Creation{{Tenant: tenant.Default, Idempotency: second.Idempotency}}))[0]; got.Replay != nil {
			t.Error("its idempotency key was kept")
		}
		if got := must(f.CreateJobs(f.ctx, []engine.Creation{{Tenant: tenant.Default, Idempotency: second.Idempotency}}))[0]; string(got.Replay) != "x" {
			t.Error("a creation without jobs keeps its key")
		}
		got = must(f.CreateJobs(f.ctx, []engine.Creation{{Tenant: "other", Jobs: []job.Job{}, Executions: nil}}))[0]
		if got.Unique != nil {
			t.Errorf("another tenant's: %+v", got)
		}
	})
	t.Run("twice in one request", func(t *testing.T) {
		c := creation("twice", "twice")
		got := must(f.CreateJobs(f.ctx, []engine.Creation{c}))[0]
		if len(got.Unique) != 1 || got.Unique[0].Execution != c.Executions[0].ID || got.Unique[0].Job != c.Jobs[0].ID {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("of two creations at once one is stored", func(t *testing.T) {
		var mu sync.Mutex
		stored := 0
		var wg sync.WaitGroup
		cs := make([]engine.Creation, 8)
		for i := range cs {
			cs[i] = creation("contended", fmt.Sprint("own ", i))
		}
		for _, c := range cs {
			wg.Go(func() {
				got, err := f.CreateJobs(f.ctx, []engine.Creation{c})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if got[0].Unique == nil {
					stored++
				}
			})
		}
		wg.Wait()
		if stored != 1 {
			t.Errorf("%d were stored", stored)
		}
		both := must(f.CreateJobs(f.ctx, []engine.Creation{creation("pair"), creation("pair"), creation("alone")}))
		if both[0].Unique != nil || len(both[1].Unique) != 1 || both[2].Unique != nil {
			t.Errorf("in one call: %+v", both)
		}
	})
	t.Run("trigger", func(t *testing.T) {
		j, e := f.add("triggered", unique("t"))
		second := f.due(j)
		second.Trigger, second.UniqueKey = job.ByHand, "t"
		i := engine.Idempotency{Key: "of the trigger", Answer: []byte("x"), Until: f.now().Add(time.Hour)}
		got := must(f.Trigger(f.ctx, tenant.Default, second, i, nil))
		if len(got.Unique) != 1 || got.Unique[0].Execution != e.ID || got.Unique[0].Job != j.ID {
			t.Fatalf("got %+v", got)
		}
		f.report(succeed(f.took(e.ID)))
		if got := must(f.Trigger(f.ctx, tenant.Default, second, i, nil)); got.Unique != nil || got.Replay != nil {
			t.Errorf("after the end of the first: %+v", got)
		}
		f.report(again(f.took(second.ID), f.now(), 1)) // a retry keeps the key
		third := f.due(j)
		third.Trigger, third.UniqueKey = job.ByHand, "t"
		if got := must(f.Trigger(f.ctx, tenant.Default, third, engine.Idempotency{}, nil)); len(got.Unique) != 1 {
			t.Errorf("while the first is tried again: %+v", got)
		}
	})
	t.Run("a fire is skipped, once and for all", func(t *testing.T) {
		f.add("holds it", unique("f"))
		_, g := f.planned("fires", f.now())
		g.Executions[0].UniqueKey = "f"
		if rs := must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{})).Ready; len(rs) != 0 {
			t.Errorf("got %+v", rs)
		}
		got := f.execution(g.Executions[0].ID)
		if got.Status != job.Skipped || got.Error == nil || got.FinishedAt.IsZero() {
			t.Errorf("got %v, %+v", got.Status, got.Error)
		}
		if j := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: g.Job})); !j.NextRunAt.IsZero() {
			t.Error("its instant did not move")
		}
	})
	t.Run("a rerun is passed over", func(t *testing.T) {
		_, e := f.add("died", unique("r"))
		f.report(die(f.took(e.ID), 1))
		n := f.rerunOf(f.execution(e.ID), job.ByRedrive)
		n.UniqueKey = "r"
		f.add("took its place", unique("r"))
		if got := must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{n}, DeadOnly: true})); len(got.Added) != 0 {
			t.Errorf("got %+v", got)
		}
		if page := must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default, Execution: e.ID}, engine.Page{Limit: 1})); len(page.DeadLetters) != 1 {
			t.Error("the dead letter is gone")
		}
	})
}

func expiry(t *testing.T, h Harness) {
	f := open(t, h)
	by := func(at time.Time) func(*job.Job, *job.Execution) {
		return func(_ *job.Job, e *job.Execution) { e.ExpiresAt = at }
	}
	now := f.now()
	_, late := f.add("late", by(now))
	_, early := f.add("in time", by(now.Add(time.Hour)))
	_, runs := f.add("runs", by(now.Add(time.Hour)))
	_, retried := f.add("is tried again", by(f.now().Add(3*time.Second)))
	f.report(again(f.took(retried.ID), now, 1))
	f.took(runs.ID)
	if got := f.execution(early.ID); !got.ExpiresAt.Equal(early.ExpiresAt) {
		t.Errorf("expires at %v, want %v", got.ExpiresAt, early.ExpiresAt)
	}
	w := f.worker()
	if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{late.ID}}}, engine.Fence{})); len(as) != 0 {
		t.Error("what has expired was leased")
	}
	if n := len(must(f.Expire(f.ctx, 100))); n != 1 {
		t.Errorf("%d expired, want 1", n)
	}
	got := f.execution(late.ID)
	if got.Status != job.Expired || got.FinishedAt.IsZero() || got.Error == nil || !got.StartedAt.IsZero() {
		t.Errorf("got %+v", got)
	}
	if n := len(must(f.Expire(f.ctx, 100))); n != 0 {
		t.Errorf("%d expired again", n)
	}
	for !f.now().After(retried.ExpiresAt.Add(10 * time.Millisecond)) {
		<-time.After(50 * time.Millisecond) // the store's clock cannot be moved
	}
	if n := len(must(f.Expire(f.ctx, 100))); n != 0 {
		t.Errorf("%d that had started expired", n)
	}
	if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{retried.ID}}}, engine.Fence{})); len(as) != 1 {
		t.Error("what had started before its expiry is not tried again")
	}
	for i := range 5 {
		f.add(fmt.Sprint("batch ", i), by(now))
	}
	if a, b := len(must(f.Expire(f.ctx, 3))), len(must(f.Expire(f.ctx, 3))); a != 3 || b != 2 {
		t.Errorf("in batches of 3: %d, %d", a, b)
	}
	if page := must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})); len(page.DeadLetters) != 0 {
		t.Errorf("dead letters: %+v", page.DeadLetters)
	}
}

func overrun(t *testing.T, h Harness) {
	f := open(t, h)
	timed := func(timeout, stall time.Duration) func(*job.Job, *job.Execution) {
		return func(_ *job.Job, e *job.Execution) { e.Timeout, e.Stall = timeout, stall }
	}
	_, slow := f.add("slow", timed(time.Hour, 0))
	_, over := f.add("over", timed(3*time.Second, 0)) // long enough not to pass at once, however slow the store is
	_, still := f.add("still", timed(time.Hour, 3*time.Second))
	_, moves := f.add("moves", timed(time.Hour, time.Hour))
	w, as := f.take(slow.ID, over.ID, still.ID, moves.ID)
	if got := must(f.Overrun(f.ctx, 0, 10)); len(got) != 0 {
		t.Errorf("at once: %+v", got)
	}
	orders := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w, Advances: []job.Advance{
		{Lease: as[3].Lease, Percent: 40, Message: "half way ✓"}, {Lease: job.Lease{Execution: slow.ID, Token: as[0].Token - 1}, Percent: 1},
	}}}, time.Hour))
	if len(orders.Orders) != 1 || orders.Orders[0].Kind != job.OrderLost || orders.Orders[0].Execution != slow.ID || orders.Orders[0].Worker != w {
		t.Errorf("progress under a stale token: %+v", orders.Orders)
	}
	if p := f.execution(moves.ID).Progress; p == nil || p.Percent != 40 || p.Message != "half way ✓" || p.At.IsZero() {
		t.Errorf("progress: %+v", p)
	}
	if p := f.execution(slow.ID).Progress; p != nil {
		t.Errorf("progress under a stale token was kept: %+v", p)
	}
	began := slices.MaxFunc(as, func(a, b job.Attempt) int { return a.LeasedAt.Compare(b.LeasedAt) }).LeasedAt // a store may lease them one by one
	for !f.now().After(began.Add(3100 * time.Millisecond)) {
		<-time.After(50 * time.Millisecond) // the store's clock cannot be moved
	}
	got := must(f.Overrun(f.ctx, 0, 10))
	kinds := map[job.ExecutionID]bool{}
	for _, o := range got {
		kinds[o.ID] = o.Stalled
		if !slices.ContainsFunc(as, func(a job.Attempt) bool { return a.Lease == job.Lease{Execution: o.ID, Token: o.Token} }) || o.Retry.MaxRetries != 2 || o.Status != job.Running {
			t.Errorf("an overrun lacks what deciding needs: %+v", o)
		}
	}
	if stalled, ok := kinds[still.ID]; len(got) != 2 || !ok || !stalled {
		t.Errorf("got %v", kinds)
	}
	if stalled, ok := kinds[over.ID]; !ok || stalled {
		t.Errorf("got %v", kinds)
	}
	if got := must(f.Overrun(f.ctx, time.Minute, 10)); len(got) != 1 || got[0].ID != still.ID {
		t.Errorf("with slack: %+v", got)
	}
	// Ending it expels its worker.
	fin := again(as[1], f.now(), 1)
	fin.Expel = true
	if vs := f.report(fin); !vs[0].Accepted {
		t.Fatalf("refused: %+v", vs)
	}
	orders = must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour))
	if len(orders.Orders) != 1 || orders.Orders[0].Kind != job.OrderLost || orders.Orders[0].Execution != over.ID || orders.Orders[0].Token != as[1].Token {
		t.Errorf("orders: %+v", orders.Orders)
	}
	if got := must(f.Overrun(f.ctx, 0, 10)); len(got) != 1 {
		t.Errorf("after that: %+v", got)
	}
	f.report(succeed(as[3]))
	if p := f.execution(moves.ID); p.Status != job.Succeeded || !p.LeasedAt.Equal(as[3].LeasedAt) {
		t.Errorf("its end: %v, attempt began %v, want %v", p.Status, p.LeasedAt, as[3].LeasedAt)
	}
}

func snooze(t *testing.T, h Harness) {
	f := open(t, h)
	_, e := f.add("snoozes")
	a := f.took(e.ID)
	at := f.now().Add(time.Hour)
	fin := job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Hour, Error: boom},
		Then:    job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: at},
	}
	for n := range 2 { // the second time because the answer was lost
		if vs := f.report(fin); !vs[0].Accepted {
			t.Fatalf("time %d: refused: %+v", n, vs)
		}
	}
	got := f.execution(e.ID)
	if got.Status != job.Pending || got.Tries != 0 || !got.DueAt.Equal(at) || got.Attempt != 0 || !got.StartedAt.Equal(a.LeasedAt) {
		t.Errorf("got %+v", got)
	}
	if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 0 {
		t.Errorf("attempts: %+v", past)
	}
	if told := must(f.Events(f.ctx, tenant.Default, e.ID)); len(told) != 1 || told[0].Kind != job.EventSnoozed || told[0].Note != boom.Message {
		t.Errorf("events: %+v", told)
	}
	if vs := f.report(succeed(a)); vs[0].Accepted {
		t.Error("a success after the snooze was accepted")
	}
	_, y := f.add("snoozes, then is handed back")
	first := f.took(y.ID)
	fin.Outcome.Lease, fin.Then.DueAt = first.Lease, f.now()
	f.report(fin)
	must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{f.took(y.ID).Lease}))
	if got := f.execution(y.ID); got.Attempt != 0 || !got.StartedAt.Equal(first.LeasedAt) {
		t.Errorf("snoozed, then handed back: attempt %d, started at %v, want %v", got.Attempt, got.StartedAt, first.LeasedAt)
	}
	_, x := f.add("snoozes for days")
	for n := range job.MaxSnoozed + 20 {
		a := f.took(x.ID)
		fin.Outcome.Lease, fin.Then.DueAt = a.Lease, f.now()
		if vs := f.report(fin, fin); a.Number != 1 || !vs[0].Accepted || !vs[1].Accepted {
			t.Fatalf("snooze %d: attempt %d, %+v", n, a.Number, vs)
		}
	}
	if told := must(f.Events(f.ctx, tenant.Default, x.ID)); len(told) < job.MaxSnoozed || len(told) > job.MaxSnoozed+1 {
		t.Errorf("%d snoozes are kept, want about %d", len(told), job.MaxSnoozed)
	}
	_, c := f.add("asked to stop meanwhile")
	b := f.took(c.ID)
	must(f.Cancel(f.ctx, tenant.Default, c.ID, "why", nil))
	fin.Outcome.Lease = b.Lease
	if vs := f.report(fin); !accepted(vs, job.Cancelled) {
		t.Errorf("asked to stop, then snoozed: %+v", vs)
	}
	if got := f.execution(c.ID); got.Status != job.Cancelled {
		t.Errorf("asked to stop, then snoozed: %v", got.Status)
	}
}

func drain(t *testing.T, h Harness) {
	f := open(t, h)
	w := f.worker()
	if err := f.Drain(f.ctx, tenant.Default, newID(), nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if got := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour)); len(got.Drain) != 0 {
		t.Errorf("unasked: %+v", got)
	}
	for range 2 {
		if err := f.Drain(f.ctx, tenant.Default, w, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour)); len(got.Drain) != 1 || got.Drain[0] != w {
			t.Errorf("asked: %+v", got)
		}
	}
	bound := job.Worker{ID: newID(), Tenant: "other", Host: "h", Capacity: 1, StartedAt: f.now()}
	if err := f.Register(f.ctx, bound, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := f.Drain(f.ctx, tenant.Default, bound.ID, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	must(f.Leave(f.ctx, w))
	if err := f.Drain(f.ctx, tenant.Default, w, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("one that has left: %v", err)
	}
}

// told returns the kinds of the recorded events of an execution.
func (f fixture) told(id job.ExecutionID) []job.EventKind {
	f.Helper()
	var kinds []job.EventKind
	for _, e := range must(f.Events(f.ctx, tenant.Default, id)) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func events(t *testing.T, h Harness) {
	f := open(t, h)
	if _, err := f.Events(f.ctx, tenant.Default, newID()); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	_, e := f.add("eventful")
	if got := f.told(e.ID); len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	if _, err := f.Events(f.ctx, "other", e.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	w, as := f.take(e.ID)
	must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease}))
	got := must(f.Events(f.ctx, tenant.Default, e.ID))
	if len(got) != 1 || got[0].Kind != job.EventReleased || got[0].Token != as[0].Token || got[0].Worker != w || got[0].At.IsZero() || got[0].Attempt != 1 {
		t.Fatalf("after a release: %+v", got)
	}
	stale := succeed(as[0])
	stale.Worker = w
	f.report(stale)
	f.report(stale)
	got = must(f.Events(f.ctx, tenant.Default, e.ID))
	if len(got) != 2 || got[1].Kind != job.EventRefused || got[1].Token != as[0].Token || got[1].Worker != w || got[1].Note == "" {
		t.Fatalf("after a stale result: %+v", got)
	}
	w2, _ := f.take(e.ID)
	must(f.Leave(f.ctx, w2))
	w3, _ := f.take(e.ID)
	must(f.Disown(f.ctx, w3, nil, time.Time{}))
	if got := f.told(e.ID); !slices.Equal(got, []job.EventKind{job.EventReleased, job.EventRefused, job.EventReleased, job.EventReleased}) {
		t.Errorf("after leaving and disowning: %v", got)
	}
	f.took(e.ID)
	must(f.Cancel(f.ctx, tenant.Default, e.ID, "it is late", nil))
	must(f.Cancel(f.ctx, tenant.Default, e.ID, "really", nil))
	must(f.Force(f.ctx, -time.Second, 10))
	got = must(f.Events(f.ctx, tenant.Default, e.ID))[4:]
	if len(got) != 2 || got[0].Kind != job.EventAsked || got[0].Note != "it is late" || got[1].Kind != job.EventForced {
		t.Errorf("after a cancel: %+v", got)
	}
	f.refuseMany()
	_, dead := f.add("dies")
	f.report(die(f.took(dead.ID), 1))
	n := f.rerunOf(f.execution(dead.ID), job.ByRedrive)
	for range 2 {
		must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{n}, DeadOnly: true}))
	}
	got = must(f.Events(f.ctx, tenant.Default, dead.ID))
	if len(got) != 1 || got[0].Kind != job.EventRerun || got[0].Note != n.ID.String() {
		t.Errorf("after a rerun: %+v", got)
	}
	_, gone := f.add("is discarded")
	f.report(die(f.took(gone.ID), 1))
	f.discard(f.ctx, tenant.Default, gone.ID, gone.ID)
	if got := f.told(gone.ID); !slices.Equal(got, []job.EventKind{job.EventDiscarded}) {
		t.Errorf("after a discard: %v", got)
	}
	// Under another worker's name, nothing is revealed about what does not exist.
	if vs := f.report(job.Finish{Outcome: job.Outcome{Lease: job.Lease{Execution: newID(), Token: 5}, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}); vs[0].Accepted || vs[0].Reason != job.RefusedUnknown {
		t.Errorf("unknown: %+v", vs)
	}
	// Disowning spares recent leases.
	_, late := f.add("given lately")
	w4, given := f.take(late.ID)
	if rs := must(f.Disown(f.ctx, w4, nil, given[0].LeasedAt)).Ready; len(rs) != 0 {
		t.Errorf("disowned what was given after the instant: %+v", rs)
	}
	if rs := must(f.Disown(f.ctx, w4, nil, given[0].LeasedAt.Add(time.Second))).Ready; len(rs) != 1 {
		t.Errorf("did not disown what was given before the instant: %+v", rs)
	}
}

// refuseMany reports under tokens that were never issued, one by one and together: not all of it is recorded.
func (f fixture) refuseMany() {
	f.Helper()
	_, e := f.add("misreported")
	made := func(token int) job.Finish {
		return succeed(job.Attempt{Lease: job.Lease{Execution: e.ID, Token: job.Token(1_000_000 + token)}})
	}
	for i := range 5 {
		f.report(made(i))
	}
	var many []job.Finish
	for i := range 3 * job.MaxRefused {
		many = append(many, made(i))
	}
	f.report(many...)
	f.report(made(5000))
	got := f.told(e.ID)
	if n := len(got); n < job.MaxRefused-5 || n > job.MaxRefused { // some may be kept already
		f.Errorf("%d refusals are kept of %d; want about %d", n, len(many)+1, job.MaxRefused)
	}
}

func autoRedrive(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	_, e := f.add("redrives itself")
	fin := die(f.took(e.ID), 1)
	fin.Then.RedriveAt = now
	_, later := f.add("later")
	fin2 := die(f.took(later.ID), 1)
	fin2.Then.RedriveAt = now.Add(time.Hour)
	_, never := f.add("never")
	f.report(fin, fin2, die(f.took(never.ID), 1))
	due := must(f.Redrivable(f.ctx, 10))
	if len(due) != 1 || due[0].ID != e.ID || due[0].Tenant != tenant.Default || due[0].Job != e.Job || due[0].Status != job.Failed {
		t.Fatalf("got %+v", due)
	}
	if err := f.Postpone(f.ctx, nil, time.Hour); err != nil {
		t.Error(err)
	}
	for range 2 { // the second time nothing is left to postpone
		if err := f.Postpone(f.ctx, []job.ExecutionID{e.ID, never.ID, newID()}, time.Hour); err != nil {
			t.Error(err)
		}
		if due := must(f.Redrivable(f.ctx, 10)); len(due) != 0 {
			t.Errorf("put off: %+v", due)
		}
	}
	_, soon := f.add("is put off for a moment")
	fin3 := die(f.took(soon.ID), 1)
	fin3.Then.RedriveAt = now
	f.report(fin3)
	if err := f.Postpone(f.ctx, []job.ExecutionID{soon.ID}, -time.Microsecond); err != nil {
		t.Error(err)
	}
	if due := must(f.Redrivable(f.ctx, 10)); len(due) != 1 || due[0].ID != soon.ID {
		t.Errorf("due again: %+v", due)
	}
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{f.rerunOf(due[0], job.ByRedrive), f.rerunOf(f.execution(soon.ID), job.ByRedrive)}, DeadOnly: true}))
	if due := must(f.Redrivable(f.ctx, 10)); len(due) != 0 {
		t.Errorf("again: %+v", due)
	}
}
