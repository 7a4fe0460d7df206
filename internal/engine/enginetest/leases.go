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

// planned stores a ONE_TIME job that is to fire at the instant, and the firing of it.
func (f fixture) planned(name string, at time.Time) (job.Job, engine.Firing) {
	f.Helper()
	j := f.sample(name)
	j.Schedule = job.Schedule{Type: job.OneTime, At: at}
	j.NextRunAt = at
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}})
	e := f.due(j)
	e.ScheduledAt, e.DueAt = at, at
	return j, engine.Firing{Tenant: j.Tenant, Job: j.ID, Revision: 1, Was: at, Executions: []job.Execution{e}}
}

func fire(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	t.Run("what is due, the earliest first", func(t *testing.T) {
		var want []string
		for i := range 20 {
			at := now.Add(time.Duration(i-10) * time.Minute)
			j, _ := f.planned(fmt.Sprint("at ", i), at)
			if !at.After(now) {
				want = append(want, j.Name)
			}
		}
		due := must(f.Due(f.ctx, now, 100))
		var got []string
		for _, d := range due {
			got = append(got, d.Job.Name)
			if d.Revision != 1 || d.Job.NextRunAt.IsZero() || d.Job.Schedule.Type != job.OneTime || d.Job.Tenant != tenant.Default || d.Job.Priority != 5 || d.Job.Retry.MaxRetries != 2 {
				t.Errorf("%s lacks what firing needs: %+v", d.Job.Name, d)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if due := must(f.Due(f.ctx, now, 3)); len(due) != 3 || due[0].Job.Name != want[0] {
			t.Errorf("a limit of 3 gave %d", len(due))
		}
	})
	t.Run("once", func(t *testing.T) {
		j, firing := f.planned("fires", now)
		second := firing
		e := firing.Executions[0]
		e.ID = newID()
		second.Executions = []job.Execution{e}
		ready := must(f.Fire(f.ctx, []engine.Firing{firing}))
		if len(ready) != 1 || ready[0].ID != firing.Executions[0].ID || ready[0].Lane() != (job.Lane{Partition: job.PartitionOf(j.ID), Tenant: j.Tenant, Priority: 5}) {
			t.Errorf("got %+v", ready)
		}
		if ready := must(f.Fire(f.ctx, []engine.Firing{second})); len(ready) != 0 {
			t.Errorf("it fired again: %+v", ready)
		}
		got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}))
		if !got.NextRunAt.IsZero() || got.State != job.Active || got.Revision != 1 {
			t.Errorf("the job: next %v, %v, revision %d", got.NextRunAt, got.State, got.Revision)
		}
		_, as := f.take(firing.Executions[0].ID)
		f.report(succeed(as[0]))
		if ready := must(f.Fire(f.ctx, []engine.Firing{second})); len(ready) != 0 {
			t.Errorf("it fired again after its end: %+v", ready)
		}
	})
	t.Run("not under another revision or instant", func(t *testing.T) {
		_, firing := f.planned("changed", now)
		stale, early := firing, firing
		stale.Revision = 2
		early.Was = now.Add(time.Second)
		if ready := must(f.Fire(f.ctx, []engine.Firing{stale})); len(ready) != 0 {
			t.Error("fired under another revision")
		}
		if ready := must(f.Fire(f.ctx, []engine.Firing{early})); len(ready) != 0 {
			t.Error("fired at another instant")
		}
		next := firing
		next.Next = now.Add(time.Hour)
		if ready := must(f.Fire(f.ctx, []engine.Firing{next})); len(ready) != 1 {
			t.Error("did not fire")
		}
		if got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: firing.Job})); !got.NextRunAt.Equal(next.Next) {
			t.Errorf("next instant %v, want %v", got.NextRunAt, next.Next)
		}
	})
	t.Run("once, however many try", func(t *testing.T) {
		var firings []engine.Firing
		for i := range 50 {
			_, g := f.planned(fmt.Sprint("contended ", i), now)
			firings = append(firings, g)
		}
		var mu sync.Mutex
		fired := map[job.ID]int{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				mine := slices.Clone(firings)
				for i := range mine {
					e := mine[i].Executions[0]
					e.ID = newID()
					mine[i].Executions = []job.Execution{e}
				}
				ready, err := f.Fire(f.ctx, mine)
				if err != nil {
					t.Errorf("fire: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range ready {
					i := slices.IndexFunc(mine, func(g engine.Firing) bool { return g.Executions[0].ID == r.ID })
					fired[mine[i].Job]++
				}
			})
		}
		wg.Wait()
		for _, g := range firings {
			if fired[g.Job] != 1 {
				t.Errorf("a job fired %d times", fired[g.Job])
			}
		}
	})
}

func queue(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	j := f.sample("lanes")
	var es []job.Execution
	for i := range 40 {
		e := f.due(j)
		e.Trigger = job.ByHand
		e.Priority = 1 + i%4
		e.Partition = job.Partition(i % 2)
		e.DueAt = now.Add(time.Duration(i-30) * time.Second) // the last nine are not due
		es = append(es, e)
	}
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: es})

	lanes := must(f.Lanes(f.ctx))
	want := map[job.Lane]bool{}
	for _, e := range es {
		want[job.Lane{Partition: e.Partition, Tenant: e.Tenant, Priority: e.Priority}] = true
	}
	got := map[job.Lane]bool{}
	for _, l := range lanes {
		got[l] = true
	}
	if d := cmp.Diff(want, got); d != "" || len(lanes) != len(want) {
		t.Fatalf("lanes (-want +got):\n%s", d)
	}

	var cs []engine.LaneCursor
	for _, l := range lanes {
		cs = append(cs, engine.LaneCursor{Lane: l})
	}
	collect := func(cs []engine.LaneCursor, per int) map[job.Lane][]job.Ready {
		by := map[job.Lane][]job.Ready{}
		for _, r := range must(f.Ready(f.ctx, cs, per)) {
			by[r.Lane()] = append(by[r.Lane()], r)
		}
		return by
	}
	total := 0
	for lane, rs := range collect(cs, 100) {
		total += len(rs)
		for i, r := range rs {
			if r.DueAt.After(now) {
				t.Errorf("%v: one that is not due", lane)
			}
			if i > 0 && r.DueAt.Before(rs[i-1].DueAt) {
				t.Errorf("%v: out of order", lane)
			}
		}
	}
	if total != 31 {
		t.Errorf("%d are ready, want 31", total)
	}
	// Page through every lane by its cursor.
	seen := map[job.ExecutionID]bool{}
	for len(cs) > 0 {
		by := collect(cs, 2)
		cs = cs[:0]
		for lane, rs := range by {
			if len(rs) > 2 {
				t.Fatalf("%d of a lane, asked for 2", len(rs))
			}
			for _, r := range rs {
				if seen[r.ID] {
					t.Error("the same one twice")
				}
				seen[r.ID] = true
			}
			last := rs[len(rs)-1]
			cs = append(cs, engine.LaneCursor{Lane: lane, DueAt: last.DueAt, After: last.ID})
		}
	}
	if len(seen) != 31 {
		t.Errorf("paged through %d, want 31", len(seen))
	}
	f.take(es[0].ID, es[1].ID)
	total = 0
	for _, l := range lanes {
		total += len(must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: l}}, 100)))
	}
	if total != 29 {
		t.Errorf("with two leased %d are ready, want 29", total)
	}
	if rs := must(f.Ready(f.ctx, nil, 100)); len(rs) != 0 {
		t.Errorf("no cursors gave %d", len(rs))
	}
}

func lease(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("hands out all that a worker needs", func(t *testing.T) {
		j, e := f.add("needs")
		w, as := f.take(e.ID)
		a := as[0]
		want := job.Attempt{
			Lease: job.Lease{Execution: e.ID, Token: a.Token}, Job: j.ID, JobName: j.Name, Tenant: j.Tenant, Trigger: e.Trigger, Number: 1, MaxAttempts: 3,
			ScheduledAt: e.ScheduledAt, DueAt: e.DueAt, LeasedAt: a.LeasedAt, Target: j.Target, Payload: j.Payload,
		}
		if d := cmp.Diff(want, a); d != "" {
			t.Errorf("attempt (-want +got):\n%s", d)
		}
		if a.Token <= 0 || a.LeasedAt.Before(e.DueAt) {
			t.Errorf("token %d, leased at %v", a.Token, a.LeasedAt)
		}
		if got := f.execution(e.ID); got.Status != job.Running || got.Worker != w || got.Token != a.Token || got.Attempt != 1 || !got.StartedAt.Equal(a.LeasedAt) {
			t.Errorf("execution: %+v", got)
		}
	})
	t.Run("keeps the order asked for", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 20 {
			_, e := f.add(fmt.Sprint("ordered ", i))
			ids = append(ids, e.ID)
		}
		slices.Reverse(ids)
		ids[3], ids[11] = ids[11], ids[3]
		_, as := f.take(ids...)
		for i, a := range as {
			if a.Execution != ids[i] {
				t.Fatalf("number %d is another one", i)
			}
		}
	})
	t.Run("never early, never twice, never what is not there", func(t *testing.T) {
		_, early := f.add("early", func(_ *job.Job, e *job.Execution) { e.DueAt = e.DueAt.Add(time.Hour) })
		_, taken := f.add("taken")
		_, free := f.add("free")
		f.take(taken.ID)
		as := must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: []job.ExecutionID{early.ID, taken.ID, newID(), free.ID, free.ID}}}))
		if len(as) != 1 || as[0].Execution != free.ID {
			t.Errorf("got %d attempts: %+v", len(as), as)
		}
	})
	t.Run("several workers in one commit", func(t *testing.T) {
		_, a := f.add("a")
		_, b := f.add("b")
		_, c := f.add("c")
		w1, w2, idle := f.worker(), f.worker(), f.worker()
		as := must(f.Lease(f.ctx, []engine.Grant{
			{Worker: w1, Executions: []job.ExecutionID{a.ID, b.ID}}, {Worker: idle}, {Worker: w2, Executions: []job.ExecutionID{b.ID, c.ID}},
		}))
		if len(as) != 3 || as[0].Token == as[2].Token || f.execution(b.ID).Worker != w1 || f.execution(c.ID).Worker != w2 {
			t.Errorf("got %+v", as)
		}
	})
	t.Run("not for a session that has ended", func(t *testing.T) {
		_, e := f.add("unowned")
		gone, expired := f.worker(), f.worker()
		must(f.Leave(f.ctx, gone))
		must(f.Renew(f.ctx, []job.WorkerID{expired}, -time.Second))
		for _, w := range []job.WorkerID{gone, expired, newID()} {
			if _, err := f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}); !errors.Is(err, engine.ErrSession) {
				t.Errorf("got %v, want ErrSession", err)
			}
		}
		if got := f.execution(e.ID); got.Status != job.Pending || got.Attempt != 0 {
			t.Errorf("it is %v after %d attempts", got.Status, got.Attempt)
		}
	})
	t.Run("no two workers hold one, however many try", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 200 {
			_, e := f.add(fmt.Sprint("contended ", i))
			ids = append(ids, e.ID)
		}
		var mu sync.Mutex
		got := map[job.ExecutionID]int{}
		var wg sync.WaitGroup
		for i := range 8 {
			w := f.worker()
			wg.Go(func() {
				for part := range slices.Chunk(ids, 10+i) {
					as, err := f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: part}})
					if err != nil {
						t.Errorf("lease: %v", err)
					}
					mu.Lock()
					for _, a := range as {
						got[a.Execution]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if got[id] != 1 {
				t.Errorf("one was leased %d times", got[id])
			}
		}
	})
	t.Run("renewing says which sessions have ended", func(t *testing.T) {
		alive, gone := f.worker(), f.worker()
		must(f.Leave(f.ctx, gone))
		unknown := job.WorkerID(newID())
		ended := must(f.Renew(f.ctx, []job.WorkerID{alive, gone, unknown}, time.Hour))
		if len(ended) != 2 || slices.Contains(ended, alive) {
			t.Errorf("ended: %v", ended)
		}
	})
}

func finish(t *testing.T, h Harness) {
	f := open(t, h)
	accepted := func(t *testing.T, vs []job.Verdict, want ...bool) {
		t.Helper()
		for i, v := range vs {
			if v.Accepted != want[i] || v.Accepted != (v.Reason == "") {
				t.Errorf("verdict %d: %+v, want accepted %v", i, v, want[i])
			}
		}
	}
	t.Run("success goes into history", func(t *testing.T) {
		j, e := f.add("succeeds")
		w, as := f.take(e.ID)
		done := succeed(as[0])
		done.Outcome.Response = &job.Response{HTTPStatus: 200, BodyPreview: "fine"}
		accepted(t, f.report(done), true)
		got := f.execution(e.ID)
		want := e
		want.Status, want.StartedAt, want.FinishedAt = job.Succeeded, as[0].LeasedAt, got.FinishedAt
		want.Attempt, want.Worker, want.Token, want.JobName = 1, w, as[0].Token, j.Name
		want.Result, want.Response = []byte(`{"ok":true}`), done.Outcome.Response
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("execution (-want +got):\n%s", d)
		}
		if got.FinishedAt.Before(got.StartedAt) {
			t.Error("it finished before it started")
		}
	})
	t.Run("the same result again is accepted again", func(t *testing.T) {
		_, e := f.add("repeats")
		_, as := f.take(e.ID)
		accepted(t, f.report(succeed(as[0]), succeed(as[0])), true, true)
		accepted(t, f.report(succeed(as[0])), true)
		accepted(t, f.report(die(as[0], 1)), false)
		if got := f.execution(e.ID); got.Status != job.Succeeded {
			t.Errorf("it is %v", got.Status)
		}
	})
	t.Run("a failure is tried again", func(t *testing.T) {
		_, e := f.add("flaky")
		w, as := f.take(e.ID)
		at := f.now().Add(time.Hour)
		accepted(t, f.report(again(as[0], at, 1)), true)
		got := f.execution(e.ID)
		if got.Status != job.Retrying || !got.DueAt.Equal(at) || got.Tries != 1 || got.Attempt != 1 || !got.ScheduledAt.Equal(e.ScheduledAt) {
			t.Errorf("got %+v", got)
		}
		// The same outcome is accepted again, whatever a server that no longer sees the lease decides of it.
		accepted(t, f.report(again(as[0], at, 1), die(as[0], 1)), true, true)
		accepted(t, f.report(succeed(as[0])), false)
		if got := f.execution(e.ID); got.Tries != 1 || got.Attempt != 1 || got.Status != job.Retrying {
			t.Errorf("the repeat was charged: %+v", got)
		}
		past := must(f.Attempts(f.ctx, tenant.Default, e.ID))
		if len(past) != 1 || past[0].Number != 1 || past[0].Worker != w || past[0].Token != as[0].Token || past[0].Error != *boom || past[0].EndedAt.Before(past[0].StartedAt) {
			t.Errorf("attempts: %+v", past)
		}
	})
	t.Run("the next attempt has a greater token, and the old one is stale", func(t *testing.T) {
		_, e := f.add("twice")
		_, first := f.take(e.ID)
		accepted(t, f.report(again(first[0], f.now(), 1)), true)
		_, second := f.take(e.ID)
		if second[0].Token <= first[0].Token || second[0].Number != 2 {
			t.Errorf("tokens %d, %d; number %d", first[0].Token, second[0].Token, second[0].Number)
		}
		vs := f.report(succeed(first[0]))
		accepted(t, vs, false)
		if vs[0].Reason != job.RefusedStale {
			t.Errorf("reason %q", vs[0].Reason)
		}
		if got := f.execution(e.ID); got.Status != job.Running || got.Tries != 1 || !got.StartedAt.Equal(first[0].LeasedAt) {
			t.Errorf("it is %v, started %v", got.Status, got.StartedAt)
		}
		accepted(t, f.report(die(second[0], 2)), true)
		accepted(t, f.report(succeed(first[0])), false)
		got := f.execution(e.ID)
		if got.Status != job.Failed || got.Tries != 2 || got.Attempt != 2 || got.Error == nil || *got.Error != *boom || got.Response == nil || got.Response.BodyPreview != "sorry" {
			t.Errorf("got %+v", got)
		}
		if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 2 || past[0].Number != 1 || past[1].Number != 2 {
			t.Errorf("attempts: %+v", past)
		}
		if _, err := f.Attempts(f.ctx, "other", e.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant's attempts: got %v, want ErrNotFound", err)
		}
	})
	t.Run("unknown ones are refused, neighbours are not", func(t *testing.T) {
		_, e := f.add("neighbour")
		_, as := f.take(e.ID)
		stray := as[0]
		stray.Execution = newID()
		vs := f.report(succeed(stray), succeed(as[0]))
		accepted(t, vs, false, true)
		if vs[0].Reason != job.RefusedUnknown {
			t.Errorf("reason %q", vs[0].Reason)
		}
	})
	t.Run("all kinds in one batch", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 30 {
			_, e := f.add(fmt.Sprint("mixed ", i))
			ids = append(ids, e.ID)
		}
		_, as := f.take(ids...)
		var fs []job.Finish
		for i, a := range as {
			fs = append(fs, []job.Finish{succeed(a), again(a, f.now(), 1), die(a, 1)}[i%3])
		}
		for _, v := range f.report(fs...) {
			if !v.Accepted {
				t.Errorf("refused: %+v", v)
			}
		}
		for i, id := range ids {
			if got, want := f.execution(id).Status, []job.Status{job.Succeeded, job.Retrying, job.Failed}[i%3]; got != want {
				t.Errorf("%d: got %v, want %v", i, got, want)
			}
		}
	})
	t.Run("what deciding needs", func(t *testing.T) {
		j, e := f.add("held")
		_, as := f.take(e.ID)
		stale := job.Lease{Execution: e.ID, Token: as[0].Token - 1}
		hs := must(f.Held(f.ctx, []job.Lease{stale, as[0].Lease, {Execution: newID(), Token: 1}}))
		if len(hs) != 1 || hs[0].ID != e.ID || hs[0].Token != as[0].Token || hs[0].Status != job.Running || hs[0].Retry != j.Retry || hs[0].MaxAttempts != 3 || hs[0].JobState != job.Active {
			t.Errorf("got %+v", hs)
		}
	})
	t.Run("one result wins, however many race", func(t *testing.T) {
		for range 20 {
			_, e := f.add("raced")
			_, as := f.take(e.ID)
			results := []job.Finish{succeed(as[0]), die(as[0], 1), again(as[0], f.now().Add(time.Hour), 1)}
			won := make([]bool, len(results))
			var wg sync.WaitGroup
			for i, r := range results {
				wg.Go(func() {
					vs, err := f.Finish(f.ctx, []job.Finish{r})
					if err != nil {
						t.Errorf("finish: %v", err)
						return
					}
					won[i] = vs[0].Accepted
				})
			}
			wg.Wait()
			got := f.execution(e.ID).Status
			if success, failure := won[0], won[1] || won[2]; success == failure || success != (got == job.Succeeded) {
				t.Errorf("accepted: %v; it is %v", won, got)
			}
		}
	})
}

func handBack(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("release charges nothing", func(t *testing.T) {
		_, e := f.add("released")
		_, as := f.take(e.ID)
		rs := must(f.Release(f.ctx, []job.Lease{as[0].Lease, {Execution: newID(), Token: 5}}))
		if len(rs) != 1 || rs[0].ID != e.ID {
			t.Errorf("got %+v", rs)
		}
		if got := f.execution(e.ID); got.Status != job.Pending || got.Attempt != 0 || got.Lost != 0 {
			t.Errorf("got %+v", got)
		}
		if rs := must(f.Release(f.ctx, []job.Lease{as[0].Lease})); len(rs) != 0 {
			t.Errorf("released twice: %+v", rs)
		}
		if vs := f.report(succeed(as[0])); vs[0].Accepted {
			t.Error("a result after the release was accepted")
		}
		_, next := f.take(e.ID)
		if next[0].Number != 1 || next[0].Token <= as[0].Token {
			t.Errorf("number %d, token %d after %d", next[0].Number, next[0].Token, as[0].Token)
		}
	})
	t.Run("leaving releases all", func(t *testing.T) {
		_, a := f.add("a")
		_, b := f.add("b")
		_, c := f.add("done before")
		w, as := f.take(a.ID, b.ID, c.ID)
		f.report(succeed(as[2]))
		if rs := must(f.Leave(f.ctx, w)); len(rs) != 2 {
			t.Errorf("%d came back, want 2", len(rs))
		}
		for _, id := range []job.ExecutionID{a.ID, b.ID} {
			if got := f.execution(id); got.Status != job.Pending || got.Attempt != 0 {
				t.Errorf("got %v, attempt %d", got.Status, got.Attempt)
			}
		}
		if rs := must(f.Leave(f.ctx, w)); len(rs) != 0 {
			t.Error("leaving twice gave more")
		}
	})
	t.Run("disowning spares what is known", func(t *testing.T) {
		_, a := f.add("known")
		_, b := f.add("unknown")
		w := f.worker()
		known := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{a.ID}}}))
		must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{b.ID}}}))
		rs := must(f.Disown(f.ctx, w, []job.Token{known[0].Token}))
		if len(rs) != 1 || rs[0].ID != b.ID {
			t.Errorf("got %+v", rs)
		}
		if got := f.execution(b.ID); got.Status != job.Pending || got.Attempt != 0 {
			t.Errorf("got %v, attempt %d", got.Status, got.Attempt)
		}
		if vs := f.report(succeed(known[0])); !vs[0].Accepted {
			t.Error("what was known was disowned, too")
		}
		if rs := must(f.Disown(f.ctx, w, nil)); len(rs) != 0 {
			t.Errorf("nothing is left, got %+v", rs)
		}
	})
	t.Run("a dead worker's executions come back as lost attempts", func(t *testing.T) {
		_, a := f.add("lost")
		_, b := f.add("finished in time")
		_, c := f.add("alive")
		dead, as := f.take(a.ID, b.ID)
		_, kept := f.take(c.ID)
		f.report(succeed(as[1]))
		if rs := must(f.Reap(f.ctx, 100, 3)); len(rs) != 0 {
			t.Errorf("reaped the living: %+v", rs)
		}
		must(f.Renew(f.ctx, []job.WorkerID{dead}, -time.Second))
		rs := must(f.Reap(f.ctx, 100, 3))
		if len(rs) != 1 || rs[0].ID != a.ID {
			t.Fatalf("got %+v", rs)
		}
		if got := f.execution(a.ID); got.Status != job.Pending || got.Attempt != 1 || got.Lost != 1 || got.Tries != 0 {
			t.Errorf("got %+v", got)
		}
		past := must(f.Attempts(f.ctx, tenant.Default, a.ID))
		if len(past) != 1 || past[0].Error.Type != job.LeaseLost || past[0].Worker != dead {
			t.Errorf("attempts: %+v", past)
		}
		for _, late := range []job.Finish{succeed(as[0]), die(as[0], 1), again(as[0], f.now(), 1)} {
			if vs := f.report(late); vs[0].Accepted || vs[0].Reason != job.RefusedStale {
				t.Errorf("its late result: %+v", vs)
			}
		}
		if ended := must(f.Renew(f.ctx, []job.WorkerID{dead}, time.Hour)); len(ended) != 1 {
			t.Error("the dead renewed its session")
		}
		_, next := f.take(a.ID)
		if next[0].Number != 2 || next[0].Token <= as[0].Token {
			t.Errorf("number %d, token %d after %d", next[0].Number, next[0].Token, as[0].Token)
		}
		for _, x := range []job.Attempt{next[0], kept[0]} {
			if vs := f.report(succeed(x)); !vs[0].Accepted {
				t.Errorf("refused: %+v", vs)
			}
		}
		if rs := must(f.Reap(f.ctx, 100, 3)); len(rs) != 0 {
			t.Errorf("reaped again: %+v", rs)
		}
	})
	t.Run("what keeps killing its workers ends", func(t *testing.T) {
		_, e := f.add("poison")
		var last job.Attempt
		for n := 1; n <= 3; n++ {
			w, as := f.take(e.ID)
			last = as[0]
			must(f.Renew(f.ctx, []job.WorkerID{w}, -time.Second))
			rs := must(f.Reap(f.ctx, 100, 3))
			if (len(rs) == 1) != (n < 3) {
				t.Fatalf("after %d losses %d are queued again", n, len(rs))
			}
		}
		got := f.execution(e.ID)
		if got.Status != job.Failed || got.Error == nil || got.Error.Type != job.Poison || got.Attempt != 3 || got.Lost != 3 || got.Tries != 0 || got.Token != last.Token {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
		if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 3 || past[2].Error.Type != job.LeaseLost {
			t.Errorf("attempts: %+v", past)
		}
		for _, late := range []job.Finish{succeed(last), die(last, 1)} {
			if vs := f.report(late); vs[0].Accepted {
				t.Error("a late result was accepted")
			}
		}
	})
	t.Run("tidying loses nothing", func(t *testing.T) {
		_, e := f.add("kept")
		_, as := f.take(e.ID)
		for range 20 {
			if !must(f.Tidy(f.ctx)) {
				break
			}
		}
		if vs := f.report(succeed(as[0])); !vs[0].Accepted {
			t.Errorf("refused: %+v", vs)
		}
	})
}
