package service

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Spread suggests how to spread herds: by giving jobs another minute of their hour.
type Spread struct {
	PeakBefore, PeakAfter int64 // in the fullest minute
	Total                 int   // jobs that are to be moved
	Jobs                  []Moved
	Minutes               []Minute // after that
}

// Moved is a suggested move of a job.
type Moved struct {
	ID            job.ID
	Name          string
	Before, After string // its cron expression
	Moved         int64  // its instants that lie in herds
}

const (
	spreadListed = 200
	spreadMost   = 20_000 // jobs
)

// Spread is a forecast, and how to spread its herds.
func (s *Views) Spread(ctx context.Context, p tenant.Principal, ahead time.Duration) (Forecast, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Forecast{}, err
	}
	return s.foretell(ctx, asked{p.Tenant, ahead, true}, func(ctx context.Context, hurry hurry) (Forecast, error) {
		return s.spread(ctx, p.Tenant, ahead, hurry)
	})
}

func (s *Views) spread(ctx context.Context, of tenant.ID, ahead time.Duration, hurry hurry) (Forecast, error) {
	out, l, err := s.forecast(ctx, of, ahead, hurry)
	if err != nil || len(out.Herds) == 0 {
		return out, err
	}
	least := max(smallestHerd, timesTheAverage*l.average)
	full := make([]bool, len(l.counts))
	x := Spread{PeakBefore: slices.Max(l.counts)}
	for i, n := range l.counts {
		full[i] = n >= least
	}
	at := func(t time.Time) int { return int(t.Sub(l.from) / time.Minute) }
	for i, c := range l.jobs {
		if x.Total == spreadMost || ctx.Err() != nil {
			break
		}
		if i > alwaysJobs && i%50 == 0 && hurry(1) {
			out.Truncated = true
			break
		}
		after, ok := moved(c.id, c.plans)
		if !ok {
			continue
		}
		n := int64(0)
		c.each(l.now, l.until, func(t time.Time, _ int64) bool {
			if full[at(t)] {
				n++
			}
			return true
		})
		to := c
		if to.plan = s.recompiled(c, after); n == 0 || to.plan == nil {
			continue
		}
		c.each(l.now, l.until, func(t time.Time, k int64) bool {
			l.counts[at(t)] -= k
			return true
		})
		to.each(l.now, l.until, func(t time.Time, k int64) bool {
			l.counts[at(t)] += k
			return true
		})
		x.Total++
		x.Jobs = append(x.Jobs, Moved{c.id, c.name, c.plans.Cron, after, n})
	}
	if x.Total == 0 || ctx.Err() != nil {
		return out, ctx.Err()
	}
	slices.SortStableFunc(x.Jobs, func(a, b Moved) int { return cmp.Compare(b.Moved, a.Moved) })
	x.Jobs = x.Jobs[:min(spreadListed, len(x.Jobs))]
	x.PeakAfter, x.Minutes = slices.Max(l.counts), l.minutes()
	out.Spread = &x
	return out, nil
}

// recompiled returns a job's plan with another expression; nil if there is none.
func (s *Views) recompiled(c counted, expression string) *schedule.Plan {
	if c.plan == nil || c.plan.Cron == nil {
		return nil
	}
	day := schedule.Day(c.plans.Day)
	if day == "" {
		day = schedule.Vixie
	}
	zone := c.plans.Zone
	if zone == "" {
		zone = "UTC"
	}
	cron, err := s.cfg.Schedules.Cron(expression, zone, day)
	if err != nil {
		return nil
	}
	p := *c.plan
	p.Cron = cron
	return &p
}

// moved replaces the minute in a schedule's expression by the job's own, a hash of its id, if it fires at one minute
// of its hours, or at every n-th. False: it is no such expression, or has that minute.
func moved(id job.ID, s job.Schedule) (string, bool) {
	if s.Type != job.Cron {
		return "", false
	}
	text := s.Cron
	switch strings.ToLower(text) {
	case "@hourly":
		text = "0 * * * *"
	case "@daily", "@midnight":
		text = "0 0 * * *"
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return "", false
	}
	h := fnv.New64a()
	h.Write(id[:])
	sum := h.Sum64()
	sum ^= sum >> 32
	if n, err := strconv.Atoi(fields[0]); err == nil {
		to := int(sum % 60)
		fields[0] = strconv.Itoa(to)
		return strings.Join(fields, " "), to != n
	}
	step, ok := strings.CutPrefix(fields[0], "*/")
	n, err := strconv.Atoi(step)
	if !ok || err != nil || n < 2 || 60%n != 0 {
		return "", false
	}
	to := int(sum % uint64(n))
	fields[0] = fmt.Sprintf("%d-59/%d", to, n)
	return strings.Join(fields, " "), to != 0
}
