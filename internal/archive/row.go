package archive

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// row is a finished execution. Its columns have the names of the API's fields. A column that is added later must be optional.
type row struct {
	Tenant          string     `parquet:"tenant,dict"`
	JobID           string     `parquet:"job_id,dict"`
	FinishedAt      time.Time  `parquet:"finished_at,timestamp(microsecond)"`
	ExecutionID     string     `parquet:"execution_id"`
	JobName         string     `parquet:"job_name,dict"`
	Tags            []string   `parquet:"tags,list" json:",omitempty"`
	Status          string     `parquet:"status,dict"`
	Trigger         string     `parquet:"trigger,dict"`
	ScheduledTime   time.Time  `parquet:"scheduled_time,timestamp(microsecond)"`
	DueAt           time.Time  `parquet:"due_at,timestamp(microsecond)"`
	StartedAt       *time.Time `parquet:"started_at,optional,timestamp(microsecond)"`
	LastAttemptAt   *time.Time `parquet:"last_attempt_at,optional,timestamp(microsecond)"`
	DurationMS      *int64     `parquet:"duration_ms,optional"`
	AttemptNumber   int64      `parquet:"attempt_number"`
	FailedAttempts  int64      `parquet:"failed_attempts"`
	LostAttempts    int64      `parquet:"lost_attempts"`
	MaxAttempts     int64      `parquet:"max_attempts"`
	Priority        int64      `parquet:"priority"`
	Partition       int64      `parquet:"partition"`
	WorkerID        *string    `parquet:"worker_id,optional,dict"`
	FencingToken    int64      `parquet:"fencing_token"`
	RetryOf         *string    `parquet:"retry_of,optional"`
	ErrorType       *string    `parquet:"error_type,optional,dict"`
	ErrorMessage    *string    `parquet:"error_message,optional"`
	ErrorHTTPStatus *int64     `parquet:"error_http_status,optional"`
	ResponseStatus  *int64     `parquet:"response_status,optional"`
	ResponseBody    *string    `parquet:"response_body,optional"`
	Metadata        *string    `parquet:"metadata,optional"` // JSON
	Payload         *string    `parquet:"payload,optional"`  // JSON
	Result          *string    `parquet:"result,optional"`   // JSON
	Attempts        []attempt  `parquet:"attempts,list" json:",omitempty"`
	Events          []event    `parquet:"events,list" json:",omitempty"`
}

type attempt struct {
	Number       int64     `parquet:"number"`
	FencingToken int64     `parquet:"fencing_token"`
	WorkerID     *string   `parquet:"worker_id,optional"`
	StartedAt    time.Time `parquet:"started_at,timestamp(microsecond)"`
	EndedAt      time.Time `parquet:"ended_at,timestamp(microsecond)"`
	ErrorType    string    `parquet:"error_type"`
	ErrorMessage string    `parquet:"error_message"`
	HTTPStatus   *int64    `parquet:"http_status,optional"`
}

type event struct {
	At           time.Time `parquet:"at,timestamp(microsecond)"`
	Type         string    `parquet:"type"`
	Attempt      int64     `parquet:"attempt"`
	FencingToken int64     `parquet:"fencing_token"`
	WorkerID     *string   `parquet:"worker_id,optional"`
	Detail       string    `parquet:"detail"`
}

// line is a line of a log.
type line struct {
	Tenant       string    `parquet:"tenant,dict"`
	JobID        string    `parquet:"job_id,dict"`
	ExecutionID  string    `parquet:"execution_id,dict"`
	Attempt      int64     `parquet:"attempt"`
	FencingToken int64     `parquet:"fencing_token"`
	Line         int64     `parquet:"line"`
	At           time.Time `parquet:"at,timestamp(microsecond)"`
	Stream       string    `parquet:"stream,dict"`
	Text         string    `parquet:"text"`
}

func rowOf(f *engine.Finished) (row, error) {
	e := &f.Execution
	r := row{
		Tenant: string(e.Tenant), JobID: e.Job.String(), FinishedAt: e.FinishedAt.UTC(), ExecutionID: e.ID.String(), JobName: e.JobName, Tags: f.Tags,
		Status: e.Status.String(), Trigger: e.Trigger.String(), ScheduledTime: e.ScheduledAt.UTC(), DueAt: e.DueAt.UTC(), StartedAt: maybe(e.StartedAt), LastAttemptAt: maybe(e.LeasedAt),
		AttemptNumber: int64(e.Attempt), FailedAttempts: int64(e.Tries), LostAttempts: int64(e.Lost), MaxAttempts: int64(e.MaxAttempts), Priority: int64(e.Priority), Partition: int64(e.Partition),
		FencingToken: int64(e.Token), Payload: texts(e.Payload), Result: texts(e.Result),
	}
	if !e.StartedAt.IsZero() {
		r.DurationMS = new(e.Duration().Milliseconds())
	}
	if !e.Worker.IsZero() {
		r.WorkerID = new(e.Worker.String())
	}
	if !e.RetryOf.IsZero() {
		r.RetryOf = new(e.RetryOf.String())
	}
	if x := e.Error; x != nil {
		r.ErrorType, r.ErrorMessage, r.ErrorHTTPStatus = new(string(x.Type)), new(x.Message), number(x.HTTPStatus)
	}
	if x := e.Response; x != nil {
		r.ResponseStatus, r.ResponseBody = new(int64(x.HTTPStatus)), new(x.BodyPreview)
	}
	if len(e.Metadata) > 0 {
		text, err := json.Marshal(e.Metadata)
		if err != nil {
			return r, err
		}
		r.Metadata = new(string(text))
	}
	for _, a := range f.Attempts {
		x := attempt{
			Number: int64(a.Number), FencingToken: int64(a.Token), StartedAt: a.StartedAt.UTC(), EndedAt: a.EndedAt.UTC(),
			ErrorType: string(a.Error.Type), ErrorMessage: a.Error.Message, HTTPStatus: number(a.Error.HTTPStatus),
		}
		if !a.Worker.IsZero() {
			x.WorkerID = new(a.Worker.String())
		}
		r.Attempts = append(r.Attempts, x)
	}
	for _, k := range f.Events {
		x := event{At: k.At.UTC(), Type: string(k.Kind), Attempt: int64(k.Attempt), FencingToken: int64(k.Token), Detail: k.Note}
		if !k.Worker.IsZero() {
			x.WorkerID = new(k.Worker.String())
		}
		r.Events = append(r.Events, x)
	}
	return r, nil
}

// finished returns what a row says. A row that says what no execution is was not written by Carillon.
func (r *row) finished() (f engine.Finished, err error) {
	e := &f.Execution
	if e.ID, err = job.ParseExecutionID(r.ExecutionID); err != nil {
		return f, fmt.Errorf("execution_id: %w", err)
	}
	if e.Job, err = job.ParseID(r.JobID); err != nil {
		return f, fmt.Errorf("job_id: %w", err)
	}
	var ok bool
	if e.Status, ok = statuses[r.Status]; !ok {
		return f, fmt.Errorf("status: there is none called %.40q", r.Status)
	}
	if e.Trigger, ok = triggers[r.Trigger]; !ok {
		return f, fmt.Errorf("trigger: there is none called %.40q", r.Trigger)
	}
	e.Tenant, e.JobName, e.Token = tenant.ID(r.Tenant), r.JobName, job.Token(r.FencingToken)
	if len(r.Tags) > 0 {
		f.Tags = r.Tags
	}
	e.ScheduledAt, e.DueAt, e.FinishedAt, e.StartedAt, e.LeasedAt = r.ScheduledTime.UTC(), r.DueAt.UTC(), r.FinishedAt.UTC(), orZero(r.StartedAt), orZero(r.LastAttemptAt)
	e.Attempt, e.Tries, e.Lost, e.MaxAttempts, e.Priority, e.Partition = int(r.AttemptNumber), int(r.FailedAttempts), int(r.LostAttempts), int(r.MaxAttempts), int(r.Priority), job.Partition(r.Partition)
	if e.Worker, err = worker(r.WorkerID); err != nil {
		return f, err
	}
	if r.RetryOf != nil {
		if e.RetryOf, err = job.ParseExecutionID(*r.RetryOf); err != nil {
			return f, fmt.Errorf("retry_of: %w", err)
		}
	}
	if r.Payload != nil {
		e.Payload = []byte(*r.Payload)
	}
	if r.Result != nil {
		e.Result = []byte(*r.Result)
	}
	if r.ErrorType != nil {
		e.Error = &job.Error{Type: job.ErrorType(*r.ErrorType), Message: deref(r.ErrorMessage), HTTPStatus: int(deref(r.ErrorHTTPStatus))}
	}
	if r.ResponseStatus != nil {
		e.Response = &job.Response{HTTPStatus: int(*r.ResponseStatus), BodyPreview: deref(r.ResponseBody)}
	}
	if r.Metadata != nil {
		if err := json.Unmarshal([]byte(*r.Metadata), &e.Metadata); err != nil {
			return f, fmt.Errorf("metadata: %w", err)
		}
	}
	for _, a := range r.Attempts {
		x := job.PastAttempt{
			Execution: e.ID, Token: job.Token(a.FencingToken), Number: int(a.Number), StartedAt: a.StartedAt.UTC(), EndedAt: a.EndedAt.UTC(),
			Error: job.Error{Type: job.ErrorType(a.ErrorType), Message: a.ErrorMessage, HTTPStatus: int(deref(a.HTTPStatus))},
		}
		if x.Worker, err = worker(a.WorkerID); err != nil {
			return f, err
		}
		f.Attempts = append(f.Attempts, x)
	}
	for _, k := range r.Events {
		x := job.Event{At: k.At.UTC(), Kind: job.EventKind(k.Type), Attempt: int(k.Attempt), Token: job.Token(k.FencingToken), Note: k.Detail}
		if x.Worker, err = worker(k.WorkerID); err != nil {
			return f, err
		}
		f.Events = append(f.Events, x)
	}
	return f, nil
}

var (
	statuses = byName(job.Statuses())
	triggers = byName(job.Triggers())
)

func byName[T fmt.Stringer](all []T) map[string]T {
	out := make(map[string]T, len(all))
	for _, x := range all {
		out[x.String()] = x
	}
	return out
}

func worker(text *string) (w job.WorkerID, err error) {
	if text == nil {
		return w, nil
	}
	if w, err = job.ParseWorkerID(*text); err != nil {
		return w, fmt.Errorf("worker_id: %w", err)
	}
	return w, nil
}

func maybe(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func texts(b []byte) *string {
	if b == nil {
		return nil
	}
	return new(string(b))
}

func number(n int) *int64 {
	if n == 0 {
		return nil
	}
	return new(int64(n))
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
