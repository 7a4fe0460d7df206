package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

func TestProgressIsToldSoonAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		began := time.Now()
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			<-time.After(2 * time.Second)
			for n := range 100 { // within a second; the last word counts
				Progress(ctx, n, fmt.Sprint("step ", n))
				<-time.After(5 * time.Millisecond)
			}
			<-time.After(30 * time.Second)
			Progress(ctx, 700, strings.Repeat("é", 2000))
			<-time.After(3 * time.Second)
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(time.Minute)
		stop()
		if len(s.progress) != 3 || s.progress[0].Percent != 0 || s.progress[1].Percent != 99 || s.progress[1].Message != "step 99" || s.progress[2].Percent != 100 || len([]rune(s.progress[2].Message)) != 1000 {
			t.Errorf("told: %.200v", s.progress)
		}
		if first := s.beatTimes[0].Sub(began); first != 2*time.Second {
			t.Errorf("the first word came after %v", first)
		}
		for i := range s.beatTimes[1:] {
			if apart := s.beatTimes[i+1].Sub(s.beatTimes[i]); apart < time.Second && i < 3 {
				t.Errorf("two beats were %v apart", apart)
			}
		}
	})
	Progress(t.Context(), 5, "of nothing") // does nothing
}

func TestProgressThatWasNotAnsweredIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.beatErr = errors.New("away")
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			Progress(ctx, 5, "here")
			<-time.After(15 * time.Second)
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(5 * time.Second)
		s.mu.Lock()
		s.beatErr = nil
		s.mu.Unlock()
		<-time.After(40 * time.Second)
		stop()
		if len(s.progress) != 2 || s.progress[0] != s.progress[1] {
			t.Errorf("told: %v", s.progress)
		}
	})
}

func TestDrainedByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(2)
		s.nudge = make(chan struct{}, 1)
		stop := start(s, takes(20*time.Second), Config{Slots: 2, MaxSlots: 2})
		<-time.After(time.Second)
		s.mu.Lock()
		s.orders = client.Orders{Drain: true}
		s.mu.Unlock()
		s.nudge <- struct{}{}
		<-time.After(time.Second)
		s.add(5, 300)
		<-time.After(2 * time.Minute)
		s.mu.Lock()
		if len(s.outcomes) != 2 || len(s.waiting) != 5 || !s.draining || s.left != 0 {
			t.Errorf("%d ended, %d wait, left %d times, told %v", len(s.outcomes), len(s.waiting), s.left, s.draining)
		}
		beats := s.beats
		s.orders = client.Orders{}
		s.beatErr = ErrSession // a new session stays so
		s.mu.Unlock()
		if beats < 10 {
			t.Errorf("%d beats", beats)
		}
		<-time.After(11 * time.Second)
		s.mu.Lock()
		s.beatErr, s.draining = nil, false
		s.mu.Unlock()
		<-time.After(time.Minute)
		s.mu.Lock()
		if s.registered < 2 || len(s.waiting) != 5 || !s.draining {
			t.Errorf("registered %d times, %d wait, told %v", s.registered, len(s.waiting), s.draining)
		}
		s.mu.Unlock()
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second || s.left != 1 {
			t.Errorf("it took %v to stop, left %d times", took, s.left)
		}
	})
}

func TestADrainHandsBackWhatHasNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		s.nudge = make(chan struct{}, 1)
		h := newShift(New(s, takes(5*time.Second), Config{Slots: 1}), client.Session{LeaseSeconds: 30, BeatSeconds: 10})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.run(ctx); close(ended) }()
		h.desk.add([]client.Attempt{{ExecutionID: "runs", FencingToken: 7}, {ExecutionID: "waits", FencingToken: 7}})
		s.mu.Lock()
		s.orders = client.Orders{Drain: true}
		s.mu.Unlock()
		s.nudge <- struct{}{}
		<-time.After(10 * time.Millisecond)
		s.mu.Lock()
		if !slices.Equal(s.released, []string{"waits"}) {
			t.Errorf("handed back: %v", s.released)
		}
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		if _, ok := s.outcomes["runs"]; !ok {
			t.Error("what ran did not end")
		}
		cancel()
		<-ended
	})
}

// The server ended an attempt and gives the execution to the same worker again, before that has heard of it.
func TestANewerAttemptSupersedesTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		s.nudge = make(chan struct{}, 1)
		causes := map[int64]error{}
		h := newShift(New(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			select {
			case <-ctx.Done():
				<-time.After(time.Second) // it is slow to stop
			case <-time.After(10 * time.Second):
			}
			s.mu.Lock()
			causes[a.FencingToken] = context.Cause(ctx)
			s.mu.Unlock()
			return client.Outcome{Status: client.Succeeded}
		}), Config{Slots: 3}), client.Session{LeaseSeconds: 30, BeatSeconds: 10})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.run(ctx); close(ended) }()
		h.desk.add([]client.Attempt{{ExecutionID: "x", FencingToken: 1, AttemptNumber: 1}})
		<-time.After(time.Second)
		s.mu.Lock()
		s.held["x"] = client.Attempt{}
		s.mu.Unlock()
		h.desk.add([]client.Attempt{{ExecutionID: "x", FencingToken: 7, AttemptNumber: 2}})
		if held, _ := h.held(); len(held) != 1 || held[0].FencingToken != 7 || h.desk.busy() != 2 {
			t.Errorf("held: %+v, %d busy", held, h.desk.busy())
		}
		h.desk.stop(ErrLeaseLost, []string{"x"}, []client.Held{{ExecutionID: "x", FencingToken: 1}})                                               // the order comes late
		h.desk.add([]client.Attempt{{ExecutionID: "x", FencingToken: 6, AttemptNumber: 2}, {ExecutionID: "x", FencingToken: 1, AttemptNumber: 1}}) // as does the answer to a claim
		if held, _ := h.held(); len(held) != 1 || held[0].FencingToken != 7 || h.desk.busy() != 2 {
			t.Errorf("after a late answer: held %+v, %d busy", held, h.desk.busy())
		}
		<-time.After(20 * time.Second)
		s.mu.Lock()
		if !errors.Is(causes[1], ErrLeaseLost) || causes[7] != nil || len(s.outcomes) != 1 || s.outcomes["x"].FencingToken != 7 || h.desk.busy() != 0 {
			t.Errorf("causes %v, outcomes %+v", causes, s.outcomes)
		}
		s.mu.Unlock()
		h.desk.resize(1)
		h.desk.add([]client.Attempt{{ExecutionID: "y", FencingToken: 7, AttemptNumber: 1}, {ExecutionID: "z", FencingToken: 7, AttemptNumber: 1}, {ExecutionID: "z", FencingToken: 8, AttemptNumber: 2}, {ExecutionID: "z", FencingToken: 7, AttemptNumber: 2}})
		if held, _ := h.desk.held(); len(held) != 2 || held[0].FencingToken+held[1].FencingToken != 15 {
			t.Errorf("held: %+v", held)
		}
		cancel()
		<-ended
	})
}

func TestOutcomeOfErrors(t *testing.T) {
	plain := errors.New("smtp is away")
	for _, c := range []struct {
		err  error
		want client.Outcome
	}{
		{nil, client.Outcome{Status: client.Succeeded}},
		{plain, client.Outcome{Status: client.Failed, Retryable: true}},
		{fmt.Errorf("send: %w", Never(plain)), client.Outcome{Status: client.Failed}},
		{fmt.Errorf("send: %w", Snooze(90*time.Second)), client.Outcome{Status: client.Snoozed, RetryAfterMS: 90_000}},
		{fmt.Errorf("send: %w", Skip("nobody is to be written to")), client.Outcome{Status: client.Skipped}},
		{Snooze(-1), client.Outcome{Status: client.Snoozed, RetryAfterMS: 1}},
	} {
		got := Outcome(c.err)
		if c.want.Status == client.Failed && (got.Error == nil || got.Error.Type != "HANDLER_ERROR" || !strings.Contains(got.Error.Message, "smtp is away")) {
			t.Errorf("%v: error %+v", c.err, got.Error)
		}
		got.Error = nil
		if got.Status != c.want.Status || got.Retryable != c.want.Retryable || got.RetryAfterMS != c.want.RetryAfterMS {
			t.Errorf("%v: got %+v", c.err, got)
		}
	}
	if !errors.Is(Never(plain), plain) {
		t.Error("Never hides what it holds")
	}
}
