package allowlist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

type stored func() (map[tenant.ID]engine.Reach, error)

func (s stored) Reaches(context.Context) (map[tenant.ID]engine.Reach, error) { return s() }

func TestStep(t *testing.T) {
	clk := clock.NewManual(time.Unix(1_700_000_000, 0))
	list, away, reads := "10.0.0.0/8,fd00::/8", errors.New("away"), 0
	l := New(stored(func() (map[tenant.ID]engine.Reach, error) {
		reads++
		if list == "" {
			return nil, away
		}
		return map[tenant.ID]engine.Reach{"a": {Allow: list}}, away
	}), clk)
	give := func(of tenant.ID, kind job.TargetKind) ([]string, error) {
		var a job.Attempt
		a.Tenant, a.Target.Kind = of, kind
		var out client.Attempt
		err := l.Step(t.Context(), a, &out)
		return out.CallbackAllow, err
	}
	if _, err := give("a", job.HTTP); err == nil {
		t.Error("nothing is known, and it is given out")
	}
	if _, err := give("a", job.Command); err != nil {
		t.Errorf("what calls nobody: %v", err)
	}
	away, reads = nil, 0
	for range 3 {
		if got, err := give("a", job.HTTP); err != nil || !slices.Equal(got, []string{"10.0.0.0/8", "fd00::/8"}) {
			t.Errorf("%q, %v", got, err)
		}
		for _, other := range []tenant.ID{"b", "c", ""} {
			if got, err := give(other, job.HTTP); err != nil || got != nil {
				t.Errorf("%q: %q, %v", other, got, err)
			}
		}
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
	list = ""
	clk.Advance(remember)
	if got, _ := give("a", job.HTTP); got != nil {
		t.Errorf("taken away: %q", got)
	}
	list, away = "10.0.0.0/8", errors.New("away")
	clk.Advance(remember)
	if got, err := give("a", job.HTTP); err != nil || got != nil {
		t.Errorf("the store is away: %q, %v", got, err)
	}
}

// Many claims at once are one read, and while it lasts they go by what is known.
func TestOneReadsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clock.NewManual(time.Unix(1_700_000_000, 0))
		var reads atomic.Int32
		let := make(chan struct{})
		l := New(stored(func() (map[tenant.ID]engine.Reach, error) {
			<-let
			return map[tenant.ID]engine.Reach{"a": {Allow: fmt.Sprintf("10.0.0.%d/32", reads.Add(1))}}, nil
		}), clk)
		give := func(ctx context.Context) ([]string, error) {
			var out client.Attempt
			err := l.Step(ctx, job.Attempt{Tenant: "a", Target: job.Target{Kind: job.HTTP}}, &out)
			return out.CallbackAllow, err
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, err := give(t.Context()); err != nil || !slices.Equal(got, []string{"10.0.0.1/32"}) {
					t.Errorf("at first: %q, %v", got, err)
				}
			})
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := give(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone: %v", err)
		}
		close(let)
		all.Wait()
		let = make(chan struct{})
		clk.Advance(remember)
		all.Go(func() {
			if got, err := give(t.Context()); err != nil || !slices.Equal(got, []string{"10.0.0.2/32"}) {
				t.Errorf("who reads: %q, %v", got, err)
			}
		})
		synctest.Wait()
		for range 50 {
			if got, err := give(t.Context()); err != nil || !slices.Equal(got, []string{"10.0.0.1/32"}) {
				t.Errorf("meanwhile: %q, %v", got, err)
			}
		}
		close(let)
		all.Wait()
		if n := reads.Load(); n != 2 {
			t.Errorf("read %d times", n)
		}
	})
}
