package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	lateAfter   = 10 * time.Second // an instant this long past makes its job count as behind
	lateJobs    = 1000             // that are read at once
	lateReads   = 8                // per pass at most, each without the tenants of those before it
	maxKnown    = 64               // tenants remembered between looks for others
	knownEnough = 100              // jobs of a tenant that are enough without looking for more
	maxLooked   = 200_000          // approximate number of instants that a pass computes
	longestRest = time.Second
	othersEvery = 3 * time.Second  // how often other tenants that are behind are looked for, which may read everything that is behind
	othersShare = 4                // minimum time before it is done again, as a multiple of its duration
	othersMost  = 30 * time.Second // but not more than this
)

// backlog is the position of a scheduler among the jobs that are behind: it goes round.
type backlog struct {
	from time.Time
	skip int
	turn tenant.ID // who had the last turn
	rest time.Time // until when it rests

	known  []queue       // some jobs of each tenant found in the last look for others, as far as they are still behind
	sought time.Time     // when that was
	again  time.Duration // how much later it looks again
}

// behind fires a bounded part of what jobs that are behind owe, taking turns between tenants, and rests as long as
// that took, unless only one tenant is behind.
func (s *Scheduler) behind(ctx context.Context, ps []job.Partition, now time.Time, fence engine.Fence) (time.Duration, error) {
	begun := s.clock.Now()
	if d := s.back.rest.Sub(begun); d > 0 && d <= longestRest {
		return d, nil
	}
	p := s.begin(now, s.cfg.LookAhead)
	defer func() { s.stuck.merge(p) }()
	queues, more, err := p.queues(ctx, ps)
	if err != nil {
		return 0, fmt.Errorf("find jobs that are behind: %w", err)
	}
	if len(queues) == 0 && !more {
		return between, nil
	}
	rows, alone := rowsAtOnce, len(queues) == 1
	if alone {
		rows = 2 * lateJobs // one-off jobs, of two rows each: nobody waits for a turn
	}
	fs, left, err := p.turns(ctx, queues)
	if err != nil {
		return 0, err
	}
	ready, err := p.commit(ctx, fs, rows, fence)
	p.settle(fs, ready)
	if len(ready) > 0 {
		s.cfg.Hint(ready)
	}
	if nudges(fs) {
		s.cfg.Nudge()
	}
	switch {
	case err != nil:
		return 0, err
	case more || left || slices.ContainsFunc(fs, func(f engine.Firing) bool { return !f.Next.IsZero() && now.Sub(f.Next) > lateAfter }):
		if alone && len(ready) > 0 && p.failures == 0 {
			return 0, nil
		}
		done := s.clock.Now()
		rest := min(longestRest, max(0, done.Sub(begun)))
		s.back.rest = done.Add(rest)
		return rest, nil
	}
	return p.wait, nil // jobs that have caught up may be due
}

// queue holds the jobs of one tenant that are behind.
type queue struct {
	tenant tenant.ID
	due    []engine.Due
}

// queues reads jobs that are behind: some of all of them, from where the last pass ended, and, if there are many,
// some of each tenant that is not among those, which are looked for now and then and remembered in between.
func (p *pass) queues(ctx context.Context, ps []job.Partition) (out []queue, more bool, err error) {
	b := &p.back
	f := engine.DueFilter{Partitions: ps, From: b.from, Skip: b.skip, Until: p.now.Add(-lateAfter - time.Microsecond), Limit: lateJobs}
	due, err := p.store.Due(ctx, f)
	if err != nil {
		return nil, false, err
	}
	full := len(due) >= f.Limit
	if more = full || !b.from.IsZero(); full {
		after(&f, due)
		b.from, b.skip = f.From, f.Skip
	} else {
		b.from, b.skip = time.Time{}, 0
	}
	out = byTenant(nil, due)
	since := p.now.Sub(b.sought)
	switch {
	case !more: // these are all
		b.known = slices.Clone(out)
	case len(out) > 0 && (since < 0 || since >= b.again):
		out = p.remembered(ps, p.others(ctx, f, out))
		b.known, b.sought = slices.Clone(out[max(0, len(out)-maxKnown):]), p.clock.Now()
		b.again = min(othersMost, max(othersEvery, othersShare*b.sought.Sub(p.now)))
	default:
		out = p.remembered(ps, out)
	}
	// Whoever had the last turn is last.
	slices.SortFunc(out, func(x, y queue) int {
		if (x.tenant > b.turn) != (y.tenant > b.turn) {
			if x.tenant > b.turn {
				return -1
			}
			return 1
		}
		if x.tenant < y.tenant {
			return -1
		}
		return 1
	})
	return out, more, nil
}

// remembered adds the tenants of the last look that are not among some, with their jobs in the partitions.
func (p *pass) remembered(ps []job.Partition, out []queue) []queue {
	for _, q := range p.back.known {
		if slices.ContainsFunc(out, func(o queue) bool { return o.tenant == q.tenant }) {
			continue
		}
		if len(ps) > 0 {
			q.due = slices.DeleteFunc(slices.Clone(q.due), func(d engine.Due) bool { return !slices.Contains(ps, job.PartitionOf(d.Job.ID)) })
		}
		if len(q.due) > 0 {
			out = append(out, q)
		}
	}
	return out
}

// others adds jobs of tenants that have none among some. It skips tenants of which it knows enough, so that
// successive looks find all, however many have thousands. No index helps with that: if it fails, nobody else is found
// for now, and known ones continue.
func (p *pass) others(ctx context.Context, f engine.DueFilter, out []queue) []queue {
	f.From, f.Skip = time.Time{}, 0
	var enough []tenant.ID
	for _, q := range p.back.known {
		if n := len(q.due); n >= knownEnough && !slices.ContainsFunc(q.due, func(d engine.Due) bool { _, stuck := p.stuck.of(&d); return stuck }) {
			enough = append(enough, q.tenant)
		}
	}
	for range lateReads - 1 {
		f.Without = slices.Clone(enough)
		for _, q := range out {
			f.Without = append(f.Without, q.tenant)
		}
		due, err := p.store.Due(ctx, f)
		if err != nil {
			p.cfg.Log.Debug("other tenants that are behind could not be looked for", "error", err)
			break
		}
		if out = byTenant(out, due); len(due) < f.Limit {
			break
		}
	}
	return out
}

// byTenant adds jobs to the queues of their tenants.
func byTenant(out []queue, due []engine.Due) []queue {
	at := make(map[tenant.ID]int, len(out))
	for i, q := range out {
		at[q.tenant] = i
	}
	for _, d := range due {
		i, ok := at[d.Job.Tenant]
		if !ok {
			i = len(out)
			at[d.Job.Tenant], out = i, append(out, queue{tenant: d.Job.Tenant})
		}
		out[i].due = append(out[i].due, d)
	}
	return out
}

// settle removes fired jobs from the backlog. The remembered jobs only save a read: the store decides whether one
// fires.
func (p *pass) settle(fs []engine.Firing, ready []job.Ready) {
	b := &p.back
	is := make(map[job.ExecutionID]bool, len(ready))
	for i := range ready {
		is[ready[i].ID] = true
	}
	tried := make(map[job.ID]*engine.Firing, len(fs))
	came := func(f *engine.Firing) bool { return len(f.Executions) > 0 && is[f.Executions[0].ID] }
	for i := range fs {
		f := &fs[i]
		tried[f.Job] = f
		if b.skip > 0 && f.Was.Equal(b.from) && came(f) {
			b.skip--
		}
	}
	for i := range b.known {
		q := &b.known[i]
		left := q.due[:0:0]
		for _, d := range q.due {
			if f := tried[d.Job.ID]; f != nil {
				if _, failed := p.found[f.Job]; !failed {
					if !came(f) || f.Next.IsZero() || p.now.Sub(f.Next) <= lateAfter || d.Job.Schedule.MaxRuns > 0 { // of which the store knows how many are left
						continue
					}
					d.Job.NextRunAt, d.Job.Runs = f.Next, d.Job.Runs+f.Runs
				}
			}
			left = append(left, d)
		}
		q.due = left
	}
}

// turns gives each tenant a job in turn, until there are enough rows for a statement. Of a tenant's jobs it
// alternates between the one furthest behind and the one least behind, so that neither waits for all the others. If
// there is only one tenant, one-off jobs count half: nobody waits for them.
func (p *pass) turns(ctx context.Context, qs []queue) (fs []engine.Firing, left bool, err error) {
	rows, most, alone := 0, max(1, rowsAtOnce>>p.shrunk), len(qs) == 1
	for round := 0; len(qs) > 0; round++ {
		rest := qs[:0:0]
		for _, q := range qs {
			for len(q.due) > 0 {
				if rows >= most || p.looked >= maxLooked {
					return fs, true, nil
				}
				d, last := q.due[0], len(q.due)-1
				if round%2 == 1 {
					d, q.due = q.due[last], q.due[:last]
				} else {
					q.due = q.due[1:]
				}
				f, ok, err := p.tryFiring(ctx, &d)
				if err != nil {
					return nil, false, err
				}
				if ok {
					if fs = append(fs, f); alone && d.Job.Schedule.Type.OneOff() {
						rows++
					} else {
						rows += rowsOf(&f)
					}
					p.back.turn = q.tenant
					break
				}
			}
			if len(q.due) > 0 {
				rest = append(rest, q)
			}
		}
		qs = rest
	}
	return fs, false, nil
}
