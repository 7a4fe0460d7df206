package job

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// State is the state of a job.
type State uint8

// The states of a job. Their numbers are stored; never renumber them.
const (
	Active    State = 1
	Paused    State = 2
	Completed State = 3
	Deleted   State = 4
	Inline    State = 5 // the job of an inline node of a workflow: it acts as ACTIVE, but is never listed or counted
)

var stateNames = map[State]string{Active: "ACTIVE", Paused: "PAUSED", Completed: "COMPLETED", Deleted: "DELETED", Inline: "INLINE"}

func (s State) String() string { return stateNames[s] }

// States lists every state of a job that people see.
func States() []State { return []State{Active, Paused, Completed, Deleted} }

// ScheduleType is the kind of a job's schedule.
type ScheduleType uint8

// The schedule types. Their numbers are stored; never renumber them.
const (
	Immediate ScheduleType = 1
	OneTime   ScheduleType = 2
	Cron      ScheduleType = 3
	Interval  ScheduleType = 4
	Manual    ScheduleType = 5 // it has no instants: it runs when someone triggers it
)

var scheduleNames = map[ScheduleType]string{Immediate: "IMMEDIATE", OneTime: "ONE_TIME", Cron: "CRON", Interval: "INTERVAL", Manual: "MANUAL"}

func (t ScheduleType) String() string { return scheduleNames[t] }

// ScheduleTypes lists every schedule type.
func ScheduleTypes() []ScheduleType {
	return []ScheduleType{Immediate, OneTime, Cron, Interval, Manual}
}

// OneOff reports whether a job of this type ends with its execution.
func (t ScheduleType) OneOff() bool { return t == Immediate || t == OneTime }

// Recurs reports whether a schedule of this type may have many instants.
func (t ScheduleType) Recurs() bool { return t == Cron || t == Interval }

// Schedule describes when a job fires. Package schedule validates and compiles it.
type Schedule struct {
	Type ScheduleType
	At   time.Time // ONE_TIME: the instant

	Cron     string        // CRON: the expression, as written
	Zone     string        // of CRON, and of a calendar; empty: UTC
	Day      string        // CRON: how the two day fields combine; empty: vixie
	Every    time.Duration // INTERVAL
	Jitter   time.Duration // an execution is due up to this long after its instant
	Start    time.Time     // no instant before it; the anchor of an interval. Zero: the job's creation
	End      time.Time     // no instant at or after it; zero: none
	MaxRuns  int64         // 0: any number
	Calendar string        // the name of the calendar of excluded times; empty: none
}

// Herds reports whether executions may be staged long before their instants. They may not if a shared calendar could
// change meanwhile, or if a limited number of runs could be used up first.
func (s Schedule) Herds() bool { return s.Calendar == "" && s.MaxRuns == 0 }

// Overlap decides what happens to a scheduled fire while an earlier one has not finished.
type Overlap string

// The overlap policies.
const (
	OverlapAllow   Overlap = "allow"
	OverlapSkip    Overlap = "skip"    // it is SKIPPED
	OverlapQueue   Overlap = "queue"   // it waits for the earlier one; if one is already waiting, it is SKIPPED
	OverlapReplace Overlap = "replace" // the earlier one is cancelled, and it waits for that to end
)

// Overlaps lists all overlap policies.
func Overlaps() []Overlap { return []Overlap{OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplace} }

func (o Overlap) String() string { return string(o) }

// CatchUp decides what happens to missed instants.
type CatchUp string

// The catch-up policies.
const (
	CatchUpNone   CatchUp = "none"
	CatchUpLatest CatchUp = "latest"
	CatchUpAll    CatchUp = "all"
)

// CatchUps lists all catch-up policies.
func CatchUps() []CatchUp { return []CatchUp{CatchUpNone, CatchUpLatest, CatchUpAll} }

func (c CatchUp) String() string { return string(c) }

// DefaultCatchUpLimit limits how many missed instants are caught up, if a job does not say.
const DefaultCatchUpLimit = 100

// TargetKind is the way an execution is run.
type TargetKind string

// The target kinds.
const (
	HTTP     TargetKind = "http"
	Command  TargetKind = "command"
	Handler  TargetKind = "worker"
	Simulate TargetKind = "simulate"
	Workflow TargetKind = "workflow" // a graph of jobs, which servers run themselves
)

// Target describes what an execution runs.
type Target struct {
	Kind    TargetKind
	Timeout time.Duration // of one attempt
	Stall   time.Duration // an attempt without progress for this long has stalled; 0: never
	Total   time.Duration // of all attempts, from the first start; 0: unbounded

	// http
	URL             string
	Method          string
	Headers         map[string]string
	ExpectStatus    []int
	ExpectBody      string
	FollowRedirects bool

	// command
	Command    []string          // the program and its arguments; none: the content of an artifact is run
	Artifact   string            // the id of the artifact to unpack into the working folder; empty: none
	Entrypoint string            // the program in the artifact
	Env        map[string]string // the whole environment, besides the defaults

	// worker
	Handler string // its kind

	// simulate
	WorkKind     string
	Duration     time.Duration
	FailAttempts int

	// workflow
	Version int // the version of the definition for new runs
}

// Backoff determines how the delay between attempts grows.
type Backoff string

// The backoffs.
const (
	Fixed       Backoff = "FIXED"
	Linear      Backoff = "LINEAR"
	Exponential Backoff = "EXPONENTIAL"
)

// RetryPolicy decides whether and when a failed attempt is retried.
type RetryPolicy struct {
	MaxRetries   int
	Backoff      Backoff
	InitialDelay time.Duration
	MaxDelay     time.Duration
}

// Definition is everything that a user specifies of a job.
type Definition struct {
	Key         string
	Name        string
	Description string
	Schedule    Schedule
	Target      Target
	Payload     []byte // JSON, as written; nil for none
	Retry       RetryPolicy
	Priority    int
	Queue       string
	Labels      []string // that a worker must have
	Tags        []string
	Owner       string
	Runbook     string
	Asleep      bool // it is created paused; not stored

	MaxConcurrent    int    // of its executions, or of each value of the key, at once; 0: unlimited
	ConcurrencyKey   string // an expression over the payload; empty: the job is the group
	Rate             Rate   // rate of starts, of the job or of each value of the key
	UniqueKey        string // only one live execution at a time may have it; empty: none
	ExpiresAfter     time.Duration
	AutoRedriveAfter time.Duration
	Retention        Retention

	Overlap      Overlap // empty: allow
	CatchUp      CatchUp // empty: latest
	CatchUpLimit int     // of CatchUpAll

	DependsOn []ID   // jobs whose executions let it fire, see package workflow; nil: none
	DependsIf string // how these must end; empty: they succeed
}

// FiringOverlap is the policy by which the schedule of a job fires. Of a job that depends on others at most one execution waits for
// them, and a later one does not replace it.
func (d *Definition) FiringOverlap() Overlap {
	switch {
	case len(d.DependsOn) > 0 && d.Overlap != OverlapSkip:
		return OverlapQueue
	case d.Overlap == "":
		return OverlapAllow
	}
	return d.Overlap
}

// Job is a stored definition and its state.
type Job struct {
	ID     ID
	Tenant tenant.ID
	Definition
	Group      Group // of its executions, unless they have their own payload
	State      State
	NextRunAt  time.Time // zero: no instant is planned
	Runs       int64     // instants that its schedule has fired
	PausedTill time.Time // when a pause expires; zero: it does not
	PauseNote  string    // why it was paused
	PausedAt   time.Time // when its last pause began; zero: never, or unknown
	ResumedAt  time.Time // when its last pause ended; zero: it had none
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Revision   int
}

// Stats sums up the finished executions of a job.
type Stats struct {
	Total       int64
	Succeeded   int64
	AvgDuration time.Duration // over those that started, from the first start to the end
	P95Duration time.Duration // likewise, to about 5 %
	LastStatus  Status        // zero: none has finished
	LastRunAt   time.Time     // when the latest execution, finished or not, first started; zero: never
}

// SuccessRate returns the share of finished executions that succeeded, from 0 to 1.
func (s Stats) SuccessRate() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Succeeded) / float64(s.Total)
}

// Durations are counted in buckets, each a tenth longer than the one before, so that percentiles are accurate to
// about 5 %.
const bucketGrowth = 1.1

// Bucket returns the bucket that counts a duration: 0 for up to a microsecond.
func Bucket(d time.Duration) int {
	return int(math.Floor(math.Log(float64(max(d.Microseconds(), 1))) / math.Log(bucketGrowth)))
}

// BucketMiddle returns the duration that represents a bucket.
func BucketMiddle(b int) time.Duration {
	return time.Duration(math.Round(math.Pow(bucketGrowth, float64(b)+0.5))) * time.Microsecond
}

// P95 returns the duration that 95 % of those counted do not exceed, from counts by bucket.
func P95(counts map[int]int64) time.Duration {
	var total int64
	for _, n := range counts {
		total += n
	}
	var seen int64
	for _, b := range slices.Sorted(maps.Keys(counts)) {
		seen += counts[b]
		if float64(seen) >= 0.95*float64(total) {
			return BucketMiddle(b)
		}
	}
	return 0
}
