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
