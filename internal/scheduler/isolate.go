package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	rowsAtOnce  = 1000 // that one statement writes, if some need judging
	mostAtOnce  = 50   // instants of one job that fire at once
	maxSuspects = 10_000
	maxFailures = 64               // statements of a pass that may fail; the rest are tried in the next one
	logged      = 10               // jobs that are named in the log of one pass
	unreadFor   = 10 * time.Second // how long a job is set aside whose schedule cannot be computed
	firstAside  = time.Second      // and one that could not be fired, the first time; then doubling
	longAside   = 5 * time.Minute
)

// suspect is a job whose firing failed, alone or with others, or whose schedule cannot be computed.
type suspect struct {
	until    time.Time // it is skipped until then, unless it is changed
	revision int
	fails    int // how often it failed alone
	most     int // rows of a statement that fires it: half of the last one that failed; 0: no limit
}

// suspects are jobs that failed lately. They are remembered to save work: a forgotten one fails again.
type suspects map[job.ID]suspect

// of returns the entry of a job in its current revision.
func (s suspects) of(d *engine.Due) (suspect, bool) {
	x, ok := s[d.Job.ID]
	return x, ok && x.revision == d.Revision
}

func (s suspects) setAside(id job.ID, x suspect) {
	if _, known := s[id]; known || len(s) < maxSuspects {
		s[id] = x
	}
}

// merge adds the findings of a pass.
func (s suspects) merge(p *pass) {
	for _, id := range p.cleared {
		delete(s, id)
	}
	if len(s)+len(p.found) > maxSuspects {
		for id, x := range s {
			if !p.now.Before(x.until) {
				delete(s, id)
			}
		}
	}
	for id, x := range p.found {
		s.setAside(id, x)
	}
	p.size.learn(p)
	if p.unread > logged {
		p.cfg.Log.Error("the schedules of many jobs cannot be worked out", "jobs", p.unread)
	}
}

// size reduces the size of statements, because the store abandoned larger ones.
type size struct {
	shrunk int // so often halved
	calm   int // statements since that were not abandoned
}

const (
	maxShrunk = 10
	calmFor   = 20
)

// learn updates the size after a pass.
func (z *size) learn(p *pass) {
	if p.gaveUp {
		z.shrunk, z.calm = min(maxShrunk, z.shrunk+1), 0
		return
	}
	if z.calm += p.done; z.calm >= calmFor && z.shrunk > 0 {
		z.shrunk, z.calm = z.shrunk-1, 0
	}
}

// begin begins a pass.
func (s *Scheduler) begin(now time.Time, ahead time.Duration) *pass {
	return &pass{Scheduler: s, now: now, ahead: ahead, calendars: map[calendarKey]read{}, wait: between, most: mostAtOnce, found: suspects{}}
}

// mostOf returns how many instants of a job fire at once.
func (p *pass) mostOf(j *job.Job) int {
	most := p.most >> p.shrunk
	if x := p.stuck[j.ID]; x.most > 0 {
		most = min(most, x.most-1) // beside the row of the job
	}
	return max(1, most)
}

// commit fires in statements of a limited number of rows, or of rowsAtOnce if some need judging. A failed one is
// retried in halves: at once, or in the next pass if it was abandoned, which takes seconds. A job that fails alone is
// set aside. An error means that nothing more can be done now.
func (p *pass) commit(ctx context.Context, fs []engine.Firing, rows int, fence engine.Fence) (ready []job.Ready, err error) {
	todo := p.statements(fs, rows)
	slow := 0
	for len(todo) > 0 {
		fs := todo[0]
		todo = todo[1:]
		rs, err := p.store.Fire(ctx, fs, fence)
		tooSlow := errors.Is(err, engine.ErrTooSlow)
		switch {
		case err == nil:
			if p.stuck[fs[0].Job].most == 0 { // otherwise it says nothing about larger ones
				p.done++
			}
			ready = append(ready, rs.Ready...)
			p.clear(fs)
			continue
		case ctx.Err() != nil || errors.Is(err, engine.ErrSchema) || errors.Is(err, engine.ErrUnavailable) && !tooSlow:
			return ready, fmt.Errorf("fire %d jobs: %w", len(fs), err)
		}
		p.gaveUp = p.gaveUp || tooSlow && len(fs) > 1 && p.stuck[fs[0].Job].most == 0
		p.suspect(fs, err)
		if p.failures++; tooSlow {
			slow++
		} else if len(fs) > 1 {
			half := (len(fs) + 1) / 2
			todo = append([][]engine.Firing{fs[:half], fs[half:]}, todo...)
		}
		if slow > 1 || p.failures >= maxFailures {
			return ready, fmt.Errorf("fire %d jobs: %w", len(fs), err)
		}
	}
	if err := failpoint.Hit("sched.afterCommitBeforeNotify"); err != nil {
		return nil, fmt.Errorf("fire %d jobs: %w", len(fs), err)
	}
	return ready, nil
}

// statements divides firings: those that failed before come last, and fewer at once.
func (p *pass) statements(fs []engine.Firing, rows int) (out [][]engine.Firing) {
	type kind struct {
		most   int
		judged bool
	}
	kindOf := func(f *engine.Firing) kind {
		return kind{p.stuck[f.Job].most, len(f.Skips) > 0 || f.Overlap != job.OverlapAllow || len(f.Executions) > 0 && f.Executions[0].UniqueKey != ""}
	}
	open := map[kind][]engine.Firing{}
	sizes := map[kind]int{}
	var last []kind
	for i := range fs {
		k := kindOf(&fs[i])
		most := rows
		if k.judged {
			most = min(rows, rowsAtOnce)
		}
		most >>= p.shrunk
		if k.most > 0 {
			most = min(most, k.most)
		}
		most = max(1, most)
		n := rowsOf(&fs[i])
		if _, ok := open[k]; !ok {
			last = append(last, k)
		}
		if sizes[k] > 0 && sizes[k]+n > most {
			out = append(out, open[k])
			open[k], sizes[k] = nil, 0
		}
		open[k], sizes[k] = append(open[k], fs[i]), sizes[k]+n
	}
	for _, k := range last {
		out = append(out, open[k])
	}
	rank := func(fs []engine.Firing) int { return cmp.Or(kindOf(&fs[0]).most, math.MaxInt) }
	slices.SortStableFunc(out, func(a, b []engine.Firing) int { return cmp.Compare(rank(b), rank(a)) })
	return out
}

// rowsOf returns how many rows a firing writes.
func rowsOf(f *engine.Firing) int { return 1 + len(f.Executions) + len(f.Skips) }

// clear forgets that firings failed.
func (p *pass) clear(fs []engine.Firing) {
	if len(p.stuck)+len(p.found) == 0 {
		return
	}
	for i := range fs {
		p.cleared = append(p.cleared, fs[i].Job)
		delete(p.found, fs[i].Job)
	}
}

// suspect records that firings failed together.
func (p *pass) suspect(fs []engine.Firing, err error) {
	rows := 0
	for i := range fs {
		rows += rowsOf(&fs[i])
	}
	for i := range fs {
		f := &fs[i]
		x, ok := p.found[f.Job]
		if !ok {
			x = p.stuck[f.Job]
		}
		if x.revision != f.Revision {
			x = suspect{revision: f.Revision}
		}
		alone := len(fs) == 1 && (len(f.Executions) <= 1 || !errors.Is(err, engine.ErrTooSlow))
		if x.most = max(1, rows/2); alone {
			x.fails++
			aside := min(longAside, firstAside<<min(x.fails-1, 10))
			x.until = p.now.Add(aside)
			p.cfg.Log.Error("a job could not be fired; it is tried again in a while, the others go on", "job", f.Job, "tenant", f.Tenant, "failed", x.fails, "again_in", aside.String(), "error", err)
		}
		p.found.setAside(f.Job, x)
	}
	if len(fs) > 1 {
		p.cfg.Log.Warn("jobs could not be fired together; they are tried in halves", "jobs", len(fs), "error", err)
	}
}
