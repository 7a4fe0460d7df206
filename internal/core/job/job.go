package job

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// State is where a job stands.
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

// Schedule says when a job fires.
type Schedule struct {
	Type ScheduleType
	At   time.Time // ONE_TIME: the instant
}

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

	// http
	URL             string
	Method          string
	Headers         map[string]string
	ExpectStatus    []int
	ExpectBody      string
	FollowRedirects bool

	// simulate
	WorkKind     string
	Duration     time.Duration
	FailAttempts int
}

// Backoff is how the delay between attempts grows.
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
	Tags        []string
	Owner       string
	Runbook     string
}

// Job is a stored definition and where it stands.
type Job struct {
	ID     ID
	Tenant tenant.ID
	Definition
	State     State
	NextRunAt time.Time // zero: no instant is planned
	LastRunAt time.Time // zero: never ran
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int
	Stats     Stats
}

// Stats sums up the finished executions of a job.
type Stats struct {
	Total       int64
	Succeeded   int64
	AvgDuration time.Duration
	P95Duration time.Duration
	LastStatus  Status // zero: none has finished
}

// SuccessRate is the share of finished executions that succeeded, from 0 to 1.
func (s Stats) SuccessRate() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Succeeded) / float64(s.Total)
}
