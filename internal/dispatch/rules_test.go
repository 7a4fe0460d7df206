package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What runs in partitions that were lost counts here for as long as their new owner may take to know of them, which is configured.
func TestWhatWasLostCountsForTheOwnershipTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 2 * time.Second: 2 * time.Second, 30 * time.Second: 30 * time.Second} {
		now := time.Now()
		owner := &fakeOwner{held: engine.Holding{Version: 1, Fence: engine.Fence{Epochs: map[job.Partition]int64{3: 1}}}}
		m := newMatcher(New(newFake(time.Now), clock.System{}, slog.New(slog.DiscardHandler), Config{Owner: owner, OwnershipTTL: ttl}))
		m.heed(t.Context(), now)
		owner.held = engine.Holding{Version: 2, Fence: engine.Fence{Epochs: map[job.Partition]int64{}}}
		m.heed(t.Context(), now)
		m.recount = false
		if m.heed(t.Context(), now.Add(want-time.Millisecond)); len(m.lost) != 1 || m.recount {
			t.Errorf("%v: it was forgotten too soon", ttl)
		}
		if m.heed(t.Context(), now.Add(want)); len(m.lost) != 0 || !m.recount {
			t.Errorf("%v: it is still counted after %v", ttl, want)
		}
	}
}
