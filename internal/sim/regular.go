package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// every is the prefix of recurring jobs.
const every = "every-"

// regulars generates a client's recurring jobs, for as long as the faults last and a little longer: it creates some,
// then changes, pauses, resumes, triggers and deletes them.
func regulars(r *rand.Rand, client int, lasts time.Duration) []wish {
	var out []wish
	jobs := 1 + r.IntN(3)
	catchUps := []job.CatchUp{job.CatchUpAll, job.CatchUpLatest, job.CatchUpNone}
	for n := range jobs {
		d := job.Definition{
			Name: fmt.Sprintf("%sc%d-j%d", every, client, n), Priority: 1, Queue: "default", Overlap: job.Overlaps()[r.IntN(len(job.Overlaps()))],
			CatchUp: catchUps[r.IntN(len(catchUps))], CatchUpLimit: 1 + r.IntN(20),
			Schedule: job.Schedule{Type: job.Interval, Every: time.Duration(2+r.IntN(6)) * time.Second},
			Target:   job.Target{Kind: job.Handler, Handler: kind, Timeout: 5 * time.Second},
			Retry:    job.RetryPolicy{MaxRetries: r.IntN(2), Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second},
		}
		if r.IntN(6) == 0 && d.CatchUp == job.CatchUpAll {
			d.CatchUpLimit = 60 + r.IntN(60) // in more than one step
		}
		if r.IntN(5) == 0 {
			d.Schedule.MaxRuns = 1 + r.Int64N(8)
		}
		if r.IntN(5) == 0 {
			d.Schedule.Jitter = upTo(r, time.Second).Truncate(time.Millisecond)
		}
		out = append(out, wish{at: upTo(r, 2*time.Second), kind: wishCreate, def: d, last: 3*time.Second + upTo(r, lasts), gap: time.Second, try: 4})
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	var more []wish
	for range r.IntN(8) {
		w := wish{at: 2*time.Second + upTo(r, lasts), of: r.IntN(jobs), gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4)}
		switch k := r.IntN(10); {
		case k < 3:
			w.kind = wishUpdate
		case k < 6:
			w.kind = wishPauseJob
			if r.IntN(2) == 0 {
				w.last = time.Second + upTo(r, chaos)
			}
		case k < 8:
			w.kind = wishResumeJob
		case k < 9:
			w.kind = wishTrigger
		default:
			w.kind = wishDelete
		}
		more = append(more, w)
	}
	slices.SortFunc(more, func(a, b wish) int { return int(a.at - b.at) })
	versions := make([]int, jobs)
	for i := range more {
		if w := &more[i]; w.kind == wishUpdate {
			versions[w.of] = min(9, versions[w.of]+1)
			w.version = versions[w.of]
		}
	}
	return append(out, more...)
}

// update gives a job another priority, which shows which version of it its executions are of.
func (c *caller) update(x wish, m made) {
	if m.id.IsZero() {
		return
	}
	c.ask(x, check.Event{Op: check.Change, Job: m.job, Version: x.version}, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		_, err := s.UpdateJob(ctx, c.as, engine.Ref{ID: m.id}, 0, func(j job.Job) (job.Definition, error) {
			d := j.Definition
			d.Priority = 1 + x.version
			return d, nil
		})
		return err
	})
}

// pauseJob pauses a job, for a while or until it is resumed, or resumes it.
func (c *caller) pauseJob(x wish, m made) {
	if m.id.IsZero() {
		return
	}
	e := check.Event{Op: check.JobPaused, Job: m.job, Tag: check.Pause}
	if x.kind == wishResumeJob {
		e.Tag = check.Resume
	} else if x.last > 0 {
		e.SchedAt = c.w.now().Add(x.last)
	}
	c.ask(x, e, func(ctx context.Context, s *service.Service, _ *check.Event) (err error) {
		if x.kind == wishResumeJob {
			_, err = s.ResumeJob(ctx, c.as, engine.Ref{ID: m.id})
		} else {
			_, err = s.PauseJob(ctx, c.as, engine.Ref{ID: m.id}, "", e.SchedAt)
		}
		return err
	})
}

// resumeAll resumes, after the last fault, all paused jobs, so that they can end.
func (w *world) resumeAll() {
	c := &caller{w: w, name: "nemesis", rng: stream(w.seed, "nemesis")}
	for _, p := range w.store.pausedJobs() {
		c.as = local(p.tenant)
		c.pauseJob(wish{kind: wishResumeJob, gap: time.Second, try: 20}, made{job: p.name, id: p.id})
	}
}

// instants compares the instants of a recurring job with its executions: each has one execution, or one record that
// covers it.
func instants(j job.Job, xs []job.Execution, jumped bool) []check.Violation {
	wrong := func(format string, args ...any) []check.Violation {
		return []check.Violation{{Check: "instants", What: fmt.Sprintf("%s (%s, %s): ", j.Name, j.Overlap, j.CatchUp) + fmt.Sprintf(format, args...)}}
	}
	plan, err := schedule.NewCache(time.LoadLocation).Plan(j.Schedule, j.CreatedAt, nil)
	if err != nil {
		return wrong("%v", err)
	}
	seen := map[int64]int{}
	fired := int64(0)
	for _, x := range xs {
		if x.Trigger != job.BySchedule && x.Trigger != job.ByCatchUp {
			continue
		}
		if !jumped && !x.StartedAt.IsZero() && x.StartedAt.Before(x.ScheduledAt) {
			return wrong("%v started at %v", x.ScheduledAt, x.StartedAt)
		}
		to := x.ScheduledAt
		if x.Status == job.Skipped && x.Metadata["to"] != "" {
			if to, err = time.Parse(time.RFC3339, x.Metadata["to"]); err != nil {
				return wrong("%v", err)
			}
		}
		n := 0
		for at, ok := x.ScheduledAt, true; ok && !at.After(to); at, ok = plan.Next(at) {
			seen[at.UnixMicro()]++
			n++
		}
		if count := x.Metadata["count"]; count != "" && count != strconv.Itoa(n) {
			return wrong("a record of %s instants covers %d", count, n)
		}
		if x.Status != job.Skipped {
			fired++
		}
	}
	if most := j.Schedule.MaxRuns; most > 0 && fired > most {
		return wrong("it fired %d times, and may %d times", fired, most)
	}
	for at, ok := plan.Next(j.CreatedAt); ok; at, ok = plan.Next(at) {
		if j.Schedule.MaxRuns > 0 && len(seen) == 0 {
			break // it has used up its runs
		}
		if n := seen[at.UnixMicro()]; n != 1 {
			return wrong("%v has %d executions or records", at, n)
		}
		delete(seen, at.UnixMicro())
	}
	if len(seen) > 0 {
		return wrong("%d executions or records are of no instant", len(seen))
	}
	return nil
}

// recurs reports whether a job fires repeatedly.
func recurs(name string) bool { return strings.HasPrefix(name, every) }
