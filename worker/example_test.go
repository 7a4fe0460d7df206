package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

type Email struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// A whole worker: it serves until the process is asked to stop, and then finishes what it runs.
func Example() {
	w := worker.Dial([]string{"http://localhost:8080"}, os.Getenv("CARILLON_TOKEN"), worker.Options{})
	worker.Handle(w, "send-email", func(ctx context.Context, in Email) error {
		worker.Logger(ctx).Info("sending", "to", in.To)
		return nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		slog.Error("the worker stopped", "error", err)
		os.Exit(1)
	}
}

// run has a worker run an attempt without a server, as a test does.
func run(w *worker.Worker, kind, payload string) {
	o := w.Execute(context.Background(), client.Attempt{Kind: kind, Payload: []byte(payload), AttemptNumber: 1, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	switch {
	case o.Error != nil:
		fmt.Println(o.Status, o.Error.Type+":", o.Error.Message)
	case o.Result != nil:
		fmt.Println(o.Status, string(o.Result))
	default:
		fmt.Println(o.Status)
	}
}

func ExampleHandle() {
	w := worker.Dial([]string{"http://localhost:8080"}, "", worker.Options{})
	worker.Handle(w, "send-email", func(_ context.Context, in Email) error {
		if in.To == "" {
			return worker.Never(errors.New("nobody to send it to")) // trying again is of no use
		}
		if in.Text == "" {
			return worker.Snooze(time.Minute) // it is not written yet; no retry is used up
		}
		return nil
	})
	run(w, "send-email", `{"to": "ann", "text": "hello"}`)
	run(w, "send-email", `{"to": "ann"}`)
	run(w, "send-email", `{}`)
	// Output:
	// SUCCEEDED
	// SNOOZED
	// FAILED HANDLER_ERROR: nobody to send it to
}

func ExampleHandleResult() {
	w := worker.Dial([]string{"http://localhost:8080"}, "", worker.Options{})
	worker.HandleResult(w, "add", func(ctx context.Context, in []int) (map[string]int, error) {
		sum := 0
		for i, n := range in {
			if ctx.Err() != nil { // cancelled, out of time, or the lease is lost: context.Cause says which
				return nil, context.Cause(ctx)
			}
			sum += n
			worker.Progress(ctx, 100*i/len(in), "adding")
		}
		return map[string]int{"sum": sum}, nil
	})
	run(w, "add", `[1, 2, 3]`)
	// Output: SUCCEEDED {"sum":6}
}

// A tracer is fed by a middleware: Traceparent is what a propagator extracts from.
func ExampleWorker_Use() {
	w := worker.Dial([]string{"http://localhost:8080"}, "", worker.Options{})
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, a client.Attempt) (any, error) {
			fmt.Println("begin", a.Kind, "in the trace", worker.Traceparent(ctx)[3:35])
			defer fmt.Println("end", a.Kind)
			return next(ctx, a)
		}
	})
	worker.Handle(w, "nothing", func(context.Context, any) error { return nil })
	run(w, "nothing", `{}`)
	// Output:
	// begin nothing in the trace 0af7651916cd43dd8448eb211c80319c
	// end nothing
	// SUCCEEDED
}

func ExampleAttemptFrom() {
	w := worker.Dial([]string{"http://localhost:8080"}, "", worker.Options{})
	worker.Handle(w, "charge", func(ctx context.Context, _ any) error {
		a, _ := worker.AttemptFrom(ctx)
		// The same on every attempt: whoever takes the money can tell a second one.
		fmt.Println("attempt", a.AttemptNumber, "with the key", a.IdempotencyKey != "")
		return nil
	})
	run(w, "charge", `{}`)
	// Output:
	// attempt 1 with the key false
	// SUCCEEDED
}
