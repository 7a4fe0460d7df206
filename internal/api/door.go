package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/worker"
)

// Door connects a worker inside this process to the dispatcher.
type Door struct {
	d     *dispatch.Dispatcher
	out   *delivery.Pipeline
	clock clock.Clock
	nudge chan struct{}
	whose tenant.ID // empty: it serves every tenant

	secrets *secret.Vault
}

var (
	_ worker.Source = (*Door)(nil)
	_ worker.Gauge  = (*Door)(nil)
)

// NewDoor makes a door to a dispatcher.
func NewDoor(d *dispatch.Dispatcher, out *delivery.Pipeline, clk clock.Clock) *Door {
	return &Door{d: d, out: out, clock: clk, nudge: make(chan struct{}, 1)}
}

// Of returns another door to the same dispatcher, for a worker that serves one tenant.
func (d *Door) Of(t tenant.ID) *Door {
	return &Door{d: d.d, out: d.out, clock: d.clock, nudge: make(chan struct{}, 1), whose: t, secrets: d.secrets}
}

// Guard removes secrets from the worker's reports.
func (d *Door) Guard(v *secret.Vault) { d.secrets = v }

// Nudge makes the worker send a heartbeat at once, since there may be orders for it.
func (d *Door) Nudge() {
	select {
	case d.nudge <- struct{}{}:
	default:
	}
}

// Nudged returns the channel that wakes the worker.
func (d *Door) Nudged() <-chan struct{} { return d.nudge }

// Register begins a session.
func (d *Door) Register(ctx context.Context, r client.Registration) (client.Session, error) {
	w := job.Worker{
		ID: job.WorkerID(uuid.Must(uuid.NewV7())), Tenant: d.whose, Host: r.Host, Version: r.Version, Capacity: r.Capacity, StartedAt: d.clock.Now().Truncate(time.Microsecond),
		Labels: r.Labels, Queues: r.Queues, Targets: r.Targets, Kinds: r.Kinds, Beat: job.Beat{Memory: memoryOf(r.Memory)},
	}
	if err := d.d.RegisterLocal(ctx, w); err != nil {
		return client.Session{}, err
	}
	lease := int(d.d.LeaseTTL() / time.Second)
	return client.Session{WorkerID: w.ID.String(), Session: w.ID.String(), LeaseSeconds: lease, BeatSeconds: max(1, lease/3)}, nil
}

// Claim waits for executions and leases them.
func (d *Door) Claim(ctx context.Context, s client.Session, limit int) ([]client.Attempt, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return nil, err
	}
	as, err := d.d.Claim(ctx, w, limit)
	if err != nil {
		return nil, session(err)
	}
	return d.out.Give(ctx, w, as, secret.Named), nil
}

// Start returns an attempt that was claimed without the values of its secrets, with them.
func (d *Door) Start(ctx context.Context, s client.Session, h client.Held) (client.Attempt, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return client.Attempt{}, err
	}
	ls, err := leases([]client.Held{h})
	if err != nil {
		return client.Attempt{}, err
	}
	a, err := d.d.Start(ctx, w, ls[0])
	if err != nil {
		return client.Attempt{}, refused(session(err))
	}
	out, err := d.out.Start(ctx, w, &a)
	return out, refused(err)
}

// Beat keeps the session alive.
func (d *Door) Beat(ctx context.Context, s client.Session, b client.Beat) (client.Orders, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return client.Orders{}, err
	}
	orders, err := d.intake().beat(ctx, w, b)
	return orders, session(err)
}

// Report reports outcomes.
func (d *Door) Report(ctx context.Context, s client.Session, outcomes []client.Outcome) ([]client.Verdict, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return nil, err
	}
	vs, err := d.intake().report(ctx, w, outcomes)
	return vs, refused(session(err))
}

// Logs adds lines to a log.
func (d *Door) Logs(ctx context.Context, s client.Session, r client.LogRequest) (client.LogAnswer, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return client.LogAnswer{}, err
	}
	a, err := d.intake().log(ctx, w, r, d.clock.Now)
	return a, refused(session(err))
}

func (d *Door) intake() intake { return intake{d.d, d.secrets, false} }

// refused reports the worker's own mistakes in the same way as over HTTP.
func refused(err error) error {
	if err == nil || errors.Is(err, worker.ErrSession) {
		return err
	}
	if p, ours := problem(err); !ours {
		return &p
	}
	return err
}

// Waiting counts executions that wait for a worker like this one, up to most.
func (d *Door) Waiting(ctx context.Context, s client.Session, most int) (int, error) {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return 0, err
	}
	n, err := d.d.Waiting(ctx, w, most)
	return n, session(err)
}

// Release returns executions to the queue.
func (d *Door) Release(ctx context.Context, s client.Session, held []client.Held) error {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return err
	}
	ls, err := leases(held)
	if err != nil {
		return err
	}
	return session(d.d.Release(ctx, w, ls))
}

// Leave ends the session.
func (d *Door) Leave(ctx context.Context, s client.Session) error {
	w, err := job.ParseWorkerID(s.WorkerID)
	if err != nil {
		return err
	}
	return d.d.Leave(ctx, w)
}

// session translates a session error for the worker.
func session(err error) error {
	if errors.Is(err, engine.ErrSession) {
		return fmt.Errorf("%w: %w", worker.ErrSession, err)
	}
	return err
}

var outcomes = map[string]job.OutcomeStatus{
	client.Succeeded: job.OutcomeSucceeded, client.Failed: job.OutcomeFailed, client.Cancelled: job.OutcomeCancelled,
	client.Snoozed: job.OutcomeSnoozed, client.Parked: job.OutcomeParked, client.Skipped: job.OutcomeSkipped,
}

func outcome(o client.Outcome) (job.Outcome, error) {
	id, err := job.ParseExecutionID(o.ExecutionID)
	if err != nil {
		return job.Outcome{}, job.Invalids{{Field: "execution_id", Value: job.Show(o.ExecutionID), Want: "an execution's id"}}
	}
	status, ok := outcomes[strings.ToUpper(o.Status)]
	if !ok {
		return job.Outcome{}, job.Invalids{{Field: "status", Value: job.Show(o.Status), Want: "one of SUCCEEDED, FAILED, CANCELLED, SNOOZED, PARKED, SKIPPED"}}
	}
	if status == job.OutcomeSnoozed && o.RetryAfterMS < 1 {
		return job.Outcome{}, job.Invalids{{Field: "retry_after_ms", Value: job.Show(o.RetryAfterMS), Want: "with SNOOZED, in how many milliseconds to try again: 1 or more"}}
	}
	if n := len(o.Result); n > client.MaxResult {
		return job.Outcome{}, job.Invalids{{Field: "result", Value: fmt.Sprintf("%d bytes", n), Want: fmt.Sprintf("at most %d bytes of JSON", client.MaxResult)}}
	}
	if len(o.Result) > 0 && !json.Valid(o.Result) {
		return job.Outcome{}, job.Invalids{{Field: "result", Value: job.Show(string(o.Result)), Want: "valid JSON"}}
	}
	if e := o.Error; e != nil && e.Type != "" && !job.ValidName(e.Type) {
		return job.Outcome{}, job.Invalids{{Field: "error.type", Value: job.Show(e.Type), Want: "one of the error types, such as HANDLER_ERROR"}}
	}
	out := job.Outcome{
		Lease: job.Lease{Execution: id, Token: job.Token(o.FencingToken)}, Status: status, Result: o.Result,
		Retryable: o.Retryable, RetryAfter: millis(o.RetryAfterMS),
	}
	if e := o.Error; e != nil {
		out.Error = &job.Error{Type: job.ErrorType(e.Type), Message: e.Message, HTTPStatus: e.HTTPStatus}
	}
	if r := o.Response; r != nil {
		out.Response = &job.Response{HTTPStatus: r.HTTPStatus, BodyPreview: r.BodyPreview}
	}
	return out, nil
}

// storable makes an outcome storable. Secrets are removed before: a secret that is cut is no longer recognised.
func storable(o *job.Outcome) {
	if o.Error != nil {
		e := *o.Error
		e.Message = told(e.Message)
		o.Error = &e
	}
	if o.Response != nil {
		r := *o.Response
		r.BodyPreview = told(r.BodyPreview)
		o.Response = &r
	}
}

// told returns a worker's text in storable form: not too long, and without what a database does not accept.
func told(s string) string {
	if len(s) > client.MaxMessage {
		s = s[:client.MaxMessage]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
