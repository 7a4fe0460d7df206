package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// running is an attempt that runs, and the context that it runs in, which ends with the attempt's time, when it is
// stopped, and with all that runs. Most short attempts never use their context, and a cancellable context costs more
// than everything else that a worker does for one; so it is created when somebody first waits for it, or derives
// another from it.
type running struct {
	attempt  client.Attempt
	progress progress
	write    func(context.Context, client.LogRequest) (client.LogAnswer, error)
	onWay    *atomic.Int64 // bytes of logs, of all attempts of the pool
	nodes    nodes         // nil: it is not a node of a workflow
	base     context.Context
	until    time.Time // when the attempt's time is up

	mu    sync.Mutex
	log   *book                   // guarded by mu: made with the first line
	cause error                   // guarded by mu: why it was stopped; nil: it was not
	left  bool                    // guarded by mu: its executor has returned before it was stopped
	calm  context.Context         // guarded by mu: cancelled when it is stopped, regardless of its time; created when needed …
	end   context.CancelCauseFunc // … how that is stopped …
	whole context.Context         // … the context itself …
	free  context.CancelFunc      // … and how that ends alone
}

const defaultTimeout = 300 * time.Second

func newRunning(base context.Context, a client.Attempt) *running {
	timeout := defaultTimeout
	if t := a.Execution.TimeoutSeconds; t != nil {
		timeout = time.Duration(*t) * time.Second
	}
	return &running{attempt: a, base: base, until: time.Now().Add(timeout)}
}

// complete gives the attempt what it was claimed without. Only its executor reads that; others read the ids at any time.
func (r *running) complete(whole client.Attempt) {
	a := &r.attempt
	a.Execution, a.Kind, a.Payload, a.PayloadSecret = whole.Execution, whole.Kind, whole.Payload, whole.PayloadSecret
	a.CallbackHeaders, a.CallbackAllow, a.CallbackHTTPSOnly = whole.CallbackHeaders, whole.CallbackAllow, whole.CallbackHTTPSOnly
	a.Traceparent = whole.Traceparent
	a.LateSecrets = false
}

type runningKey struct{}

// runningOf returns the attempt that a context belongs to; nil: none.
func runningOf(ctx context.Context) *running {
	r, _ := ctx.Value(runningKey{}).(*running)
	return r
}

// Deadline returns when the attempt's time is up.
func (r *running) Deadline() (time.Time, bool) { return r.until, true }

// Done is closed when the context ends.
func (r *running) Done() <-chan struct{} { return r.context().Done() }

// Err returns why the context has ended.
func (r *running) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.whole != nil:
		return r.whole.Err()
	case r.cause != nil || r.left:
		return context.Canceled
	case r.base.Err() != nil:
		return r.base.Err()
	case r.late():
		return r.make().Err() // so that it stays the reason
	}
	return nil
}

// late reports whether the attempt's time is up.
func (r *running) late() bool { return !time.Now().Before(r.until) }

// Value returns the attempt for its own key; package context uses its own keys, and then needs a real context.
func (r *running) Value(key any) any {
	if key == (runningKey{}) {
		return r
	}
	return r.context().Value(key)
}

func (r *running) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.make()
}

// make creates the context if there is none yet, in the state that it would have had from the start. The caller holds
// mu.
func (r *running) make() context.Context {
	if r.whole != nil {
		return r.whole
	}
	r.calm, r.end = context.WithCancelCause(r.base)
	if r.left {
		r.whole, r.free = context.WithCancel(r.calm)
		r.free()
	}
	if r.cause != nil {
		r.end(r.cause)
	}
	if !r.left { // otherwise it has ended, and its time does not matter any more
		r.whole, r.free = context.WithDeadline(r.calm, r.until)
	}
	return r.whole
}

// stop ends the context for a reason; the first one counts.
func (r *running) stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return
	}
	if r.whole == nil && !r.left && r.late() {
		r.make() // it ended by itself before
	}
	if r.cause = context.Cause(r.base); r.cause == nil {
		r.cause = cause
	}
	if r.end != nil {
		r.end(r.cause)
	}
}

// leave ends the context for anything that the executor has left behind; the end of its log is yet to be sent.
func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return // it has ended
	}
	if r.whole == nil && !r.left && r.late() {
		r.make() // it ended by itself before
	}
	if r.left = true; r.free != nil {
		r.free()
	}
}

// stopped returns why the attempt was stopped; nil if it was not, though its time may be up.
func (r *running) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return r.cause
	}
	return context.Cause(r.base)
}

// over ends what is left of the context.
func (r *running) over() {
	r.leave()
	r.stop(context.Canceled)
}

// book returns the log of the attempt.
func (r *running) book() *book {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		held := client.Held{ExecutionID: r.attempt.ExecutionID, FencingToken: r.attempt.FencingToken}
		r.make()
		r.log = newBook(r.calm, held, r.onWay, r.write, func(error) { r.stop(ErrLeaseLost) })
	}
	return r.log
}

// closeLog sends the rest of the attempt's log; ok is false if the server has not accepted it.
func (r *running) closeLog(over <-chan struct{}) (ok bool) {
	r.mu.Lock()
	b := r.log
	r.mu.Unlock()
	return b == nil || b.close(over)
}
