package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// lately is a server that hands out n attempts without the values of their secrets.
func lately(n int, starting func(context.Context, client.Held) (client.Attempt, error)) *fakeServer {
	s := newServer(0)
	s.late, s.starting = true, starting
	s.add(n, 300)
	return s
}

// A pool that claims ahead asks for the values of an attempt when it has a slot for it, and runs it with these.
func TestValuesComeWhenAnAttemptBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, n = 4, 2000
		s := lately(n, nil)
		var mu sync.Mutex
		runs, most, without := 0, 0, 0
		e := executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			mu.Lock()
			if string(a.Payload) != `"the value"` || a.LateSecrets {
				without++
			}
			s.mu.Lock()
			most = max(most, len(s.starts)-runs) // of which nothing has ended
			s.mu.Unlock()
			mu.Unlock()
			defer func() { mu.Lock(); runs++; mu.Unlock() }()
			return takes(time.Millisecond)(ctx, a)
		})
		stop := start(s, e, Config{Slots: slots, MaxSlots: slots})
		<-time.After(time.Minute)
		stop()
		if len(s.outcomes) != n || len(s.starts) != n || without > 0 || len(s.released) > 0 {
			t.Errorf("%d ended, %d started, %d ran without values, %d were released", len(s.outcomes), len(s.starts), without, len(s.released))
		}
		if ahead := slices.Max(s.claims); ahead <= slots {
			t.Errorf("it never claimed ahead: %d at most", ahead)
		}
		if most > slots {
			t.Errorf("it had the values of %d attempts with %d slots", most, slots)
		}
	})
}

// While no server answers, an attempt waits in its slot, and then begins.
func TestAStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := lately(1, func(context.Context, client.Held) (client.Attempt, error) {
			tries++
			switch tries {
			case 1:
				return client.Attempt{}, errors.New("connection refused")
			case 2:
				return client.Attempt{}, &client.Problem{Status: http.StatusServiceUnavailable}
			case 3:
				return client.Attempt{}, &client.Problem{Status: http.StatusTooManyRequests}
			}
			return client.Attempt{Payload: []byte(`1`)}, nil
		})
		var got client.Attempt
		stop := start(s, executorFunc(func(_ context.Context, a client.Attempt) client.Outcome {
			got = a
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(10 * time.Second)
		stop()
		if tries != 4 || string(got.Payload) != "1" || got.ExecutionID != "0" || got.FencingToken != 7 || len(s.outcomes) != 1 {
			t.Errorf("after %d tries it ran %+v; %d ended", tries, got, len(s.outcomes))
		}
	})
}

// What may not begin, or cannot for as long as a lease lasts, is handed back and does not run.
func TestWhatMayNotBeginIsHandedBack(t *testing.T) {
	refused := func(status int, code string) func(context.Context, client.Held) (client.Attempt, error) {
		return func(context.Context, client.Held) (client.Attempt, error) {
			return client.Attempt{}, &client.Problem{Status: status, Code: code}
		}
	}
	for name, c := range map[string]struct {
		starting func(context.Context, client.Held) (client.Attempt, error)
		within   time.Duration
	}{
		"the lease is lost":    {refused(409, client.CodeStaleToken), 2 * time.Second},
		"a secret is gone":     {refused(409, "not_started"), 2 * time.Second},
		"the key is revoked":   {refused(401, "unauthorized"), 2 * time.Second},
		"the role was changed": {refused(403, "forbidden"), 2 * time.Second},
		"no server answers": {func(context.Context, client.Held) (client.Attempt, error) {
			return client.Attempt{}, errors.New("away")
		}, 32 * time.Second},
		"the server fails": {refused(500, "internal"), 32 * time.Second},
		"the server hangs": {func(ctx context.Context, _ client.Held) (client.Attempt, error) {
			<-ctx.Done()
			return client.Attempt{}, ctx.Err()
		}, 32 * time.Second},
		"the answer is too late": {func(ctx context.Context, _ client.Held) (client.Attempt, error) {
			<-time.After(31 * time.Second)
			return client.Attempt{}, nil
		}, 33 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lately(1, c.starting)
				ran := false
				stop := start(s, executorFunc(func(context.Context, client.Attempt) client.Outcome {
					ran = true
					return client.Outcome{Status: client.Succeeded}
				}), Config{})
				<-time.After(c.within)
				if s.mu.Lock(); len(s.released) != 1 {
					t.Errorf("released %v within %v", s.released, c.within)
				}
				s.mu.Unlock()
				stop()
				if ran || len(s.outcomes) != 0 {
					t.Errorf("it ran: %v, reported: %v", ran, s.outcomes)
				}
			})
		})
	}
}

// An ended session ends the shift, also when a start is what shows it.
func TestAStartShowsThatTheSessionHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *fakeServer
		s = lately(1, func(_ context.Context, h client.Held) (client.Attempt, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.registered == 1 {
				s.waiting = append(s.waiting, s.held[h.ExecutionID]) // it goes to the next
				return client.Attempt{}, fmt.Errorf("%w: 404", ErrSession)
			}
			return client.Attempt{Payload: []byte(`1`)}, nil
		})
		stop := start(s, takes(0), Config{})
		<-time.After(10 * time.Second)
		stop()
		if s.registered != 2 || len(s.outcomes) != 1 {
			t.Errorf("registered %d times, %d started, %d ended", s.registered, len(s.starts), len(s.outcomes))
		}
	})
}

// A cancel that comes before an attempt has begun hands it back, and the server ends it.
func TestACancelComesBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lately(1, func(ctx context.Context, _ client.Held) (client.Attempt, error) {
			<-ctx.Done()
			return client.Attempt{}, ctx.Err()
		})
		s.nudge = make(chan struct{}, 1)
		stop := start(s, executorFunc(func(context.Context, client.Attempt) client.Outcome {
			t.Error("it ran")
			return client.Outcome{}
		}), Config{})
		<-time.After(time.Second)
		s.mu.Lock()
		s.orders = client.Orders{Cancel: []string{"0"}}
		s.mu.Unlock()
		s.nudge <- struct{}{}
		<-time.After(2 * time.Second)
		stop()
		if len(s.released) != 1 || len(s.outcomes) != 0 {
			t.Errorf("released %v, reported %v", s.released, s.outcomes)
		}
	})
}
