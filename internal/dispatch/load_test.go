package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// laneStore has lanes in which so many wait.
type laneStore struct {
	*fakeStore
	lanes  []job.Lane
	waits  map[job.Lane]int
	counts int           // how often it was counted
	block  chan struct{} // a count waits for it, if there is one
	takes  time.Duration // that a count takes
}

func (s *laneStore) add(l job.Lane, n int) {
	s.lanes = append(s.lanes, l)
	s.waits[l] = n
}

func (s *laneStore) Lanes(_ context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	at := 0
	if after != nil {
		at = slices.Index(s.lanes, *after) + 1
	}
	return s.lanes[at:min(at+limit, len(s.lanes))], nil
}

func (s *laneStore) CountDue(ctx context.Context) (map[engine.DueKey]int, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.block != nil {
		<-s.block
	}
	s.counts++
	out := map[engine.DueKey]int{}
	for l, n := range s.waits {
		out[engine.DueKey{Tenant: l.Tenant, Class: l.Class, Priority: l.Priority}] += n
	}
	return out, nil
}

func (s *laneStore) Ready(_ context.Context, cs []engine.LaneCursor, _ int) (out []job.Ready, err error) {
	for _, c := range cs {
		out = append(out, job.Ready{Tenant: c.Lane.Tenant, Class: c.Lane.Class, DueAt: time.Unix(1, 0)})
	}
	return out, nil
}

func (s *laneStore) Workers(context.Context, tenant.ID) ([]job.Worker, error) { return nil, nil }

// Everything that waits is counted, of every tenant, however much it is and however many lanes there are: alerts go by it.
func TestLoadsAreExact(t *testing.T) {
	s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{}}
	for p := range 200 {
		s.add(job.Lane{Partition: job.Partition(p % job.Partitions), Tenant: "herd", Priority: 1 + p/job.Partitions}, 5000)
	}
	s.add(job.Lane{Partition: 60, Tenant: "mine"}, 750)
	s.add(job.Lane{Partition: 61, Tenant: "more"}, 3000)
	s.add(job.Lane{Partition: 62, Tenant: "more"}, 3000)
	for i := range loadLanes {
		s.add(job.Lane{Tenant: tenant.ID(fmt.Sprintf("t%06d", i))}, 1)
	}
	held := job.Ready{ID: job.ExecutionID{1}, Tenant: "mine", DueAt: time.Unix(1, 0)}
	s.held[job.Lease{Execution: held.ID, Token: 1}] = held
	d := New(s, clockOf(s.fakeStore), quiet, Config{})
	for of, want := range map[tenant.ID]int{"mine": 749, "more": 6000, "herd": 1_000_000, "t000000": 1, "t019999": 1, "nobody": 0} {
		if l, err := d.LoadOf(t.Context(), of); err != nil || l.Waiting != want {
			t.Errorf("%s: %d wait, %v; want %d", of, l.Waiting, err, want)
		}
	}
	const total = 1_000_000 + 749 + 6000 + loadLanes
	_, all, err := d.Loads(t.Context())
	if sum := all.Bands[High].Waiting + all.Bands[Normal].Waiting + all.Bands[Low].Waiting; err != nil || all.Waiting != total || sum != total || all.Running != 1 || all.Oldest.IsZero() {
		t.Errorf("in all: %+v, %v; want %d", all, err, total)
	}
	ds, err := d.Depths(t.Context())
	if i := slices.IndexFunc(ds, func(x engine.TenantDepths) bool { return x.Tenant == "" }); err != nil || i < 0 || ds[i].Queues[0].Waiting != total {
		t.Errorf("depths: %v, %v", i, err)
	}
	if s.counts != 1 {
		t.Errorf("it was counted %d times within a moment", s.counts)
	}
}

// While it is counted again, nobody else waits for that.
func TestLoadsAreGivenAgainWhileTheyAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{{Tenant: "a"}: 7}}
		d := New(s, clockOf(s.fakeStore), quiet, Config{})
		if _, all, err := d.Loads(t.Context()); err != nil || all.Waiting != 7 {
			t.Fatalf("%+v, %v", all, err)
		}
		<-time.After(loadLife)
		s.waits[job.Lane{Tenant: "a"}], s.block = 9, make(chan struct{})
		done := make(chan int)
		go func() {
			_, all, _ := d.Loads(t.Context())
			done <- all.Waiting
		}()
		synctest.Wait()
		if _, all, err := d.Loads(t.Context()); err != nil || all.Waiting != 7 {
			t.Errorf("meanwhile: %+v, %v", all, err)
		}
		<-time.After(time.Second)
		close(s.block)
		if n := <-done; n != 9 {
			t.Errorf("counted anew: %d", n)
		}
		<-time.After(loadLife)
		s.waits[job.Lane{Tenant: "a"}] = 11
		if _, all, _ := d.Loads(t.Context()); all.Waiting != 9 {
			t.Errorf("a count that took a second is given again for five: got %d", all.Waiting)
		}
		<-time.After(loadRest*time.Second - loadLife)
		if _, all, _ := d.Loads(t.Context()); all.Waiting != 11 {
			t.Errorf("after that: %d", all.Waiting)
		}
	})
}

// However long it takes to count, who asks gets the count before in time, and the count that is under way comes to its end.
func TestACountOutlastsWhoAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{{Tenant: "a"}: 7}, takes: 8 * time.Second}
		d := New(s, clockOf(s.fakeStore), quiet, Config{})
		ask := func() (int, time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // as a scrape has
			defer cancel()
			began := time.Now()
			_, all, err := d.Loads(ctx)
			return all.Waiting, time.Since(began), err
		}
		if _, took, err := ask(); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("nothing was counted yet: %v after %v", err, took)
		}
		<-time.After(5 * time.Second)
		if n, took, err := ask(); err != nil || n != 7 || took != 0 {
			t.Errorf("after the first count: %d, %v after %v", n, err, took)
		}
		s.waits[job.Lane{Tenant: "a"}] = 60_000
		<-time.After(loadRest * 8 * time.Second)
		if n, took, err := ask(); err != nil || n != 7 || took > loadPatience {
			t.Errorf("while it is counted again: %d, %v after %v", n, err, took)
		}
		if n, took, err := ask(); err != nil || n != 7 || took != 0 {
			t.Errorf("a second caller meanwhile: %d, %v after %v", n, err, took)
		}
		<-time.After(8 * time.Second)
		if n, took, err := ask(); err != nil || n != 60_000 || took != 0 {
			t.Errorf("after the second count: %d, %v after %v", n, err, took)
		}
		<-time.After(loadRest*8*time.Second + loadKept)
		if n, took, err := ask(); err == nil {
			t.Errorf("a count of long ago was given: %d after %v", n, took)
		}
		<-time.After(8 * time.Second)
	})
}

// A dispatcher that stops ends the count that is under way.
func TestACountEndsWithItsDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &laneStore{fakeStore: newFake(time.Now), takes: time.Hour}
		d := New(s, clockOf(s.fakeStore), quiet, Config{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { <-time.After(time.Second); stop() }()
		began := time.Now()
		go d.Run(ctx)
		if _, _, err := d.Loads(t.Context()); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		<-d.done
		if _, _, err := d.Loads(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("after that: %v", err)
		}
	})
}
