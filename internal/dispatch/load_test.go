package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
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
	counts int // rows that were counted
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

func (s *laneStore) CountReady(_ context.Context, ls []job.Lane, most int) ([]int, error) {
	out := make([]int, len(ls))
	for i, l := range ls {
		out[i] = min(s.waits[l], most)
		s.counts += out[i]
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

// A herd of another tenant's in the same queue neither hides what waits of mine nor makes a part of it look like all.
func TestLoadsBesideAHerd(t *testing.T) {
	s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{}}
	for p := range 200 {
		s.add(job.Lane{Partition: job.Partition(p % job.Partitions), Tenant: "herd", Priority: 1 + p/job.Partitions}, 5000)
	}
	s.add(job.Lane{Partition: 60, Tenant: "mine"}, 750)
	s.add(job.Lane{Partition: 61, Tenant: "more"}, 3000)
	s.add(job.Lane{Partition: 62, Tenant: "more"}, 3000)
	d := New(s, clockOf(s.fakeStore), quiet, Config{})
	for of, want := range map[tenant.ID]struct {
		least, most int
		cut         bool
	}{"mine": {750, 750, false}, "more": {ownWaiting, 1500, true}, "herd": {maxWaiting, 60_000, true}, "nobody": {0, 0, false}} {
		l, err := d.LoadOf(t.Context(), of)
		if err != nil || l.Waiting < want.least || l.Waiting > want.most || l.Cut != want.cut {
			t.Errorf("%s: %d wait, more %v, %v; want %+v", of, l.Waiting, l.Cut, err, want)
		}
	}
	if _, all, err := d.Loads(t.Context()); err != nil || !all.Cut || all.Waiting < maxWaiting {
		t.Errorf("in all: %+v, %v", all, err)
	}
	ds, err := d.Depths(t.Context())
	if err != nil || len(ds) != 4 {
		t.Fatalf("%+v, %v", ds, err)
	}
	for _, x := range ds {
		if q := x.Queues[0]; q.Cut != (x.Tenant != "mine") {
			t.Errorf("depths of %q: %+v", x.Tenant, q)
		}
	}
	if s.counts > 120_000 { // of two looks
		t.Errorf("%d rows were counted", s.counts)
	}
}

func TestLoadsAreExactWhereLittleWaits(t *testing.T) {
	s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{}}
	s.add(job.Lane{Partition: 1, Tenant: "a"}, 200)
	s.add(job.Lane{Partition: 2, Tenant: "a"}, 9000)
	d := New(s, clockOf(s.fakeStore), quiet, Config{})
	if l, err := d.LoadOf(t.Context(), "a"); err != nil || l.Waiting != 9200 || l.Cut {
		t.Errorf("%+v, %v", l, err)
	}
}

// Where there are more lanes than are listed, nothing is called exact.
func TestLoadsOfTooManyLanes(t *testing.T) {
	s := &laneStore{fakeStore: newFake(time.Now), waits: map[job.Lane]int{}}
	for i := range loadLanes + 10 {
		s.add(job.Lane{Tenant: tenant.ID(fmt.Sprintf("t%06d", i))}, 1)
	}
	slices.SortFunc(s.lanes, func(a, b job.Lane) int { return cmp.Compare(a.Tenant, b.Tenant) })
	d := New(s, clockOf(s.fakeStore), quiet, Config{})
	for _, of := range []tenant.ID{"t000000", "t020005"} {
		if l, err := d.LoadOf(t.Context(), of); err != nil || !l.Cut {
			t.Errorf("%s: %+v, %v", of, l, err)
		}
	}
}
