package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Trigger is the reason why an execution exists.
type Trigger uint8

// The triggers. Their numbers are stored; never renumber them.
const (
	BySchedule Trigger = 1
	ByHand     Trigger = 2
	ByCatchUp  Trigger = 3
	ByBackfill Trigger = 4
	ByRetry    Trigger = 5
	ByRedrive  Trigger = 6
	ByWorkflow Trigger = 7
	ByAPI      Trigger = 8 // created to run at once
)

var triggerNames = map[Trigger]string{
	BySchedule: "schedule", ByHand: "manual", ByCatchUp: "catch_up", ByBackfill: "backfill", ByRetry: "retry", ByRedrive: "redrive", ByWorkflow: "workflow", ByAPI: "api",
}

func (t Trigger) String() string { return triggerNames[t] }

// OfItself reports whether the job itself fires it, for an instant, rather than a person or another execution.
func (t Trigger) OfItself() bool {
	return t == BySchedule || t == ByAPI || t == ByCatchUp || t == ByBackfill
}

// Triggers lists every trigger in the order of their numbers.
func Triggers() []Trigger { return slices.Sorted(maps.Keys(triggerNames)) }

// Execution is one firing of a job.
type Execution struct {
	ID          ExecutionID
	Job         ID
	JobName     string
	Tenant      tenant.ID
	Status      Status
	Trigger     Trigger
	ScheduledAt time.Time // the instant it stands for
	DueAt       time.Time // when it may next start
	StartedAt   time.Time // when its first attempt started; zero: not yet
	FinishedAt  time.Time // zero: not yet
	Attempt     int       // number of leases, except those handed back
	Tries       int       // failures that used up a retry
	Lost        int       // number of leases that ended without a result
	MaxAttempts int
	Priority    int
	Partition   Partition
	Class       Class         // while it is live
	Group       Group         // while it is live
	UniqueKey   string        // while it is live
	ExpiresAt   time.Time     // it expires if it has not started by then; zero: never
	Timeout     time.Duration // timeout of one attempt, while it is live
	Stall       time.Duration // likewise
	LeasedAt    time.Time     // when its newest attempt started; zero: there was none
	Progress    *Progress     // while it is live
	CancelAt    time.Time     // when it was asked to stop; zero: never
	Worker      WorkerID      // its holder, or the last one
	Token       Token         // of the newest lease
	Payload     []byte        // replaces the job's; nil: the job's own
	RetryOf     ExecutionID
	Result      []byte // JSON
	Error       *Error
	Response    *Response
	Metadata    map[string]string // of a SKIPPED one: the reason, and the instants it covers
}

// Fire returns the execution of a job for its scheduled instant. If that has passed, it is due now and waits its turn
// from then on.
func (j Job) Fire(id ExecutionID, at, now time.Time) Execution { return j.FireLate(id, at, 0, now) }

// FireLate is Fire with a delay after the instant, for jitter.
func (j *Job) FireLate(id ExecutionID, at time.Time, delay time.Duration, now time.Time) Execution {
	due := at.Add(delay)
	if due.Before(now) {
		due = now
	}
	e := Execution{
		ID: id, Job: j.ID, JobName: j.Name, Tenant: j.Tenant, Status: Pending, Trigger: BySchedule,
		ScheduledAt: at, DueAt: due, MaxAttempts: j.Retry.MaxRetries + 1, Priority: j.Priority, Partition: PartitionOf(j.ID), Class: j.Class(),
		UniqueKey: j.UniqueKey, Timeout: j.Target.Timeout, Stall: j.Target.Stall,
	}
	if j.Schedule.Type == Immediate {
		e.Trigger = ByAPI
	}
	e.Join(j.Group)
	if j.Target.Total > 0 {
		e.Timeout = min(e.Timeout, j.Target.Total) // no attempt may take longer than all of them
	}
	if j.ExpiresAfter > 0 {
		e.ExpiresAt = due.Add(j.ExpiresAfter)
	}
	return e
}

// Queue makes a scheduled execution wait for earlier ones, if the overlap policy says so. Manually triggered
// executions do not wait.
func (e *Execution) Queue(j Job) {
	if j.Overlap == OverlapQueue || j.Overlap == OverlapReplace {
		e.Join(Group{Key: groupKey(j.Tenant, "", j.ID.String()), Max: 1, Rate: j.Group.Rate})
	}
}

// Join puts the execution into a group. It takes the group's partition, so that one server counts it.
func (e *Execution) Join(g Group) {
	e.Group = g
	if g.Key != 0 {
		e.Partition = g.Partition()
	}
}

// Rerun returns a new execution of a finished one of the job, with the same payload unless another is given. Class,
// group and expiry come from the job's current definition.
func (j Job) Rerun(e Execution, id ExecutionID, t Trigger, payload []byte, now time.Time) Execution {
	if payload == nil {
		payload = e.Payload
	}
	n := j.Fire(id, now, now)
	n.Trigger, n.MaxAttempts, n.Priority, n.Payload, n.RetryOf = t, e.MaxAttempts, e.Priority, payload, e.ID
	return n
}

// Ready returns the execution in the form that dispatchers use.
func (e *Execution) Ready() Ready {
	return Ready{ID: e.ID, Tenant: e.Tenant, Partition: e.Partition, Class: e.Class, Group: e.Group, Priority: e.Priority, DueAt: e.DueAt}
}

// Nonce distinguishes executions of one job at one instant: it is 0 for scheduled ones, so that an instant fires
// once.
func (e Execution) Nonce() int64 {
	if e.Trigger.OfItself() {
		return 0
	}
	n := int64(binary.BigEndian.Uint64(e.ID[8:]) >> 1)
	if n == 0 {
		return 1
	}
	return n
}

// IdempotencyKey returns the key that every attempt of the execution carries.
func (e Execution) IdempotencyKey() string {
	return IdempotencyKey(e.Job, e.ID, e.Trigger, e.ScheduledAt)
}

// IdempotencyKey returns the key of an execution: of its job and instant or, if it was triggered manually, of its job
// and itself.
func IdempotencyKey(j ID, x ExecutionID, t Trigger, at time.Time) string {
	var room [32]byte
	return string(AppendIdempotencyKey(room[:0], j, x, t, at))
}

// AppendIdempotencyKey appends the key.
func AppendIdempotencyKey(b []byte, j ID, x ExecutionID, t Trigger, at time.Time) []byte {
	var room [128]byte // every attempt has one, so it is built on the stack
	text := append(j.Append(room[:0]), ':')
	if t.OfItself() {
		text = at.UTC().AppendFormat(text, time.RFC3339Nano)
	} else {
		text = x.Append(text)
	}
	sum := sha256.Sum256(text)
	return hex.AppendEncode(b, sum[:16])
}

// Duration returns how long the execution took from its first start to its end.
func (e Execution) Duration() time.Duration {
	if e.StartedAt.IsZero() || e.FinishedAt.IsZero() {
		return 0
	}
	return max(0, e.FinishedAt.Sub(e.StartedAt))
}

// PassedOver reports whether the execution stands for instants at which its job did not run. An execution that a
// worker skipped has run.
func (e Execution) PassedOver() bool { return e.Status == Skipped && e.StartedAt.IsZero() }

// ErrorType is the category of an attempt's failure.
type ErrorType string

// The error types.
const (
	TimeoutError      ErrorType = "TIMEOUT"
	HTTPError         ErrorType = "HTTP_ERROR"
	ConnectionRefused ErrorType = "CONNECTION_REFUSED"
	ConnectionReset   ErrorType = "CONNECTION_RESET"
	DNSFailed         ErrorType = "DNS_RESOLUTION_FAILED"
	TLSError          ErrorType = "TLS_ERROR"
	BlockedAddress    ErrorType = "BLOCKED_ADDRESS"
	ExitCode          ErrorType = "EXIT_CODE"
	PanicError        ErrorType = "PANIC"
	Poison            ErrorType = "POISON"
	HandlerError      ErrorType = "HANDLER_ERROR"
	LeaseLost         ErrorType = "LEASE_LOST"
	Stalled           ErrorType = "STALLED"
	CancelledError    ErrorType = "CANCELLED"
	InternalError     ErrorType = "INTERNAL"
	NodeFailed        ErrorType = "NODE_FAILED" // of a run of a workflow
	SkippedError      ErrorType = "SKIPPED"     // the worker found nothing to do
)

// Known reports whether the type is one of those above, rather than a worker's own text.
func (t ErrorType) Known() bool {
	switch t {
	case TimeoutError, HTTPError, ConnectionRefused, ConnectionReset, DNSFailed, TLSError, BlockedAddress, ExitCode, PanicError, Poison, HandlerError, LeaseLost, Stalled, CancelledError, InternalError, NodeFailed, SkippedError:
		return true
	}
	return false
}

// Error describes why an attempt, or an execution, failed.
type Error struct {
	Type       ErrorType
	Message    string
	HTTPStatus int // 0: none
}

// Mentions reports whether the error's type or message contains a text, ignoring case.
func (e *Error) Mentions(text string) bool {
	return Mentions(e.Message, text) || Mentions(string(e.Type), text)
}

// Mentions reports whether a text contains another, ignoring case.
func Mentions(in, text string) bool {
	return strings.Contains(strings.ToLower(in), strings.ToLower(text))
}

// Response is the response of a callback.
type Response struct {
	HTTPStatus  int
	BodyPreview string
}

// Ready is an execution that may be leased once it is due.
type Ready struct {
	ID        ExecutionID
	Tenant    tenant.ID
	Partition Partition
	Class     Class
	Group     Group
	Priority  int
	DueAt     time.Time
	Packed    bool // the store keeps it packed with others, and lists it in the lane of executions without a group
}

// Lane is the slice of the queue that is read in order of due time.
type Lane struct {
	Partition Partition
	Tenant    tenant.ID
	Class     Class
	Group     GroupKey // 0: of executions in no group
	Priority  int
}

// Lane returns the lane in which the execution waits.
func (r Ready) Lane() Lane {
	l := Lane{r.Partition, r.Tenant, r.Class, r.Group.Key, r.Priority}
	if r.Packed {
		l.Group = 0
	}
	return l
}

// Rank orders executions by due time, each priority level being worth a minute, so that a waiting one gains a level
// per minute and none starves.
func (r Ready) Rank() time.Time { return r.DueAt.Add(time.Duration(r.Priority-1) * time.Minute) }

// Before reports whether r should start before o.
func (r Ready) Before(o Ready) bool {
	a, b := r.Rank(), o.Rank()
	if !a.Equal(b) {
		return a.Before(b)
	}
	return string(r.ID[:]) < string(o.ID[:])
}

// Lease is a worker's ownership of an execution.
type Lease struct {
	Execution ExecutionID
	Token     Token
}

// Attempt is one try at an execution, with everything that a worker needs for it.
type Attempt struct {
	Lease
	Job         ID
	JobName     string
	Tenant      tenant.ID
	Trigger     Trigger
	Number      int
	MaxAttempts int
	ScheduledAt time.Time
	DueAt       time.Time
	LeasedAt    time.Time
	StartedAt   time.Time // of the first attempt
	Target      Target
	Payload     []byte
	Run         ExecutionID // of the workflow that the execution is a node of; zero: none
}

// Deadline returns when the attempt must have ended: its own timeout, or that of the whole execution.
func (a Attempt) Deadline() time.Time {
	d := a.LeasedAt.Add(a.Target.Timeout)
	if a.Target.Total > 0 {
		if whole := a.StartedAt.Add(a.Target.Total); whole.Before(d) {
			return whole
		}
	}
	return d
}

// Progress is the progress that an attempt reports.
type Progress struct {
	Percent int
	Message string
	At      time.Time // by the store's clock
}

// Advance is progress that a worker reports under its lease.
type Advance struct {
	Lease
	Percent int
	Message string
}
