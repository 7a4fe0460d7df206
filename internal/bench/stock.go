package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// stock is the data that pages show: realistic jobs and executions, most of them of one tenant. A fifth of the jobs
// are one-off, each with one execution; one in a thousand is busy, and together the busy ones have three of ten
// executions; the others recur and share the rest equally. Executions are scheduled over a month, in the order in
// which they are made.
type stock struct {
	rig     *Rig
	jobs    int
	all     int // executions, including those left waiting
	waiting int
	tenants [3]tenant.ID // most is the first one's
	began   time.Time    // of loading

	made   atomic.Int64 // executions that a worker takes
	ended  atomic.Int64 // of these
	second sync.Map     // executions, by id, whose last attempt failed and is being reported
	paused sync.Map     // jobs, by id, whose attempts are not retried

	mu        sync.Mutex
	plain     sample // guarded by mu, like the next: recurring jobs of the first tenant
	oneOff    sample
	busy      []job.Job // all of them; written before anything runs
	well      sample    // executions of the first tenant that succeeded
	ill       sample    // that failed
	twice     sample    // executions that succeeded at the second attempt
	wait      sample    // that wait
	logged    sample
	furniture furniture // everything else, see furnish.go
}

const (
	month      = 30 * 24 * time.Hour
	backlogMax = 20_000 // executions that wait while more are made
	busyPiece  = 100    // executions of a busy job made at once
	entryJobs  = 10     // jobs per request in the audit log
	sampled    = 2000   // ids of a kind that are remembered
	nobody     = "unserved"
)

// sample is a uniform random sample of a large number of ids.
type sample struct {
	ids  []string
	seen int
}

func (s *sample) add(id func() string) {
	s.seen++
	if len(s.ids) < sampled {
		s.ids = append(s.ids, id())
	} else if i := rand.IntN(s.seen); i < sampled {
		s.ids[i] = id()
	}
}

func newStock(r *Rig, jobs, executions int, others [2]tenant.ID) *stock {
	s := &stock{rig: r, jobs: jobs, all: executions, tenants: [3]tenant.ID{everybody.Tenant, others[0], others[1]}, began: r.Clock.Now().UTC()}
	s.waiting = min(1000, executions/20, s.oneOffs(jobs)/2)
	return s
}

// oneOffs returns how many of the first n jobs are one-off, busyOnes how many are busy.
func (s *stock) oneOffs(n int) int  { return (n + 4) / 5 }
func (s *stock) busyOnes(n int) int { return (n + 992) / 1000 }

func isOneOff(i int) bool { return i%5 == 0 }
func isBusy(i int) bool   { return i%1000 == 7 }

// share returns the k-th of n shares of a total.
func share(total, n, k int) int { return total*(k+1)/n - total*k/n }

func (s *stock) tenant(i int) tenant.ID {
	switch i % 20 {
	case 11:
		return s.tenants[1]
	case 12:
		return s.tenants[2]
	}
	return s.tenants[0]
}

// load creates everything while workers process it, and returns when everything that workers take has ended.
func (s *stock) load(ctx context.Context) error {
	if err := s.makeBusy(ctx); err != nil {
		return err
	}
	batch := s.rig.load.Batch
	n := (s.jobs + batch - 1) / batch
	ofJobs := s.all - s.oneOffs(s.jobs)
	ofBusy := 0
	if len(s.busy) > 0 {
		ofBusy = ofJobs * 3 / 10
	}
	err := each(ctx, max(s.rig.load.Inserters, 1), n, func(ctx context.Context, b int) error {
		if err := s.room(ctx); err != nil {
			return err
		}
		if err := s.makeJobs(ctx, b*batch, min((b+1)*batch, s.jobs), n, b, ofJobs-ofBusy); err != nil {
			return err
		}
		return s.fireBusy(ctx, share(ofBusy, n, b), n, b)
	})
	if err != nil {
		return err
	}
	all, err := s.rig.waitFor(ctx, s.ended.Load, s.made.Load)
	if err == nil && !all {
		err = fmt.Errorf("%d of %d executions did not end within %v", s.made.Load()-s.ended.Load(), s.made.Load(), s.rig.load.Patience)
	}
	return err
}

// room waits until few enough executions wait.
func (s *stock) room(ctx context.Context) error {
	for s.made.Load()-s.ended.Load() > backlogMax {
		if err := until(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// idAt returns an id made at an instant.
func idAt(at time.Time) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16|0x7000|rand.Uint64()&0x0fff)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&(1<<62-1)|1<<63)
	return id
}

// within returns an instant in the b-th of n parts of the month before loading began.
func (s *stock) within(n, b int) time.Time {
	part := month / time.Duration(n)
	return s.began.Add(part*time.Duration(b) - month + rand.N(part)).Truncate(time.Microsecond)
}

// newJob returns the i-th job, as created at an instant.
func (s *stock) newJob(i int, at time.Time) job.Job {
	d := s.define(i)
	j := job.Job{ID: job.ID(idAt(at)), Tenant: s.tenant(i), Definition: d, State: job.Active, CreatedAt: at, UpdatedAt: at, Revision: 1}
	switch {
	case d.Schedule.Type == job.OneTime:
		j.Schedule.At = at
	case !isOneOff(i):
		j.NextRunAt = s.began.Truncate(time.Minute).Add(24*time.Hour + time.Duration(i%40_000)*time.Minute)
		j.Runs = 1
		if i%97 == 0 {
			j.State, j.PauseNote = job.Paused, "it is being moved"
			j.Retry.MaxRetries = 0 // a retry would wait until somebody resumes the job
			s.paused.Store(j.ID.String(), true)
		}
	}
	j.Group = j.GroupOf("")
	return j
}

// makeBusy creates the busy jobs, without their executions.
func (s *stock) makeBusy(ctx context.Context) error {
	by := map[tenant.ID][]job.Job{}
	for i := range s.jobs {
		if isBusy(i) {
			j := s.newJob(i, s.within(1000, 0))
			j.State, j.Tenant = job.Active, s.tenants[0]
			s.busy = append(s.busy, j)
			by[j.Tenant] = append(by[j.Tenant], j)
		}
	}
	var cs []engine.Creation
	for t, js := range by {
		cs = append(cs, engine.Creation{Tenant: t, Jobs: js})
	}
	if len(cs) == 0 {
		return nil
	}
	_, err := s.rig.store.CreateJobs(ctx, cs)
	return err
}

// makeJobs creates a batch of jobs and their executions, straight through the port.
func (s *stock) makeJobs(ctx context.Context, from, to, n, b, ofPlain int) error {
	now := s.rig.Clock.Now().UTC().Truncate(time.Microsecond)
	plain := s.jobs - s.oneOffs(s.jobs) - s.busyOnes(s.jobs)
	var cs [3]engine.Creation
	var out []engine.Creation
	var ready []job.Ready
	flush := func(c *engine.Creation) {
		if len(c.Jobs) > 0 {
			first := c.Jobs[0]
			c.Tenant = first.Tenant
			c.Entry = &audit.Entry{
				Tenant: first.Tenant, At: first.CreatedAt, By: "importer " + strconv.Itoa(b%20), Role: tenant.Operator, From: "10.0.0.1", Request: first.ID.String(),
				Action: "job.create", Object: first.ID.String(), Count: len(c.Jobs),
			}
			out = append(out, *c)
		}
		*c = engine.Creation{}
	}
	for i := from; i < to; i++ {
		if isBusy(i) {
			continue
		}
		j := s.newJob(i, s.within(n, b))
		c := &cs[0]
		for k, t := range s.tenants {
			if t == j.Tenant {
				c = &cs[k]
			}
		}
		es := s.executions(&j, i, n, b, now, plain, ofPlain)
		c.Jobs, c.Executions = append(c.Jobs, j), append(c.Executions, es...)
		if j.Queue != nobody {
			for k := range es {
				ready = append(ready, es[k].Ready())
			}
		}
		s.remember(i, &j, es)
		if len(c.Jobs) == entryJobs {
			flush(c)
		}
	}
	for k := range cs {
		flush(&cs[k])
	}
	err := patiently(ctx, func() error {
		first := out[0].Jobs[0]
		if _, err := s.rig.store.Job(ctx, first.Tenant, engine.Ref{ID: first.ID}); !errors.Is(err, engine.ErrNotFound) {
			return err // an earlier try stored them, but its answer was lost
		}
		_, err := s.rig.store.CreateJobs(ctx, out)
		return err
	})
	if err != nil {
		return fmt.Errorf("create jobs: %w", err)
	}
	s.offer(ready)
	return nil
}

// patiently retries for some minutes while the store is down or too slow.
func patiently(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if !errors.Is(err, engine.ErrUnavailable) || time.Since(began) > 5*time.Minute {
			return err
		}
		if err := until(ctx, time.Now().Add(time.Second)); err != nil {
			return err
		}
	}
}

// executions returns those of the i-th job, which is not busy.
func (s *stock) executions(j *job.Job, i, n, b int, now time.Time, plain, ofPlain int) []job.Execution {
	if isOneOff(i) {
		return []job.Execution{j.Fire(job.ExecutionID(j.ID), j.CreatedAt, now)}
	}
	es := make([]job.Execution, share(ofPlain, plain, i-s.oneOffs(i)-s.busyOnes(i)))
	for k := range es {
		es[k] = s.fire(j, s.within(n, b), now)
	}
	return es
}

// fire returns an execution of a recurring job: most come from its schedule, some do not.
func (s *stock) fire(j *job.Job, at, now time.Time) job.Execution {
	e := j.Fire(job.ExecutionID(idAt(at.Add(rand.N(200*time.Millisecond)))), at, now)
	switch rand.IntN(1000) {
	case 0:
		e.Trigger = job.ByHand
	case 1, 2, 3, 4, 5, 6, 7, 8, 9:
		e.Trigger = job.ByCatchUp
	}
	if rand.IntN(50) == 0 {
		e.Payload = []byte(`{"customer": ` + strconv.Itoa(rand.IntN(100_000)) + `, "again": true}`)
	}
	return e
}

// fireBusy creates n executions of busy jobs, several of each at once.
func (s *stock) fireBusy(ctx context.Context, total, n, b int) error {
	pieces := (total + busyPiece - 1) / busyPiece
	for p := range pieces {
		j := &s.busy[(b*pieces+p)%len(s.busy)]
		now := s.rig.Clock.Now().UTC().Truncate(time.Microsecond)
		es := make([]job.Execution, share(total, pieces, p))
		for k := range es {
			es[k] = s.fire(j, s.within(n, b), now)
		}
		var there []job.ExecutionID
		err := patiently(ctx, func() (err error) {
			there, err = s.rig.store.Backfill(ctx, j.Tenant, j.ID, es)
			return err
		})
		if err != nil {
			return fmt.Errorf("fire a busy job: %w", err)
		}
		is := map[job.ExecutionID]bool{} // two may have the same instant
		for _, id := range there {
			is[id] = true
		}
		var ready []job.Ready
		for k := range es {
			if is[es[k].ID] {
				ready = append(ready, es[k].Ready())
			}
		}
		s.offer(ready)
	}
	return nil
}

// offer hints stored executions to the dispatcher.
func (s *stock) offer(ready []job.Ready) {
	s.made.Add(int64(len(ready)))
	s.rig.Dispatch.Offer(ready)
}

// remember keeps some ids.
func (s *stock) remember(i int, j *job.Job, es []job.Execution) {
	if j.Tenant != s.tenants[0] {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.Queue == nobody:
		s.wait.add(es[0].ID.String)
	case isOneOff(i):
		s.oneOff.add(j.ID.String)
	default:
		s.plain.add(j.ID.String)
	}
}
