package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// knownJob is a job in its last known state.
type knownJob struct {
	id     job.ID
	name   string
	tenant tenant.ID
	paused bool
}

// plan records a job, and whether it will fire later. The caller holds mu.
func (r *recorder) plan(j job.Job) {
	r.jobs[j.ID] = &knownJob{j.ID, j.Name, j.Tenant, j.State == job.Paused}
	if delete(r.planned, j.ID); !j.NextRunAt.IsZero() && j.State != job.Deleted {
		r.planned[j.ID] = true
	}
}

// replan reads the state of a job. The caller holds mu.
func (r *recorder) replan(ctx context.Context, t tenant.ID, id job.ID) {
	if j, err := r.Store.Job(ctx, t, engine.Ref{ID: id}); err == nil {
		r.plan(j)
	}
}

// jobName returns the name of a job. The caller holds mu.
func (r *recorder) jobName(id job.ID) string {
	if j := r.jobs[id]; j != nil {
		return j.name
	}
	return id.String()
}

// pausedJobs lists the jobs that are paused.
func (r *recorder) pausedJobs() []knownJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []knownJob
	for id, j := range r.jobs {
		if j.paused && !r.deleted[id] {
			out = append(out, *j)
		}
	}
	slices.SortFunc(out, func(a, b knownJob) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (r *recorder) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	return commit(ctx, r, func(ctx context.Context) (job.Job, error) { return r.Store.UpdateJob(ctx, t, u) }, func(ctx context.Context, out job.Job) {
		r.plan(out)
		r.nodes(t, u.Nodes)
		if u.Parents != nil {
			r.depends(out)
		}
		r.lookAt(ctx, changed, func(s *seen) bool { return s.job == out.ID })
	})
}

// changed records that an execution's job was changed.
const changed = "changed"

// withdraw records that an execution that had not begun is gone. The caller holds mu.
func (r *recorder) withdraw(s *seen) {
	delete(r.known, s.id)
	r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Withdrawn, Tenant: string(s.tenant), Job: r.jobName(s.job), Execution: s.name})
}

func (r *recorder) Settle(ctx context.Context, limit int) (int, error) {
	return commit(ctx, r, func(ctx context.Context) (int, error) { return r.Store.Settle(ctx, limit) }, func(ctx context.Context, n int) {
		if n > 0 {
			r.lookAt(ctx, changed, func(s *seen) bool { return !s.held() })
		}
	})
}

func (r *recorder) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Fired, error) { return r.Store.Fire(ctx, fs, x) }, func(ctx context.Context, out engine.Fired) {
		ready := make(map[job.ExecutionID]bool, len(out.Ready))
		for _, e := range out.Ready {
			ready[e.ID] = true
		}
		for _, f := range fs {
			r.volley(ctx, f, ready)
		}
	})
}

// volley records the outcome of a firing. The caller holds mu.
func (r *recorder) volley(ctx context.Context, f engine.Firing, ready map[job.ExecutionID]bool) {
	if f.Overlap == job.OverlapReplace {
		for _, s := range r.known {
			if s.flow && s.job == f.Job && !s.status.Final() {
				r.add(check.Event{Proc: "store", Kind: check.Invoke, Op: check.Cancel, Tenant: string(s.tenant), Execution: s.name})
			}
		}
		r.lookAt(ctx, "replaced", func(s *seen) bool { return s.job == f.Job })
	}
	caught := 0
	for _, e := range f.Executions {
		if ready[e.ID] {
			r.alone(f, e)
			if e.Trigger == job.ByCatchUp {
				caught++
			}
			r.fired(e)
			r.added(e)
			if _, ok := r.links[f.Job]; ok { // it may wait for other jobs
				r.look(ctx, r.known[e.ID], "")
			}
		} else if _, err := r.Store.Execution(ctx, f.Tenant, e.ID); err == nil && r.known[e.ID] == nil {
			e.UniqueKey = "" // another has it
			r.added(e)
			r.look(ctx, r.known[e.ID], "")
		}
	}
	for _, e := range f.Skips {
		if _, err := r.Store.Execution(ctx, f.Tenant, e.ID); err == nil {
			r.added(e)
			r.look(ctx, r.known[e.ID], "")
		}
	}
	if caught > catchStep {
		r.wrong("pace", "%d instants of %s were caught up in one step, and it may be %d", caught, r.jobName(f.Job), catchStep)
	}
	r.replan(ctx, f.Tenant, f.Job)
}

// alone records a violation if a job that skips overlaps fires while an earlier fire of it is live. The caller holds
// mu.
func (r *recorder) alone(f engine.Firing, e job.Execution) {
	if f.Overlap != job.OverlapSkip {
		return
	}
	for _, s := range r.known {
		if s.job == f.Job && s.scheduled && !s.status.Final() {
			r.wrong("overlap", "%s fired for %v while %s had not finished, and it skips what would overlap", e.JobName, e.ScheduledAt, s.name)
		}
	}
}

// catchStep limits how many instants of a job are caught up in one step.
const catchStep = 50

// wrong records a violation that no history shows. The caller holds mu.
func (r *recorder) wrong(name, format string, args ...any) {
	r.over = append(r.over, check.Violation{Check: name, What: fmt.Sprintf("after %v ", time.Since(r.begun)) + fmt.Sprintf(format, args...)})
}

func (r *recorder) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	return commit(ctx, r, func(ctx context.Context) ([]job.Verdict, error) { return r.Store.Park(ctx, ps) }, func(ctx context.Context, out []job.Verdict) {
		for i, p := range ps {
			if s := r.known[p.Execution]; s != nil && out[i].Accepted && s.held() && s.token == p.Token {
				s.parked = true
				r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Parked, Tenant: string(s.tenant), Job: r.jobName(s.job), Execution: s.name, Token: int64(p.Token)})
				r.look(ctx, s, "parked")
			}
		}
	})
}

func (r *recorder) Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Drawn, error) { return r.Store.Draw(ctx, ds) }, func(ctx context.Context, out []engine.Drawn) {
		now, err := r.Store.Now(ctx)
		for i, d := range ds {
			if n := out[i].N; n > 0 && err == nil && !d.Rate.IsZero() {
				r.paid[d.Bucket] += n
				p := d.Rate.Pace()
				r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Drawn, Group: d.Bucket, Max: n, Rate: 1e6 / float64(p.Step), Burst: int(p.Burst), SchedAt: now})
			}
		}
	})
}

// pay takes the start of an execution out of the tokens drawn for its group. The caller holds mu.
func (r *recorder) pay(s *seen) {
	if s.group.Key == 0 || s.group.Rate.IsZero() {
		return
	}
	b := pick.GroupBucket(s.group.Key, s.group.Rate)
	if r.paid[b]--; r.paid[b] < 0 {
		r.paid[b] = 0
		r.wrong("rates", "%s was started, and nothing had been drawn for it from %s", s.name, b)
	}
}
