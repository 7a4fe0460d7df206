package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// The stored forms: short names, nothing that is zero. Engines keep them as
// bytes and never look inside, so a field may be added without a migration.

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
}

// EncodeTarget is the stored form of what an execution runs.
func EncodeTarget(t job.Target) []byte {
	return encode(storedTarget{t.Kind, t.Timeout, t.URL, t.Method, t.Headers, t.ExpectStatus, t.ExpectBody, t.FollowRedirects, t.Handler, t.WorkKind, t.Duration, t.FailAttempts})
}

// DecodeTarget reads what EncodeTarget wrote.
func DecodeTarget(b []byte) (job.Target, error) {
	var s storedTarget
	if err := json.Unmarshal(b, &s); err != nil {
		return job.Target{}, fmt.Errorf("read a stored target: %w", err)
	}
	return job.Target{
		Kind: s.Kind, Timeout: s.Timeout, URL: s.URL, Method: s.Method, Headers: s.Headers,
		ExpectStatus: s.Status, ExpectBody: s.Body, FollowRedirects: s.Follow, Handler: s.Handler,
		WorkKind: s.Work, Duration: s.Length, FailAttempts: s.Fails,
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
}

// EncodeSpec is the stored form of the parts of a definition that have no
// column of their own. Key, name, schedule type, target, payload, priority and
// tags have one.
func EncodeSpec(d job.Definition) []byte {
	s := storedSpec{
		Description: d.Description, Retries: d.Retry.MaxRetries, Backoff: d.Retry.Backoff, Initial: d.Retry.InitialDelay, Max: d.Retry.MaxDelay,
		Owner: d.Owner, Runbook: d.Runbook, Queue: d.Queue, Labels: d.Labels,
	}
	if !d.Schedule.At.IsZero() {
		s.At = &d.Schedule.At
	}
	return encode(s)
}

// DecodeSpec reads what EncodeSpec wrote into the definition.
func DecodeSpec(b []byte, d *job.Definition) error {
	var s storedSpec
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read a stored definition: %w", err)
	}
	d.Description, d.Owner, d.Runbook, d.Queue, d.Labels = s.Description, s.Owner, s.Runbook, s.Queue, s.Labels
	d.Retry = job.RetryPolicy{MaxRetries: s.Retries, Backoff: s.Backoff, InitialDelay: s.Initial, MaxDelay: s.Max}
	if s.At != nil {
		d.Schedule.At = s.At.UTC()
	}
	return nil
}

type storedEnd struct {
	Type     job.ErrorType `json:"t,omitempty"`
	Message  string        `json:"m,omitempty"`
	Status   int           `json:"s,omitempty"`
	Answered int           `json:"as,omitempty"`
	Body     string        `json:"ab,omitempty"`
}

// EncodeEnd is the stored form of an error and a response; nil when there is neither.
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

// DecodeEnd reads what EncodeEnd wrote.
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

// ErrCursor says that a cursor was not made by this list.
var ErrCursor = fmt.Errorf("the cursor is not one that this list gave")

// EncodeCursor makes the cursor behind a row: its instant and its id.
func EncodeCursor(at time.Time, id [16]byte) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(at.UnixMicro()))
	copy(b[8:], id[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// DecodeCursor reads what EncodeCursor made.
func DecodeCursor(s string) (at time.Time, id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 24 {
		return time.Time{}, id, ErrCursor
	}
	copy(id[:], b[8:])
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(), id, nil
}
