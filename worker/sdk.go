package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Options are the options of a worker; the zero value is valid.
type Options struct {
	Slots   int           // attempts run at once; 0: 10
	Queues  []string      // none: every queue
	Labels  []string      // that jobs may require
	Drain   time.Duration // how long a stop waits for running attempts; 0: 30 s
	Host    string        // shown to people; "": this machine's name
	Version string        // of the program, shown to people
	Logger  *slog.Logger  // for the worker's own messages; nil: slog.Default
}

// Handler runs one attempt. What it returns is stored as the execution's result, as JSON; nil: there is none. An
// error is a failure that is retried under the job's policy, unless it is made by Never, Snooze or Skip.
type Handler func(ctx context.Context, a client.Attempt) (result any, err error)

// Middleware wraps handlers.
type Middleware func(next Handler) Handler

// Worker runs the handlers of a program for one or more servers.
type Worker struct {
	src Source
	o   Options
	bad error // of what it was made with

	mu       sync.Mutex
	handlers map[string]Handler // guarded by mu: by kind
	around   []Middleware       // guarded by mu
	running  bool               // guarded by mu
}

// Dial makes a worker of the servers at the given addresses, such as https://carillon.example, with an API key of the
// role worker. It connects when it runs; Run reports an invalid address.
func Dial(servers []string, token string, o Options) *Worker {
	w := Serve(client.New(servers, token), o)
	if len(servers) == 0 {
		w.bad = errors.New("no server is given; want an address such as https://carillon.example")
	}
	for _, s := range servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			w.bad = fmt.Errorf("the server's address is %q; want one such as https://carillon.example, without a path", s)
		}
	}
	return w
}

// Use wraps all handlers, including those registered before. The first is the outermost.
func (w *Worker) Use(ms ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.around = append(w.around, ms...)
}

// Register registers a handler for the executions of a kind: those of jobs with the target worker that name it. It
// panics if the kind has one already, or the worker is running.
func (w *Worker) Register(kind string, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case kind == "" || h == nil:
		panic("worker: a handler needs a kind and a function")
	case w.handlers[kind] != nil:
		panic("worker: the kind " + kind + " has a handler")
	case w.running:
		panic("worker: it runs; handlers are registered before")
	}
	w.handlers[kind] = h
}

// Handle registers f for the executions of a kind, with the payload decoded into its type. A payload that does not
// fit is a failure that is not retried.
func Handle[T any](w *Worker, kind string, f func(ctx context.Context, in T) error) {
	HandleResult(w, kind, func(ctx context.Context, in T) (any, error) { return nil, f(ctx, in) })
}

// HandleResult is Handle for a function with a result, which is stored as JSON.
func HandleResult[T, R any](w *Worker, kind string, f func(ctx context.Context, in T) (R, error)) {
	w.Register(kind, func(ctx context.Context, a client.Attempt) (any, error) {
		var in T
		if len(a.Payload) > 0 {
			if err := json.Unmarshal(a.Payload, &in); err != nil {
				return nil, Never(fmt.Errorf("the payload does not fit what %s takes (%T): %w", kind, in, err))
			}
		}
		return f(ctx, in)
	})
}

// Run serves until ctx ends, then waits for running attempts as long as Drain says, releases the rest and returns
// nil. It returns an error if a server refuses the worker permanently. While no server answers it retries.
func (w *Worker) Run(ctx context.Context) error {
	if w.bad != nil {
		return w.bad
	}
	w.mu.Lock()
	kinds := slices.Sorted(maps.Keys(w.handlers))
	again := w.running
	w.running = true
	w.mu.Unlock()
	switch {
	case again:
		return errors.New("the worker runs already")
	case len(kinds) == 0:
		return errors.New("the worker has no handlers; register them with worker.Handle before it runs")
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running = false
	}()
	var refusal error
	p := New(w.src, w, Config{
		Host: w.o.Host, Version: w.o.Version, Labels: w.o.Labels, Queues: w.o.Queues, Targets: []string{"worker"}, Kinds: kinds,
		Slots: w.o.Slots, Drain: w.o.Drain, Logger: w.o.Logger,
		Refused: func(err error) bool {
			if !barred(err) {
				return false
			}
			refusal = fmt.Errorf("register: %w", err)
			return true
		},
	})
	p.Run(ctx)
	return refusal
}

// Execute runs an attempt with the handler of its kind. Run uses it for every attempt, and a test can use it without
// a server.
func (w *Worker) Execute(ctx context.Context, a client.Attempt) (out client.Outcome) {
	if runningOf(ctx) == nil {
		ctx = context.WithValue(ctx, runningKey{}, &running{attempt: a, progress: progress{hurry: func() {}}})
	}
	w.mu.Lock()
	h := w.handlers[a.Kind]
	around := w.around
	w.mu.Unlock()
	if h == nil { // another worker may have it
		return client.Outcome{Status: client.Failed, Retryable: true, Error: &client.Error{Type: "HANDLER_ERROR", Message: fmt.Sprintf("this worker has no handler for the kind %q", a.Kind)}}
	}
	for _, m := range slices.Backward(around) {
		h = m(h)
	}
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			w.o.Logger.Error("a handler panicked", "execution", a.ExecutionID, "kind", a.Kind, "panic", p, "stack", string(stack))
			Log(ctx, Stderr, fmt.Sprintf("panic: %v\n\n%s", p, stack))
			out = client.Outcome{Status: client.Failed, Retryable: true, Error: &client.Error{Type: "PANIC", Message: fmt.Sprintf("%v\n\n%s", p, excerpt(stack))}}
		}
	}()
	result, err := h(ctx, a)
	if err != nil {
		return failure(ctx, err)
	}
	return success(result)
}

// success is the outcome of a handler that has returned.
func success(result any) client.Outcome {
	out := client.Outcome{Status: client.Succeeded}
	if result == nil {
		return out
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return Outcome(Never(fmt.Errorf("the result cannot be kept: %w", err)))
	}
	out.Result = bytes.TrimRight(data.Bytes(), "\n")
	return out
}

// failure is the outcome of a handler that has failed, by itself or because its context ended.
func failure(ctx context.Context, err error) client.Outcome {
	out := Outcome(err)
	if out.Status != client.Failed {
		return out
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrCancelled):
		return client.Outcome{Status: client.Cancelled, Error: &client.Error{Type: "CANCELLED", Message: err.Error()}}
	case errors.Is(cause, context.DeadlineExceeded) && out.Retryable:
		out.Error = &client.Error{Type: "TIMEOUT", Message: "the attempt's time was up: " + err.Error()}
	}
	return out
}

// excerpt returns the part of a stack that shows where a panic began.
func excerpt(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") && i+2 < len(lines) {
			lines = lines[i+2:]
			break
		}
	}
	return strings.Join(lines[:min(len(lines), 12)], "\n")
}

// AttemptFrom returns the attempt that ctx belongs to: its execution, number, fencing token, idempotency key and
// deadline among others.
func AttemptFrom(ctx context.Context) (a client.Attempt, ok bool) {
	if r := runningOf(ctx); r != nil {
		return r.attempt, true
	}
	return a, false
}

// Traceparent returns the W3C trace context of ctx's attempt, for a tracer to continue from; "" if there is none.
func Traceparent(ctx context.Context) string {
	a, _ := AttemptFrom(ctx)
	return a.Traceparent
}

// Serve makes a worker over another source, such as one made by a test.
func Serve(src Source, o Options) *Worker {
	if o.Slots == 0 {
		o.Slots = 10
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	return &Worker{src: src, o: o, handlers: map[string]Handler{}}
}
