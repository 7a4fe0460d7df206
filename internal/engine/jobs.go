package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Jobs are the definitions.
type Jobs interface {
	// CreateJobs stores each creation whole or not at all, and answers in their order. One without jobs keeps its
	// idempotency key only. A unique key is free again when the execution that has it ends.
	CreateJobs(ctx context.Context, cs []Creation) ([]Created, error)
	// Job finds one job, without its statistics; ErrNotFound also for another tenant's. A deleted one is found.
	Job(ctx context.Context, t tenant.ID, ref Ref) (job.Job, error)
	// FindJobs lists jobs, newest first, without their statistics.
	FindJobs(ctx context.Context, f JobFilter, p Page) (JobPage, error)
	// Stats reads the statistics of jobs of one tenant, in the order asked for; zero for a job that is unknown or never
	// ran. They are kept as executions end, so that reading them costs the same after any number of these; of those that
	// have not ended the StatsLook scheduled first and last are looked at for when one started last.
	Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error)
	// DeleteJob marks a job deleted, cancels its executions that wait, and leaves those that run. It cancels CancelsAtOnce
	// at most, or the deletion's own number. Where more wait, it adds the deletion's operation in the same commit, and CancelWaiting continues; none of them starts.
	// Deleting a deleted job answers it again, cancels as many more, and adds
	// the operation only where none with its kind and spec runs.
	DeleteJob(ctx context.Context, t tenant.ID, d Deletion) (Deleted, error)
	// CancelWaiting cancels up to limit executions of a deleted job that wait, the earliest first, and returns them:
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
	// Resumable lists up to limit paused jobs of any tenant whose pause ends by itself by now.
	Resumable(ctx context.Context, limit int) ([]job.Job, error)
	// Settle continues with holding or freeing what waits of one job, of which more waited than UpdateJob goes through: it goes through
	// up to limit executions, and returns how many. 0 means that there is nothing to do, or that others are at it. The job's state at that moment decides,
	// so that any server may continue, whatever has become of the job meanwhile.
	Settle(ctx context.Context, limit int) (int, error)
	// Trigger adds one execution to an existing job; ErrNotFound if the job is unknown or deleted. Where another holds its
	// unique key nothing is stored, its idempotency key neither.
	Trigger(ctx context.Context, t tenant.ID, x job.Execution, i Idempotency, e *audit.Entry) (Created, error)
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

// CancelsAtOnce limits how many waiting executions one transaction cancels, well within a statement's time.
const CancelsAtOnce = 5000

// HoldsAtOnce bounds the waiting executions of a job that one transaction holds or frees.
const HoldsAtOnce = 5000

// Deletion is the deletion of a job.
type Deletion struct {
	Job   job.ID
	AsOf  time.Time
	Most  int            // how many waiting executions it cancels at most; 0: CancelsAtOnce
	Rest  *job.Operation // added, with its total, where more wait; nil: none is
	Entry *audit.Entry   // that is written with it; nil: none
}

// Deleted is a job that was deleted.
type Deleted struct {
	job.Job
	Rest  job.OperationID // the operation that cancels what still waits; zero: none does
	Ended []Ended         // executions that it cancelled
}

// WaitingCounted limits how many waiting executions of a deleted job are counted.
const WaitingCounted = 1_000_000

// StatsLook limits how many unfinished executions of a job Stats examines from either end.
const StatsLook = 500

// Update is a change of a job.
type Update struct {
	Job      job.Job // as it is to be, but for its revision, its runs and when it was created
	Revision int     // that it must have; 0: any
	Replan   bool    // its NextRunAt holds; else the planned instants stay
	AsOf     time.Time
	Secrets  []Secret     // managed ones of the job that are stored with it, in place of those of their names
	Unused   []string     // managed ones that go with it
	Holds    int          // how many waiting executions it holds or frees at most; 0: HoldsAtOnce
	Was      *job.Group   // the limits that its waiting executions were made with, which are now to have the job's; nil: they stay
	Most     int64        // it was over, and is active again: how many of these its tenant may have; 0: any number, or it was not
	Entry    *audit.Entry // that is written with it, and names its author; nil: none, the product itself changes the job
}

// MostRelimited limits how many waiting executions get other limits from an update, those first that are due first. What is behind
// them starts later, under the limits that it was made with.
const MostRelimited = 10_000

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
	Entry       *audit.Entry // that is written if any is added; nil: none
}

// Rerunning is the outcome of a rerun.
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

// Created is the outcome of a creation or a trigger. Exactly one of these holds:
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
	Packed bool // it is stored, and those of its executions that may be packed are, until they are unpacked
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

// JobFilter chooses jobs; a zero field chooses all. Deleted jobs are left out
// unless State asks for them.
type JobFilter struct {
	Tenant       tenant.ID
	State        job.State
	ScheduleType job.ScheduleType
	Tag          string
	WithoutTag   string    // jobs that do not carry it
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
