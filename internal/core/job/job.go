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
)

var stateNames = map[State]string{Active: "ACTIVE", Paused: "PAUSED", Completed: "COMPLETED", Deleted: "DELETED"}

func (s State) String() string { return stateNames[s] }

// States lists every state a job may be in.
func States() []State { return []State{Active, Paused, Completed, Deleted} }

// ScheduleType says what kind of schedule a job has.
type ScheduleType uint8

// The schedule types. Their numbers are stored; never renumber them.
const (
	Immediate ScheduleType = 1
	OneTime   ScheduleType = 2
	Cron      ScheduleType = 3
	Interval  ScheduleType = 4
)

var scheduleNames = map[ScheduleType]string{Immediate: "IMMEDIATE", OneTime: "ONE_TIME", Cron: "CRON", Interval: "INTERVAL"}

func (t ScheduleType) String() string { return scheduleNames[t] }

// ScheduleTypes lists every schedule type.
func ScheduleTypes() []ScheduleType { return []ScheduleType{Immediate, OneTime, Cron, Interval} }

// OneOff reports whether a job of this type is over with its execution.
func (t ScheduleType) OneOff() bool { return t == Immediate || t == OneTime }

// Schedule says when a job fires. What it says is checked, and compiled, by package schedule.
type Schedule struct {
	Type ScheduleType
	At   time.Time // ONE_TIME: the instant

	Cron     string        // CRON: the expression, as written
	Zone     string        // of CRON, and of a calendar; empty: UTC
	Day      string        // CRON: how the two day fields combine; empty: vixie
	Every    time.Duration // INTERVAL
	Jitter   time.Duration // an execution is due up to so much after its instant
	Start    time.Time     // no instant before it; the anchor of an interval. Zero: the job's creation
	End      time.Time     // no instant at or after it; zero: none
	MaxRuns  int64         // 0: any number
	Calendar string        // the name of what is left out; empty: nothing
}

// Herds reports whether executions may be staged long before their instants: not where a calendar that many share may change
// meanwhile, nor where a number of runs may be used up by what is still to come.
func (s Schedule) Herds() bool { return s.Calendar == "" && s.MaxRuns == 0 }

// Overlap says what becomes of a scheduled fire while an earlier one has not finished.
type Overlap string

// The overlap policies.
const (
	OverlapAllow   Overlap = "allow"
	OverlapSkip    Overlap = "skip"    // it is SKIPPED
	OverlapQueue   Overlap = "queue"   // it waits for the earlier one; while one waits, it is SKIPPED
	OverlapReplace Overlap = "replace" // the earlier one is cancelled, and it waits for its end
)

// Overlaps lists them all.
func Overlaps() []Overlap { return []Overlap{OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplace} }

func (o Overlap) String() string { return string(o) }

// CatchUp says what becomes of instants that passed while nobody fired.
type CatchUp string

// The catch-up policies.
const (
	CatchUpNone   CatchUp = "none"
	CatchUpLatest CatchUp = "latest"
	CatchUpAll    CatchUp = "all"
)

// CatchUps lists them all.
func CatchUps() []CatchUp { return []CatchUp{CatchUpNone, CatchUpLatest, CatchUpAll} }

func (c CatchUp) String() string { return string(c) }

// DefaultCatchUpLimit limits how many missed instants are caught up, if a job does not say.
const DefaultCatchUpLimit = 100

// TargetKind says how an execution is run.
type TargetKind string

// The target kinds.
const (
	HTTP     TargetKind = "http"
	Command  TargetKind = "command"
	Handler  TargetKind = "worker"
	Simulate TargetKind = "simulate"
)

// Target says what an execution runs.
type Target struct {
	Kind    TargetKind
	Timeout time.Duration // of one attempt
	Stall   time.Duration // an attempt without progress for so long has stalled; 0: never
	Total   time.Duration // of all attempts, from the first start; 0: unbounded

	// http
	URL             string
	Method          string
	Headers         map[string]string
	ExpectStatus    []int
	ExpectBody      string
	FollowRedirects bool

	// command
	Command    []string          // the program and its arguments; none: what an artifact holds is run
	Artifact   string            // the id of what is unpacked into the working folder; empty: none
	Entrypoint string            // the program in the artifact
	Env        map[string]string // beside which the environment is clean

	// worker
	Handler string // its kind

	// simulate
	WorkKind     string
	Duration     time.Duration
	FailAttempts int
}

// Backoff says how the delay between attempts grows.
type Backoff string

// The backoffs.
const (
	Fixed       Backoff = "FIXED"
	Linear      Backoff = "LINEAR"
	Exponential Backoff = "EXPONENTIAL"
)

// RetryPolicy says whether and when a failed attempt is followed by another.
type RetryPolicy struct {
	MaxRetries   int
	Backoff      Backoff
	InitialDelay time.Duration
	MaxDelay     time.Duration
}

// Definition is all that a user says of a job.
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

	MaxConcurrent    int    // of its executions, or of each value of the key, run at once; 0: any number
	ConcurrencyKey   string // an expression over the payload; empty: the job is the group
	Rate             Rate   // of starts, of the job or of each value of the key
	UniqueKey        string // one live execution at a time has it; empty: none
	ExpiresAfter     time.Duration
	AutoRedriveAfter time.Duration

	Overlap      Overlap // empty: allow
	CatchUp      CatchUp // empty: latest
	CatchUpLimit int     // of CatchUpAll
}

// Job is a stored definition and where it stands.
type Job struct {
	ID     ID
	Tenant tenant.ID
	Definition
	Group      Group // of its executions, unless their payload is another
	State      State
	NextRunAt  time.Time // zero: no instant is planned
	Runs       int64     // instants that its schedule has fired
	PausedTill time.Time // when a pause ends by itself; zero: it does not
	PauseNote  string    // why it was paused
	PausedAt   time.Time // when its last pause began; zero: it had none, or that is not known
	ResumedAt  time.Time // when its last pause ended; zero: it had none
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Revision   int
}

// Stats sums up the finished executions of a job.
type Stats struct {
	Total       int64
	Succeeded   int64
	AvgDuration time.Duration // of those that started, from the first start to the end
	P95Duration time.Duration // likewise, to about 5 %
	LastStatus  Status        // zero: none has finished
	LastRunAt   time.Time     // when the latest of all, also of those that have not finished, started first; zero: never
}

// SuccessRate is the share of finished executions that succeeded, from 0 to 1.
func (s Stats) SuccessRate() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Succeeded) / float64(s.Total)
}

// Durations are counted in buckets, each a tenth longer than the one before, so
// that a percentile is known to about 5 % however many there are.
const bucketGrowth = 1.1

// Bucket returns the bucket that counts a duration: 0 for up to a microsecond.
func Bucket(d time.Duration) int {
	return int(math.Floor(math.Log(float64(max(d.Microseconds(), 1))) / math.Log(bucketGrowth)))
}

// BucketMiddle is the duration that stands for a bucket.
func BucketMiddle(b int) time.Duration {
	return time.Duration(math.Round(math.Pow(bucketGrowth, float64(b)+0.5))) * time.Microsecond
}

// P95 is the duration that 95 % of those counted do not exceed, from counts by bucket.
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
