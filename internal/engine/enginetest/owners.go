package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func owners(t *testing.T, h Harness) {
	f := open(t, h)
	o, ok := f.Store.(engine.Owners)
	if ok != h.Shared {
		t.Fatalf("a store that several may share knows of owners, and no other: shared %v, owners %v", h.Shared, ok)
	}
	if !ok {
		return
	}
	a := engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "a", Waiting: true, Slots: 7, StartedAt: f.now()}
	b := engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "b", StartedAt: f.now()}
	c := engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "c", Waiting: true, StartedAt: f.now()}
	attend := func(s engine.Server, ttl time.Duration) engine.Roster { return must(o.Attend(f.ctx, s, ttl)) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := attend(a, time.Hour)
	if len(r.Servers) != 1 || r.Servers[0] != a || len(r.Partitions) != job.Partitions || r.Partitions[5].Part != 5 || r.Partitions[5].Owner != (engine.ServerID{}) {
		t.Fatalf("alone: %+v", r)
	}
	attend(b, time.Hour)
	check(o.Take(f.ctx, a.ID, []job.Partition{1, 2, 3}))
	check(o.Take(f.ctx, b.ID, []job.Partition{3, 4}))
	r = attend(b, time.Hour)
	if len(r.Servers) != 2 || r.Partitions[3].Owner != a.ID || r.Partitions[4].Owner != b.ID || r.Partitions[5].Owner != (engine.ServerID{}) {
		t.Errorf("after both took: %+v", r)
	}
	epoch := r.Partitions[1].Epoch

	in := func(p job.Partition, name string) job.Execution {
		_, e := f.add(name, func(j *job.Job, e *job.Execution) {
			for j.Group.Key = 1; j.Group.Partition() != p; j.Group.Key++ {
			}
			j.Group.Max = 1
			e.Join(j.Group)
		})
		return e
	}
	w := f.worker()
	lease := func(x engine.Fence, es ...job.Execution) int {
		g := engine.Grant{Worker: w}
		for _, e := range es {
			g.Executions = append(g.Executions, e.ID)
		}
		return len(must(f.Lease(f.ctx, []engine.Grant{g}, x)))
	}
	_, plain := f.add("in no group", func(_ *job.Job, e *job.Execution) { e.Partition = 1 })
	_, foreign := f.add("in no group, elsewhere", func(_ *job.Job, e *job.Execution) { e.Partition = 4 })
	one, two := in(1, "one"), in(2, "two")
	if n := lease(engine.Fence{}, one); n != 0 {
		t.Error("without a fence what is in a group was leased")
	}
	if n := lease(engine.Fence{Server: a.ID, Epochs: map[job.Partition]int64{1: epoch - 1}}, one, plain); n != 0 {
		t.Error("leased under an old epoch")
	}
	if n := lease(engine.Fence{Server: b.ID, Epochs: map[job.Partition]int64{1: epoch}}, one, plain); n != 0 {
		t.Error("leased by another server")
	}
	if n := lease(engine.Fence{Server: a.ID, Epochs: map[job.Partition]int64{1: epoch}}, one, two, plain, foreign); n != 3 {
		t.Errorf("leased %d, want all but what is in a group of a partition that the fence does not name", n)
	}

	check(o.Want(f.ctx, b.ID, []job.Partition{1, 4}))
	if r := attend(a, time.Hour); r.Partitions[1].Wanted != b.ID || r.Partitions[4].Wanted != (engine.ServerID{}) {
		t.Errorf("wanted: %+v, %+v", r.Partitions[1], r.Partitions[4])
	}
	attend(c, time.Hour)
	check(o.Want(f.ctx, c.ID, []job.Partition{1})) // no worker waits at b any more, so its wish must not keep c from asking
	if r := attend(a, time.Hour); r.Partitions[1].Wanted != c.ID {
		t.Errorf("a wish of a server without waiting workers stands: %+v", r.Partitions[1])
	}
	check(o.Want(f.ctx, b.ID, []job.Partition{1}))
	if r := attend(a, time.Hour); r.Partitions[1].Wanted != c.ID {
		t.Errorf("a later wish replaced that of a server at which workers wait: %+v", r.Partitions[1])
	}
	check(o.Retire(f.ctx, c.ID))
	check(o.Give(f.ctx, b.ID, a.ID, []job.Partition{2})) // it is not b's to give
	check(o.Give(f.ctx, a.ID, b.ID, []job.Partition{1}))
	r = attend(b, time.Hour)
	if p := r.Partitions[1]; p.Owner != b.ID || p.Epoch <= epoch || p.Wanted != (engine.ServerID{}) {
		t.Errorf("given: %+v", p)
	}
	if p := r.Partitions[2]; p.Owner != a.ID {
		t.Errorf("given by another: %+v", p)
	}

	// A limit of ten: what one has, the other cannot have.
	borrow := func(s engine.Server, want int) int {
		return must(o.Borrow(f.ctx, s.ID, []engine.Share{{Tenant: "t", Queue: "q", Max: 10, Want: want}}))[0]
	}
	if got := borrow(a, 7); got != 7 {
		t.Errorf("a borrowed %d of 10, asked for 7", got)
	}
	if got := borrow(b, 7); got != 3 {
		t.Errorf("b borrowed %d of the 3 left", got)
	}
	if got := borrow(a, 2); got != 2 {
		t.Errorf("a gave back, and has %d", got)
	}
	if got := borrow(b, 9); got != 8 {
		t.Errorf("b borrowed %d of the 8 left", got)
	}
	greedy := func(s engine.Server, used int) int {
		return must(o.Borrow(f.ctx, s.ID, []engine.Share{{Tenant: "t", Queue: "fair", Max: 10, Want: 10, Used: used}}))[0]
	}
	if got := greedy(a, 0); got != 10 {
		t.Errorf("alone a has %d of 10", got)
	}
	if got := greedy(b, 0); got != 0 {
		t.Errorf("before a gives way b has %d", got)
	}
	if got := greedy(a, 7); got != 5 {
		t.Errorf("a, which uses 7, may use %d", got)
	}
	if got := greedy(b, 0); got != 3 {
		t.Errorf("while a uses 7 b has %d", got)
	}
	if x, y := greedy(a, 0), greedy(b, 0); x != 5 || y != 5 {
		t.Errorf("both want all of it, and have %d and %d", x, y)
	}
	both := must(o.Borrow(f.ctx, a.ID, []engine.Share{{Tenant: "t", Max: 1, Want: 1}, {Tenant: "t", Queue: "q", Max: 10, Want: 9}}))
	if both[0] != 1 || both[1] != 2 {
		t.Errorf("two limits: %v", both)
	}

	// The indivisible rest goes round, and whoever uses it keeps it from the other until it ends.
	single := func(s engine.Server, used int) int {
		return must(o.Borrow(f.ctx, s.ID, []engine.Share{{Tenant: "one", Max: 1, Want: 1, Used: used}}))[0]
	}
	if x, y, z := single(a, 0), single(b, 0), single(a, 0); x != 1 || y != 0 || z != 1 {
		t.Fatalf("of a limit of 1 a has %d and then %d, and b %d", x, z, y)
	}
	single(a, 1)
	if l := must(o.(engine.Lender).Lent(f.ctx, "one")); len(l) != 1 || l[0].Server != a.ID || l[0].Host != "a" || l[0].Share != 1 || l[0].Queue != "" || !slices.Equal(l[0].Parts, []job.Partition{2, 3}) {
		t.Errorf("lent: %+v", l)
	}
	holder, other := a, b
	for range 4 {
		<-time.After(pick.TurnTime + pick.TurnTime/10)
		if x, y := single(holder, 1), single(other, 0); x != 0 || y != 0 {
			t.Errorf("after its turn, while what it started runs, %s may start %d more, and %s %d", holder.Host, x, other.Host, y)
		}
		if x, y := single(holder, 0), single(other, 0); x != 0 || y != 1 {
			t.Fatalf("after that %s has %d, and %s %d", holder.Host, x, other.Host, y)
		}
		holder, other = other, holder
	}
	if got := must(o.Borrow(f.ctx, holder.ID, []engine.Share{{Tenant: "one"}})); got[0] != 0 || len(must(o.(engine.Lender).Lent(f.ctx, "one"))) != 0 {
		t.Errorf("given back: %v", got)
	}

	// One that misses its time is deposed; what it owned becomes available, and until then its shares are reserved.
	attend(a, -time.Second)
	r = attend(b, time.Hour)
	if len(r.Servers) != 1 || r.Partitions[2].Owner != (engine.ServerID{}) {
		t.Errorf("after a died: %+v", r)
	}
	if got := borrow(b, 10); got != 8 {
		t.Errorf("while a's partitions have no owner b borrowed %d", got)
	}
	if _, err := o.Attend(f.ctx, a, time.Hour); !errors.Is(err, engine.ErrSession) {
		t.Errorf("the deposed attends: %v", err)
	}
	check(o.Take(f.ctx, a.ID, []job.Partition{9}))
	check(o.Take(f.ctx, b.ID, []job.Partition{2, 3}))
	r = attend(b, time.Hour)
	if r.Partitions[9].Owner != (engine.ServerID{}) || r.Partitions[2].Owner != b.ID || r.Partitions[2].Epoch <= 1 {
		t.Errorf("after the takeover: %+v, %+v", r.Partitions[9], r.Partitions[2])
	}
	if got := borrow(b, 10); got != 10 {
		t.Errorf("after the takeover b borrowed %d", got)
	}
	check(o.Retire(f.ctx, b.ID))
	c = engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "c", StartedAt: f.now()}
	r = attend(c, time.Hour)
	for _, p := range r.Partitions {
		if p.Owner != (engine.ServerID{}) {
			t.Errorf("after b retired: %+v", p)
		}
	}
	if got := borrow(c, 10); got != 0 {
		t.Errorf("while b's partitions have no owner c borrowed %d", got)
	}
	check(o.Take(f.ctx, c.ID, []job.Partition{1, 2, 3, 4}))
	if got := borrow(c, 10); got != 10 {
		t.Errorf("after it took b's partitions c borrowed %d", got)
	}
	if _, err := o.Attend(f.ctx, b, time.Hour); !errors.Is(err, engine.ErrSession) {
		t.Errorf("the retired attends: %v", err)
	}

	// Another duty has other owners.
	d := engine.Server{ID: newID(), Duty: engine.Scheduling, Host: "d", StartedAt: f.now()}
	r = attend(d, time.Hour)
	if len(r.Servers) != 1 || r.Partitions[1].Owner != (engine.ServerID{}) || len(r.Partitions) != job.Partitions {
		t.Errorf("another duty: %+v", r)
	}
	check(o.Take(f.ctx, d.ID, []job.Partition{1}))
	if r := attend(c, time.Hour); len(r.Servers) != 1 || r.Partitions[1].Owner != c.ID {
		t.Errorf("after another duty took it: %+v", r.Partitions[1])
	}
	r = attend(d, time.Hour)
	if r.Partitions[1].Owner != d.ID {
		t.Errorf("the other duty's owner: %+v", r.Partitions[1])
	}
	// A fire under a fence.
	j, g := f.planned("fenced", f.now())
	p := job.PartitionOf(j.ID)
	check(o.Take(f.ctx, d.ID, []job.Partition{p}))
	for _, x := range attend(d, time.Hour).Partitions {
		if x.Part != p {
			continue
		}
		for _, bad := range []engine.Fence{
			{Server: d.ID, Epochs: map[job.Partition]int64{p: x.Epoch - 1}}, {Server: c.ID, Epochs: map[job.Partition]int64{p: x.Epoch}},
		} {
			if rs := must(f.Fire(f.ctx, []engine.Firing{g}, bad)).Ready; len(rs) != 0 {
				t.Errorf("fired under %+v", bad)
			}
		}
		if rs := must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{Server: d.ID, Epochs: map[job.Partition]int64{p: x.Epoch}})).Ready; len(rs) != 1 {
			t.Error("the owner's fire did not count")
		}
	}
}
