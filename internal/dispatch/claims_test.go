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
	"github.com/carillon-jobs/carillon/internal/engine"
)

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

// A worker whose beats go to many servers in turn is seldom heard by each of them. What it never learned of is taken back all the same.
func TestALostClaimOfAWorkerThatIsSeldomHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.add(ready(1, time.Now()))
		d := running(t, f, Config{LeaseTTL: 30 * time.Second})
		if as, err := claimed(t, d, w1, 1); err != nil || len(as) != 1 { // the worker never hears of it
			t.Fatalf("%d, %v", len(as), err)
		}
		for range 3 {
			<-time.After(100 * time.Second)
			if _, err := d.Beat(t.Context(), w1, Sign{Held: []job.Lease{}}); err != nil {
				t.Fatal(err)
			}
		}
		if len(f.held) != 0 {
			t.Errorf("%d are held, compared %d times", len(f.held), len(f.disowned))
		}
	})
}

// A worker elsewhere whose lease was not answered tells with its beat what it holds; the rest goes back.
func TestAnUnansweredLeaseOfARemoteWorkerIsDisownedByItsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		if err := d.Register(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
			t.Fatal(err)
		}
		f.add(ready(1, time.Now()))
		known, err := claimed(t, d, w1, 1)
		if err != nil {
			t.Fatal(err)
		}
		f.add(ready(2, time.Now()))
		f.failWith = fmt.Errorf("the connection broke: %w", engine.ErrUnavailable)
		if _, err := claimed(t, d, w1, 1); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		for range 8 { // what it does not name a whole lease later it was never told of
			if _, err := d.Beat(t.Context(), w1, Sign{Held: []job.Lease{known[0].Lease}}); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Second)
		}
		as, err := claimed(t, d, w1, 5)
		if err != nil || len(as) != 1 || as[0].Execution != ready(2, time.Time{}).ID {
			t.Errorf("got %v, %v", as, err)
		}
		if len(f.held) != 2 {
			t.Errorf("%d are held", len(f.held))
		}
	})
}

// A beat that comes late, from before the claim it does not know of, takes nothing back that other beats name; nor does one
// that comes late after the worker has gone to another server.
func TestALateBeatTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		if err := d.Register(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
			t.Fatal(err)
		}
		f.add(ready(1, time.Now()))
		as, err := claimed(t, d, w1, 1)
		if err != nil || len(as) != 1 {
			t.Fatalf("%v, %v", as, err)
		}
		beat := func(held ...job.Lease) {
			t.Helper()
			if o, err := d.Beat(t.Context(), w1, Sign{Held: append([]job.Lease{}, held...)}); err != nil || len(o.Orders) > 0 {
				t.Errorf("ordered %v, %v", o.Orders, err)
			}
			<-time.After(10 * time.Second)
		}
		for range 12 {
			beat(as[0].Lease)
			beat()
		}
		<-time.After(10 * time.Minute)
		beat()
		if len(f.held) != 1 || len(f.disowned) == 0 {
			t.Errorf("%d are held, compared %d times", len(f.held), len(f.disowned))
		}
	})
}
