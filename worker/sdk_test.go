package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

type email struct {
	To    string `json:"to"`
	Count int    `json:"count"`
}

func attempt(kind, payload string) client.Attempt {
	return client.Attempt{ExecutionID: "1", Kind: kind, Payload: []byte(payload), AttemptNumber: 2, FencingToken: 7, IdempotencyKey: "k", Traceparent: "00-a-b-01"}
}

func TestHandlers(t *testing.T) {
	w := Serve(newServer(0), Options{Logger: slog.New(slog.DiscardHandler)})
	Handle(w, "mail", func(ctx context.Context, in email) error {
		a, ok := AttemptFrom(ctx)
		if !ok || a.AttemptNumber != 2 || a.FencingToken != 7 || a.IdempotencyKey != "k" || Traceparent(ctx) != "00-a-b-01" {
			t.Errorf("attempt: %+v", a)
		}
		Progress(ctx, 50, "half")
		Log(ctx, Stdout, "of no server")
		switch in.To {
		case "never":
			return Never(errors.New("no such box"))
		case "later":
			return Snooze(time.Minute)
		case "panics":
			panic("oops")
		case "":
			return errors.New("to nobody")
		}
		return nil
	})
	HandleResult(w, "count", func(_ context.Context, in email) (map[string]any, error) {
		return map[string]any{"<n>": in.Count}, nil
	})
	HandleResult(w, "bad result", func(context.Context, any) (any, error) { return func() {}, nil })
	HandleResult(w, "raw", func(_ context.Context, in client.Target) (string, error) { return in.Target, nil })
	show := func(o client.Outcome) string {
		s := o.Status
		if o.Retryable {
			s += " retryable"
		}
		if o.Error != nil {
			s += " " + o.Error.Type + ": " + strings.ReplaceAll(o.Error.Message, "\n", "|")
		}
		return s + string(o.Result) + strings.TrimPrefix(fmt.Sprint(" ", o.RetryAfterMS), " 0")
	}
	for _, x := range []struct{ kind, payload, want string }{
		{"mail", `{"to": "ann"}`, "SUCCEEDED"},
		{"mail", ``, "FAILED retryable HANDLER_ERROR: to nobody"},
		{"mail", `null`, "FAILED retryable HANDLER_ERROR: to nobody"},
		{"mail", `{"to": "never"}`, "FAILED HANDLER_ERROR: no such box"},
		{"mail", `{"to": "later"}`, "SNOOZED 60000"},
		{"mail", `{"to": 5}`, "FAILED HANDLER_ERROR: the payload does not fit what mail takes (worker.email): json: cannot unmarshal number into Go struct field email.to of type string"},
		{"mail", `{"to": "panics"}`, "FAILED retryable PANIC: oops||"},
		{"count", `{"count": 3}`, `SUCCEEDED{"<n>":3}`},
		{"bad result", `1`, "FAILED HANDLER_ERROR: the result cannot be kept: json: unsupported type: func()"},
		{"raw", `{"target": "x"}`, `SUCCEEDED"x"`},
		{"other", `{}`, `FAILED retryable HANDLER_ERROR: this worker has no handler for the kind "other"`},
	} {
		if got := show(w.Execute(t.Context(), attempt(x.kind, x.payload))); got != x.want && !(strings.Contains(x.want, "PANIC") && strings.HasPrefix(got, x.want) && strings.Contains(got, "sdk_test.go")) {
			t.Errorf("%s %s:\ngot  %s\nwant %s", x.kind, x.payload, got, x.want)
		}
	}
	for name, f := range map[string]func(){
		"twice":        func() { Handle(w, "mail", func(context.Context, email) error { return nil }) },
		"no kind":      func() { Handle(w, "", func(context.Context, email) error { return nil }) },
		"no function ": func() { w.Register("x", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", name)
				}
			}()
			f()
		}()
	}
}

func TestMiddleware(t *testing.T) {
	w := Serve(newServer(0), Options{})
	var order []string
	trace := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, a client.Attempt) (any, error) {
				order = append(order, name)
				return next(ctx, a)
			}
		}
	}
	w.Use(trace("a"), trace("b"))
	Handle(w, "x", func(context.Context, any) error { order = append(order, "handler"); return nil })
	w.Use(trace("c"))
	w.Execute(t.Context(), attempt("x", "1"))
	if got := strings.Join(order, " "); got != "a b c handler" {
		t.Errorf("order: %s", got)
	}
}

// Why a handler's context ended decides what its error comes to.
func TestWhyAHandlerEnded(t *testing.T) {
	w := Serve(newServer(0), Options{})
	Handle(w, "waits", func(ctx context.Context, in string) error {
		<-ctx.Done()
		if in == "snoozes" {
			return Snooze(time.Second)
		}
		return ctx.Err()
	})
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelled)
	late, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	lost, lose := context.WithCancelCause(t.Context())
	lose(ErrLeaseLost)
	for _, x := range []struct {
		ctx       context.Context
		in        string
		want, typ string
		retryable bool
	}{
		{cancelled, `""`, client.Cancelled, "CANCELLED", false},
		{late, `""`, client.Failed, "TIMEOUT", true},
		{lost, `""`, client.Failed, "HANDLER_ERROR", true}, // it is not reported
		{late, `"snoozes"`, client.Snoozed, "", false},
	} {
		o := w.Execute(x.ctx, attempt("waits", x.in))
		if o.Status != x.want || o.Retryable != x.retryable || o.Error != nil && o.Error.Type != x.typ || o.Error == nil && x.typ != "" {
			t.Errorf("%s: %+v %+v", x.want, o, o.Error)
		}
	}
}

func TestRunServesUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		s.add(3, 300)
		for i := range s.waiting {
			s.waiting[i].Kind, s.waiting[i].Payload = "mail", []byte(`{"to": "ann"}`)
		}
		w := Serve(s, Options{Slots: 2, Logger: slog.New(slog.DiscardHandler)})
		Handle(w, "mail", func(context.Context, email) error { <-time.After(time.Second); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { err = w.Run(ctx) })
		<-time.After(10 * time.Second)
		if again := w.Run(ctx); again == nil {
			t.Error("it ran twice at once")
		}
		cancel()
		wg.Wait()
		if err != nil || len(s.outcomes) != 3 || s.left != 1 {
			t.Errorf("%v, %d ended, left %d times", err, len(s.outcomes), s.left)
		}
	})
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Serve(newServer(0), Options{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handlers") {
			t.Errorf("no handlers: %v", err)
		}
		for _, servers := range [][]string{nil, {"localhost:8080"}, {"http://localhost/api/v1"}, {"ftp://x"}} {
			w := Dial(servers, "", Options{})
			Handle(w, "x", func(context.Context, any) error { return nil })
			if err := w.Run(t.Context()); err == nil {
				t.Errorf("%q was taken", servers)
			}
		}
		w := Serve(refusing{newServer(0)}, Options{})
		Handle(w, "x", func(context.Context, any) error { return nil })
		var r *client.Problem
		if err := w.Run(t.Context()); !errors.As(err, &r) || r.Status != 401 {
			t.Errorf("refused: %v", err)
		}
	})
}

// refusing is a server that lets nobody in.
type refusing struct{ *fakeServer }

func (refusing) Register(context.Context, client.Registration) (client.Session, error) {
	return client.Session{}, &client.Problem{Status: 401, Code: "unauthorized", Detail: "The API key is unknown."}
}
