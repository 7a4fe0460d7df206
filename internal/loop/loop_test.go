package loop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		var passes []time.Duration
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			Run(ctx, log, "part", wake, func(context.Context) (time.Duration, error) {
				passes = append(passes, time.Since(began))
				switch len(passes) {
				case 2:
					return 0, errors.New("away")
				case 3:
					panic("oops")
				}
				return time.Minute, nil
			})
		})
		<-time.After(70 * time.Second)
		wake <- struct{}{}
		<-time.After(time.Second)
		cancel()
		wg.Wait()
		if len(passes) != 5 {
			t.Fatalf("%d passes: %v", len(passes), passes)
		}
		if passes[1] != time.Minute || passes[3]-passes[1] > 2*longWait || passes[4] != 70*time.Second {
			t.Errorf("passes at %v", passes)
		}
		for _, say := range []string{"away", "recovered", "failed_passes=2", "loop=part"} {
			if !strings.Contains(out.String(), say) {
				t.Errorf("the log lacks %q:\n%s", say, out.String())
			}
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	for n := 1; n < 100; n++ {
		d := Backoff(n)
		if d < firstWait/2 || d > longWait*3/2 {
			t.Errorf("after %d: %v", n, d)
		}
	}
}
