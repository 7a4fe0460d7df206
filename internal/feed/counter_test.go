package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
)

type clockAt struct{ at time.Time }

func (c *clockAt) Now() time.Time { return c.at }

// ledger is a store that leases, finishes and keeps what it is told.
type ledger struct {
	engine.Store
	kept map[time.Time]engine.Minute
	away bool
	as   []job.Attempt

	answerLost bool
	tallies    []engine.Tally
	numbers    []int64
	owned      map[job.ExecutionID]engine.Owned
	unsure     bool // nobody knows whose executions are
	clk        *clockAt
	slow       time.Duration // that it takes to find out
	since      time.Time     // from when on it was asked last
	ended      []engine.Ended
	came       job.Status // what finishes come to, if not to what they say
	again      bool       // finishes were applied before
}

func (l *ledger) Lease(context.Context, []engine.Grant, engine.Fence) ([]job.Attempt, error) {
	return l.as, nil
}

func (l *ledger) Finish(_ context.Context, fs []job.Finish) ([]job.Verdict, error) {
	out := make([]job.Verdict, len(fs))
	for i := range out {
		out[i] = job.Verdict{Execution: fs[i].Outcome.Execution, Accepted: !fs[i].Expel, Ended: l.came, Repeated: l.again}
	}
	return out, nil
}

func (l *ledger) KeepMinutes(_ context.Context, _ engine.ServerID, ms []engine.Minute) error {
	if l.away {
		return errors.New("away")
	}
	for _, m := range ms {
		l.kept[m.At] = m
	}
	return nil
}

func (l *ledger) KeepTally(_ context.Context, _ engine.ServerID, number int64, t engine.Tally) error {
	if l.away {
		return errors.New("away")
	}
	l.tallies = append(l.tallies, t)
	l.numbers = append(l.numbers, number)
	if l.answerLost { // it is kept, and the answer lost
		return errors.New("answerLost")
	}
	return nil
}

func (l *ledger) Whose(_ context.Context, ids []job.ExecutionID, since time.Time) (out []engine.Owned, err error) {
	if l.away || l.unsure {
		return nil, errors.New("away")
	}
	if l.clk != nil {
		l.clk.at = l.clk.at.Add(l.slow)
	}
	l.since = since
	for _, id := range ids {
		if o, ok := l.owned[id]; ok {
			out = append(out, o)
		}
	}
	return out, nil
}

func TestCounterKeepsMinutes(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC)
	clk := &clockAt{at}
	l := &ledger{kept: map[time.Time]engine.Minute{}}
	c := feed.NewCounter(l, clk)
	s := feed.Over(l, c, feed.NewHub())
	l.as = []job.Attempt{
		{DueAt: at.Add(-2 * time.Second), LeasedAt: at, StartedAt: at, Trigger: job.ByHand},
		{DueAt: at.Add(-time.Minute), LeasedAt: at, StartedAt: at.Add(-time.Hour)}, // again
	}
	then := func(m job.Move, st job.Status) job.Finish {
		return job.Finish{Then: job.Transition{Move: m, Status: st}}
	}
	refused := then(job.Done, job.Succeeded)
	refused.Expel = true
	do := func() {
		if _, err := s.Lease(t.Context(), nil, engine.Fence{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finish(t.Context(), []job.Finish{
			then(job.Done, job.Succeeded), then(job.Done, job.Succeeded), then(job.Died, job.Failed), then(job.Late, job.TimedOut), then(job.Again, job.Retrying), then(job.Snoozed, job.Pending), refused,
		}); err != nil {
			t.Fatal(err)
		}
	}
	do()
	l.away = true
	if _, err := c.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	l.away = false
	clk.at = at.Add(time.Minute)
	do()
	for range 2 {
		if _, err := c.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	clk.at = at.Add(20 * time.Second)
	do() // late, into the first
	if _, err := c.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	once := engine.Minute{At: at.Truncate(time.Minute), Started: 2, Completed: 2, Failed: 2, Again: 1, Waited: 1, Wait: 2 * time.Second, MaxWait: 2 * time.Second}
	twice := once
	twice.Add(once)
	if got := l.kept[once.At]; got != twice {
		t.Errorf("the first minute: %+v, want %+v", got, twice)
	}
	once.At = once.At.Add(time.Minute)
	if got := l.kept[once.At]; got != once {
		t.Errorf("the second minute: %+v, want %+v", got, once)
	}
}
