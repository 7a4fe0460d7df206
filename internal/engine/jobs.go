package engine

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Jobs are the definitions.
type Jobs interface {
	// CreateJobs stores each creation completely or not at all, and answers in their order. One without jobs only
	// stores its idempotency key. A unique key is free again when the execution that has it ends.
	CreateJobs(ctx context.Context, cs []Creation) ([]Created, error)
	// Job finds one job, without its statistics; ErrNotFound also for another tenant's. A deleted one is found.
	Job(ctx context.Context, t tenant.ID, ref Ref) (job.Job, error)
	// FindJobs lists jobs, newest first, without their statistics.
	FindJobs(ctx context.Context, f JobFilter, p Page) (JobPage, error)
	// Stats reads the statistics of jobs of one tenant, in the requested order; zero for a job that is unknown or
	// never ran. They are updated as executions end, so reading them has a constant cost. To find when one started
	// last, it also examines the StatsLook first and last scheduled of the unfinished executions.
	Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error)
	// DeleteJob marks a job deleted, cancels its executions that wait, and leaves those that run. It cancels CancelsAtOnce
	// at most, or the deletion's own number. Where more wait, it adds the deletion's operation in the same commit, and CancelWaiting continues; none of them starts.
	// *Used if workflows use the job, or other jobs depend on it. Deleting a deleted job answers it again, cancels as many more, and adds
	// the operation only where none with its kind and spec runs.
	DeleteJob(ctx context.Context, t tenant.ID, d Deletion) (Deleted, error)
	// CancelWaiting cancels up to limit waiting executions of a deleted job, the earliest first, and returns them:
	// fewer than limit means that none is left. It cancels nothing of a job that is not deleted.
	CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) ([]Ended, error)
	// UpdateJob stores a job's definition, state and pause again, under the revision it is to have now (0: any), and raises
	// that. What was staged for instants that have not come is taken back: unless the update plans again, the next instant is the first of
	// what was taken back and what was planned. What waits of a paused job's schedule is held, of an active one's freed: HoldsAtOnce
	// of it, the earliest first; where more waits Settle continues, and until it has come to an execution of a paused job no lease takes that. Held is, while the job is paused, also
	// what comes back to the queue of it (Finish, Release, Leave, Disown, Reap). A
	// job's key stays. ErrNotFound if the job is unknown or deleted, ErrConflict if it has another revision, or if a recurring job
	// that owed nothing is planned again for an instant that has come meanwhile: it may have fired already; *Spent if it
	// is planned again and has run as often as it may, without what was taken back.
	UpdateJob(ctx context.Context, t tenant.ID, u Update) (job.Job, error)
	// Resumable lists up to limit paused jobs of any tenant whose pause has expired.
	Resumable(ctx context.Context, limit int) ([]job.Job, error)
	// Settle continues to hold or free the waiting executions of one job, of which UpdateJob handled only some: it
	// handles up to limit executions, and returns how many. 0 means that there is nothing to do, or that others are
	// doing it. The job's state at that moment decides, so any server may continue, whatever has happened to the job
	// meanwhile.
	Settle(ctx context.Context, limit int) (int, error)
	// Trigger adds one execution to an existing job; ErrNotFound if the job is unknown or deleted. If another holds
	// its unique key nothing is stored, not even its idempotency key.
	Trigger(ctx context.Context, t tenant.ID, x job.Execution, i Idempotency, e *audit.Entry) (Created, error)
	// Backfill adds executions of one existing job for instants of its schedule, all in one commit; ErrNotFound if
	// the job is unknown or deleted. It skips instants that already have a live execution, and executions whose
	// unique key another holds. It returns the ids of the others; the same call again returns these again, and adds
	// nothing.
	Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error)
	// Rerun adds new executions of finished ones, each named by RetryOf, which stop being dead letters, all in one
	// commit. It skips those whose RetryOf is not a finished execution of the tenant, whose job is unknown or
	// deleted, whose unique key another holds, or, if DeadOnly is set, whose RetryOf is not a dead letter. It returns
	// the ids that it added; the same call again returns the same and adds nothing. If it adds nothing at all it
	// stores no idempotency key.
	Rerun(ctx context.Context, t tenant.ID, r Rerun) (Rerunning, error)
}

// CancelsAtOnce limits how many waiting executions one transaction cancels, well within a statement's time.
const CancelsAtOnce = 5000

// HoldsAtOnce limits the waiting executions of a job that one transaction holds or frees.
const HoldsAtOnce = 5000

// Deletion is the deletion of a job.
type Deletion struct {
	Job   job.ID
	AsOf  time.Time
	Most  int            // how many waiting executions it cancels at most; 0: CancelsAtOnce
	Rest  *job.Operation // added, with its total, if more are waiting; nil: none is
	Entry *audit.Entry   // written with it; nil: none
}

// Deleted is a job that was deleted.
type Deleted struct {
	job.Job
	Rest  job.OperationID // the operation that cancels the remaining executions; zero: none
	Ended []Ended         // executions that it cancelled
}

// WaitingCounted limits how many waiting executions of a deleted job are counted.
const WaitingCounted = 1_000_000

// StatsLook limits how many unfinished executions of a job Stats examines from either end.
const StatsLook = 500

// Update is a change of a job.
type Update struct {
	Job      job.Job // its new state, except for its revision, its runs and when it was created
	Revision int     // that it must have; 0: any
	Replan   bool    // its NextRunAt applies; otherwise the planned instants stay
	AsOf     time.Time
	Secrets  []Secret         // managed secrets of the job to store with it, replacing those with the same names
	Unused   []string         // managed ones that go with it
	Holds    int              // how many waiting executions it holds or frees at most; 0: HoldsAtOnce
	Was      *job.Group       // the limits that its waiting executions were made with, which are now to have the job's; nil: they stay
	Most     int64            // it was over, and is active again: how many of these its tenant may have; 0: any number, or it was not
	Entry    *audit.Entry     // that is written with it, and names its author; nil: none, the product itself changes the job
	Workflow *WorkflowVersion // of a workflow: the version that its target names, stored with it; nil: it keeps the one it has
	Nodes    []job.Job        // new ones, of the inline nodes of that version
	Parents  *ParentsChange   // it depends on other jobs than before, or in another way; nil: all as it was
	Retained bool             // its retention is another than before
}

// MostRelimited limits how many waiting executions get other limits from an update, those due first. Later ones start
// under the limits that they were made with.
const MostRelimited = 10_000

// Overtaken reports whether an update plans a recurring job, whose planned instant (0: none) has not come, for one
// that has come by now: it was in the future when that was decided, and may have fired since. Both are in
// microseconds.
func (u *Update) Overtaken(planned, now int64) bool {
	return u.Replan && u.Job.Schedule.Type.Recurs() && !u.Job.NextRunAt.IsZero() && u.Job.NextRunAt.UnixMicro() <= now && (planned == 0 || planned > now)
}

// Spent means that a job has used up its runs.
type Spent struct{ Runs int64 }

func (s *Spent) Error() string { return fmt.Sprintf("the job has fired %d times", s.Runs) }

// Rerun asks for new executions of finished ones.
type Rerun struct {
	Executions  []job.Execution
	DeadOnly    bool
	Archived    map[job.ExecutionID]job.ID // originals that the store no longer has, and their jobs: the caller has seen them in the archive
	Idempotency Idempotency
	Entry       *audit.Entry // written if any is added; nil: none
}

// Rerunning is the outcome of a rerun.
type Rerunning struct {
	Added []job.ExecutionID
	Created
}

// Idempotency makes a request safe to retry. The zero value does nothing.
type Idempotency struct {
	Key    string
	Hash   [32]byte // of the request; the same key with another hash is an error
	Answer []byte   // the answer when the key is used again
	Until  time.Time
}

// draftMark begins a draft; no answer begins with it.
const draftMark = "draft:"

// Draft is what is stored instead of an answer that is not known yet when its request is done: what is needed to make it later.
func Draft(of []byte) []byte { return append([]byte(draftMark), of...) }

// DraftOf returns what a draft was made of, and whether a stored answer is one.
func DraftOf(answer []byte) (of []byte, is bool) { return bytes.CutPrefix(answer, []byte(draftMark)) }

// Creation is one request to create jobs.
type Creation struct {
	Tenant      tenant.ID
	Jobs        []job.Job
	Executions  []job.Execution  // those that fire at once, each of one of the jobs above
	Secrets     []Secret         // managed secrets, each of one of the jobs here
	Workflow    *WorkflowVersion // of the first job, which is a workflow: its first version, stored with it; CreateJobs is then given nothing else, and ErrNotFound is as for AddWorkflow
	Nodes       []job.Job        // of its inline nodes; they count as no active jobs
	Idempotency Idempotency
	Most        int64        // maximum of active jobs of the tenant, including these; 0: unlimited
	Entry       *audit.Entry // written with them; nil: none
}

// Created is the outcome of a creation or a trigger. Exactly one of these holds: it is the zero value and the request
// was stored; Replay is the earlier answer to this key; Reused: the key was used with another request; Taken names a
// job key that exists already; Unique names live executions that hold unique keys of the request or, within it, the
// first that was to have one; Over: the tenant would have more active jobs than allowed, as far as was counted, see
// Quotas.
type Created struct {
	Replay []byte
	Reused bool
	Taken  string
	Unique []Incumbent
	Over   bool
	Packed bool // it is stored, with its executions packed if possible, until they are unpacked
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

// JobFilter selects jobs; a zero field matches everything. Deleted jobs are left out unless State asks for them.
type JobFilter struct {
	Tenant       tenant.ID
	State        job.State
	ScheduleType job.ScheduleType
	Tag          string
	WithoutTag   string    // jobs that do not carry it
	Name         string    // exactly
	Text         string    // contained in name, description or key, ignoring case
	Owner        string    // exactly
	Workflows    bool      // only workflows
	LateBefore   time.Time // ACTIVE jobs whose instant came before this and has not fired
}

// JobPage is one page of jobs.
type JobPage struct {
	Jobs    []job.Job
	Next    string // cursor of the next page; "" at the end
	Partial bool   // the search ran out of time, see ExecutionPage
	Total   Total
}
