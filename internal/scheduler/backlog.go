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
	lateAfter   = 10 * time.Second // that an instant is past makes its job one that is behind
	lateJobs    = 1000             // that are read at once
	lateReads   = 8                // in a pass, each without the tenants of those before it
	maxLooked   = 200_000          // instants that a pass works out, about
	longestRest = time.Second
)

// backlog is where a scheduler is among the jobs that are behind: it goes round.
type backlog struct {
	from time.Time
	skip int
	turn tenant.ID // who had the last turn
	rest time.Time // until when it rests
}

// behind fires a bounded part of what jobs that are behind owe, by turns between tenants, and rests as long as that took.
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
	fs, left, err := p.turns(ctx, queues)
	if err != nil {
		return 0, err
	}
	ready, err := p.commit(ctx, fs, rowsAtOnce, fence)
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
		done := s.clock.Now()
		rest := min(longestRest, max(0, done.Sub(begun)))
		s.back.rest = done.Add(rest)
		return rest, nil
	}
	return p.wait, nil // what is no longer behind may be due
}

// queue is the jobs of one tenant that are behind.
type queue struct {
	tenant tenant.ID
	due    []engine.Due
}

// queues reads jobs that are behind: some of all of them, from where the last pass ended, and, where there are many, some of each
// tenant that is not among those.
func (p *pass) queues(ctx context.Context, ps []job.Partition) (out []queue, more bool, err error) {
	b := &p.back
	f := engine.DueFilter{Partitions: ps, From: b.from, Skip: b.skip, Until: p.now.Add(-lateAfter - time.Microsecond), Limit: lateJobs}
	at := map[tenant.ID]int{}
	for range lateReads {
		due, err := p.store.Due(ctx, f)
		if err != nil {
			return nil, false, err
		}
		full := len(due) >= f.Limit
		first := len(f.Without) == 0
		again := first && !b.from.IsZero()
		if first {
			if more = full || again; full {
				after(&f, due)
				b.from, b.skip = f.From, f.Skip
			} else {
				b.from, b.skip = time.Time{}, 0
			}
		}
		for _, d := range due {
			i, ok := at[d.Job.Tenant]
			if !ok {
				i = len(out)
				at[d.Job.Tenant], out = i, append(out, queue{tenant: d.Job.Tenant})
				f.Without = append(f.Without, d.Job.Tenant)
			}
			out[i].due = append(out[i].due, d)
		}
		if !full && !again || len(f.Without) == 0 {
			break
		}
		f.From, f.Skip = time.Time{}, 0
	}
	// Whoever had the last turn is the last.
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

// turns gives each tenant a job in turn, until there are enough rows for a statement. Of a tenant's jobs it takes the one that is
// furthest behind and the one that is least behind by turns, so that neither waits for all the others.
func (p *pass) turns(ctx context.Context, qs []queue) (fs []engine.Firing, left bool, err error) {
	rows, most := 0, max(1, rowsAtOnce>>p.shrunk)
	for round := 0; len(qs) > 0; round++ {
		rest := qs[:0:0]
		for _, q := range qs {
			for len(q.due) > 0 {
				if rows >= most || p.looked >= maxLooked {
					return fs, true, nil
				}
				i := 0
				if round%2 == 1 {
					i = len(q.due) - 1
				}
				d := q.due[i]
				q.due = slices.Delete(q.due, i, i+1)
				f, ok, err := p.tryFiring(ctx, &d)
				if err != nil {
					return nil, false, err
				}
				if ok {
					fs, rows = append(fs, f), rows+rowsOf(&f)
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
