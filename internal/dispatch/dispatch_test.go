package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/watchdog"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func ready(n int, at time.Time) job.Ready {
	return job.Ready{ID: job.ExecutionID{14: byte(n >> 8), 15: byte(n)}, Tenant: "default", Partition: job.Partition(n % 4), Priority: 5, DueAt: at}
}

func clockOf(*fakeStore) clock.Clock { return clock.System{} }

// running starts a dispatcher over a fake store inside a bubble of fake time.
func running(t *testing.T, f *fakeStore, cfg Config) *Dispatcher {
	watchdog.Watch(t)
	d := New(f, clockOf(f), quiet, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return d
}

var w1 = job.WorkerID{1}

// claimed claims as a worker that does not wait forever: in the time of a bubble a dispatcher that has forgotten something looks
// for it until the test is killed.
func claimed(t *testing.T, d *Dispatcher, w job.WorkerID, limit int) ([]job.Attempt, error) {
	t.Helper()
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	as, err := d.Claim(ctx, w, limit)
	if err == nil && len(as) == 0 && limit > 0 {
		t.Errorf("nothing was given to worker %v within %v", w, patience)
		t.FailNow()
	}
	return as, err
}

func TestClaimTakesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 500 {
			f.add(ready(i, time.Now().Add(time.Duration(-i)*time.Second)))
		}
		d := running(t, f, Config{PerLane: 10})
		got := map[job.ExecutionID]bool{}
		var last time.Time
		for len(got) < 500 {
			as, err := claimed(t, d, w1, 37)
			if err != nil || len(as) == 0 || len(as) > 37 {
				t.Fatalf("%d attempts, %v", len(as), err)
			}
			for _, a := range as {
				if got[a.Execution] {
					t.Fatal("the same one twice")
				}
				got[a.Execution] = true
				at := f.held[a.Lease].DueAt
				if at.Before(last) {
					t.Fatalf("out of order: %v after %v", at, last)
				}
				last = at
			}
		}
	})
}

func TestClaimWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		began := time.Now()
		{ // until a hint comes
			go func() {
				<-time.After(10 * time.Second)
				r := ready(1, time.Now())
				f.add(r)
				d.Offer([]job.Ready{r})
			}()
			as, err := claimed(t, d, w1, 5)
			if err != nil || len(as) != 1 || time.Since(began) != 10*time.Second {
				t.Errorf("%d attempts, %v, after %v", len(as), err, time.Since(began))
			}
		}
		{ // until the poll finds what no hint told of
			began := time.Now()
			go func() {
				<-time.After(3 * time.Second)
				f.add(ready(2, time.Now()))
			}()
			as, err := claimed(t, d, w1, 5)
			if late := time.Since(began) - 3*time.Second; err != nil || len(as) != 1 || late < 0 || late > 250*time.Millisecond {
				t.Errorf("%d attempts, %v, late by %v", len(as), err, late)
			}
		}
		{ // until the instant, and not a moment less
			at := time.Now().Add(1234567 * time.Microsecond)
			r := ready(3, at)
			f.add(r)
			d.Offer([]job.Ready{r})
			as, err := claimed(t, d, w1, 5)
			if err != nil || len(as) != 1 || !time.Now().Equal(at) {
				t.Errorf("%d attempts, %v, %v after the instant", len(as), err, time.Since(at))
			}
		}
		{ // until its caller gives up
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if as, err := d.Claim(ctx, w1, 5); err != nil || len(as) != 0 {
				t.Errorf("%d attempts, %v", len(as), err)
			}
			r := ready(4, time.Now())
			f.add(r)
			d.Offer([]job.Ready{r})
			<-time.After(time.Second)
			synctest.Wait()
			if len(f.held) != 3 {
				t.Error("something was leased for a caller that has gone")
			}
		}
	})
}

func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{Poll: time.Hour})
		began := time.Now()
		go func() {
			<-time.After(3 * time.Second)
			f.add(ready(1, time.Now())) // by another server
			d.Wake()
			d.Wake()
		}()
		as, err := claimed(t, d, w1, 5)
		if err != nil || len(as) != 1 || time.Since(began) != 3*time.Second {
			t.Errorf("%d attempts, %v, after %v", len(as), err, time.Since(began))
		}
	})
}

func TestClaimsShareACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for i := range 20 {
			wg.Go(func() {
				as, err := claimed(t, d, job.WorkerID{byte(i)}, 5)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				mu.Lock()
				total += len(as)
				mu.Unlock()
			})
		}
		synctest.Wait()
		var rs []job.Ready
		for i := range 100 {
			rs = append(rs, ready(i, time.Now()))
		}
		f.add(rs...)
		d.Offer(rs)
		wg.Wait()
		if total != 100 || f.leases != 1 {
			t.Errorf("%d leased in %d commits, want 100 in one", total, f.leases)
		}
	})
}

func TestAnUnansweredLeaseIsDisowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		if err := d.RegisterLocal(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
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
		as, err := claimed(t, d, w1, 5)
		if err != nil || len(as) != 1 || as[0].Execution != ready(2, time.Time{}).ID {
			t.Fatalf("got %v, %v", as, err)
		}
		for _, a := range slices.Concat(known, as) {
			if vs, err := d.Report(t.Context(), w1, []job.Outcome{{Lease: a.Lease, Status: job.OutcomeSucceeded}}); err != nil || !vs[0].Accepted {
				t.Errorf("got %v, %v", vs, err)
			}
		}
	})
}

// A worker of one tenant is given nothing of another's, and does not take it from the window either: the other's own
// worker finds it at once.
func TestAWorkerOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		for id, whose := range map[job.WorkerID]tenant.ID{{1}: "a", {2}: "b"} {
			if err := d.Register(t.Context(), job.Worker{ID: id, Tenant: whose, Targets: everything}); err != nil {
				t.Fatal(err)
			}
		}
		mine := claims(t, d, job.WorkerID{1}, 10)
		r := ready(1, time.Now())
		r.Tenant = "b"
		f.add(r)
		d.Offer([]job.Ready{r})
		time.Sleep(3 * sweepEvery)
		if f.leases != 0 {
			t.Fatalf("%d leases of another tenant's executions were tried", f.leases)
		}
		began := time.Now()
		if as, err := claimed(t, d, job.WorkerID{2}, 10); err != nil || len(as) != 1 || time.Since(began) > 0 {
			t.Fatalf("got %v, %v after %v", as, err, time.Since(began))
		}
		own := ready(2, time.Now())
		own.Tenant = "a"
		f.add(own)
		d.Offer([]job.Ready{own})
		if x := <-mine; x.err != nil || len(x.attempts) != 1 || x.attempts[0].Execution != own.ID {
			t.Fatalf("got %v, %v", x.attempts, x.err)
		}
	})
}

// stock puts n executions into the store.
func stock(f *fakeStore, n int) {
	for i := range n {
		f.add(ready(i, time.Now()))
	}
}

// claims sends a claim and says where its answer will be.
func claims(t *testing.T, d *Dispatcher, w job.WorkerID, limit int) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		as, err := claimed(t, d, w, limit)
		out <- answer{as, err}
	}()
	synctest.Wait()
	return out
}

// A large lease does not wait for the commit of the one before; a small one does, and what is on its way is given to nobody
// else, though the store is read again meanwhile and still shows it.
func TestASecondLeaseIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		stock(f, 3*alongside)
		first, second := make(chan struct{}), make(chan struct{})
		f.slow = map[int]chan struct{}{1: first, 2: second}
		f.open = true
		d := running(t, f, Config{})
		a := claims(t, d, w1, alongside)
		b := claims(t, d, w1, alongside-1)
		if f.leases != 1 {
			t.Fatalf("%d leases on their way; a small one is to wait", f.leases)
		}
		c := claims(t, d, job.WorkerID{2}, alongside)
		if f.leases != 2 {
			t.Fatalf("%d leases on their way; a large one is not to wait", f.leases)
		}
		e := claims(t, d, job.WorkerID{3}, 3*alongside)
		time.Sleep(3 * sweepEvery)
		d.Wake()
		synctest.Wait()
		if f.leases != 2 {
			t.Fatalf("%d leases on their way, want two at the most", f.leases)
		}
		close(second) // they may be answered in any order
		synctest.Wait()
		close(first)
		got := map[job.ExecutionID]bool{}
		for i, ch := range []<-chan answer{a, b, c, e} {
			x := <-ch
			if x.err != nil || len(x.attempts) == 0 {
				t.Fatalf("claim %d: %d attempts, %v", i, len(x.attempts), x.err)
			}
			for _, y := range x.attempts {
				if got[y.Execution] {
					t.Fatal("the same one twice")
				}
				got[y.Execution] = true
			}
		}
		if len(got) != 3*alongside {
			t.Errorf("%d given out, want %d", len(got), 3*alongside)
		}
	})
}

// A session that may hold what nobody was told of is asked for it when nothing is on its way to it.
func TestALeaseOnItsWayIsNotDisowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		stock(f, 3*alongside)
		slow := make(chan struct{})
		f.slow = map[int]chan struct{}{1: slow}
		d := running(t, f, Config{})
		if err := d.RegisterLocal(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
			t.Fatal(err)
		}
		a := claims(t, d, w1, alongside)
		f.failWith = fmt.Errorf("the connection broke: %w", engine.ErrUnavailable)
		b := claims(t, d, w1, alongside)
		c := claims(t, d, w1, 3*alongside)
		time.Sleep(time.Second)
		close(slow)
		x, y, z := <-a, <-b, <-c
		if x.err != nil || !errors.Is(y.err, engine.ErrUnavailable) || z.err != nil || len(x.attempts) != alongside {
			t.Fatalf("%d, %v; %d, %v; %d, %v", len(x.attempts), x.err, len(y.attempts), y.err, len(z.attempts), z.err)
		}
		if len(f.disowned) != 1 {
			t.Errorf("asked %d times for what nobody was told of, want once", len(f.disowned))
		}
		got := slices.Concat(x.attempts, z.attempts)
		for len(got) < 3*alongside {
			as, err := claimed(t, d, w1, 3*alongside)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, as...)
		}
		for _, a := range got {
			if vs, err := d.Report(t.Context(), w1, []job.Outcome{{Lease: a.Lease, Status: job.OutcomeSucceeded}}); err != nil || !vs[0].Accepted {
				t.Fatalf("got %v, %v", vs, err)
			}
		}
	})
}

// A store that panics fails one lease: its claims are told, and what was to be leased is found again.
func TestALeaseThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		stock(f, 3)
		f.panicAt = 1
		d := running(t, f, Config{})
		if _, err := claimed(t, d, w1, 3); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		if as, err := claimed(t, d, w1, 3); err != nil || len(as) != 3 {
			t.Fatalf("%d attempts, %v", len(as), err)
		}
	})
}

// While leases fail they are tried less and less often.
func TestLeasesThatFailAreTriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		stock(f, 3)
		f.away = true
		d := running(t, f, Config{})
		for began := time.Now(); time.Since(began) < time.Minute; {
			if _, err := claimed(t, d, w1, 3); !errors.Is(err, engine.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
		}
		if f.leases > 80 {
			t.Errorf("%d leases were tried in a minute", f.leases)
		}
		f.mu.Lock()
		f.away = false
		f.mu.Unlock()
		if as, err := claimed(t, d, w1, 3); err != nil || len(as) != 3 {
			t.Fatalf("%d attempts, %v", len(as), err)
		}
	})
}

func TestReportDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		f.add(ready(1, time.Now()))
		for n := 1; ; n++ {
			as, err := claimed(t, d, w1, 1)
			if err != nil {
				t.Fatal(err)
			}
			vs, err := d.Report(t.Context(), w1, []job.Outcome{{Lease: as[0].Lease, Status: job.OutcomeFailed, Retryable: true, Error: &job.Error{Type: job.HTTPError}}})
			if err != nil || !vs[0].Accepted {
				t.Fatalf("got %v, %v", vs, err)
			}
			if f.done[as[0].Execution] == 1 {
				if n != 3 {
					t.Errorf("it died after %d attempts, want 3", n)
				}
				break
			}
		}
		vs, err := d.Report(t.Context(), w1, []job.Outcome{{Lease: job.Lease{Execution: job.ExecutionID{9}, Token: 9}, Status: job.OutcomeFailed}})
		if err != nil || vs[0].Accepted || vs[0].Reason != job.RefusedStale {
			t.Errorf("got %v, %v", vs, err)
		}
	})
}

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		f.add(ready(1, time.Now()), ready(2, time.Now()))
		as, err := claimed(t, d, w1, 2)
		if err != nil || len(as) != 2 {
			t.Fatalf("got %v, %v", as, err)
		}
		if err := d.Release(t.Context(), w1, []job.Lease{as[0].Lease}); err != nil {
			t.Fatal(err)
		}
		if err := d.Leave(t.Context(), w1); err != nil {
			t.Fatal(err)
		}
		back, err := claimed(t, d, job.WorkerID{2}, 5)
		if err != nil || len(back) != 2 {
			t.Errorf("%d came back, %v", len(back), err)
		}
		f.orders = []job.Order{{Worker: w1, Kind: job.OrderCancel}}
		if got, err := d.Beat(t.Context(), w1, Sign{Held: make([]job.Lease, 1), Draining: true}); err != nil || len(got.Orders) != 1 {
			t.Errorf("beat: %v, %v", got, err)
		}
		f.ended = true
		if _, err := d.Beat(t.Context(), w1, Sign{}); !errors.Is(err, engine.ErrSession) {
			t.Errorf("beat: got %v, want ErrSession", err)
		}
		f.add(ready(3, time.Now()))
		if _, err := claimed(t, d, w1, 5); !errors.Is(err, engine.ErrSession) {
			t.Errorf("claim: got %v, want ErrSession", err)
		}
	})
}

func TestBeatsTellHowAWorkerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{})
		if err := d.RegisterLocal(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
			t.Fatal(err)
		}
		f.add(ready(1, time.Now()), ready(2, time.Now()), ready(3, time.Now()))
		as, err := claimed(t, d, w1, 3)
		if err != nil {
			t.Fatal(err)
		}
		outcomes := []job.Outcome{{Lease: as[0].Lease, Status: job.OutcomeSucceeded}, {Lease: as[1].Lease, Status: job.OutcomeFailed}, {Lease: job.Lease{Token: 99}, Status: job.OutcomeSucceeded}}
		if _, err := d.Report(t.Context(), w1, outcomes); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Beat(t.Context(), w1, Sign{Held: make([]job.Lease, 1)}); err != nil {
			t.Fatal(err)
		}
		if got, want := f.beats[0].Beat, (job.Beat{Running: 1, Completed: 1, Failed: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Sessions of workers elsewhere that never said goodbye do not pile up; one that is forgotten is read again.
func TestKnownSessionsAreBounded(t *testing.T) {
	d := New(newFake(time.Now), clock.System{}, quiet, Config{})
	if err := d.RegisterLocal(t.Context(), job.Worker{ID: w1, Targets: everything}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxKnown {
		id := job.WorkerID{2, byte(i >> 16), byte(i >> 8), byte(i)}
		if w, err := d.Worker(t.Context(), id); err != nil || w.ID != id {
			t.Fatalf("got %v, %v", w, err)
		}
	}
	if len(d.known) > maxKnown || d.known[w1] == nil {
		t.Errorf("%d are known; the one in this process: %v", len(d.known), d.known[w1] != nil)
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(newFake(time.Now), clock.System{}, quiet, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		go d.Run(ctx)
		go func() { <-time.After(time.Second); cancel() }()
		if _, err := claimed(t, d, w1, 1); !errors.Is(err, ErrStopped) {
			t.Errorf("a waiting claim: got %v, want ErrStopped", err)
		}
		if _, err := claimed(t, d, w1, 1); !errors.Is(err, ErrStopped) {
			t.Errorf("a late claim: got %v, want ErrStopped", err)
		}
	})
}

// A worker is given what it serves, in order, and what it does not serve stays for others.
func TestClaimsByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		d := running(t, f, Config{PerLane: 5})
		gpu := job.Needs{Target: job.HTTP, Queue: "default", Labels: []string{"gpu"}}.Class()
		for i := range 100 {
			r := ready(i, time.Now().Add(time.Duration(i-200)*time.Second))
			if r.Class = "http"; i < 90 {
				r.Class = gpu // in front of all others
			}
			f.add(r)
		}
		plain, strong := job.Worker{ID: job.WorkerID{1}, Targets: []string{"http"}}, job.Worker{ID: job.WorkerID{2}, Targets: []string{"http"}, Labels: []string{"gpu"}}
		for _, w := range []job.Worker{plain, strong} {
			if err := d.Register(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		as, err := claimed(t, d, plain.ID, 100)
		for err == nil && len(as) < 10 {
			var more []job.Attempt
			more, err = claimed(t, d, plain.ID, 100)
			as = append(as, more...)
		}
		if err != nil || len(as) != 10 {
			t.Fatalf("%d attempts, %v", len(as), err)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if as, err := d.Claim(short, plain.ID, 100); err != nil || len(as) != 0 {
			t.Errorf("it was given %d that it does not serve, %v", len(as), err)
		}
		n := 0
		for n < 90 {
			as, err := claimed(t, d, strong.ID, 100)
			if err != nil {
				t.Fatal(err)
			}
			n += len(as)
		}
	})
}
