package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// chained is the prefix of jobs that depend on each other, and have no schedule.
const chained = "chain-"

// forced is the prefix of the tag of executions that the run needs in the end: they succeed.
const forced = "needed-"

// edgeWish is a client's request about what a job depends on.
type edgeWish struct {
	on        []int // the numbers of the client's earlier jobs; none: it is to depend on nothing
	condition workflow.Condition
}

// chains makes up jobs that depend on those before them, some of which have a schedule, and what a client does with them.
func chains(r *rand.Rand, client int) []wish {
	var out []wish
	count := 3 + r.IntN(4)
	recurring := map[int]bool{}
	for n := range count {
		d := job.Definition{
			Name: fmt.Sprintf("%sc%d-j%d", chained, client, n), Schedule: job.Schedule{Type: job.Manual}, Priority: 1, Queue: "default",
			Target: job.Target{Kind: job.Handler, Handler: kind, Timeout: 5 * time.Second},
			Retry:  job.RetryPolicy{MaxRetries: r.IntN(2), Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second},
		}
		w := wish{at: time.Duration(n) * 100 * time.Millisecond, kind: wishCreate, gap: time.Second, try: 4}
		if recurring[n] = r.IntN(3) == 0; recurring[n] {
			d.Name = every + d.Name
			d.Schedule = job.Schedule{Type: job.Interval, Every: time.Duration(3+r.IntN(6)) * time.Second}
			d.Overlap, d.CatchUp, d.CatchUpLimit = job.Overlaps()[r.IntN(len(job.Overlaps()))], job.CatchUpLatest, 1
			w.last = 3*time.Second + upTo(r, chaos)
		}
		w.def = d
		out = append(out, w)
	}
	conditions := make([]workflow.Condition, count)
	depend := func(at time.Duration, of int) {
		w := wish{at: at, kind: wishDepend, of: of, gap: time.Second, try: 4, edgeWish: edgeWish{condition: conditions[of]}}
		for len(w.on) == 0 {
			for p := range of {
				if r.IntN(2) == 0 {
					w.on = append(w.on, p)
				}
			}
		}
		out = append(out, w)
	}
	for of := 1; of < count; of++ {
		conditions[of] = []workflow.Condition{workflow.OnSuccess, workflow.OnSuccess, workflow.OnEnd, workflow.OnFailed}[r.IntN(4)]
		if recurring[of] && conditions[of] == workflow.OnFailed {
			conditions[of] = workflow.OnEnd // else nobody could free what waits in the end
		}
		if of < 2 || r.IntN(4) > 0 {
			depend(time.Second+time.Duration(of)*50*time.Millisecond, of)
		}
	}
	var ats []time.Duration
	for range 10 + r.IntN(20) {
		ats = append(ats, 2*time.Second+upTo(r, chaos))
	}
	slices.Sort(ats)
	for _, at := range ats {
		w := wish{at: at, kind: wishTrigger, of: r.IntN(max(1, count-1)), gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4), key: "a"}
		switch r.IntN(12) {
		case 0:
			depend(at, 1+r.IntN(count-1))
			continue
		case 1:
			w.kind, w.of = wishPauseJob, 1+r.IntN(count-1)
			if r.IntN(2) == 0 {
				w.last = time.Second + upTo(r, chaos/2)
			}
		case 2:
			w.kind, w.of = wishResumeJob, 1+r.IntN(count-1)
		case 3:
			if r.IntN(4) == 0 {
				w.kind, w.of = wishDepend, 1+r.IntN(count-1)
			}
		}
		out = append(out, w)
	}
	return out
}

// depend has a job depend on others.
func (c *caller) depend(x wish, m made) {
	var on []string
	for _, n := range x.on {
		if id := c.jobs[n].id; !id.IsZero() {
			on = append(on, id.String())
		}
	}
	if m.id.IsZero() || len(on) < len(x.on) {
		return
	}
	c.ask(x, check.Event{Op: check.Depend, Job: m.job}, func(ctx context.Context, s *service.Service, _ *check.Event) (err error) {
		if len(on) == 0 {
			_, err = s.RemoveDependencies(ctx, c.as, engine.Ref{ID: m.id}, 0)
		} else {
			_, err = s.SetDependencies(ctx, c.as, engine.Ref{ID: m.id}, 0, on, x.condition)
		}
		return err
	})
}

// depends records on what a job depends now. The caller holds mu.
func (r *recorder) depends(j job.Job) {
	e := check.Event{Proc: "store", Kind: check.Commit, Op: check.Depends, Tenant: string(j.Tenant), Job: j.Name, Tag: j.DependsIf}
	var names []string
	for _, id := range j.DependsOn {
		names = append(names, r.jobName(id))
	}
	e.Parents = strings.Join(names, ",")
	r.add(e)
	r.links[j.ID] = j.Tenant
}

func (r *recorder) FoldTokens(ctx context.Context, c engine.Child, decide engine.FoldTokens) (engine.TokensFolded, error) {
	var found *engine.TokenView
	var next engine.TokenChange
	return commit(ctx, r, func(ctx context.Context) (engine.TokensFolded, error) {
		found = nil
		return r.Store.FoldTokens(ctx, c, func(v engine.TokenView) (engine.TokenChange, error) {
			n, err := decide(v)
			found, next = &v, n
			return n, err
		})
	}, func(ctx context.Context, _ engine.TokensFolded) {
		if found == nil {
			return // there was nothing to decide
		}
		e := check.Event{Proc: "store", Kind: check.Commit, Tenant: string(c.Tenant), Job: r.jobName(c.Job)}
		for _, m := range found.Marks {
			if x := r.known[m.Execution]; x != nil { // else it only asks to look at the job
				e.Op, e.Execution = check.Taken, x.name
				r.add(e)
			}
		}
		e.Op, e.Execution, e.Result = check.Folded, "", found.State.String()
		for _, x := range next.Start {
			if _, err := r.Store.Execution(ctx, c.Tenant, x.ID); err == nil {
				r.addedOf(x, check.ByTokens)
				e.Max++
			}
		}
		if s := r.known[next.Release]; s != nil {
			if r.look(ctx, s, "released"); s.status != job.Waiting {
				e.Max++
			}
		}
		r.add(e)
	})
}

// marked reports whether jobs have not taken in yet what has ended.
func (w *world) marked() bool {
	left, err := w.store.Store.MarkedChildren(w.ctx, 0, everything.Limit)
	return err != nil || len(left) > 0
}

// complete runs the jobs that others still wait for, after the last fault: each unless it runs already.
func (w *world) complete() {
	for i, p := range w.store.missing(w.ctx) {
		c := &caller{w: w, name: "nemesis", rng: stream(w.seed, "nemesis"), as: local(p.tenant)}
		w.mu.Lock()
		w.started++
		tag := fmt.Sprintf("%s%d-%d", forced, w.started, i)
		w.mu.Unlock()
		c.trigger(wish{gap: time.Second, try: 20}, made{job: p.name, id: p.id}, tag)
	}
}

// missing lists the jobs that executions wait for and of which nothing is live.
func (r *recorder) missing(ctx context.Context) (out []knownJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	live, waits := map[job.ID]bool{}, map[job.ID]bool{}
	for _, s := range r.known {
		if s.status == job.Waiting {
			waits[s.job] = true
		} else if !s.status.Final() {
			live[s.job] = true
		}
	}
	for child, of := range r.links {
		if !waits[child] || live[child] {
			continue
		}
		edges, err := r.Store.Dependencies(ctx, of, []job.ID{child})
		if err != nil {
			continue // in the next round
		}
		for _, e := range edges {
			if j := r.jobs[e.Parent]; e.Token.IsZero() && j != nil && !live[e.Parent] {
				out = append(out, *j)
				live[e.Parent] = true
			}
		}
	}
	slices.SortFunc(out, func(a, b knownJob) int { return bytes.Compare(a.id[:], b.id[:]) })
	return out
}
