// Package engine holds the ports: what the product asks of the technology
// under it. There is one so far, Store; brokers, coordinators and archives
// will stand beside it.
//
// A store keeps definitions, live state and hot history. Every method is one
// transaction: when it returns without an error, what it did is durable; when
// it returns an error, it did nothing, or (a connection lost at commit) all of
// it. So every method that changes something may be called again with the same
// arguments and comes to the same end. What must never happen is a condition
// in the store's own WHERE, never a check before it: an execution's row holds
// the token of its lease, and every write names the token it was given.
//
// The store decides no policy. What follows an outcome, when a job fires next
// and who may see what is decided in core and handed in. One suite,
// enginetest.Store, is what every store passes.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// The errors on which callers decide. A store wraps them with what was being done.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("the store cannot be reached") // also: it is too slow, full, or shutting down
	ErrSession     = errors.New("the worker session has ended")
	ErrSchema      = errors.New("the schema is not this version's")
)

// Store keeps definitions, live state and hot history.
type Store interface {
	Jobs
	Firings
	Leases
	Executions
	Logs
	Operations
	Limits
	Reaches
	Pauses
	Cordons
	Quotas
	Audit
	Calendars
	Notices
	Secrets
	Keys
	SignIns
	SigningSecrets
	Counts
	Sizing
	Traces
	Tallies
	Forgetting
	Upkeep
	Schema

	// Describe names the engine, its version and where the data lies, for people.
	Describe() string
	// Now is the clock that judges what is due.
	Now(ctx context.Context) (time.Time, error)
	// Migrate brings the schema up to this version; two at once are safe.
	Migrate(ctx context.Context) error
	// Ping reports whether the store answers and its schema is this version's.
	Ping(ctx context.Context) error
	Close() error
}

// Jobs are the definitions.
type Jobs interface {
	// CreateJobs stores each creation whole or not at all, and answers in their order. One without jobs keeps its
	// idempotency key only. A unique key is free again when the execution that has it ends.
	CreateJobs(ctx context.Context, cs []Creation) ([]Created, error)
	// Job finds one job, without its statistics; ErrNotFound also for another tenant's. A deleted one is found.
	Job(ctx context.Context, t tenant.ID, ref Ref) (job.Job, error)
	// FindJobs lists jobs, the newest first, without their statistics.
	FindJobs(ctx context.Context, f JobFilter, p Page) (JobPage, error)
	// Stats reads the statistics of jobs of one tenant, in the order asked for; zero for a job that is unknown or never
	// ran. They are kept as executions end, so that reading them costs the same after any number of these.
	Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error)
	// DeleteJob marks a job deleted, cancels its executions that wait, and leaves those that run.
	// Deleting a deleted job answers it again.
	DeleteJob(ctx context.Context, t tenant.ID, id job.ID, asOf time.Time) (job.Job, error)
	// UpdateJob stores a job's definition, state and pause anew, under the revision it is to have now (0: any), and raises
	// that. What was staged for instants that have not come is taken back: unless the update plans anew, the next instant is the first of
	// what was taken back and what was planned. What waits of a paused job's schedule is held, of an active one's freed. A
	// job's key stays. ErrNotFound if the job is unknown or deleted, ErrConflict if it has another revision, or if a recurring job
	// that owed nothing is planned anew for an instant that has come meanwhile: it may have fired already; *Spent if it
	// is planned anew and has run as often as it may, without what was taken back.
	UpdateJob(ctx context.Context, t tenant.ID, u Update) (job.Job, error)
	// Resumable lists up to limit paused jobs of any tenant whose pause ends by itself by now.
	Resumable(ctx context.Context, limit int) ([]job.Job, error)
	// Trigger adds one execution to an existing job; ErrNotFound if the job is unknown or deleted. Where another holds its
	// unique key nothing is stored, its idempotency key neither.
	Trigger(ctx context.Context, t tenant.ID, e job.Execution, i Idempotency) (Created, error)
	// Backfill adds executions of one existing job for instants of its schedule, all in one commit; ErrNotFound if the job is
	// unknown or deleted. Passed over is one whose instant has a live execution already, and one whose unique key another
	// holds. It answers with the ids of the others; the same call again answers these again, and adds nothing.
	Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error)
	// Rerun adds new executions of finished ones, each named by RetryOf, which thereby leaves the dead letters, all in
	// one commit. Passed over is one whose RetryOf is not a finished execution of the tenant, whose job is unknown
	// or deleted, whose unique key another holds, or, where DeadOnly is set, whose RetryOf is no dead letter. It answers with the ids that it added; the
	// same call again answers the same again and adds nothing. Where it adds nothing at all it keeps no idempotency key.
	Rerun(ctx context.Context, t tenant.ID, r Rerun) (Rerunning, error)
}

// Update is a change of a job.
type Update struct {
	Job      job.Job // as it is to be, but for its revision, its runs and when it was created
	Revision int     // that it must have; 0: any
	Replan   bool    // its NextRunAt holds; else the planned instants stay
	AsOf     time.Time
	Secrets  []Secret // managed ones of the job that are stored with it, in place of those of their names
	Unused   []string // managed ones that go with it
	Most     int64    // it was over, and is active again: how many of these its tenant may have; 0: any number, or it was not
}

// Overtaken reports whether an update plans a recurring job, whose planned instant (0: none) has not come, for one that has
// come by now: it had not when that was decided, and has perhaps fired since. Both are microseconds.
func (u *Update) Overtaken(planned, now int64) bool {
	return u.Replan && !u.Job.Schedule.Type.OneOff() && !u.Job.NextRunAt.IsZero() && u.Job.NextRunAt.UnixMicro() <= now && (planned == 0 || planned > now)
}

// Spent says that a job has used up its runs.
type Spent struct{ Runs int64 }

func (s *Spent) Error() string { return fmt.Sprintf("the job has fired %d times", s.Runs) }

// Rerun asks for new executions of finished ones.
type Rerun struct {
	Executions  []job.Execution
	DeadOnly    bool
	Idempotency Idempotency
}

// Rerunning is what became of it.
type Rerunning struct {
	Added []job.ExecutionID
	Created
}

// Idempotency makes a request safe to send again. The zero value asks for nothing.
type Idempotency struct {
	Key    string
	Hash   [32]byte // of the request; the same key with another hash is a mistake
	Answer []byte   // what to answer when the key comes again
	Until  time.Time
}

// Creation is one request to create jobs.
type Creation struct {
	Tenant      tenant.ID
	Jobs        []job.Job
	Executions  []job.Execution // those that fire at once; each of one of the jobs above
	Secrets     []Secret        // managed ones, each of one of the jobs above
	Idempotency Idempotency
	Most        int64        // active jobs that the tenant may have, with these; 0: any number
	Entry       *audit.Entry // that is written with them; nil: none
}

// Created is what became of a creation or a trigger. Exactly one of these holds:
// it is the zero value and the request was stored; Replay is the answer given to
// this key before; Reused: the key was given with another request; Taken names a
// job key that exists already; Unique names live executions that hold unique keys
// of the request, or, within it, the first that was to have one; Over: the tenant
// would have more active jobs than it may, as far as was counted, see Quotas.
type Created struct {
	Replay []byte
	Reused bool
	Taken  string
	Unique []Incumbent
	Over   bool
}

// Incumbent is the live execution that holds a unique key of its tenant. Both ids are of the request itself where it
// names the key twice.
type Incumbent struct {
	Key       string
	Job       job.ID
	Execution job.ExecutionID
}

// Ref names a job by its id or by its key.
type Ref struct {
	ID  job.ID
	Key string
}

// Page asks for a part of a list: at most Limit rows behind Cursor, an opaque
// text of an earlier page ("" for the first).
type Page struct {
	Limit     int
	Cursor    string
	Uncounted bool // no total is wanted, of jobs and executions, where counting costs more than the page
	Bounded   bool // of executions, jobs and dead letters: it may end early, see ExecutionPage
}

// Total counts a whole list: exact up to TotalExact, then an estimate.
type Total struct {
	Count    int64
	Estimate bool
}

// TotalExact is how far totals are counted exactly.
const TotalExact = 10_000

// JobFilter chooses jobs; a zero field chooses all. Deleted jobs are left out
// unless State asks for them.
type JobFilter struct {
	Tenant       tenant.ID
	State        job.State
	ScheduleType job.ScheduleType
	Tag          string
	Name         string    // exactly
	Text         string    // anywhere in name, description or key, in any case
	Owner        string    // exactly
	LateBefore   time.Time // ACTIVE jobs whose instant came before this and has not fired
}

// JobPage is one page of jobs.
type JobPage struct {
	Jobs    []job.Job
	Next    string // cursor of the next page; "" at the end
	Partial bool   // the search took its time, see ExecutionPage
	Total   Total
}

// Firings turn due instants into executions.
type Firings interface {
	// Due lists jobs of the partitions (none: of all) whose next instant is at or before until, the earliest first.
	Due(ctx context.Context, ps []job.Partition, until time.Time, limit int) ([]Due, error)
	// Ahead counts the jobs of the partitions (none: of all) whose next instant is after from, second by second, for so many
	// seconds. It counts limit in all, or, where partitions are counted apart, twice their share in each, and no further.
	Ahead(ctx context.Context, ps []job.Partition, from time.Time, seconds, limit int) ([]int, error)
	// Fire moves each job's next instant by compare-and-set and stores the executions of those
	// that moved; one whose instant or revision is no longer as given is left out. An execution whose unique key another one holds is
	// stored as finished, SKIPPED, with an error of type CANCELLED that says so, and is not answered.
	//
	// Where the overlap policy is skip and a scheduled fire of the job is live, or it is queue and one waits that never
	// started, an execution is stored as SKIPPED instead; within one firing the earlier ones count. Where it is replace, and
	// an execution is stored, what the schedule fired for earlier instants and waits is cancelled, and what runs is asked
	// to stop, as by Cancel. Only executions that are stored count as runs of the job. A firing in a partition that the fence names
	// (see Fence) is left out unless it is owned under that epoch.
	Fire(ctx context.Context, fs []Firing, f Fence) ([]job.Ready, error)
}

// Due is a job whose instant has come, or comes soon.
type Due struct {
	Job      job.Job // without its payload
	Revision int
}

// Firing is what firing a job comes to.
type Firing struct {
	Tenant     tenant.ID
	Job        job.ID
	Revision   int
	Was        time.Time // the instant that fires
	Next       time.Time // the one after it; zero: none
	Spare      time.Time // the one after it where fewer than Runs fire, if not zero: there are runs left for it
	Runs       int64     // that are added to the job's, or as many as fire, if those are fewer
	Overlap    job.Overlap
	Executions []job.Execution
	Skips      []job.Execution // records of instants that do not fire, which go straight into history
}

// Leases hand executions to workers and take the results.
type Leases interface {
	// Register begins a worker's session, alive for ttl from now by the store's clock.
	Register(ctx context.Context, w job.Worker, ttl time.Duration) error
	// Renew keeps sessions alive for ttl more, notes how they do, and keeps the progress of what they hold; an advance
	// under a stale token, or of what another holds, answers as an order that it is lost. It answers with the sessions that have ended, with those
	// that are to drain, and with the orders for the others, each of which comes with every renewal until the worker no
	// longer needs it: a cancel while the execution is held under its token, a lost for an hour.
	Renew(ctx context.Context, rs []Renewal, ttl time.Duration) (Orders, error)
	// Worker finds a session, also one that has ended lately; ErrNotFound if there is none.
	Worker(ctx context.Context, w job.WorkerID) (job.Worker, error)
	// Workers lists the sessions that may serve the tenant, the latest first; those that have ended for an hour more.
	Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error)
	// Drain asks a session that may serve the tenant to take nothing more; it learns so from its renewals. ErrNotFound if
	// there is none, or it has ended.
	Drain(ctx context.Context, t tenant.ID, w job.WorkerID) error
	// Leave ends a session at once and returns what it held to the queue, uncharged.
	Leave(ctx context.Context, w job.WorkerID) ([]job.Ready, error)

	// Lanes lists up to limit lanes that hold any execution, behind one; nil begins at the first. Their order is the store's,
	// but those of one partition, tenant and class stand together, in order of group and priority.
	Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error)
	// Ready lists, for each cursor, up to perLane free and due executions behind it, in due order.
	Ready(ctx context.Context, cs []LaneCursor, perLane int) ([]job.Ready, error)
	// CountReady counts, for each lane, free and due executions, up to most.
	CountReady(ctx context.Context, ls []job.Lane, most int) ([]int, error)
	// Lease gives each session the executions it asks for, in one commit: those that are free, due
	// and older than the token. What another took, what is of a deleted job, what has expired before it started, and what
	// the fence does not let through is left out. ErrSession if a session has ended.
	Lease(ctx context.Context, gs []Grant, f Fence) ([]job.Attempt, error)
	// Running lists what is leased in the partitions, for a new owner to count; all, if none is named.
	Running(ctx context.Context, ps []job.Partition) ([]Running, error)
	// Held reads what deciding an outcome needs, of those leases that still hold.
	Held(ctx context.Context, ls []job.Lease) ([]job.Held, error)
	// Finish applies each transition under its lease's token, and answers in order. What is to be tried again
	// although its job was deleted meanwhile ends instead, as FAILED or, after a timeout, TIMED_OUT. The same outcome
	// under the same token again is accepted again and changes nothing, whatever transition comes with
	// it: SUCCEEDED where it ended so, FAILED where that attempt failed (it ended so, or is tried
	// again), CANCELLED and SNOOZED likewise. Any other finish under a stale token is refused, which is an event of the
	// execution, once for each token. A finish that names a worker holds for that worker's leases only: of another's lease, or another
	// tenant's execution, it is told that there is none. A finish that expels leaves an order for the worker that held it to let go.
	Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error)
	// Park leaves executions to their targets, which complete them under the same tokens: each stays leased, whatever
	// becomes of the session that has it (Leave, Disown, Reap and Release pass it over), until it is finished or Overrun
	// lists it. It answers in order. What was parked under its token before, or has ended under it by a result, is
	// accepted again; any other stale token is refused, which is an event of the execution, and what the worker does not hold as by Finish.
	Park(ctx context.Context, ps []Parking) ([]job.Verdict, error)
	// Release returns executions that the worker holds to the queue, uncharged; other leases are passed over. Here, as wherever a
	// lease ends without a result (Leave, Disown, Reap), what is of a deleted job ends as CANCELLED instead.
	Release(ctx context.Context, w job.WorkerID, ls []job.Lease) ([]job.Ready, error)
	// Disown returns to the queue, uncharged, what a session was given before an instant (zero: at any time) and holds
	// under other tokens than those to keep: the way out of a Lease whose answer was lost.
	Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) ([]job.Ready, error)
	// Reap ends sessions that have expired and returns what they held to the queue as lost attempts. What is lost
	// for the poison-th time within an hour ends as FAILED instead, with the error POISON: it may be what kills
	// its workers.
	Reap(ctx context.Context, limit, poison int) (Reaped, error)
	// Overrun lists up to limit executions that are held, under leases given more than a second ago, by workers that live,
	// for longer than their attempt's timeout and slack, or without progress for longer than their stall timeout; and what is
	// parked for longer than it may be.
	Overrun(ctx context.Context, slack time.Duration, limit int) ([]Overrun, error)
	// Expire ends up to limit executions that have never started and whose time to start has passed, as EXPIRED, and
	// answers with how many. What runs goes on.
	Expire(ctx context.Context, limit int) (int, error)

	// Cancel ends an execution that waits as CANCELLED, at once, and asks one that runs to stop, which is an order to its
	// worker. It answers with the state after it, CANCELLED or CANCELLING; a second cancel gets the same answer.
	// ErrConflict if it has finished otherwise. What runs and was asked to stop ends as CANCELLED, too, where its lease
	// ends without a result or it would be tried again; a success or a failure that the worker reports stands.
	Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string) (job.Status, error)
	// Force ends what was asked to stop longer than grace ago and still runs, as CANCELLED, and orders its worker to let
	// go of it. It does up to limit and answers with how many.
	Force(ctx context.Context, grace time.Duration, limit int) (int, error)
}

// Renewal is a sign of life of a session.
type Renewal struct {
	Worker job.WorkerID
	job.Beat
	Advances []job.Advance
}

// Orders is the answer to renewals.
type Orders struct {
	Ended  []job.WorkerID
	Drain  []job.WorkerID
	Orders []job.Order
}

// Overrun is a lease that has lasted too long.
type Overrun struct {
	job.Held
	Stalled bool // it made no progress; else its time is over
	Parked  bool // no worker holds it, and its target did not complete it
}

// Parking leaves an execution to its target.
type Parking struct {
	job.Outcome
	Worker job.WorkerID
	Until  time.Time
}

// Running is a lease as its partition's owner counts it.
type Running struct {
	job.Ready
	Token job.Token
}

// ServerID names a server's run over a shared store.
type ServerID [16]byte

// Fence is what a server says it owns when it leases. What is in a partition of Epochs is leased only while the server
// owns that partition under that epoch, and what is in a group only in such a partition. A store that is one process's
// own lets everything through.
type Fence struct {
	Server ServerID
	Epochs map[job.Partition]int64
}

// LaneCursor is a place in a lane: behind the execution due at DueAt with this id.
type LaneCursor struct {
	Lane  job.Lane
	DueAt time.Time
	After job.ExecutionID
}

// Holding is the partitions a server owns. Ownership saves work and makes limits exact; it guards no row but by the fence.
type Holding struct {
	Fence   Fence
	Version int64                  // changes with every change of the fence
	Quiet   map[job.Partition]bool // partitions of others at which no worker waits, or of nobody
}

// Grant is what one worker session is to be given.
type Grant struct {
	Worker     job.WorkerID
	Executions []job.ExecutionID
}

// Executions are what ran, runs and will run.
type Executions interface {
	// Execution finds one; ErrNotFound also for another tenant's.
	Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error)
	// FindExecutions lists executions of a tenant, or of one of its jobs, those with the latest scheduled time first. A page
	// that is Bounded ends where the search has taken its time, and says so.
	FindExecutions(ctx context.Context, f ExecutionFilter, p Page) (ExecutionPage, error)
	// Attempts lists the failed and lost attempts of an execution, the first one first.
	Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error)
	// DeadLetters lists dead letters with their whole error history, the latest first. An execution is one from the commit
	// that ends it as FAILED or TIMED_OUT (see job.Dead) until it is rerun or discarded.
	DeadLetters(ctx context.Context, f DeadLetterFilter, p Page) (DeadLetterPage, error)
	// Events lists what was kept of an execution as it happened (see job.Timeline), the first thing first.
	Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error)
	// Redrivable lists up to limit dead letters of any tenant that are to be run again by themselves by now.
	Redrivable(ctx context.Context, limit int) ([]job.Execution, error)
	// Postpone puts off for a while those that Redrivable lists, as they could not be run again; what it does not list
	// stays as it is.
	Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error
	// Discard forgets dead letters, never the executions, and answers with how many there were.
	Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID) (int, error)
}

// DeadLetterFilter chooses dead letters; a zero field chooses all.
type DeadLetterFilter struct {
	Tenant    tenant.ID
	Job       job.ID
	Execution job.ExecutionID
	Reason    job.DeadReason
	Text      string    // anywhere in the last error's message, in any case
	From      time.Time // died at or after
	Until     time.Time // died before
}

// DeadLetterPage is one page of dead letters.
type DeadLetterPage struct {
	DeadLetters []job.DeadLetter
	Next        string
	Partial     bool // the search took its time, see ExecutionPage
	Total       Total
}

// Operations are work over many things, done in the background.
type Operations interface {
	AddOperation(ctx context.Context, o job.Operation, i Idempotency) (Created, error)
	// Operation finds one; ErrNotFound also for another tenant's.
	Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error)
	// FindOperations lists operations, the newest first.
	FindOperations(ctx context.Context, t tenant.ID, p Page) (OperationPage, error)
	// TakeOperation hands out, for ttl, the one of the running that nobody has and that was saved the longest ago, by its
	// UpdatedAt; ErrNotFound if there is none.
	TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error)
	// SaveOperation keeps how far an operation has come, and its state, under the version it has, and answers with the
	// next one; it is had for ttl more, or by nobody where that is 0. ErrConflict if it has another version by now.
	SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error)
	// CancelOperation ends one that runs as CANCELLED; one that is cancelled answers again. ErrConflict if it has finished otherwise.
	CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error)
}

// OperationPage is one page of operations.
type OperationPage struct {
	Operations []job.Operation
	Next       string
	Total      Total
}

// Limits are what tenants and queues may use, and the tenants themselves.
type Limits interface {
	// CreateTenant stores a tenant; ErrConflict if its id exists.
	CreateTenant(ctx context.Context, t tenant.Tenant) error
	// Tenants lists all tenants in order of their ids.
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	// UpdateTenant changes a tenant's name, tier, overrides and reach; ErrNotFound if there is none. Its active jobs are counted anew.
	UpdateTenant(ctx context.Context, t tenant.Tenant) error
	// SetLimit keeps a limit, in place of any before; one that is zero is removed. A pause stays as it is: see Pauses.
	SetLimit(ctx context.Context, l job.Limit) error
	// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues, and which of
	// these are paused; one that is paused may have no limit.
	Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error)
	// Draw takes tokens out of buckets that fill at their rate, up to their burst, by the store's clock, and answers in
	// order. Each bucket is named once. All who draw share them.
	Draw(ctx context.Context, ds []Draw) ([]Drawn, error)
}

// Draw asks a bucket for tokens.
type Draw struct {
	Bucket string
	Rate   job.Rate
	N      int // 0: only to see when there will be one
}

// Drawn is what it gave.
type Drawn struct {
	N    int           // tokens, at most as many as asked for
	Wait time.Duration // until there is one more
}

// Upkeep is what a store needs from time to time.
type Upkeep interface {
	// Tidy drops what has expired (idempotency keys, ended sessions) and prepares what comes
	// (the tables of the coming days). It does a bounded amount and says whether more is left.
	Tidy(ctx context.Context) (more bool, err error)
}
