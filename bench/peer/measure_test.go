package peer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a queue in memory: a batch takes batchTime to insert, a job jobTime to work.
type fake struct {
	batchTime, jobTime time.Duration
	loseEach           int // loses every job whose number this divides; 0: none
	twice              bool
	broken             error

	mu      sync.Mutex // guards waiting and working
	waiting []int
	working int
}

func (f *fake) put(took time.Duration, first, n int) error {
	<-time.After(took)
	f.mu.Lock()
	defer f.mu.Unlock()
	for seq := first; seq < first+n; seq++ {
		if f.loseEach == 0 || n == 1 || seq%f.loseEach != 0 {
			f.waiting = append(f.waiting, seq)
		}
	}
	return f.broken
}

func (f *fake) Insert(_ context.Context, seq int) error { return f.put(time.Millisecond, seq, 1) }

func (f *fake) Ways() []Way {
	return []Way{
		{"fast", func(_ context.Context, first, n int) error { return f.put(f.batchTime, first, n) }},
		{"slow", func(_ context.Context, first, n int) error { return f.put(2*f.batchTime, first, n) }},
	}
}

func (f *fake) Work(_ context.Context, handle func(seq int)) (func() error, error) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			seq, ok := f.take()
			if ok {
				handle(seq)
				if f.twice {
					handle(seq)
				}
			}
			select {
			case <-time.After(f.jobTime):
			case <-quit:
				return
			}
			f.done(ok)
		}
	}()
	return func() error { close(quit); <-ended; return nil }, nil
}

func (f *fake) take() (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return 0, false
	}
	seq := f.waiting[0]
	f.waiting = f.waiting[1:]
	f.working++
	return seq, true
}

func (f *fake) done(ok bool) {
	if ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.working--
	}
}

func (f *fake) Unfinished(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting) + f.working, nil
}

func (f *fake) Clear(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.working = nil, 0
	return nil
}

func (f *fake) Settle(context.Context) error { return nil }
func (f *fake) Settings() string             { return "none" }
func (f *fake) Close()                       {}

var small = Config{Jobs: 1000, Batch: 100, Inserters: 2, Pickups: 20, Limit: time.Minute}

func near(got, want float64) bool { return got > 0.95*want && got < 1.05*want }

func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Measure(t.Context(), &fake{batchTime: 10 * time.Millisecond, jobTime: time.Millisecond}, small)
		if err != nil {
			t.Fatal(err)
		}
		// Two inserters put 100 jobs each 10 ms; a worker does one a millisecond.
		if !near(n.InsertPerS, 20_000) || !near(n.InsertWays["slow"], 10_000) {
			t.Errorf("inserts: got %v and %v, want 20 000 a second, 10 000 the slow way", n.InsertPerS, n.InsertWays)
		}
		if !near(n.WorkPerS, 1000) || !near(n.BothPerS, 1000) {
			t.Errorf("got work %v and both %v, want 1000 a second", n.WorkPerS, n.BothPerS)
		}
		if p := n.IdlePickupMS; p.P50 < 1 || p.P99 > 3 {
			t.Errorf("idle pickup: got %+v, want 1 to 3 ms", p)
		}
		if n.Lost != 0 || n.Doubled != 0 || n.Settings != "none, 20 idle pickups" {
			t.Errorf("got %+v, want nothing lost or doubled", n)
		}
	})
}

func TestMeasureFindsWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Measure(t.Context(), &fake{batchTime: time.Millisecond, jobTime: time.Millisecond, loseEach: 100}, small)
		if err != nil || n.Lost != 20 || n.Doubled != 0 {
			t.Errorf("got %d lost and %d doubled, %v; want 10 lost in each of two phases", n.Lost, n.Doubled, err)
		}
	})
}

func TestMeasureFindsWhatIsDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Measure(t.Context(), &fake{batchTime: time.Millisecond, jobTime: time.Millisecond, twice: true}, small)
		if err != nil || n.Lost != 0 || n.Doubled != 2000 {
			t.Errorf("got %d lost and %d doubled, %v; want all doubled", n.Lost, n.Doubled, err)
		}
	})
}

func TestMeasureEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := small
		c.Limit = 2 * time.Second
		start := time.Now()
		n, err := Measure(t.Context(), &fake{batchTime: 10 * time.Millisecond, jobTime: 10 * time.Millisecond}, c)
		if err != nil || n.Lost != 0 || !near(n.WorkPerS, 100) {
			t.Errorf("got %+v, %v; want 100 a second, counted over what there was time for", n, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v, want less than a limit for each phase and a bit", took)
		}
	})
}

func TestMeasureSaysWhichPhaseFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Measure(t.Context(), &fake{broken: errors.New("disk full")}, small)
		if err == nil || !strings.Contains(err.Error(), "insert: fast: disk full") {
			t.Errorf("got %v, want the phase, the way and the reason", err)
		}
	})
}

func TestArguments(t *testing.T) {
	for _, seq := range []int{0, 9, 10, 123_456_789} {
		text, err := json.Marshal(argumentsOf(seq))
		if err != nil || len(text) != Payload {
			t.Errorf("job %d: got %d bytes, %v; want %d", seq, len(text), err, Payload)
		}
		river, err := json.Marshal(riverArgs{argumentsOf(seq)})
		if err != nil || string(river) != string(text) {
			t.Errorf("job %d: River's arguments are %s, %v; want the same", seq, river, err)
		}
	}
}

func TestTallyLeavesOutOtherPhases(t *testing.T) {
	tl := newTally(2)
	for _, seq := range []int{-1, 2, 0, 0} {
		tl.handle(seq)
	}
	if lost, doubled := tl.count(2); lost != 1 || doubled != 1 || tl.handled() != 1 {
		t.Errorf("got lost %d, doubled %d, handled %d; want 1 each", lost, doubled, tl.handled())
	}
}
