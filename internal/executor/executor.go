// Package executor runs the targets of executions: it takes one attempt and
// hands back its outcome.
//
//	worker ──Attempt──▶ Execute ─┬─ http      call a URL and judge the answer
//	       ◀─Outcome──           ├─ command   run a program, where that is allowed
//	                             └─ simulate  pretend to work, for demos and tests
//
// The context that Execute is given carries the attempt's deadline. When it ends, Execute returns soon after: as
// TIMEOUT where the deadline passed, as CANCELLED where its cause is worker.ErrCancelled, else as LEASE_LOST, which
// the worker is expected to drop.
//
// Callbacks go where tenants point them, so every connection is checked when it is dialled, against the literal
// address that a name resolved to (see Guard); answers are read up to fixed limits.
//
// The package never retries an attempt: it only says whether that makes sense. Its only state is idle connections,
// which Close closes, and the health of the hosts that it calls: calls to one that is down are postponed (see
// Breaker).
package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/command"
	"github.com/carillon-jobs/carillon/worker"
)

// The error types of this package's outcomes.
const (
	typeTimeout   = "TIMEOUT"
	typeHTTP      = "HTTP_ERROR"
	typeRefused   = "CONNECTION_REFUSED"
	typeReset     = "CONNECTION_RESET"
	typeDNS       = "DNS_RESOLUTION_FAILED"
	typeTLS       = "TLS_ERROR"
	typeBlocked   = "BLOCKED_ADDRESS"
	typePanic     = "PANIC"
	typeHandler   = "HANDLER_ERROR"
	typeLeaseLost = "LEASE_LOST"
	typeCancelled = "CANCELLED"
	typeInternal  = "INTERNAL"
	typeResult    = "RESULT_TOO_LARGE"
)

// Config describes what the executor may reach and how it identifies itself.
type Config struct {
	AllowLoopback bool                    // callbacks may reach this host's loopback, and our own listen addresses
	AllowCIDRs    []netip.Prefix          // callbacks may reach these, though they are otherwise blocked
	OwnAddrs      func() []netip.AddrPort // where this process listens; nil: nowhere
	Version       string                  // goes into the User-Agent
	Resolver      *net.Resolver           // nil: the system's
	Commands      *command.Runner         // nil: no commands are run
	Log           *slog.Logger            // nil: slog.Default
	Breaker       Breaker                 // zero: none
	HTTPSOnly     bool                    // callbacks over plain HTTP are refused
	Ports         []int                   // ports of callbacks; none: all but those of other services
	Proxy         Proxy                   // what callbacks go through; zero: none
	Pace          Pace                    // limits per host; zero: none
	FirstByte     time.Duration           // how long a response may take to begin; 0: as long as the attempt
}

// Executor runs attempts; it is safe for concurrent use.
type Executor struct {
	targets   map[string]target
	transport *http.Transport
	reaches   *reaches
	breaker   *breaker // nil: none
	paces     *paces   // nil: none
	putOff    [reasons]atomic.Int64
	guard     Guard
	secure    bool // callbacks over plain HTTP are refused
	agent     string
	commands  *command.Runner
	log       *slog.Logger
}

// target runs an attempt of one kind.
type target func(context.Context, client.Attempt) client.Outcome

// New makes an executor of all targets.
func New(cfg Config) *Executor {
	e := &Executor{transport: newTransport(newDialer(cfg), cfg.FirstByte), reaches: newReaches(cfg), agent: "Carillon/" + cfg.Version, log: cfg.Log, breaker: newBreaker(cfg.Breaker), guard: Guard{AllowLoopback: cfg.AllowLoopback, AllowCIDRs: cfg.AllowCIDRs}, secure: cfg.HTTPSOnly}
	e.paces = newPaces(cfg.Pace, e.countPutOff)
	if cfg.Version == "" {
		e.agent = "Carillon"
	}
	if e.log == nil {
		e.log = slog.Default()
	}
	e.targets = map[string]target{"": e.callback, "http": e.callback, "simulate": simulate}
	if cfg.Commands != nil {
		e.commands, e.targets["command"] = cfg.Commands, e.command
	}
	return e
}

// Execute runs the attempt and returns its outcome; it never panics.
func (e *Executor) Execute(ctx context.Context, a client.Attempt) (o client.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			e.log.ErrorContext(ctx, "the executor panicked", "execution_id", a.ExecutionID, "target", a.Execution.Target,
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			o = failed(typePanic, true, "running the attempt panicked: "+excerpt(fmt.Sprint(v)))
		}
		o.ExecutionID, o.FencingToken = a.ExecutionID, a.FencingToken
	}()
	run, ok := e.targets[a.Execution.Target]
	if !ok {
		return failed(typeInternal, false, fmt.Sprintf("this worker knows no target %q", excerpt(a.Execution.Target)))
	}
	if ctx.Err() != nil {
		return ended(ctx, a)
	}
	return run(ctx, a)
}

func (e *Executor) countPutOff(why putOff) { e.putOff[why].Add(1) }

// Close closes the idle connections; running attempts continue.
func (e *Executor) Close() {
	e.transport.CloseIdleConnections()
	e.reaches.close()
}

// ended returns the outcome of an attempt whose context ended first.
func ended(ctx context.Context, a client.Attempt) client.Outcome {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, worker.ErrCancelled):
		return cancelled("the attempt was cancelled on request")
	// A deadline may carry its own cause, and a cause may be a deadline.
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		return failed(typeTimeout, true, "the attempt did not end "+within(a))
	default:
		return failed(typeLeaseLost, true, "the worker gave the attempt up: "+excerpt(cause.Error()))
	}
}

// within describes the time an attempt had.
func within(a client.Attempt) string {
	if s := a.Execution.TimeoutSeconds; s != nil && *s > 0 {
		return fmt.Sprintf("within its %d s", *s)
	}
	return "before its deadline"
}

func succeeded() client.Outcome { return client.Outcome{Status: client.Succeeded} }

func cancelled(message string) client.Outcome {
	return client.Outcome{Status: client.Cancelled, Error: &client.Error{Type: typeCancelled, Message: message}}
}

func failed(kind string, retryable bool, message string) client.Outcome {
	return client.Outcome{Status: client.Failed, Retryable: retryable, Error: &client.Error{Type: kind, Message: message}}
}
