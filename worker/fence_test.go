package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// hanging is a server that answers a beat that comes before its time, then refuses beats at once, and then lets them hang.
type hanging struct {
	*fakeServer
	began time.Time
}

func (s *hanging) Beat(ctx context.Context, x client.Session, b client.Beat) (client.Orders, error) {
	switch at := time.Since(s.began); {
	case at < 5*time.Second:
		return s.fakeServer.Beat(ctx, x, b)
	case at < 25*time.Second:
		return client.Orders{}, errors.New("no route")
	}
	<-ctx.Done()
	return client.Orders{}, ctx.Err()
}

// A beat that hangs does not keep what runs from being stopped before the lease ends: 30 s after the last beat that was answered.
func TestABeatThatHangsDoesNotHoldUpTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{newServer(1), time.Now()}
		s.nudge = make(chan struct{}, 1)
		stopped := make(chan time.Time, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			New(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
				<-ctx.Done()
				select {
				case stopped <- time.Now():
				default:
				}
				return client.Outcome{}
			}), Config{}).Run(ctx)
		})
		<-time.After(500 * time.Millisecond)
		answered := time.Now()
		s.nudge <- struct{}{}
		if after := (<-stopped).Sub(answered); after > 30*time.Second {
			t.Errorf("it ran on for %v after the last beat that was answered, longer than its lease", after)
		}
		cancel()
		wg.Wait()
	})
}

// stuck is a server at which some beats hang.
type stuck struct {
	*fakeServer
	beats int
	hangs func(n int) bool
}

func (s *stuck) Beat(ctx context.Context, x client.Session, b client.Beat) (client.Orders, error) {
	if s.beats++; s.hangs(s.beats) {
		<-ctx.Done()
		<-time.After(time.Millisecond) // as no clock is exact
		return client.Orders{}, ctx.Err()
	}
	return s.fakeServer.Beat(ctx, x, b)
}

// One beat that hangs ends no session: the next one is sent while there is time. Two in a row end it, before the lease does.
func TestOneBeatThatHangsEndsNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		hangs func(n int) bool
		ends  bool
	}{
		"the second, of all":  {func(n int) bool { return n == 2 }, false},
		"every second one":    {func(n int) bool { return n%2 == 0 }, false},
		"all from the second": {func(n int) bool { return n >= 2 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{fakeServer: newServer(1), hangs: c.hangs}
				ended := make(chan time.Duration, 1)
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					New(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
						<-ctx.Done()
						if errors.Is(context.Cause(ctx), ErrLeaseLost) {
							select {
							case ended <- time.Since(began):
							default:
							}
						}
						return client.Outcome{}
					}), Config{}).Run(ctx)
				})
				select {
				case after := <-ended:
					if !c.ends {
						t.Errorf("the session ended after %v", after)
					} else if after > 40*time.Second { // the first beat was sent after 10 s, and the lease lasts for 30 s
						t.Errorf("it ran on for %v", after)
					}
				case <-time.After(10 * time.Minute):
					if c.ends {
						t.Error("the session goes on without beats")
					}
				}
				cancel()
				wg.Wait()
			})
		})
	}
}
