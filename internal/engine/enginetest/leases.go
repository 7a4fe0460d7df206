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

// planned stores a ONE_TIME job that will fire at the instant, and returns its firing.
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
		due := must(f.Due(f.ctx, engine.DueFilter{Until: now, Limit: 100}))
		var got []string
		like := f.sample("")
		for _, d := range due {
			got = append(got, d.Job.Name)
			if d.Revision != 1 || d.Job.NextRunAt.IsZero() || d.Job.Schedule.Type != job.OneTime || d.Job.Tenant != tenant.Default || d.Job.Priority != 5 || d.Job.Retry.MaxRetries != 2 || d.Job.Class() != like.Class() {
				t.Errorf("%s lacks what firing needs: %+v", d.Job.Name, d)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if due := must(f.Due(f.ctx, engine.DueFilter{Until: now, Limit: 3})); len(due) != 3 || due[0].Job.Name != want[0] {
			t.Errorf("a limit of 3 gave %d", len(due))
		}
	})
	t.Run("what is ahead, second by second", func(t *testing.T) {
		from := now.Add(24 * time.Hour)
		for i, at := range []time.Duration{0, 1, time.Second - 1000, time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond, 4 * time.Second} {
			f.planned(fmt.Sprint("ahead ", i), from.Add(at))
		}
		gone, _ := f.planned("deleted", from.Add(time.Millisecond))
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: gone.ID, AsOf: now}))
		// An instant is stored to the microsecond, and from itself is excluded.
		if got := must(f.Ahead(f.ctx, nil, from, 4, 1000)); !slices.Equal(got, []int{1, 1, 2, 0}) {
			t.Errorf("got %v", got)
		}
		all := make([]job.Partition, job.Partitions)
		for p := range all {
			all[p] = job.Partition(p)
		}
		if got := must(f.Ahead(f.ctx, all, from, 5, 1000)); !slices.Equal(got, []int{1, 1, 2, 0, 1}) {
			t.Errorf("of all partitions: %v", got)
		}
		if got := must(f.Ahead(f.ctx, nil, now.Add(48*time.Hour), 3, 1000)); !slices.Equal(got, []int{0, 0, 0}) {
			t.Errorf("where nothing is: %v", got)
		}
		const many = 300
		at := now.Add(72 * time.Hour)
		for i := range many {
			f.planned(fmt.Sprint("many ", i), at.Add(time.Millisecond))
		}
		if got := must(f.Ahead(f.ctx, nil, at, 1, 64))[0]; got < 32 || got >= many {
			t.Errorf("%d of %d counted, and 64 wanted", got, many)
		}
	})
	t.Run("once", func(t *testing.T) {
		j, firing := f.planned("fires", now)
		second := firing
		e := firing.Executions[0]
		e.ID = newID()
		second.Executions = []job.Execution{e}
		ready := must(f.Fire(f.ctx, []engine.Firing{firing}, engine.Fence{})).Ready
		if len(ready) != 1 || ready[0].ID != firing.Executions[0].ID || ready[0].Lane() != (job.Lane{Partition: job.PartitionOf(j.ID), Tenant: j.Tenant, Class: j.Class(), Priority: 5}) {
			t.Errorf("got %+v", ready)
		}
		if ready := must(f.Fire(f.ctx, []engine.Firing{second}, engine.Fence{})).Ready; len(ready) != 0 {
			t.Errorf("it fired again: %+v", ready)
		}
		got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}))
		if !got.NextRunAt.IsZero() || got.State != job.Active || got.Revision != 1 {
			t.Errorf("the job: next %v, %v, revision %d", got.NextRunAt, got.State, got.Revision)
		}
		_, as := f.take(firing.Executions[0].ID)
		f.report(succeed(as[0]))
		if ready := must(f.Fire(f.ctx, []engine.Firing{second}, engine.Fence{})).Ready; len(ready) != 0 {
			t.Errorf("it fired again after its end: %+v", ready)
		}
	})
	t.Run("not under another revision or instant", func(t *testing.T) {
		_, firing := f.planned("changed", now)
		stale, early := firing, firing
		stale.Revision = 2
		early.Was = now.Add(time.Second)
		if ready := must(f.Fire(f.ctx, []engine.Firing{stale}, engine.Fence{})).Ready; len(ready) != 0 {
			t.Error("fired under another revision")
		}
		if ready := must(f.Fire(f.ctx, []engine.Firing{early}, engine.Fence{})).Ready; len(ready) != 0 {
			t.Error("fired at another instant")
		}
		next := firing
		next.Next = now.Add(time.Hour)
		if ready := must(f.Fire(f.ctx, []engine.Firing{next}, engine.Fence{})).Ready; len(ready) != 1 {
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
				ready, err := f.Fire(f.ctx, mine, engine.Fence{})
				if err != nil {
					t.Errorf("fire: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range ready.Ready {
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
		e.Group.Key = job.GroupKey(i / 4 % 3 * -7)
		e.Partition = job.Partition(i % 2)
		e.Class = job.Class([]string{"http", "worker\x1fx"}[i/2%2])
		e.DueAt = now.Add(time.Duration(i-30) * time.Second) // the last nine are not due
		es = append(es, e)
	}
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: es})

	lanes := must(f.Lanes(f.ctx, nil, 1000))
	want := map[job.Lane]bool{}
	for _, e := range es {
		want[e.Ready().Lane()] = true
	}
	got := map[job.Lane]bool{}
	for _, l := range lanes {
		got[l] = true
	}
	if d := cmp.Diff(want, got); d != "" || len(lanes) != len(want) {
		t.Fatalf("lanes (-want +got):\n%s", d)
	}
	var paged []job.Lane
	for page := must(f.Lanes(f.ctx, nil, 3)); len(page) > 0; page = must(f.Lanes(f.ctx, &page[len(page)-1], 3)) {
		if len(page) > 3 {
			t.Fatalf("%d lanes, asked for 3", len(page))
		}
		paged = append(paged, page...)
	}
	if !slices.Equal(paged, lanes) {
		t.Errorf("page by page the lanes are %v, at once %v", paged, lanes)
	}
	type class struct {
		job.Partition
		tenant.ID
		job.Class
	}
	last := map[class]job.Lane{}
	for i, l := range lanes {
		of := class{l.Partition, l.Tenant, l.Class}
		before, ok := last[of]
		if ok && (lanes[i-1] != before || l.Group < before.Group || l.Group == before.Group && l.Priority <= before.Priority) {
			t.Errorf("%+v comes after %+v, and behind others", l, before)
		}
		last[of] = l
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
	due := 0
	for k, n := range must(f.CountDue(f.ctx)) {
		want := 0
		for _, l := range lanes {
			if l.Tenant == k.Tenant && l.Class == k.Class && l.Priority == k.Priority {
				want += len(must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: l}}, 100)))
			}
		}
		for _, r := range must(f.Running(f.ctx, nil)) {
			if r.Tenant == k.Tenant && r.Class == k.Class && r.Priority == k.Priority {
				want++
			}
		}
		if n != want {
			t.Errorf("%+v: %d are due, want %d", k, n, want)
		}
		due += n
	}
	if due != 31 {
		t.Errorf("%d are due, want 31", due)
	}
	for _, kind := range []string{"recurring", "one-off"} {
		paused, e := f.add("is paused, "+kind, func(j *job.Job, e *job.Execution) {
			if kind == "recurring" {
				j.Schedule = job.Schedule{Type: job.Interval, Every: time.Hour}
				e.Trigger = job.BySchedule
			}
			j.Queue = "paused"
			e.Class = j.Class()
		})
		count := func() (n int) {
			for k, c := range must(f.CountDue(f.ctx)) {
				if k.Class == paused.Class() {
					n += c
				}
			}
			return n
		}
		if n := count(); n != 1 {
			t.Errorf("%s, before the pause: %d are due", kind, n)
		}
		paused.State, paused.PausedAt = job.Paused, f.now()
		must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: paused, Revision: paused.Revision, AsOf: f.now()}))
		if got := f.execution(e.ID); got.Status != job.Waiting {
			t.Fatalf("%s: it is %v", kind, got.Status)
		}
		if n := count(); n != 0 {
			t.Errorf("%s, held by the pause: %d are due", kind, n)
		}
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
			ScheduledAt: e.ScheduledAt, DueAt: e.DueAt, LeasedAt: a.LeasedAt, StartedAt: a.LeasedAt, Target: j.Target, Payload: j.Payload,
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
	t.Run("keeps the order asked for, grant by grant and with gaps", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 9 {
			_, e := f.add(fmt.Sprint("in parts ", i))
			ids = append(ids, e.ID)
		}
		f.take(ids[1], ids[6])
		slices.Reverse(ids) // those at 7 and 2 are taken now
		w1, w2 := f.worker(), f.worker()
		as := must(f.Lease(f.ctx, []engine.Grant{
			{Worker: w1, Executions: []job.ExecutionID{ids[5], ids[2], ids[0], ids[7]}}, {Worker: w2, Executions: []job.ExecutionID{ids[8], ids[1], ids[4]}},
		}, engine.Fence{}))
		want := []job.ExecutionID{ids[5], ids[0], ids[8], ids[1], ids[4]}
		if len(as) != len(want) {
			t.Fatalf("got %d attempts, want %d", len(as), len(want))
		}
		for i, a := range as {
			if w := f.execution(a.Execution).Worker; a.Execution != want[i] || (w == w1) != (i < 2) || (w == w2) != (i >= 2) {
				t.Errorf("number %d is another one, or another's", i)
			}
		}
	})
	t.Run("never early, never twice, never what is not there", func(t *testing.T) {
		_, early := f.add("early", func(_ *job.Job, e *job.Execution) { e.DueAt = e.DueAt.Add(time.Hour) })
		_, taken := f.add("taken")
		_, free := f.add("free")
		f.take(taken.ID)
		as := must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: []job.ExecutionID{early.ID, taken.ID, newID(), free.ID, free.ID}}}, engine.Fence{}))
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
		}, engine.Fence{}))
		if len(as) != 3 || as[0].Token == as[2].Token || f.execution(b.ID).Worker != w1 || f.execution(c.ID).Worker != w2 {
			t.Errorf("got %+v", as)
		}
	})
	t.Run("not for a session that has ended", func(t *testing.T) {
		_, e := f.add("unowned")
		gone, expired := f.worker(), f.worker()
		must(f.Leave(f.ctx, gone))
		f.expire(expired)
		for _, w := range []job.WorkerID{gone, expired, newID()} {
			if _, err := f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}); !errors.Is(err, engine.ErrSession) {
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
			w, idle := f.worker(), f.worker()
			wg.Go(func() {
				for part := range slices.Chunk(ids, 10+i) {
					gs := []engine.Grant{{Worker: w, Executions: part}, {Worker: idle}}
					as, err := f.Lease(f.ctx, gs[:1+i%2], engine.Fence{}) // alone, and in a commit with others
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
		got := must(f.Renew(f.ctx, []engine.Renewal{{Worker: alive}, {Worker: gone}, {Worker: unknown}}, time.Hour))
		if len(got.Ended) != 2 || slices.Contains(got.Ended, alive) || len(got.Orders) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}
