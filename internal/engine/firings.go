package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Firings turn due instants into executions.
type Firings interface {
	// Due lists the jobs that a filter selects, earliest next instant first.
	Due(ctx context.Context, f DueFilter) ([]Due, error)
	// Ahead counts the jobs of the partitions (none: of all) whose next instant is after from, second by second, for
	// a number of seconds. It stops counting at limit in total or, if partitions are counted separately, at twice
	// their share in each.
	Ahead(ctx context.Context, ps []job.Partition, from time.Time, seconds, limit int) ([]int, error)
	// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved; it leaves
	// out jobs whose instant or revision has changed. An execution whose unique key another one holds is stored as
	// finished, SKIPPED, with an error of type CANCELLED that says so, and is not returned.
	//
	// Where the overlap policy is skip and a scheduled fire of the job is live, or it is queue and one waits that
	// never started, an execution is stored as SKIPPED instead; within one firing the earlier ones count. Where it is
	// replace, and an execution is stored, what the schedule fired for earlier instants and waits is cancelled, and
	// what runs is asked to stop, as by Cancel; where very much waits, some of that is cancelled, and the firing is
	// left out until a later call has cancelled the rest. Only executions that are stored count as runs of the job. A
	// firing in a partition that the fence names (see Fence) is left out unless it is owned under that epoch.
	// ErrTooSlow if the store gave up: fewer may do.
	Fire(ctx context.Context, fs []Firing, f Fence) (Fired, error)
}

// Fired describes the effect of firings.
type Fired struct {
	Ready []job.Ready // executions that were stored and wait
	Ended []Ended     // executions that ended: skipped, or replaced by a later one
}

// DueFilter selects active jobs by their next instant; a zero field matches everything.
type DueFilter struct {
	Partitions []job.Partition
	From       time.Time   // at or after
	Until      time.Time   // at or before; never zero
	Skip       int         // how many of the first are left out
	Without    []tenant.ID // whose jobs are left out
	Limit      int
}

// Due is a job that is due now or soon.
type Due struct {
	Job      job.Job // without its payload
	Revision int
}

// Firing is the result of firing a job.
type Firing struct {
	Tenant     tenant.ID
	Job        job.ID
	Revision   int
	Was        time.Time // the instant that fires
	Next       time.Time // the one after it; zero: none
	Spare      time.Time // the instant after it if fewer than Runs fire, if not zero: there are runs left for it
	Runs       int64     // added to the job's; if fewer fire, only as many
	Overlap    job.Overlap
	Executions []job.Execution
	Skips      []job.Execution // records of instants that do not fire, which go straight into history
}
