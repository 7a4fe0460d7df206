package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Edges keeps which jobs depend on which, and the tokens that their executions leave. A job's definition names the jobs that it depends
// on, its parents; UpdateJob stores the edges with it. The commit that ends an execution leaves a mark for each child of its job, and
// FoldTokens takes a child's marks, lets the caller decide whether the child fires, and commits the decision.
type Edges interface {
	// Above lists up to limit edges to jobs from the jobs they depend on and from the workflows whose nodes they are, and the edges to
	// those in turn, without tokens.
	Above(ctx context.Context, t tenant.ID, of []job.ID, limit int) ([]Edge, error)
	// Dependencies lists the edges to jobs, in the order of child and parent.
	Dependencies(ctx context.Context, t tenant.ID, of []job.ID) ([]Edge, error)
	// Dependants lists jobs that depend on a job, up to limit of them, in the order of their ids.
	Dependants(ctx context.Context, t tenant.ID, of job.ID, limit int) ([]job.ID, error)
	// MarkedChildren lists children that have marks at least so old: up to limit marks are looked at, the oldest first.
	MarkedChildren(ctx context.Context, age time.Duration, limit int) ([]Child, error)
	// FoldTokens locks a child, has decide say what its marks lead to, and commits that, all in one transaction. The marks that decide
	// was given are gone afterwards. A child that is deleted, or depends on nothing any more, only loses its marks. ErrConflict if
	// someone else was faster. The store may call decide again for a transaction that had to be repeated.
	FoldTokens(ctx context.Context, c Child, decide FoldTokens) (TokensFolded, error)
}

// MaxAbove limits how many edges lead to a job, directly or not: each change of what it depends on follows them all.
const MaxAbove = 10_000

// Child is a job that depends on others.
type Child struct {
	Tenant tenant.ID
	Job    job.ID
}

// Edge says that a job depends on another.
type Edge struct {
	Child, Parent job.ID
	Token         job.ExecutionID // the newest execution of the parent that counts and that the child has not fired by; zero: none
	At            time.Time       // when that ended
}

// TokenMark is the end of an execution that a child of its job does not know of yet.
type TokenMark struct {
	Execution job.ExecutionID
	Parent    job.ID
	Status    job.Status
	At        time.Time
}

// TokenView is what a decision about a child is made from.
type TokenView struct {
	Child
	State   job.State
	Edges   []Edge
	Marks   []TokenMark     // up to MarksAtOnce, those that ended first first
	Waiting job.ExecutionID // what its schedule fired, and is due, and waits for its parents; zero: nothing does
	Now     time.Time       // by the store's clock
	Taken   func(unique string) (bool, error)
}

// FoldTokens says what the marks of a child lead to.
type FoldTokens func(TokenView) (TokenChange, error)

// TokenChange is what changes of a child.
type TokenChange struct {
	Tokens  []Edge          // those that are other than before
	Release job.ExecutionID // the execution that waited, and waits for a worker now; zero: none
	Start   []job.Execution
	Again   bool // the child is to be looked at again in a second: it may not fire yet
}

// TokensFolded tells what came of it.
type TokensFolded struct {
	Ready []job.Ready // executions that wait for workers
	More  bool        // marks are left
}

// ParentsChange says that an update gives a job other parents than it had.
type ParentsChange struct {
	Reset bool // and another condition: the tokens that were left are dropped
}
