package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// The stored forms have short names and omit zero values. Engines store them as bytes and never look inside, so a
// field may be added without a migration (and in form.go).

type storedTarget struct {
	Kind    job.TargetKind    `json:"k"`
	Timeout time.Duration     `json:"t,omitempty"`
	URL     string            `json:"u,omitempty"`
	Method  string            `json:"m,omitempty"`
	Headers map[string]string `json:"h,omitempty"`
	Status  []int             `json:"es,omitempty"`
	Body    string            `json:"eb,omitempty"`
	Follow  bool              `json:"f,omitempty"`
	Handler string            `json:"hk,omitempty"`
	Work    string            `json:"w,omitempty"`
	Length  time.Duration     `json:"d,omitempty"`
	Fails   int               `json:"fa,omitempty"`
	Stall   time.Duration     `json:"st,omitempty"`
	Total   time.Duration     `json:"tt,omitempty"`

	Command    []string          `json:"c,omitempty"`
	Artifact   string            `json:"a,omitempty"`
	Entrypoint string            `json:"ep,omitempty"`
	Env        map[string]string `json:"env,omitempty"`

	Version int `json:"v,omitempty"`
}

// EncodeTarget returns the stored form of a target.
func EncodeTarget(t *job.Target) []byte { return AppendTarget(make([]byte, 0, 128), t) }

// AppendTarget appends the result of EncodeTarget.
func AppendTarget(b []byte, t *job.Target) []byte {
	s := storedTarget{t.Kind, t.Timeout, t.URL, t.Method, t.Headers, t.ExpectStatus, t.ExpectBody, t.FollowRedirects, t.Handler, t.WorkKind, t.Duration, t.FailAttempts, t.Stall, t.Total, t.Command, t.Artifact, t.Entrypoint, t.Env, t.Version}
	return s.append(b)
}

// DecodeTarget decodes the result of EncodeTarget.
func DecodeTarget(b []byte) (job.Target, error) {
	var s storedTarget
	if err := json.Unmarshal(b, &s); err != nil {
		return job.Target{}, fmt.Errorf("read a stored target: %w", err)
	}
	return job.Target{
		Kind: s.Kind, Timeout: s.Timeout, URL: s.URL, Method: s.Method, Headers: s.Headers,
		ExpectStatus: s.Status, ExpectBody: s.Body, FollowRedirects: s.Follow, Handler: s.Handler,
		WorkKind: s.Work, Duration: s.Length, FailAttempts: s.Fails, Stall: s.Stall, Total: s.Total,
		Command: s.Command, Artifact: s.Artifact, Entrypoint: s.Entrypoint, Env: s.Env, Version: s.Version,
	}, nil
}

type storedSpec struct {
	Description string        `json:"desc,omitempty"`
	At          *time.Time    `json:"at,omitempty"`
	Retries     int           `json:"r,omitempty"`
	Backoff     job.Backoff   `json:"b,omitempty"`
	Initial     time.Duration `json:"i,omitempty"`
	Max         time.Duration `json:"x,omitempty"`
	Owner       string        `json:"o,omitempty"`
	Runbook     string        `json:"rb,omitempty"`
	Queue       string        `json:"q,omitempty"`
	Labels      []string      `json:"l,omitempty"`

	AtOnce   int           `json:"mc,omitempty"`
	GroupBy  string        `json:"ck,omitempty"`
	Count    int           `json:"rc,omitempty"` // of the rate
	Per      time.Duration `json:"rp,omitempty"`
	Burst    int           `json:"ru,omitempty"`
	Unique   string        `json:"uk,omitempty"`
	Expires  time.Duration `json:"ex,omitempty"`
	Redrive  time.Duration `json:"ar,omitempty"`
	Kept     int           `json:"kd,omitempty"` // days, of the retention
	KeptIll  int           `json:"kf,omitempty"`
	Total    time.Duration `json:"tt,omitempty"` // the target's, for readers that do not read the target
	GroupKey job.GroupKey  `json:"gk,omitempty"`

	Cron     string        `json:"c,omitempty"` // this and what follows: of the schedule
	Zone     string        `json:"z,omitempty"`
	Day      string        `json:"dy,omitempty"`
	Every    time.Duration `json:"ev,omitempty"`
	Jitter   time.Duration `json:"j,omitempty"`
	Start    *time.Time    `json:"sa,omitempty"`
	End      *time.Time    `json:"ea,omitempty"`
	MaxRuns  int64         `json:"mr,omitempty"`
	Calendar string        `json:"cal,omitempty"`
	Overlap  job.Overlap   `json:"ov,omitempty"`
	CatchUp  job.CatchUp   `json:"cu,omitempty"`
	CatchMax int           `json:"cl,omitempty"`
	Paused   *time.Time    `json:"pa,omitempty"` // when its last pause began
	Resumed  *time.Time    `json:"ra,omitempty"` // and when it ended

	Parents []job.ID `json:"dep,omitempty"`
	If      string   `json:"dif,omitempty"`
}

// EncodeSpec returns the stored form of the parts of a definition that have no column of their own. Key, name,
// schedule type, target, payload, priority and tags have one.
func EncodeSpec(j *job.Job) []byte { return AppendSpec(make([]byte, 0, 128), j) }

// AppendSpec appends the result of EncodeSpec.
func AppendSpec(b []byte, j *job.Job) []byte {
	d := &j.Definition
	s := storedSpec{
		AtOnce: d.MaxConcurrent, GroupBy: d.ConcurrencyKey, Count: d.Rate.Count, Per: d.Rate.Per, Burst: d.Rate.Burst, Unique: d.UniqueKey,
		Expires: d.ExpiresAfter, Redrive: d.AutoRedriveAfter, Kept: d.Retention.Days, KeptIll: d.Retention.FailedDays, Total: d.Target.Total, GroupKey: j.Group.Key,
		Description: d.Description, Retries: d.Retry.MaxRetries, Backoff: d.Retry.Backoff, Initial: d.Retry.InitialDelay, Max: d.Retry.MaxDelay,
		Owner: d.Owner, Runbook: d.Runbook, Queue: d.Queue, Labels: d.Labels,
	}
	x := &d.Schedule
	s.At, s.Start, s.End = instant(x.At), instant(x.Start), instant(x.End)
	s.Cron, s.Zone, s.Day, s.Every, s.Jitter, s.MaxRuns, s.Calendar = x.Cron, x.Zone, x.Day, x.Every, x.Jitter, x.MaxRuns, x.Calendar
	s.Overlap, s.CatchUp, s.CatchMax = d.Overlap, d.CatchUp, d.CatchUpLimit
	s.Paused, s.Resumed = instant(j.PausedAt), instant(j.ResumedAt)
	s.Parents, s.If = d.DependsOn, d.DependsIf
	return s.append(b)
}

// CalendarMark returns a text that the stored form of a definition contains if and only if its schedule names the
// calendar: within a JSON string its quotes would be escaped.
func CalendarMark(name string) []byte { return []byte(`"cal":"` + name + `"`) }

// OwnerMark returns a text that the stored form of a definition contains if and only if the job has this owner.
func OwnerMark(owner string) []byte {
	s := storedSpec{Owner: owner}
	b := s.append(nil)
	return b[1 : len(b)-1] // without the braces
}

// WorkflowMark returns a text that the stored form of a target begins with if and only if it is a workflow.
func WorkflowMark() []byte { return []byte(`{"k":"workflow"`) }

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t) // not &t, for which a zero time would be allocated, too
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// DecodeSpec decodes the result of EncodeSpec into the job.
func DecodeSpec(b []byte, j *job.Job) error {
	var s storedSpec
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read a stored definition: %w", err)
	}
	d := &j.Definition
	d.MaxConcurrent, d.ConcurrencyKey, d.Rate = s.AtOnce, s.GroupBy, job.Rate{Count: s.Count, Per: s.Per, Burst: s.Burst}
	d.Retention = job.Retention{Days: s.Kept, FailedDays: s.KeptIll}
	d.UniqueKey, d.ExpiresAfter, d.AutoRedriveAfter, d.Target.Total = s.Unique, s.Expires, s.Redrive, s.Total
	if s.GroupKey != 0 {
		j.Group = job.Group{Key: s.GroupKey, Max: d.MaxConcurrent, Rate: d.Rate}
	}
	d.Description, d.Owner, d.Runbook, d.Queue, d.Labels = s.Description, s.Owner, s.Runbook, s.Queue, s.Labels
	d.Retry = job.RetryPolicy{MaxRetries: s.Retries, Backoff: s.Backoff, InitialDelay: s.Initial, MaxDelay: s.Max}
	d.Schedule = job.Schedule{
		Type: d.Schedule.Type, At: orZero(s.At), Cron: s.Cron, Zone: s.Zone, Day: s.Day, Every: s.Every, Jitter: s.Jitter,
		Start: orZero(s.Start), End: orZero(s.End), MaxRuns: s.MaxRuns, Calendar: s.Calendar,
	}
	d.Overlap, d.CatchUp, d.CatchUpLimit = s.Overlap, s.CatchUp, s.CatchMax
	j.PausedAt, j.ResumedAt = orZero(s.Paused), orZero(s.Resumed)
	d.DependsOn, d.DependsIf = s.Parents, s.If
	return nil
}

// DecodeHeld decodes the part of a job's spec that deciding an outcome needs.
func DecodeHeld(b []byte, h *job.Held) error {
	var j job.Job
	err := DecodeSpec(b, &j)
	h.Retry, h.Total, h.AutoRedrive = j.Retry, j.Target.Total, j.AutoRedriveAfter
	return err
}

type storedProgress struct {
	Percent int    `json:"p"`
	Message string `json:"m,omitempty"`
}

// EncodeProgress returns the stored form of progress, without its instant.
func EncodeProgress(percent int, message string) []byte {
	return encode(storedProgress{percent, message})
}

// DecodeProgress decodes the result of EncodeProgress; nil for nothing.
func DecodeProgress(b []byte, at time.Time) (*job.Progress, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var s storedProgress
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read stored progress: %w", err)
	}
	return &job.Progress{Percent: s.Percent, Message: s.Message, At: at}, nil
}

// HeldUnique is the error of an execution that did not run because another holds its unique key.
func HeldUnique(key string) *job.Error {
	return &job.Error{Type: job.CancelledError, Message: fmt.Sprintf("another execution with the unique key %q had not finished", key)}
}

// ReplacedBy returns the error of an execution that is cancelled because a later instant replaces it.
func ReplacedBy(at time.Time) string {
	return "replaced by the execution of " + at.UTC().Format(time.RFC3339)
}

// ExpiredInTime is the error of an execution that did not start in time.
func ExpiredInTime() *job.Error {
	return &job.Error{Type: job.CancelledError, Message: "it did not start before its expiry"}
}

type storedEnd struct {
	Type     job.ErrorType `json:"t,omitempty"`
	Message  string        `json:"m,omitempty"`
	Status   int           `json:"s,omitempty"`
	Answered int           `json:"as,omitempty"`
	Body     string        `json:"ab,omitempty"`

	Metadata map[string]string `json:"md,omitempty"`
}

// EncodeSkip returns the stored form of the end of a skipped execution.
func EncodeSkip(metadata map[string]string) []byte { return encode(storedEnd{Metadata: metadata}) }

// Overlapped returns the end of an execution that was skipped because of its overlap policy.
func Overlapped() []byte { return EncodeSkip(map[string]string{"reason": string(job.SkipOverlap)}) }

// DecodeMetadata decodes the result of EncodeSkip; nil if there is none.
func DecodeMetadata(b []byte) map[string]string {
	var s storedEnd
	if len(b) == 0 || json.Unmarshal(b, &s) != nil {
		return nil
	}
	return s.Metadata
}

// EncodeEnd returns the stored form of an error and a response; nil if there is neither.
func EncodeEnd(e *job.Error, r *job.Response) []byte {
	if e == nil && r == nil {
		return nil
	}
	var s storedEnd
	if e != nil {
		s.Type, s.Message, s.Status = e.Type, e.Message, e.HTTPStatus
	}
	if r != nil {
		s.Answered, s.Body = r.HTTPStatus, r.BodyPreview
	}
	return encode(s)
}

// DecodeEnd decodes the result of EncodeEnd.
func DecodeEnd(b []byte) (*job.Error, *job.Response, error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	var s storedEnd
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, nil, fmt.Errorf("read a stored outcome: %w", err)
	}
	var e *job.Error
	var r *job.Response
	if s.Type != "" {
		e = &job.Error{Type: s.Type, Message: s.Message, HTTPStatus: s.Status}
	}
	if s.Answered != 0 {
		r = &job.Response{HTTPStatus: s.Answered, BodyPreview: s.Body}
	}
	return e, r, nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("engine: a stored form cannot be encoded: " + err.Error()) // only strings, numbers and maps of strings
	}
	return b
}

// ErrCursor means that a cursor was not made by this list.
var ErrCursor = fmt.Errorf("the cursor is not one that this list gave")

// EncodeCursor makes the cursor after a row: its instant and its id.
func EncodeCursor(at time.Time, id [16]byte) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(at.UnixMicro()))
	copy(b[8:], id[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// EncodePlace makes the cursor after a row with a number: it becomes the last eight bytes of the id.
func EncodePlace(n int64) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return EncodeCursor(time.UnixMicro(0), id)
}

// DecodeCursor decodes the result of EncodeCursor.
func DecodeCursor(s string) (at time.Time, id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 24 {
		return time.Time{}, id, ErrCursor
	}
	copy(id[:], b[8:])
	at = time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
	if y := at.Year(); y < 1 || y > 9999 { // which a database may not take
		return time.Time{}, id, ErrCursor
	}
	return at, id, nil
}
