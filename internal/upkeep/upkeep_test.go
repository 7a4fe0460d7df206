package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

type fakeLeases struct {
	engine.Recovery
	ready  []job.Ready
	leases int
	err    error
	grace  time.Duration
}

func (f *fakeLeases) Reap(context.Context, int, int) (engine.Reaped, error) {
	return engine.Reaped{Ready: f.ready, Leases: f.leases}, f.err
}

func (f *fakeLeases) Force(_ context.Context, grace time.Duration, limit int) ([]engine.Ended, error) {
	f.grace = grace
	return make([]engine.Ended, min(len(f.ready), limit)), f.err
}

func TestCanceller(t *testing.T) {
	f := &fakeLeases{}
	c := &Canceller{Store: f, Grace: 30 * time.Second, Log: slog.New(slog.DiscardHandler)}
	if next, err := c.Tick(t.Context()); err != nil || next != time.Second || f.grace != 30*time.Second {
		t.Errorf("nothing to end: %v, %v, grace %v", next, err, f.grace)
	}
	f.ready = make([]job.Ready, forceBatch+1)
	if next, err := c.Tick(t.Context()); err != nil || next != 0 {
		t.Errorf("a full batch: %v, %v", next, err)
	}
	f.err = errors.New("away")
	if _, err := c.Tick(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
}

type tidy func() (bool, error)

func (f tidy) Tidy(context.Context) (bool, error) { return f() }

func TestReaper(t *testing.T) {
	f := &fakeLeases{}
	hinted := 0
	r := &Reaper{Store: f, Hint: func(rs []job.Ready) { hinted += len(rs) }, Log: slog.New(slog.DiscardHandler)}
	if next, err := r.Tick(t.Context()); err != nil || next != time.Second || hinted != 0 {
		t.Errorf("nothing to reap: %v, %v, %d hinted", next, err, hinted)
	}
	f.leases = 1000 // of which everything has finished
	if next, err := r.Tick(t.Context()); err != nil || next != 0 || hinted != 0 {
		t.Errorf("leases to forget: %v, %v, %d hinted", next, err, hinted)
	}
	f.ready = make([]job.Ready, 3)
	if next, err := r.Tick(t.Context()); err != nil || next != 0 || hinted != 3 {
		t.Errorf("three reaped: %v, %v, %d hinted", next, err, hinted)
	}
	f.err = errors.New("away")
	if _, err := r.Tick(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
}

func TestTidier(t *testing.T) {
	for _, c := range []struct {
		more bool
		next time.Duration
	}{{true, 100 * time.Millisecond}, {false, time.Minute}} {
		tidier := &Tidier{Store: tidy(func() (bool, error) { return c.more, nil })}
		if next, err := tidier.Tick(t.Context()); err != nil || next != c.next {
			t.Errorf("more %v: %v, %v", c.more, next, err)
		}
	}
	tidier := &Tidier{Store: tidy(func() (bool, error) { return false, errors.New("away") })}
	if _, err := tidier.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
}
