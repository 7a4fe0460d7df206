package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// rationed is a server that lets a few workers register a second.
type rationed struct {
	*fakeServer
	every time.Duration // one in this time

	mu       sync.Mutex
	next     time.Time // guarded by mu
	refused  int       // guarded by mu
	accepted int       // guarded by mu
	all      chan struct{}
	want     int
}

func (s *rationed) Register(ctx context.Context, r client.Registration) (client.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Before(s.next) {
		s.refused++
		return client.Session{}, &client.Problem{Status: 429, Code: "quota_exceeded", RetryAfter: time.Second}
	} else {
		s.next = now.Add(s.every)
	}
	if s.accepted++; s.accepted == s.want {
		close(s.all)
	}
	return s.fakeServer.Register(ctx, r)
}

// Workers that a server has too many of for now come back less and less often, and not together: the server is busy with those that it takes. All
// are taken in about the time that its ration needs.
func TestRefusedWorkersComeBackLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 500
		s := &rationed{fakeServer: newServer(0), every: 200 * time.Millisecond, all: make(chan struct{}), want: workers} // 100 s for all, if none of it went unused
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				New(s, executorFunc(func(context.Context, client.Attempt) client.Outcome { return client.Outcome{} }), Config{}).Run(ctx)
			})
		}
		select {
		case <-s.all:
		case <-time.After(10 * time.Minute):
			t.Error("some were not taken")
		}
		s.mu.Lock()
		refused, took := s.refused, time.Since(began)
		s.mu.Unlock()
		if refused > 8*workers || took > 300*time.Second {
			t.Errorf("%d refusals in %v", refused, took)
		}
		t.Logf("%d refusals in %v", refused, took)
		cancel()
		wg.Wait()
	})
}

// A worker waits no shorter than the server asks, and soon enough where nobody answers.
func TestWaitsBeforeRegistering(t *testing.T) {
	busy := &client.Problem{Status: 429, RetryAfter: 3 * time.Second}
	most := func(d time.Duration) time.Duration { return d - 1 }
	least := func(time.Duration) time.Duration { return 0 }
	for _, c := range []struct {
		n           int
		err         error
		least, most time.Duration
	}{
		{1, context.DeadlineExceeded, 25 * time.Millisecond, 50 * time.Millisecond}, {9, context.DeadlineExceeded, time.Second, 2 * time.Second},
		{1, busy, 3 * time.Second, 3500 * time.Millisecond}, {5, busy, 8 * time.Second, 16 * time.Second}, {40, busy, 15 * time.Second, 30 * time.Second},
		{40, &client.Problem{Status: 503}, time.Second, 2 * time.Second},
	} {
		if a, b := again(c.n, c.err, least), again(c.n, c.err, most); a != c.least || b != c.most {
			t.Errorf("after %d of %v: from %v to %v, want from %v to %v", c.n, c.err, a, b, c.least, c.most)
		}
	}
}
