package workflows

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Tokens says that executions have left marks for jobs that depend on theirs. It never blocks.
func (r *Runner) Tokens() {
	r.told.Store(true)
	select {
	case r.left <- struct{}{}:
	default:
	}
}

// RunDependencies fires jobs whose parents have ended until ctx ends: at once where it is told of a mark, and where it is not, a sweep
// finds the mark.
func (r *Runner) RunDependencies(ctx context.Context) {
	loop.Run(ctx, r.cfg.Log, "dependencies", r.left, func(ctx context.Context) (time.Duration, error) {
		age := sweepEvery
		if r.told.Swap(false) {
			age = 0
		}
		return r.FoldMarked(ctx, age)
	})
}

// FoldMarked takes marks that are at least so old, and says when to look again.
func (r *Runner) FoldMarked(ctx context.Context, age time.Duration) (time.Duration, error) {
	children, err := r.store.MarkedChildren(ctx, age, sweepLimit)
	if err != nil {
		return 0, err
	}
	next := sweepEvery
	for _, c := range children {
		more, err := r.Fold(ctx, c)
		if err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrConflict) { // else another server has it
			r.cfg.Log.Error("what a job depends on cannot be taken in; trying again", "job", c.Job, "tenant", c.Tenant, "error", err)
		}
		if more {
			next = 0
		}
	}
	return next, ctx.Err()
}

// Fold takes the marks of a job that depends on others, and fires it if every parent has left a token. It reports whether marks are left.
func (r *Runner) Fold(ctx context.Context, c engine.Child) (more bool, err error) {
	out, err := r.store.FoldTokens(ctx, c, func(v engine.TokenView) (engine.TokenChange, error) {
		j, err := r.store.Job(ctx, c.Tenant, engine.Ref{ID: c.Job})
		if err != nil {
			return engine.TokenChange{}, err
		}
		return decide(&j, v)
	})
	if len(out.Ready) > 0 {
		r.cfg.Hint(out.Ready)
	}
	return out.More, err
}

// decide says what the marks of a job lead to. Of a paused job the tokens are kept until it is resumed, and of one with a unique key
// until no execution holds that.
func decide(j *job.Job, v engine.TokenView) (next engine.TokenChange, err error) {
	d := workflow.DependenciesOf(&j.Definition)
	tokens := workflow.Tokens{}
	for _, e := range v.Edges {
		if !e.Token.IsZero() {
			tokens[e.Parent] = workflow.Token{Execution: e.Token, At: e.At}
		}
	}
	var ends []workflow.End
	for _, m := range v.Marks {
		ends = append(ends, workflow.End{Parent: m.Parent, Status: m.Status, Token: workflow.Token{Execution: m.Execution, At: m.At}})
	}
	most := -1
	switch {
	case v.State == job.Paused:
		most = 0
	case j.UniqueKey != "":
		most = 1
		taken, err := v.Taken(j.UniqueKey)
		if err != nil {
			return next, err
		}
		if taken && v.Waiting.IsZero() { // which may be the one that has it
			most = 0
		}
	}
	for i := range d.Fold(tokens, ends, most) {
		if i == 0 && !v.Waiting.IsZero() {
			next.Release = v.Waiting
			continue
		}
		e := j.Fire(newID(), v.Now, v.Now)
		e.Trigger = job.ByWorkflow
		next.Start = append(next.Start, e)
	}
	next.Again = v.State != job.Paused && len(d.Missing(tokens)) == 0
	for _, e := range v.Edges {
		if t := tokens[e.Parent]; t.Execution != e.Token {
			next.Tokens = append(next.Tokens, engine.Edge{Child: v.Job, Parent: e.Parent, Token: t.Execution, At: t.At})
		}
	}
	return next, nil
}
