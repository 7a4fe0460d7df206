package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Hot is the part of a store on the path of jobs and executions, from creation to history. Each engine implements it
// natively; engines may share Settings.
type Hot interface {
	Jobs
	Firings
	Sessions
	Leases
	Recovery
	Executions
	Reads
	Logs
	Buckets
	Housekeeping
	Forgetting
	Runs
	Edges
	Days
}

// Sessions are the connected workers.
type Sessions interface {
	// Register begins a worker's session, which lives for ttl from now by the store's clock.
	Register(ctx context.Context, w job.Worker, ttl time.Duration) error
	// Renew keeps sessions alive for another ttl, and stores the workers' reports and the progress of their
	// executions. For progress under a stale token, or on another worker's lease, it returns an order that the lease
	// is lost. It returns the sessions that have ended, those that should drain, and the orders for the others, which
	// each renewal repeats until the worker no longer needs them: a cancel while the execution is held under its
	// token, a lost for an hour.
	Renew(ctx context.Context, rs []Renewal, ttl time.Duration) (Orders, error)
	// Worker finds a session, even one that has ended lately; ErrNotFound if there is none.
	Worker(ctx context.Context, w job.WorkerID) (job.Worker, error)
	// Workers lists the sessions that may serve the tenant, newest first, including those that ended within the last
	// hour.
	Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error)
	// Drain asks a session that may serve the tenant to take no more work; its renewals tell it. ErrNotFound if there
	// is none, or it has ended.
	Drain(ctx context.Context, t tenant.ID, w job.WorkerID, e *audit.Entry) error
	// Leave ends a session at once and returns its executions to the queue, uncharged.
	Leave(ctx context.Context, w job.WorkerID) (Requeued, error)
	// Cordon cordons or uncordons a live session that may serve the tenant; ErrNotFound if there is none.
	Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool, e *audit.Entry) error
	// Cordoned lists the cordoned sessions that have not ended.
	Cordoned(ctx context.Context) ([]job.WorkerID, error)
}

// Recovery takes work back from workers that lost it or must give it up.
type Recovery interface {
	// Disown returns to the queue, uncharged, executions that a session was given before an instant (zero: at any
	// time) and holds under tokens other than those to keep. It is for a Lease whose answer was lost.
	Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (Requeued, error)
	// Reap ends expired sessions and returns their executions to the queue as lost attempts: of up to limit leases,
	// the latest first, and of some 20 000 executions. If it handled any lease there may be more. An execution lost
	// for the poison-th time within an hour ends as FAILED instead, with the error POISON: it may be what kills its
	// workers.
	Reap(ctx context.Context, limit, poison int) (Reaped, error)
	// Overrun lists up to limit executions that live workers hold, under leases given more than a second ago, for
	// longer than their attempt's timeout and slack, or without progress for longer than their stall timeout; and
	// executions parked for too long.
	Overrun(ctx context.Context, slack time.Duration, limit int) ([]Overrun, error)
	// Expire ends as EXPIRED up to limit executions that never started and whose time to start has passed, and
	// returns them. Running ones continue.
	Expire(ctx context.Context, limit int) ([]Ended, error)
	// Cancel ends a waiting execution as CANCELLED, at once, and asks a running one to stop, by an order to its
	// worker. It returns the resulting state, CANCELLED or CANCELLING; a second cancel gets the same answer.
	// ErrConflict if it has finished otherwise. A running execution that was asked to stop also ends as CANCELLED if
	// its lease ends without a result or it would be retried; a success or a failure that the worker reports stands.
	Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (Cancelled, error)
	// Force ends as CANCELLED executions that were asked to stop longer than grace ago and still run, and orders
	// their workers to drop them. It ends up to limit and returns them.
	Force(ctx context.Context, grace time.Duration, limit int) ([]Ended, error)
}

// Reads look at live work and at hot history, for people and for the loops that watch over both.
type Reads interface {
	// LastStatus returns how the latest finished execution of each job ended, as in Stats; 0 for a job that is
	// unknown or has none. Executions that are not tallied (a one-off job's own fire) count if they finished since an
	// instant; zero: always. It looks up keys and never scans waiting or running executions, so its cost does not
	// depend on their number; an instant spares it the days before.
	LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) ([]job.Status, error)
	// Whose returns the tenants and jobs of executions that are live or finished since an instant.
	Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]Owned, error)
	// Recent lists the last n executions of each job, latest scheduled time first, including live ones, of those
	// scheduled since an instant, and not finished before it.
	Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) ([][]Run, error)
	// Names returns the names of those jobs of a tenant that exist.
	Names(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]string, error)
	// Retentions returns the retentions of those of the given jobs of a tenant that have one of their own.
	Retentions(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]job.Retention, error)
	// LateJobs lists up to limit of the tenant's active jobs whose instant came before the one given and has not
	// fired, the latest ones first, and their number. The number is a lower bound if the total is an estimate,
	// because too many jobs of all tenants are late to examine them all.
	LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (JobPage, error)
	// DeadErrors lists a page of the errors of the dead letters that a filter selects, newest first. It may end
	// early.
	DeadErrors(ctx context.Context, f DeadLetterFilter, p Page) (Listed[DeadError], error)
	// Unwell lists finished executions of the tenants that neither succeeded nor were cancelled, in the order in
	// which they finished, after a mark. Others may later commit some from before the mark.
	Unwell(ctx context.Context, ts []tenant.ID, after Mark, limit int) ([]job.Execution, error)
	// Late lists executions of a tenant that were due before an instant and have not begun: for each job one of the
	// first, up to limit.
	Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]Late, error)
	// CalendarUsers examines up to look jobs of the tenant after one, in order of their ids. It returns those that
	// use the calendar and are not deleted, and the last one it examined; the zero id if there are no more.
	CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error)
	// SecretsOf returns, for unfinished executions, their tenant and job, and the managed secrets that their jobs
	// have or had before: the latest 20 of a job.
	SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]SecretUse, error)
	// Census counts what exists now. A job is overdue if its instant came before the one given and has not fired.
	Census(ctx context.Context, overdue time.Time) (Census, error)
	// Sizes returns the size of the store, and of its tables in SizedTables, in that order. It is cheap however much
	// is stored: if rows are too many to count their number is an estimate, and values that would require reading
	// everything are omitted.
	Sizes(ctx context.Context) (Sizes, error)
}

// Buckets hold the tokens of rate limits and quotas, by the store's clock.
type Buckets interface {
	// Draw takes tokens out of buckets that fill at their rate, up to their burst, by the store's clock, and answers
	// in order. Each bucket is named once. All callers share them.
	Draw(ctx context.Context, ds []Draw) ([]Drawn, error)
	// Charge adds usage to buckets, even more than they hold, and returns, in order, how long each takes to be full
	// again by the store's clock. Each bucket is named once. It is for callers that count by themselves and report
	// afterwards; Draw is for those that ask first.
	Charge(ctx context.Context, cs []Charge) ([]time.Duration, error)
	// CountJobs recounts the active jobs of a tenant, and caches the number for CountAge. A job is active if it has
	// an instant planned, or an execution that has not finished.
	CountJobs(ctx context.Context, t tenant.ID) (int64, error)
}

// Housekeeping keeps a store small, and its statistics accurate.
type Housekeeping interface {
	// Tidy drops what has expired (idempotency keys, ended sessions) and prepares what comes (the tables of the
	// coming days). It does a bounded amount and reports whether more is left.
	Tidy(ctx context.Context) (more bool, err error)
	// KeepTally stores what a server has counted. Calls are numbered in ascending order: a repeated number changes
	// nothing.
	KeepTally(ctx context.Context, s ServerID, number int64, t Tally) error
}
