package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Tallies are counts of what happened, and short views of it, for summaries of a tenant or a job. Servers count
// beside the commits, not in them: the counts are for display, not for accounting.
type Tallies interface {
	// TenantMinutes sums up the counts of all servers for a tenant ("": for all together), from the minute of an
	// instant on, earliest first. Empty minutes are left out; those older than a day are dropped.
	TenantMinutes(ctx context.Context, t tenant.ID, from time.Time) ([]TenantMinute, error)
	// KeepDepths stores how many executions waited and ran in a minute, unless another server has done so, and
	// reports whether it did.
	KeepDepths(ctx context.Context, at time.Time, ds []TenantDepths) (bool, error)
	// Depths lists how many executions of a tenant ("": of all together) waited and ran, from the minute of an
	// instant on, earliest first.
	Depths(ctx context.Context, t tenant.ID, from time.Time) ([]DepthMinute, error)
	// JobDays lists the outcomes of a job's executions by day, from one day up to but excluding another, earliest
	// first, without empty days. A year and a month are kept.
	JobDays(ctx context.Context, t tenant.ID, j job.ID, from, until time.Time) ([]JobDay, error)
	// Failures lists up to limit failures of a tenant, or of one of its jobs and those whose job is not
	// distinguished, from the hour of an instant on, latest hours first.
	Failures(ctx context.Context, f FailureFilter, limit int) ([]Failure, error)
	// Revisions lists the replaced revisions of a job, given its current state: those before one (0: all), newest
	// first, up to limit.
	Revisions(ctx context.Context, now job.Job, before, limit int) ([]Revision, error)
}

// How long tallies are kept.
const (
	TenantMinutesKept = 25 * time.Hour
	FailuresKept      = 8 * 24 * time.Hour
	MonthsKept        = 13
	RevisionsKept     = 50                  // of each job
	RevisionsOutlive  = 30 * 24 * time.Hour // the job
)

// Tally holds a server's counts.
type Tally struct {
	Minutes  []TenantMinute // these replace its earlier values
	Days     []JobDay       // these are added to the existing ones
	Failures []Failure      // likewise
}

// DelayBounds are the upper bounds of the buckets of trigger delays; longer ones have their own bucket.
var DelayBounds = [...]time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 50 * time.Second, 100 * time.Second, 200 * time.Second, 500 * time.Second, 1000 * time.Second,
}

// DelayBucket returns the bucket of a delay.
func DelayBucket(d time.Duration) int {
	i, _ := slices.BinarySearch(DelayBounds[:], d)
	return i
}

// TenantMinute counts the events of a tenant's executions in one minute.
type TenantMinute struct {
	Tenant    tenant.ID // "": all
	At        time.Time // its beginning
	Started   int64     // attempts
	Succeeded int64     // executions, like the next four
	Failed    int64
	TimedOut  int64
	Cancelled int64
	Dead      int64 // became dead letters
	Skipped   int64 // instants that were not run
	Retried   int64 // failed attempts that are followed by another
	Waited    int64 // executions that started for the first time
	Wait      time.Duration
	MaxWait   time.Duration
	MaxDelay  time.Duration
	Delays    [len(DelayBounds) + 1]int64 // first starts of scheduled executions, by how late they fired
}

// Fired returns how many executions of schedules started for the first time.
func (m *TenantMinute) Fired() (n int64) {
	for _, x := range m.Delays {
		n += x
	}
	return n
}

// Within returns how many of those fired within a delay, one of DelayBounds, of their scheduled time.
func (m *TenantMinute) Within(d time.Duration) (n int64) {
	for _, x := range m.Delays[:DelayBucket(d)+1] {
		n += x
	}
	return n
}

// Add adds counts from elsewhere, or of another minute.
func (m *TenantMinute) Add(o TenantMinute) {
	mine, its := m.numbers(), o.numbers()
	for i := range mine {
		*mine[i] += *its[i]
	}
	m.Wait += o.Wait
	m.MaxWait, m.MaxDelay = max(m.MaxWait, o.MaxWait), max(m.MaxDelay, o.MaxDelay)
	for i := range m.Delays {
		m.Delays[i] += o.Delays[i]
	}
}

func (m *TenantMinute) numbers() [9]*int64 {
	return [...]*int64{&m.Started, &m.Succeeded, &m.Failed, &m.TimedOut, &m.Cancelled, &m.Dead, &m.Skipped, &m.Retried, &m.Waited}
}

var errForm = errors.New("a stored count is not as it was written")

// uvarints reads numbers one after the other.
type uvarints struct {
	b   []byte
	bad bool
}

func (u *uvarints) next() int64 {
	n, k := binary.Uvarint(u.b)
	if k <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[k:]
	return int64(n)
}

// micros returns a non-negative number of microseconds.
func (u *uvarints) micros() time.Duration {
	n := u.next()
	if n < 0 || n > math.MaxInt64/int64(time.Microsecond) {
		u.bad = true
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// EncodeMinute returns the stored form of the counts of a minute.
func EncodeMinute(m *TenantMinute) []byte {
	b := make([]byte, 0, 48)
	for _, n := range m.numbers() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	for _, d := range []time.Duration{m.Wait, m.MaxWait, m.MaxDelay} {
		b = binary.AppendUvarint(b, uint64(d.Microseconds()))
	}
	for i, n := range m.Delays {
		if n > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i)), uint64(n))
		}
	}
	return b
}

// DecodeMinute decodes the result of EncodeMinute.
func DecodeMinute(b []byte) (m TenantMinute, err error) {
	u := uvarints{b: b}
	for _, n := range m.numbers() {
		*n = u.next()
	}
	for _, d := range []*time.Duration{&m.Wait, &m.MaxWait, &m.MaxDelay} {
		*d = u.micros()
	}
	for len(u.b) > 0 {
		i, n := u.next(), u.next()
		if i < 0 || int(i) >= len(m.Delays) || n < 0 {
			return TenantMinute{}, errForm
		}
		m.Delays[i] = n
	}
	if u.bad {
		return TenantMinute{}, errForm
	}
	return m, nil
}

// SumMinutes adds up the servers' counts by minute, given in order of their instants.
func SumMinutes(out []TenantMinute, m TenantMinute) []TenantMinute {
	if n := len(out); n > 0 && out[n-1].At.Equal(m.At) {
		out[n-1].Add(m)
		return out
	}
	return append(out, m)
}

// TenantDepths counts a tenant's waiting and running executions.
type TenantDepths struct {
	Tenant tenant.ID // "": all
	Queues []QueueDepth
}

// OtherQueues is the name under which a tenant's queues beyond the fullest are counted together.
const OtherQueues = "…"

// QueueDepth counts a queue's waiting and running executions.
type QueueDepth struct {
	Queue   string
	Waiting int64
	Running int64
	Oldest  time.Duration // how long the first has waited; 0: nothing waits
}

// DepthMinute counts waiting and running executions in a minute.
type DepthMinute struct {
	At     time.Time
	Queues []QueueDepth
}

// EncodeDepths returns the stored form of depths.
func EncodeDepths(qs []QueueDepth) []byte {
	var b []byte
	for _, q := range qs {
		b = append(binary.AppendUvarint(b, uint64(len(q.Queue))), q.Queue...)
		for _, n := range []int64{q.Waiting, q.Running, q.Oldest.Microseconds()} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// DecodeDepths decodes the result of EncodeDepths.
func DecodeDepths(b []byte) (out []QueueDepth, err error) {
	for u := (uvarints{b: b}); len(u.b) > 0; {
		n := u.next()
		if n < 0 || int(n) > len(u.b) {
			return nil, errForm
		}
		q := QueueDepth{Queue: string(u.b[:n])}
		u.b = u.b[n:]
		q.Waiting, q.Running, q.Oldest = u.next(), u.next(), u.micros()
		if u.bad || q.Waiting < 0 || q.Running < 0 {
			return nil, errForm
		}
		out = append(out, q)
	}
	return out, nil
}

// JobDay counts the outcomes of a job's executions that were scheduled on one day.
type JobDay struct {
	Tenant tenant.ID
	Job    job.ID
	Day    time.Time // its beginning, UTC
	DayCounts
}

// DayCounts counts executions by outcome, and instants that did not run.
type DayCounts struct {
	Succeeded, Failed, TimedOut, Cancelled int64
	Skipped                                int64
	Late                                   int64 // of those that ran: fired late
}

func (c *DayCounts) numbers() [6]*int64 {
	return [...]*int64{&c.Succeeded, &c.Failed, &c.TimedOut, &c.Cancelled, &c.Skipped, &c.Late}
}

// Add adds others.
func (c *DayCounts) Add(o DayCounts) {
	mine, its := c.numbers(), o.numbers()
	for i := range mine {
		*mine[i] += *its[i]
	}
}

// Month is the number of a month: those of the year 0 are 0 to 11.
func Month(t time.Time) int { return t.UTC().Year()*12 + int(t.UTC().Month()) - 1 }

// MonthDays holds the counts of a month by day, from 1.
type MonthDays [32]DayCounts

// Encode returns their stored form.
func (m *MonthDays) Encode() []byte {
	var b []byte
	for day := range m {
		if m[day] == (DayCounts{}) {
			continue
		}
		b = append(b, byte(day))
		for _, n := range m[day].numbers() {
			b = binary.AppendUvarint(b, uint64(*n))
		}
	}
	return b
}

// DecodeMonth decodes the result of Encode.
func DecodeMonth(b []byte) (m MonthDays, err error) {
	for u := (uvarints{b: b}); len(u.b) > 0; {
		day := u.b[0]
		if u.b = u.b[1:]; int(day) >= len(m) {
			return m, errForm
		}
		for _, n := range m[day].numbers() {
			*n = u.next()
		}
		if u.bad {
			return m, errForm
		}
	}
	return m, nil
}

// Days lists the days of a month that have counts, from one up to but excluding another.
func (m *MonthDays) Days(number int, t tenant.ID, j job.ID, from, until time.Time) (out []JobDay) {
	for day := range m {
		at := time.Date(number/12, time.Month(number%12+1), day, 0, 0, 0, 0, time.UTC)
		if m[day] != (DayCounts{}) && !at.Before(from) && at.Before(until) {
			out = append(out, JobDay{Tenant: t, Job: j, Day: at, DayCounts: m[day]})
		}
	}
	return out
}

// MonthOf is a job and a month.
type MonthOf struct {
	Tenant tenant.ID
	Job    job.ID
	Month  int
}

// ByMonth adds up days by job and month.
func ByMonth(days []JobDay) map[MonthOf]*MonthDays {
	out := map[MonthOf]*MonthDays{}
	for _, d := range days {
		k := MonthOf{d.Tenant, d.Job, Month(d.Day)}
		if out[k] == nil {
			out[k] = &MonthDays{}
		}
		out[k][d.Day.UTC().Day()].Add(d.DayCounts)
	}
	return out
}

// Failure is an error that executions of a job failed with in an hour.
type Failure struct {
	Tenant      tenant.ID
	Hour        time.Time // its beginning
	Fingerprint job.Fingerprint
	Job         job.ID // zero: any, if the fingerprint is the zero one
	Failed      int64  // executions, for good
	Retried     int64  // attempts that are followed by another
	First, Last time.Time
	Execution   job.ExecutionID // the last of them that failed for good, or the last of them if none did

	Type    job.ErrorType
	Message string // normal, see job.Normal
	Sample  string // as one of them has it
}

// FailureFilter selects failures.
type FailureFilter struct {
	Tenant tenant.ID
	Job    job.ID    // zero: any
	From   time.Time // of hours from that of this instant on
}

// Owned is an execution with its tenant and job.
type Owned struct {
	Execution   job.ExecutionID
	Tenant      tenant.ID
	Job         job.ID
	Trigger     job.Trigger
	ScheduledAt time.Time
}

// Run is a short form of an execution.
type Run struct {
	ID          job.ExecutionID
	Status      job.Status
	ScheduledAt time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
}

// DeadError is the error of a dead letter.
type DeadError struct {
	Execution job.ExecutionID
	Job       job.ID
	Reason    job.DeadReason
	At        time.Time
	Error     *job.Error // nil: it is not known
}

// Revision is a replaced state of a job, with the author of the change that replaced it.
type Revision struct {
	Job        job.Job // without its plan; of its instants only its creation is known
	ReplacedAt time.Time
	Author
}

// Ended is an execution that ended without a result.
type Ended struct {
	Owned
	Status job.Status
	Error  *job.Error // of one that failed
}

// Author identifies who changed something.
type Author struct {
	By     string // "": the product itself
	Role   tenant.Role
	Action string
}

// AuthorOf returns the author of a change from its audit entry. Without one it is the product itself.
func AuthorOf(e *audit.Entry) Author {
	if e == nil {
		return Author{}
	}
	return Author{e.By, e.Role, e.Action}
}
