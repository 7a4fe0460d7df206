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
		at(1500*time.Millisecond, 8, 8) // at most
		<-time.After(2 * time.Minute)
		at(0, 2, 0) // all done
		cancel()
		<-ended
		if len(s.outcomes) != 53 {
			t.Errorf("%d ended", len(s.outcomes))
		}
	})
}

// A pool asks for what it has room for; while that claim is on its way it asks again only for much, so that claims stay
// large.
func TestASecondClaimIsLarge(t *testing.T) {
	d := newDesk(t.Context(), 10, nil, nil)
	ask := func(what string, want int, wantFull bool) {
		t.Helper()
		if n, full := d.ask(); n != want || full != wantFull {
			t.Errorf("%s: asks for %d (full: %v), want %d (%v)", what, n, full, want, wantFull)
		}
	}
	waiting := func(n int) { d.queue = make([]queued, n) }

	ask("ten slots are free", 10, false)
	ask("all are asked for", 0, false)
	d.slots = 10 + second - 1
	ask("a few more", 0, false)
	d.slots++
	ask("many more", second, false)
	d.got(10)
	d.got(second)

	d.slots, d.pace = 10, 50*time.Microsecond // so that a thousand are claimed ahead
	ask("nothing waits", 10+maxAhead, false)
	ask("all are asked for", 0, false)
	d.got(10 + maxAhead)
	waiting(maxAhead/2 + 1)
	ask("more than half wait", 0, true)
	waiting(maxAhead / 2)
	ask("half wait", 10+maxAhead/2, false)
	waiting(maxAhead/4 + 1)
	ask("fewer wait, the rest is asked for", 0, false)
	waiting(maxAhead / 4)
	ask("a quarter waits", maxAhead/4, false)
	ask("all is asked for", 0, false)
	d.got(maxAhead / 4)
	d.got(10 + maxAhead/2)
	if d.asked != 0 {
		t.Errorf("%d are on their way when all was answered", d.asked)
	}
}
