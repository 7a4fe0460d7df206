package feed_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/feed"
)

func change(n int) feed.Change {
	return feed.Change{Type: "execution.created", Execution: fmt.Sprint(n)}
}

func TestHubTellsWhoWatches(t *testing.T) {
	h := feed.NewHub()
	h.Tell("a", change(0)) // to nobody
	if h.Heard() {
		t.Error("somebody watches")
	}
	w, resumed := h.Watch("a", "")
	if resumed || !h.Heard() {
		t.Error("resumed, or nobody watches")
	}
	h.Tell("b", change(1))
	h.Tell("a", change(2), change(3))
	select {
	case <-w.Wake():
	default:
		t.Error("not woken")
	}
	cs, id, missed := w.Read(1)
	if missed || len(cs) != 1 || cs[0].Execution != "2" {
		t.Fatalf("got %v, %v", cs, missed)
	}
	select {
	case <-w.Wake():
	default:
		t.Error("not woken for the rest")
	}
	w.Close()

	back, resumed := h.Watch("a", id)
	if cs, _, missed := back.Read(10); !resumed || missed || len(cs) != 1 || cs[0].Execution != "3" {
		t.Errorf("come back: %v, %v, %v", resumed, cs, missed)
	}
	for _, stale := range []string{"", "00000000-1", "x", id + "9"} {
		if _, resumed := h.Watch("a", stale); resumed {
			t.Errorf("resumed behind %q", stale)
		}
	}
	if _, resumed := h.Watch("b", id); resumed {
		t.Error("resumed at another tenant's")
	}
}

// Who is too slow is told so, once, and continues from there; nothing grows.
func TestHubTellsTheSlowToReadAnew(t *testing.T) {
	h := feed.NewHub()
	w, _ := h.Watch("a", "")
	for i := range 10_000 {
		h.Tell("a", change(i))
	}
	if cs, _, missed := w.Read(500); !missed || len(cs) != 0 {
		t.Errorf("got %d, %v", len(cs), missed)
	}
	h.Tell("a", change(1))
	cs, id, missed := w.Read(500)
	if missed || len(cs) != 1 {
		t.Errorf("got %v, %v", cs, missed)
	}
	h.Lose("a")
	if cs, _, missed := w.Read(500); !missed || len(cs) != 0 {
		t.Errorf("after a loss: %v, %v", cs, missed)
	}
	if _, resumed := h.Watch("a", id); resumed {
		t.Error("resumed over a loss")
	}
}

// line carries messages between servers.
type line struct {
	mu    sync.Mutex
	ends  []func([]byte)
	count int
}

func (l *line) Publish(_ context.Context, message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if len(message) > 7900 {
		return fmt.Errorf("a message of %d bytes", len(message))
	}
	for _, take := range l.ends {
		take(message)
	}
	return nil
}

func (l *line) Subscribe(ctx context.Context, begun func(), take func([]byte)) error {
	begun()
	l.mu.Lock()
	l.ends = append(l.ends, take)
	l.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func TestServersTellEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		l, one, two := &line{}, feed.NewHub(), feed.NewHub()
		for _, h := range []*feed.Hub{one, two} {
			wg.Go(func() { h.Share(ctx, l, slog.New(slog.NewTextHandler(io.Discard, nil))) })
		}
		time.Sleep(10 * time.Second)
		if l.count != 0 || two.Heard() {
			t.Errorf("%d messages while nobody watches", l.count)
		}
		w, _ := one.Watch("a", "")
		w.Read(0)
		two.Tell("a", change(0)) // which has not heard yet that somebody watches
		time.Sleep(time.Second)
		if cs, _, missed := w.Read(500); !missed || len(cs) != 0 {
			t.Errorf("what the other server did before it knew was passed over: %v, %v", cs, missed)
		}
		again, _ := one.Watch("a", "")
		again.Read(0)
		time.Sleep(time.Second)
		if _, _, missed := again.Read(500); missed {
			t.Error("a second one is told to read anew, though the other server knows")
		}
		again.Close()
		two.Tell("b", change(9))
		for i := range 100 {
			two.Tell("a", feed.Change{At: time.Now(), Type: "execution.cancelling", Execution: fmt.Sprintf("%036d", i), Job: fmt.Sprintf("%036d", i), Worker: fmt.Sprintf("%036d", i), Status: "CANCELLING"})
		}
		time.Sleep(time.Second)
		if cs, _, missed := w.Read(500); missed || len(cs) != 100 {
			t.Errorf("got %d, %v", len(cs), missed)
		}
		for i := range 1000 { // more than is told one by one
			two.Tell("a", change(i))
		}
		time.Sleep(time.Second)
		if cs, _, missed := w.Read(500); !missed || len(cs) != 0 {
			t.Errorf("got %d, %v", len(cs), missed)
		}
		w.Close()
		time.Sleep(time.Minute)
		if one.Heard() || two.Heard() {
			t.Error("it is still watched")
		}
	})
}

// Who comes back after all that was known of its tenant was forgotten is not told that it missed nothing.
func TestHubForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		h := feed.NewHub()
		wg.Go(func() { h.Share(ctx, nil, slog.New(slog.NewTextHandler(io.Discard, nil))) })
		w, _ := h.Watch("a", "")
		h.Tell("a", change(1))
		_, id, _ := w.Read(10)
		w.Close()
		time.Sleep(time.Minute)
		if h.Heard() {
			t.Fatal("not forgotten")
		}
		h.Watch("a", "")
		for i := range 10 {
			h.Tell("a", change(i))
		}
		if _, resumed := h.Watch("a", id); resumed {
			t.Error("resumed behind what was forgotten")
		}
	})
}
