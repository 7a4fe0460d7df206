package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/client"
)

func TestWhatCannotBeReportedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(4)
		results := map[string]json.RawMessage{"0": json.RawMessage("{oops"), "1": slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), client.MaxResult-1), []byte(`"`)), "2": json.RawMessage(`{"n": 1}`)}
		stop := start(s, executorFunc(func(_ context.Context, a client.Attempt) client.Outcome {
			if r := results[a.ExecutionID]; r != nil {
				return client.Outcome{Status: client.Succeeded, Result: r}
			}
			return Outcome(errors.New(strings.Repeat("é", 6000)))
		}), Config{Slots: 4})
		<-time.After(time.Minute)
		stop()
		for id, why := range map[string]string{"0": `not valid JSON; it begins with "{oops"`, "1": "1048577 bytes"} {
			if o := s.outcomes[id]; o.Status != client.Failed || o.Retryable || o.Result != nil || o.FencingToken != 7 || o.Error == nil || !strings.Contains(o.Error.Message, why) {
				t.Errorf("%s: %+v, %+v", id, o, o.Error)
			}
		}
		if o := s.outcomes["2"]; o.Status != client.Succeeded || string(o.Result) != `{"n": 1}` {
			t.Errorf("a good one: %+v", o)
		}
		o := s.outcomes["3"]
		if o.Error == nil || len(o.Error.Message) > client.MaxMessage || len(o.Error.Message) < client.MaxMessage-4 || !utf8.ValidString(o.Error.Message) || !o.Retryable {
			t.Errorf("a long message: %+v", o)
		}
	})
}

func TestOneRefusedOutcomeHoldsUpNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		refusal error
		always  bool // the failure in its place is refused, too
	}{
		"as invalid":              {&client.Problem{Status: 422, Detail: "too bad"}, false},
		"as too large, for good":  {&client.Problem{Status: 413, Detail: "too bad"}, true},
		"since it is not encoded": {client.ErrEncoding, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(100)
				s.refuse = func(os []client.Outcome) error {
					if slices.ContainsFunc(os, func(o client.Outcome) bool {
						return o.ExecutionID == "42" && (c.always || o.Status == client.Succeeded)
					}) {
						return c.refusal
					}
					return nil
				}
				stop := start(s, takes(10*time.Microsecond), Config{Slots: 100})
				defer stop()
				<-time.After(15 * time.Second)
				s.mu.Lock()
				defer s.mu.Unlock()
				o, ok := s.outcomes["42"]
				delete(s.outcomes, "42")
				if len(s.outcomes) != 99 || len(s.named) != 0 {
					t.Errorf("%d others are reported, %d still named", len(s.outcomes), len(s.named))
				}
				if ok == c.always || ok && (o.Status != client.Failed || o.Retryable || !strings.Contains(o.Error.Message, c.refusal.Error())) {
					t.Errorf("the refused one: %v, %+v", ok, o)
				}
			})
		})
	}
}

// A refusal that is not about what the report says is waited out.
func TestAReportIsTriedAgain(t *testing.T) {
	for _, status := range []int{401, 403, 408, 409, 429, 500, 503} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(3)
			began := time.Now()
			s.refuse = func([]client.Outcome) error {
				if time.Since(began) < 5*time.Second {
					return &client.Problem{Status: status}
				}
				return nil
			}
			stop := start(s, takes(time.Millisecond), Config{Slots: 3})
			<-time.After(10 * time.Second)
			stop()
			if len(s.outcomes) != 3 || s.outcomes["1"].Status != client.Succeeded {
				t.Errorf("%d: %+v", status, s.outcomes)
			}
		})
	}
}

func TestReportsAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(40)
		result := slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), client.MaxResult-2), []byte(`"`))
		largest := 0
		s.refuse = func(os []client.Outcome) error {
			n := 0
			for _, o := range os {
				n += len(o.Result)
			}
			largest = max(largest, n)
			return nil
		}
		s.reportErrs = 1 // the others pile up meanwhile
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			takes(time.Millisecond)(ctx, a)
			return client.Outcome{Status: client.Succeeded, Result: result}
		}), Config{Slots: 40})
		<-time.After(time.Minute)
		stop()
		if len(s.outcomes) != 40 || largest > maxReport || largest < maxReport/2 {
			t.Errorf("%d are reported, at most %d bytes at once", len(s.outcomes), largest)
		}
	})
}

func TestAStopDoesNotReportForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(3)
		s.reportErrs = 1 << 30
		stop := start(s, takes(time.Millisecond), Config{Slots: 3, Drain: 30 * time.Second})
		<-time.After(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 30*time.Second || s.left != 1 {
			t.Errorf("it took %v, left %d times", took, s.left)
		}
	})
}

func TestAStopLeavesBehindWhatDoesNotHeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(2)
		var log bytes.Buffer
		wake := make(chan struct{})
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			if a.ExecutionID == "1" {
				return takes(time.Hour)(ctx, a)
			}
			<-wake
			return client.Outcome{Status: client.Succeeded}
		}), Config{Slots: 2, Drain: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		<-time.After(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 35*time.Second || s.left != 1 || !slices.Equal(s.released, []string{"0"}) {
			t.Errorf("it took %v, left %d times, handed back %v", took, s.left, s.released)
		}
		if !strings.Contains(log.String(), "abandoned") || !strings.Contains(log.String(), "executions=[0]") {
			t.Errorf("log: %s", &log)
		}
		close(wake) // it ends at last, and nobody minds
		synctest.Wait()
		if len(s.outcomes) != 0 {
			t.Errorf("reported: %v", s.outcomes)
		}
	})
}

// What does not heed the end of its session keeps the pool from no other.
func TestANewSessionDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		wake := make(chan struct{})
		stop := start(s, executorFunc(func(context.Context, client.Attempt) client.Outcome {
			<-wake
			return client.Outcome{Status: client.Succeeded}
		}), Config{Slots: 1})
		<-time.After(time.Second)
		s.mu.Lock()
		s.beatErr = ErrSession
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		s.mu.Lock()
		s.beatErr = nil
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		s.mu.Lock()
		if s.registered != 2 || len(s.released) != 0 {
			t.Errorf("registered %d times, handed back %v", s.registered, s.released)
		}
		s.mu.Unlock()
		close(wake)
		stop()
	})
}
