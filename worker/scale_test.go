package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// gauged is a server that knows what waits.
type gauged struct{ *fakeServer }

func (g gauged) Waiting(_ context.Context, _ client.Session, most int) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return min(most, len(g.waiting)), nil
}

// The slots follow what waits, up and down, each time they are looked at.
func TestSlotsFollowWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		var busy atomic.Int64
		p := New(gauged{s}, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			busy.Add(1)
			defer busy.Add(-1)
			return takes(10*time.Second)(ctx, a)
		}), Config{Slots: 2, MaxSlots: 8, Scale: time.Second})
		h := newShift(p, client.Session{WorkerID: "1", LeaseSeconds: 30, BeatSeconds: 10})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.run(ctx); close(ended) }()
		slots := func() int {
			h.desk.mu.Lock()
			defer h.desk.mu.Unlock()
			return h.desk.slots
		}
		at := func(after time.Duration, want, running int) {
			t.Helper()
			<-time.After(after)
			if got := slots(); got != want || int(busy.Load()) != running {
				t.Errorf("%d slots, %d busy; want %d, %d", got, busy.Load(), want, running)
			}
		}
		at(1500*time.Millisecond, 2, 0) // nothing waits
		s.add(2, 300)
		at(1500*time.Millisecond, 2, 2) // all slots are busy, and nothing waits for more
		s.add(1, 300)
		at(1500*time.Millisecond, 3, 3) // one more waits
		s.add(50, 300)
		at(1500*time.Millisecond, 8, 8) // at the most
		<-time.After(2 * time.Minute)
		at(0, 2, 0) // all done
		cancel()
		<-ended
		if len(s.outcomes) != 53 {
			t.Errorf("%d ended", len(s.outcomes))
		}
	})
}
