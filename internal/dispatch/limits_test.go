package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// claimAll claims until nothing more comes for a second.
func claimAll(t *testing.T, d *Dispatcher, w job.WorkerID) []job.Attempt {
	var got []job.Attempt
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		as, err := d.Claim(ctx, w, 100)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if len(as) == 0 {
			return got
		}
		got = append(got, as...)
	}
}

func done(as ...job.Attempt) []job.Outcome {
	var out []job.Outcome
	for _, a := range as {
		out = append(out, job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded})
	}
	return out
}

func TestAGroupRunsAtMostItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 20 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Max: 2}
			f.add(r)
		}
		f.add(ready(50, time.Now()))
		d := running(t, f, Config{})
		first := claimAll(t, d, w1)
		if len(first) != 3 {
			t.Fatalf("%d run, want two of the group and the one in none", len(first))
		}
		runs := slices.DeleteFunc(first, func(a job.Attempt) bool { return f.held[a.Lease].Group.Key == 0 })
		for range 18 {
			if _, err := d.Report(t.Context(), w1, done(runs[0])); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			as, err := claimed(t, d, w1, 5)
			if err != nil || len(as) != 1 || time.Since(began) > 0 {
				t.Fatalf("after one ended %d came, %v, in %v", len(as), err, time.Since(began))
			}
			runs = append(runs[1:], as...)
			if n := len(f.held); n != 3 {
				t.Fatalf("%d run", n)
			}
		}
	})
}

func TestWhatEndedElsewhereIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 2 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Max: 1}
			f.add(r)
		}
		d := running(t, f, Config{})
		as := claimAll(t, d, w1)
		if len(as) != 1 {
			t.Fatalf("%d run", len(as))
		}
		f.mu.Lock()
		delete(f.held, as[0].Lease) // another server has taken its result, or a reaper its lease
		f.mu.Unlock()
		began := time.Now()
		if as, err := claimed(t, d, w1, 5); err != nil || len(as) != 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%d came, %v, after %v", len(as), err, time.Since(began))
		}
	})
}

func TestWhatRunsIsCountedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 3}}
		for i := range 2 {
			r := ready(100+i, time.Now())
			f.held[job.Lease{Execution: r.ID, Token: 1}] = r
		}
		for i := range 5 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		if as := claimAll(t, d, w1); len(as) != 1 {
			t.Errorf("%d were given although two of three run", len(as))
		}
	})
}

func TestALimitThatIsSetHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 4 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		if as := claimAll(t, d, w1); len(as) != 4 {
			t.Fatalf("%d run", len(as))
		}
		f.mu.Lock()
		f.limits = []job.Limit{{Tenant: "default", Max: 5}}
		f.mu.Unlock()
		d.Refresh()
		for i := range 4 {
			f.add(ready(10+i, time.Now()))
		}
		if as := claimAll(t, d, w1); len(as) != 1 {
			t.Errorf("%d were given although four of five run", len(as))
		}
		f.mu.Lock()
		f.limits = nil
		f.mu.Unlock()
		d.Refresh()
		if as := claimAll(t, d, w1); len(as) != 3 {
			t.Errorf("%d were given after the limit was gone", len(as))
		}
	})
}

func TestRatesSpreadStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Rate: job.Rate{Count: 10, Per: time.Second, Burst: 1}}}
		for i := range 31 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		began := time.Now()
		n := 0
		for n < 31 {
			as, err := claimed(t, d, w1, 100)
			if err != nil {
				t.Fatal(err)
			}
			n += len(as)
			if most := 1 + int(time.Since(began)/(100*time.Millisecond)); n > most {
				t.Fatalf("%d have started after %v", n, time.Since(began))
			}
		}
		if took := time.Since(began); took > 3100*time.Millisecond {
			t.Errorf("it took %v, at ten a second", took)
		}
		if f.draws > 100 {
			t.Errorf("%d draws for 31 starts: it spins", f.draws)
		}
	})
}

func TestAGroupWhoseRateCouldNotBeAskedForGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.failDraws = 2
		for i := range 3 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Rate: job.Rate{Count: 10, Per: time.Second, Burst: 1}}
			f.add(r)
		}
		if got := claimAll(t, running(t, f, Config{}), w1); len(got) != 3 {
			t.Errorf("%d of 3 ran after tokens could not be drawn", len(got))
		}
	})
}

// A job's rate that is raised holds for what waits already, whichever server it was raised at.
func TestARaisedRateOfAJobHoldsForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		group := job.Group{Key: 7, Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}}
		for i := range 10 {
			r := ready(i, time.Now())
			r.Partition, r.Group = 0, group
			f.add(r)
		}
		d := running(t, f, Config{})
		if got := claimAll(t, d, w1); len(got) != 1 {
			t.Fatalf("%d started at one an hour", len(got))
		}
		group.Rate = job.Rate{Count: 1000, Per: time.Second, Burst: 100}
		f.mu.Lock()
		clear(f.buckets) // as a store has it that rescales
		for id, r := range f.free {
			r.Group = group
			f.free[id] = r
		}
		f.mu.Unlock()
		began, got := time.Now(), 0
		for got < 9 && time.Since(began) < time.Minute {
			got += len(claimAll(t, d, w1))
		}
		if took := time.Since(began); got != 9 || took > 6*time.Second {
			t.Errorf("%d of 9 started within %v after the rate was raised", got, took)
		}
	})
}

// A claim that leaves much waiting has its rate paid for a while, and one that takes all that waits does not: what is drawn is lost to others.
func TestTokensAreDrawnAheadOfABacklog(t *testing.T) {
	rate := job.Rate{Count: 1000, Per: time.Second, Burst: 1000}
	for name, c := range map[string]struct{ waits, claims, drawn int }{
		"a backlog":         {300, 10, 350},
		"all that waits":    {300, 400, 300},
		"all but a hundred": {300, 200, 300},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(time.Now)
				f.limits = []job.Limit{{Tenant: "default", Rate: rate}}
				for i := range c.waits {
					f.add(ready(i, time.Now()))
				}
				began := time.Now()
				as, err := claimed(t, running(t, f, Config{PerLane: 1000}), w1, c.claims)
				if err != nil || len(as) != min(c.claims, c.waits) {
					t.Fatalf("%d started, %v", len(as), err)
				}
				for bucket, full := range f.buckets {
					if drawn := int(full.Sub(began) / rate.Interval()); drawn != c.drawn {
						t.Errorf("%d tokens were drawn from %s, want %d", drawn, bucket, c.drawn)
					}
				}
				if len(f.buckets) != 1 {
					t.Errorf("%d buckets, want 1", len(f.buckets))
				}
			})
		})
	}
}

func TestTenantsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.tenants = []tenant.Tenant{{ID: "big", Tier: tenant.Enterprise}, {ID: "small", Tier: tenant.Free}}
		for i := range 2000 {
			r := ready(i, time.Now().Add(-time.Hour))
			r.Tenant = "big"
			r.Partition = 0
			f.add(r)
		}
		for i := range 200 {
			r := ready(5000+i, time.Now())
			r.Tenant = "small"
			r.Partition = 0
			f.add(r)
		}
		d := running(t, f, Config{PerLane: 1000})
		by := map[tenant.ID]int{}
		for range 22 {
			as, err := claimed(t, d, w1, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range as {
				by[f.held[a.Lease].Tenant]++
			}
		}
		if by["small"] < 15 || by["small"] > 25 {
			t.Errorf("of 220: %v; one in eleven is the small one's share", by)
		}
	})
}

func TestReportsShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		slow := &slowFinish{fakeStore: f}
		for i := range 100 {
			f.add(ready(i, time.Now()))
		}
		d := New(slow, clockOf(f), quiet, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx) })
		as := claimAll(t, d, w1)
		var callers sync.WaitGroup
		for i, a := range as {
			callers.Go(func() {
				vs, err := d.Report(t.Context(), job.WorkerID{byte(i)}, done(a))
				if err != nil || len(vs) != 1 || vs[0].Execution != a.Execution || !vs[0].Accepted {
					t.Errorf("%+v, %v", vs, err)
				}
			})
		}
		callers.Wait()
		if slow.calls > 3 || len(f.done) != 100 {
			t.Errorf("%d commits for %d reports at once", slow.calls, len(f.done))
		}
		slow.poison = as[1].Execution
		for i := range 3 {
			f.held[job.Lease{Execution: job.ExecutionID{byte(i)}, Token: 77}] = ready(i, time.Now())
		}
		bad := job.Attempt{Lease: as[1].Lease}
		for i := range 3 {
			callers.Go(func() {
				a := job.Attempt{Lease: job.Lease{Execution: job.ExecutionID{byte(i)}, Token: 77}}
				if vs, err := d.Report(t.Context(), w1, done(a)); err != nil || !vs[0].Accepted {
					t.Errorf("one that nothing is wrong with: %+v, %v", vs, err)
				}
			})
		}
		callers.Go(func() {
			if _, err := d.Report(t.Context(), w1, done(bad)); !errors.Is(err, errPoison) {
				t.Errorf("got %v", err)
			}
		})
		callers.Wait()
		cancel()
		wg.Wait()
	})
}

var errPoison = errors.New("cannot be stored")

// slowFinish takes its time to finish.
type slowFinish struct {
	*fakeStore
	calls  int
	poison job.ExecutionID
}

func (s *slowFinish) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	s.calls++
	<-time.After(10 * time.Millisecond)
	if slices.ContainsFunc(fs, func(f job.Finish) bool { return !s.poison.IsZero() && f.Outcome.Execution == s.poison }) {
		return nil, fmt.Errorf("finish: %w", errPoison)
	}
	return s.fakeStore.Finish(ctx, fs)
}

func TestAClaimWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.add(ready(1, time.Now()))
		d := running(t, f, Config{LeaseTTL: 30 * time.Second})
		as, err := claimed(t, d, w1, 1) // the worker never hears of it
		if err != nil || len(as) != 1 {
			t.Fatalf("%d, %v", len(as), err)
		}
		lost := 0
		beat := func(held ...job.Lease) {
			got, err := d.Beat(t.Context(), w1, Sign{Held: append([]job.Lease{}, held...)})
			if err != nil {
				t.Fatal(err)
			}
			lost += len(got.Orders)
		}
		for range 9 { // one that does not say what it holds loses nothing
			if _, err := d.Beat(t.Context(), w1, Sign{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Second)
		}
		f.add(ready(2, time.Now()))
		if as, err = claimed(t, d, w1, 1); err != nil || len(as) != 1 || len(f.disowned) != 0 || len(f.held) != 2 {
			t.Fatalf("%d, %v, compared %v", len(as), err, f.disowned)
		}
		if _, err := d.Report(t.Context(), w1, done(job.Attempt{Lease: job.Lease{Execution: ready(1, time.Time{}).ID, Token: 1}})); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		for range 3 {
			beat()
			<-time.After(10 * time.Second)
		}
		if len(f.held) != 1 || len(f.disowned) != 0 {
			t.Fatalf("%d are held, compared %v", len(f.held), f.disowned)
		}
		beat()
		if len(f.disowned) != 1 || len(f.held) != 0 {
			t.Fatalf("compared %v, %d are held", f.disowned, len(f.held))
		}
		if lost != 1 {
			t.Errorf("the worker was told of %d", lost)
		}
		if age := time.Since(f.disowned[0]); age != 30*time.Second {
			t.Errorf("what was given less than %v ago is spared", age)
		}
		as, err = claimed(t, d, w1, 1)
		if err != nil || len(as) != 1 {
			t.Fatalf("%d, %v", len(as), err)
		}
		for range 10 {
			beat(as[0].Lease) // a long run is spared
			<-time.After(10 * time.Second)
		}
		if len(f.held) != 1 || len(f.disowned) > 6 {
			t.Errorf("%d are held, compared %d times", len(f.held), len(f.disowned))
		}
	})
}

func TestDrainIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.drain = true
		d := running(t, f, Config{})
		if got, err := d.Beat(t.Context(), w1, Sign{Advances: []job.Advance{{Percent: 5}}}); err != nil || !got.Drain {
			t.Errorf("%+v, %v", got, err)
		}
		if len(f.beats[0].Advances) != 1 {
			t.Errorf("advances: %+v", f.beats[0].Advances)
		}
	})
}

// fakeOwner owns what it is told.
type fakeOwner struct {
	mu     sync.Mutex
	held   engine.Holding
	wanted []job.Partition
	share  int
	asked  int // for shares
	used   int // as told last
}

func (o *fakeOwner) Holding() engine.Holding {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

func (o *fakeOwner) Feed(bool) {}

func (o *fakeOwner) Unfit(map[job.Partition]bool) {}

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

func TestAShareOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 10}}
		o := &fakeOwner{held: owning(0, 1, 2, 3), share: 4}
		for i := range 20 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{Owner: o})
		if as := claimAll(t, d, w1); len(as) != 4 {
			t.Errorf("%d were given under a share of 4", len(as))
		}
		o.mu.Lock()
		o.share = 10
		o.mu.Unlock()
		if as := claimAll(t, d, w1); len(as) != 6 {
			t.Errorf("%d more were given under a share of 10", len(as))
		}
	})
}

// What comes at once, right after a share was asked for, does not wait until it would be asked for again; but where less was given
// than asked for, asking goes on at its pace.
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
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 3}}
		o := &fakeOwner{held: owning(0, 1, 2, 3), share: 3}
		for i := range 6 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{Owner: o})
		if as := claimAll(t, d, w1); len(as) != 3 {
			t.Fatalf("%d run under a limit of 3", len(as))
		}
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
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 3}}
		o := &fakeOwner{held: owning(0, 1, 2, 3), share: 3}
		for i := range 6 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{Owner: o})
		as := claimAll(t, d, w1)
		if len(as) != 3 {
			t.Fatalf("%d run under a limit of 3", len(as))
		}
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
