package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

func inQueue(n int, queue string, at time.Time) job.Ready {
	r := ready(n, at)
	r.Class = job.Needs{Target: job.HTTP, Queue: queue}.Class()
	return r
}

func (f *fakeStore) pause(ps ...job.Limit) {
	f.mu.Lock()
	f.limits = ps
	f.mu.Unlock()
}

func (f *fakeStore) Workers(context.Context, tenant.ID) ([]job.Worker, error) { return nil, nil }

func mail(p job.Pause) job.Limit { return job.Limit{Tenant: "default", Queue: "mail", Pause: p} }

func TestNothingOfAPausedQueueStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 300 {
			f.add(inQueue(i, "mail", time.Now()), inQueue(1000+i, "other", time.Now()))
		}
		d := running(t, f, Config{PerLane: 10, Window: 200})
		if as, err := claimed(t, d, w1, 10); err != nil || len(as) != 10 {
			t.Fatalf("%d came, %v", len(as), err)
		}
		f.pause(mail(job.Pause{At: time.Now()}))
		mailed := 0
		count := func(as []job.Attempt) {
			for _, a := range as {
				if f.held[a.Lease].Class.Needs().Queue == "mail" {
					mailed++
				}
			}
		}
		<-time.After(ruleEvery) // another server set it, and this one finds out by itself
		count(claimAll(t, d, w1))
		if n := len(f.held); mailed != 0 || n < 300 {
			t.Fatalf("%d of the paused queue, %d in all", mailed, n)
		}
		later := inQueue(5000, "mail", time.Now())
		f.add(later)
		d.Offer([]job.Ready{later})

		f.mu.Lock()
		reads := f.reads
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if as, err := d.Claim(ctx, w1, 10); err != nil || len(as) != 0 {
			t.Errorf("%d came, %v", len(as), err)
		}
		cancel()
		if n := f.reads - reads; n > 0 {
			t.Errorf("lanes were read %d times within a minute of which nothing may start", n)
		}

		f.pause()
		d.Refresh()
		began := time.Now()
		if as, err := claimed(t, d, w1, 10); err != nil || len(as) != 10 || time.Since(began) > 0 {
			t.Errorf("resumed: %d came, %v, after %v", len(as), err, time.Since(began))
		}
		claimAll(t, d, w1)
		if n := len(f.held); n != 601 {
			t.Errorf("%d run in the end", n)
		}
	})
}

func TestAPauseEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.add(inQueue(1, "mail", time.Now()))
		until := time.Now().Add(10 * time.Second)
		f.pause(mail(job.Pause{At: time.Now(), Until: until}))
		d := running(t, f, Config{})
		if as, err := claimed(t, d, w1, 10); err != nil || len(as) != 1 || time.Now().Before(until) || time.Since(until) > time.Second {
			t.Errorf("%d came, %v, %v after the end", len(as), err, time.Since(until))
		}
	})
}

func TestLoadsLeavePausedQueuesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 7 {
			f.add(inQueue(i, "mail", time.Now().Add(-time.Hour)))
		}
		f.add(inQueue(100, "other", time.Now().Add(-time.Second)))
		other := inQueue(101, "mail", time.Now().Add(-time.Minute))
		other.Tenant = "acme"
		f.add(other)
		f.pause(mail(job.Pause{At: time.Now()}))
		d := New(f, clockOf(f), quiet, Config{})
		of, all, err := d.Loads(t.Context())
		if err != nil || all.Waiting != 2 || all.Paused != 7 || time.Since(all.Oldest) != time.Minute || time.Since(all.Held) != time.Hour {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, l := range of {
			if l.Queue == "mail" && (l.Waiting != 1 || l.Paused != 7) {
				t.Errorf("%+v", l)
			}
		}
		qs, err := d.QueuesOf(t.Context(), "default", "empty", "mail")
		if err != nil || len(qs) != 3 || qs[0].Queue != "empty" || qs[1].Queue != "mail" || qs[1].Paused != 7 || qs[1].Waiting != 0 || qs[2].Waiting != 1 {
			t.Errorf("%+v, %v", qs, err)
		}
		rs, err := d.Head(t.Context(), "default", "mail", 3)
		if err != nil || len(rs) != 3 || rs[0].ID != ready(0, time.Now()).ID {
			t.Errorf("%+v, %v", rs, err)
		}
		f.add(inQueue(102, "mail", time.Now()))
		f.pause()
		<-time.After(loadLife)
		if _, all, _ = d.Loads(t.Context()); all.Paused != 0 || all.Waiting != 10 {
			t.Errorf("resumed: %+v", all)
		}
	})
}

func TestACordonedWorkerIsGivenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		cordon := func(ws ...job.WorkerID) {
			f.mu.Lock()
			f.cordoned = ws
			f.mu.Unlock()
		}
		for i := range 4 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		if as, err := claimed(t, d, w1, 1); err != nil || len(as) != 1 {
			t.Fatalf("%d came, %v", len(as), err)
		}
		cordon(w1)
		<-time.After(ruleEvery)
		f.mu.Lock()
		reads := f.reads
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if as, err := d.Claim(ctx, w1, 10); err != nil || len(as) != 0 {
			t.Fatalf("%d came, %v", len(as), err)
		}
		if n := f.reads - reads; n > 1 {
			t.Errorf("lanes were read %d times for nobody", n)
		}
		if as, err := claimed(t, d, job.WorkerID{2}, 1); err != nil || len(as) != 1 {
			t.Errorf("another worker: %d came, %v", len(as), err)
		}
		cordon()
		d.Refresh()
		if as, err := claimed(t, d, w1, 10); err != nil || len(as) != 2 {
			t.Errorf("uncordoned: %d came, %v", len(as), err)
		}
	})
}
