package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Hot is the part of a store that jobs run through, from creation to history. An engine implements it natively; Settings may be
// shared between engines.
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
}

// Sessions are the workers that are connected.
type Sessions interface {
	// Register begins a worker's session, alive for ttl from now by the store's clock.
	Register(ctx context.Context, w job.Worker, ttl time.Duration) error
	// Renew keeps sessions alive for ttl more, notes how they do, and keeps the progress of what they hold; an advance
	// under a stale token, or of what another holds, answers as an order that it is lost. It answers with the sessions that have ended, with those
	// that are to drain, and with the orders for the others, each of which comes with every renewal until the worker no
	// longer needs it: a cancel while the execution is held under its token, a lost for an hour.
	Renew(ctx context.Context, rs []Renewal, ttl time.Duration) (Orders, error)
	// Worker finds a session, also one that has ended lately; ErrNotFound if there is none.
	Worker(ctx context.Context, w job.WorkerID) (job.Worker, error)
	// Workers lists the sessions that may serve the tenant, latest first; those that have ended for an hour more.
	Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error)
	// Drain asks a session that may serve the tenant to take nothing more; it learns so from its renewals. ErrNotFound if
	// there is none, or it has ended.
	Drain(ctx context.Context, t tenant.ID, w job.WorkerID, e *audit.Entry) error
	// Leave ends a session at once and returns what it held to the queue, uncharged.
	Leave(ctx context.Context, w job.WorkerID) (Requeued, error)
	// Cordon cordons a live session that may serve the tenant, or ends that; ErrNotFound if there is none.
	Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool, e *audit.Entry) error
	// Cordoned lists the sessions that have not ended and are cordoned.
	Cordoned(ctx context.Context) ([]job.WorkerID, error)
}

// Recovery takes work back from those who lost it, or must give it up.
type Recovery interface {
	// Disown returns to the queue, uncharged, what a session was given before an instant (zero: at any time) and holds
	// under other tokens than those to keep: the way out of a Lease whose answer was lost.
	Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (Requeued, error)
	// Reap ends sessions that have expired and returns what they held to the queue as lost attempts: of up to limit of their leases,
	// the latest first, and of some 20 000 executions. Where it dealt with any lease there may be more. What is lost
	// for the poison-th time within an hour ends as FAILED instead, with the error POISON: it may be what kills
	// its workers.
	Reap(ctx context.Context, limit, poison int) (Reaped, error)
	// Overrun lists up to limit executions that are held, under leases given more than a second ago, by live workers,
	// for longer than their attempt's timeout and slack, or without progress for longer than their stall timeout; and what is
	// parked for longer than it may be.
	Overrun(ctx context.Context, slack time.Duration, limit int) ([]Overrun, error)
	// Expire ends up to limit executions that have never started and whose time to start has passed, as EXPIRED, and
	// answers with them. What runs continues.
	Expire(ctx context.Context, limit int) ([]Ended, error)
	// Cancel ends an execution that waits as CANCELLED, at once, and asks one that runs to stop, which is an order to its
	// worker. It answers with the state after it, CANCELLED or CANCELLING; a second cancel gets the same answer.
	// ErrConflict if it has finished otherwise. What runs and was asked to stop ends as CANCELLED, too, where its lease
	// ends without a result or it would be retried; a success or a failure that the worker reports stands.
	Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (Cancelled, error)
	// Force ends what was asked to stop longer than grace ago and still runs, as CANCELLED, and orders its worker to let
	// go of it. It ends up to limit and answers with them.
	Force(ctx context.Context, grace time.Duration, limit int) ([]Ended, error)
}

// Reads look at live work and at hot history, for people and for the loops that watch over both.
type Reads interface {
	// LastStatus holds how the latest finished execution of each job ended, as in Stats; 0 for a job that is unknown or has
	// had none. What is not tallied (a one-off job's own fire) counts if it finished since an instant; zero: always. It is
	// found by key, and reads nothing of what waits or runs, so that it costs the same however much that is; an instant
	// spares it the days before.
	LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) ([]job.Status, error)
	// Whose says of executions whose they are, of those that live or finished since an instant.
	Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]Owned, error)
	// Recent lists the last n executions of each job, those with the latest scheduled time first, live ones too, of those scheduled
	// since an instant, and not finished before it.
	Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) ([][]Run, error)
	// Names are those of jobs of a tenant, of those that there are.
	Names(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]string, error)
	// LateJobs lists up to limit of the tenant's active jobs whose instant came before the one given and has not fired, those that
	// are late for the longest first; and how many there are: at least, where the total is an estimate, for there are so many late
	// jobs, of any tenant, that not all were looked at.
	LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (JobPage, error)
	// DeadErrors lists a page of what the dead letters that a filter chooses died of, latest first. It may end early.
	DeadErrors(ctx context.Context, f DeadLetterFilter, p Page) (Listed[DeadError], error)
	// Unwell lists finished executions of the tenants that did not succeed and were not cancelled either, those that
	// finished first, first, from behind a mark. Others may commit what is before the mark later.
	Unwell(ctx context.Context, ts []tenant.ID, after Mark, limit int) ([]job.Execution, error)
	// Late lists executions of a tenant that were due before an instant and have not begun: of each job one of the
	// first, up to limit.
	Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]Late, error)
	// CalendarUsers looks at up to look jobs of the tenant behind one, in order of their ids, and lists those that name the
	// calendar and are not deleted, and the last one it looked at; the zero id if there are no more.
	CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error)
	// SecretsOf says whose the executions are that have not finished, and which managed secrets their jobs have, also such
	// as they have had before: the latest 20 of a job.
	SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]SecretUse, error)
	// Census counts what there is now. A job is overdue whose instant came before the one given and has not fired.
	Census(ctx context.Context, overdue time.Time) (Census, error)
	// Sizes tells how large the store is, and its tables of SizedTables, in that order. It is cheap however much is stored: where rows
	// are too many to count their number is an estimate, and what cannot be told without reading everything is not told.
	Sizes(ctx context.Context) (Sizes, error)
}

// Buckets hold the tokens of rate limits and quotas, by the store's clock.
type Buckets interface {
	// Draw takes tokens out of buckets that fill at their rate, up to their burst, by the store's clock, and answers in
	// order. Each bucket is named once. All who draw share them.
	Draw(ctx context.Context, ds []Draw) ([]Drawn, error)
	// Charge adds what was used to buckets, also where that is more than they hold, and answers, in order, in what time
	// each is full again by the store's clock. Each bucket is named once. It is for those who have counted by themselves
	// and tell the others; Draw is for those who ask first.
	Charge(ctx context.Context, cs []Charge) ([]time.Duration, error)
	// CountJobs counts the active jobs of a tenant again, and keeps the number; one that was kept less than CountAge of it
	// ago is answered as it is. Active is a job that has an instant planned, or an execution that is not over.
	CountJobs(ctx context.Context, t tenant.ID) (int64, error)
}

// Housekeeping keeps a store small, and its statistics true.
type Housekeeping interface {
	// Tidy drops what has expired (idempotency keys, ended sessions) and prepares what comes
	// (the tables of the coming days). It does a bounded amount and says whether more is left.
	Tidy(ctx context.Context) (more bool, err error)
	// ForgetHistory drops executions of a tenant that finished before an instant, with their attempts, events, logs and dead
	// letters: it looks at up to limit, and says whether more is left. The sums that were kept of them stay.
	ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (Forgot, error)
	// KeepTally keeps what a server has counted. It goes by numbers that grow: what came under the number of an earlier call
	// changes nothing.
	KeepTally(ctx context.Context, s ServerID, number int64, t Tally) error
}
