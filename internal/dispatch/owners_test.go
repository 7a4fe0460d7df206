package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fakeOwner owns what it is told.
type fakeOwner struct {
	mu     sync.Mutex
	held   engine.Holding
	wanted []job.Partition
	fit    map[job.Partition]time.Time
	behind []job.Partition
	slots  int
	share  int
	asked  int // for shares
	used   int // as told last
}

func (o *fakeOwner) Holding() engine.Holding {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

func (o *fakeOwner) SetDemand(bool) {}

func (o *fakeOwner) FitUntil(at map[job.Partition]time.Time, behind []job.Partition, slots int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fit, o.behind, o.slots = at, behind, slots
}

func (o *fakeOwner) Want(ps []job.Partition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = append(o.wanted, ps...)
}

func (o *fakeOwner) Borrow(_ context.Context, bs []engine.Share) ([]int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	out := make([]int, len(bs))
	for i, b := range bs {
		out[i] = min(b.Want, o.share)
		o.used = b.Used
	}
	return out, nil
}

func owning(ps ...job.Partition) engine.Holding {
	h := engine.Holding{Fence: engine.Fence{Epochs: map[job.Partition]int64{}}, Version: int64(len(ps))}
	for _, p := range ps {
		h.Fence.Epochs[p] = 1
	}
	return h
}

func TestOwnPartitionsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		o := &fakeOwner{held: owning(0)}
		for i := range 40 { // partitions 0 to 3
			f.add(ready(i, time.Now()))
		}
		grouped := ready(101, time.Now()) // partition 1
		grouped.Group = job.Group{Key: 5, Max: 1}
		f.add(grouped)
		d := running(t, f, Config{Owner: o})
		as, err := claimed(t, d, w1, 10)
		if err != nil || len(as) != 10 {
			t.Fatalf("%d, %v", len(as), err)
		}
		for _, a := range as {
			if f.held[a.Lease].Partition != 0 {
				t.Fatal("one of another's partition came before its own")
			}
		}
		rest := claimAll(t, d, w1) // with nothing of its own left it helps out
		if len(rest) != 30 {
			t.Errorf("%d more were given", len(rest))
		}
		for _, a := range rest {
			if f.held[a.Lease].Group.Key != 0 {
				t.Error("what is limited was taken from another's partition")
			}
		}
		for range 5 {
			claimAll(t, d, w1)
		}
		if len(o.wanted) == 0 || o.wanted[0] != 1 {
			t.Errorf("wanted %v", o.wanted)
		}
		o.mu.Lock()
		o.held = owning(0, 1)
		o.mu.Unlock()
		if got := claimAll(t, d, w1); len(got) != 1 {
			t.Errorf("after the partition came %d were given", len(got))
		}
	})
}

// sharing starts a server that owns every partition under a tenant's limit, gives out what its share of the limit allows of n
// executions, and returns what it gave.
func sharing(t *testing.T, limit, share, n int) (*Dispatcher, *fakeOwner, []job.Attempt) {
	t.Helper()
	f := newFake(time.Now)
	f.limits = []job.Limit{{Tenant: "default", Max: limit}}
	stock(f, n)
	o := &fakeOwner{held: owning(0, 1, 2, 3), share: share}
	d := running(t, f, Config{Owner: o})
	as := claimAll(t, d, w1)
	if len(as) != share {
		t.Fatalf("%d were given under a share of %d", len(as), share)
	}
	synctest.Wait() // a pass may be under way that began before the last answer
	return d, o, as
}

func TestAShareOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o, _ := sharing(t, 10, 4, 20)
		o.mu.Lock()
		o.share = 10
		o.mu.Unlock()
		if as := claimAll(t, d, w1); len(as) != 6 {
			t.Errorf("%d more were given under a share of 10", len(as))
		}
	})
}

// What comes at once, right after a share was asked for, does not wait until it would be asked for again; but where less was given
// than asked for, asking continues at its pace.
func TestABurstDoesNotWaitForAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 10_000}}
		o := &fakeOwner{held: owning(0, 1, 2, 3), share: 300}
		d := running(t, f, Config{Owner: o})
		began, given := time.Now(), 0
		for _, n := range []int{10, 100, 190} {
			var hints []job.Ready
			for i := range n {
				r := ready(1000*n+i, time.Now())
				f.add(r)
				hints = append(hints, r)
			}
			d.Offer(hints)
			for was := given; given < was+n; {
				as, err := claimed(t, d, w1, n)
				if err != nil || len(as) == 0 {
					t.Fatalf("%d of %d: %v", given-was, n, err)
				}
				given += len(as)
			}
		}
		if took := time.Since(began); took >= narrowEvery {
			t.Errorf("it took %v", took)
		}
		if o.asked > 6 {
			t.Errorf("shares were asked for %d times", o.asked)
		}
		for i := range 1000 {
			f.add(ready(i, time.Now()))
		}
		d.Wake()
		before := o.asked
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if as, err := d.Claim(ctx, w1, 10); len(as) > 0 {
			t.Errorf("%d more were given, %v", len(as), err)
		}
		if n := o.asked - before; n < 10 || n > 25 {
			t.Errorf("in a second of want shares were asked for %d times", n)
		}
	})
}

// Very many groups of one tenant keep neither another's work nor each other's for long.
func TestACrowdOfGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 1500 {
			r := ready(i, time.Now().Add(-time.Hour))
			r.Partition, r.Tenant, r.Group = 0, "crowd", job.Group{Key: job.GroupKey(i + 1), Max: 1}
			f.add(r)
		}
		lone := ready(7000, time.Now())
		lone.Partition, lone.Tenant = 0, "lone"
		f.add(lone)
		d := running(t, f, Config{Window: 500})
		seen := map[job.ExecutionID]bool{}
		for n := range 300 {
			as, err := claimed(t, d, w1, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range as {
				seen[a.Execution] = true
			}
			if n == 2 && !seen[lone.ID] {
				t.Error("the lone one is not among the first")
			}
			if _, err := d.Report(t.Context(), w1, done(as...)); err != nil {
				t.Fatal(err)
			}
			if len(seen) == 1501 {
				return
			}
		}
		t.Errorf("%d of 1501 were given", len(seen))
	})
}

// A server that could not say in time that it lives does not know what it owns, and gives back nothing of a limit: what runs there
// is counted for it until others have its partitions.
func TestAServerThatLapsedGivesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o, _ := sharing(t, 3, 3, 6)
		o.mu.Lock()
		o.held = engine.Holding{Version: 99, Lapsed: true}
		before := o.asked
		o.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if as, err := d.Claim(ctx, w1, 5); err != nil || len(as) > 0 {
			t.Errorf("%d more were given, %v", len(as), err)
		}
		<-time.After(5 * time.Second)
		if n := o.asked - before; n > 0 {
			t.Errorf("it told %d times how much it uses, and does not know it", n)
		}
	})
}

// What runs in partitions that another server owns now is told as used here until that server counts it, or until it ends.
func TestWhatRunsInLostPartitionsStaysCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o, as := sharing(t, 3, 3, 6)
		used := func() int {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.used
		}
		o.mu.Lock()
		o.held = engine.Holding{Version: 99}
		o.mu.Unlock()
		d.Wake()
		<-time.After(3 * time.Second)
		if n := used(); n != 3 {
			t.Errorf("3 s after its partitions went it tells of %d that run, of 3", n)
		}
		if _, err := d.Report(t.Context(), w1, done(as[0])); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if n := used(); n != 2 {
			t.Errorf("with one ended it tells of %d that run, of 2", n)
		}
		<-time.After(3 * time.Second)
		if n := used(); n != 0 {
			t.Errorf("7 s after its partitions went it still tells of %d that run", n)
		}
	})
}

// A server that gains partitions tells how much of a limit is used in them, also while no claim waits there.
func TestWhatRunsInGainedPartitionsIsCountedWithoutClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 2}}
		a, b := &fakeOwner{held: owning(0, 1, 2, 3), share: 2}, &fakeOwner{}
		for i := range 6 {
			f.add(ready(i, time.Now()))
		}
		x, y := running(t, f, Config{Owner: a}), running(t, f, Config{Owner: b})
		if as := claimAll(t, x, w1); len(as) != 2 {
			t.Fatalf("%d run under a limit of 2", len(as))
		}
		b.mu.Lock()
		b.held = owning(0, 1, 2, 3)
		b.mu.Unlock()
		y.Wake()
		<-time.After(time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.used != 2 {
			t.Errorf("it tells of %d that run, of 2", b.used)
		}
	})
}

// A worker that has turned to another server serves nothing here: what only the owner of a partition may lease, and nobody who
// claims at it takes, is for another server.
func TestAWorkerThatWentElsewhereServesNothingHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		o := &fakeOwner{held: owning(0, 1, 2, 3)}
		d := running(t, f, Config{Owner: o})
		claimAll(t, d, w1) // it takes everything, and never comes again
		left := time.Now()
		grouped := ready(101, time.Now())
		grouped.Group = job.Group{Key: 5, Max: 1}
		f.add(grouped)
		w2 := job.WorkerID{2}
		other := job.Worker{ID: w2, Host: "other", Capacity: 1, Kinds: []string{"other"}, Targets: []string{"worker"}}
		if err := d.Register(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		for _, claims := range []time.Duration{5 * time.Second, time.Minute} { // what the first says still holds while no claim waits
			ctx, cancel := context.WithTimeout(t.Context(), claims)
			defer cancel()
			if as, err := d.Claim(ctx, w2, 1); len(as) > 0 || err != nil {
				t.Fatalf("the other worker was given %v, %v", as, err)
			}
			o.mu.Lock()
			until, ok := o.fit[grouped.Partition]
			o.mu.Unlock()
			if !ok || until.Sub(left) > fitTime && until.After(time.Now()) {
				t.Errorf("after %v it serves partition %d, in which something waits that nobody here takes, until %v after the last claim (%v)", time.Since(left), grouped.Partition, until.Sub(left), ok)
			}
		}
	})
}

// A server tells in which partitions limited executions wait for its workers.
func TestAServerTellsWhereItIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		o := &fakeOwner{held: owning(0, 1, 2, 3)}
		d := running(t, f, Config{Owner: o})
		w := job.Worker{ID: job.WorkerID{2}, Host: "w", Capacity: 3, Targets: everything}
		if err := d.Register(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			r := ready(101+n, time.Now())
			r.Group = job.Group{Key: job.GroupKey(n + 1)}
			r.Group.Max, r.Partition = 5, job.Partition(n%3)
			f.add(r)
		}
		for range 6 { // one each second, of forty
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := d.Claim(ctx, w.ID, 1); err != nil {
				t.Fatal(err)
			}
			cancel()
			<-time.After(time.Second)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if want := []job.Partition{0, 1, 2}; !slices.Equal(o.behind, want) || o.slots != 3 {
			t.Errorf("it is behind in %v with %d slots; want %v and 3", o.behind, o.slots, want)
		}
	})
}
