package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// shop is a store of badges that answers as told, after a while.
type shop struct {
	asked atomic.Int32
	most  atomic.Int32 // at once
	now   atomic.Int32
	takes time.Duration
	err   error
	is    service.Condition
}

func (s *shop) ask(ctx context.Context, _ [32]byte) (string, service.Condition, error) {
	s.asked.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	return "a job", s.is, s.err
}

func TestABadgeIsAskedForOnceByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newShowing(0), &shop{takes: 100 * time.Millisecond, is: service.Up}
		gone, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { // the first goes before there is an answer, which is kept all the same
			if _, asked, err := b.find(gone, [32]byte{1}, s.ask); !asked || err != nil {
				t.Errorf("the first: %v, %v", asked, err)
			}
		})
		synctest.Wait()
		for range 49 {
			wg.Go(func() {
				if x, asked, err := b.find(t.Context(), [32]byte{1}, s.ask); x.is != service.Up || asked || err != nil {
					t.Errorf("%+v, %v, %v", x, asked, err)
				}
			})
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		time.Sleep(shownFor - 200*time.Millisecond)
		b.find(t.Context(), [32]byte{1}, s.ask)
		if n := s.asked.Load(); n != 1 {
			t.Errorf("what is known is asked for again: %d", n)
		}
		time.Sleep(100 * time.Millisecond)
		b.find(t.Context(), [32]byte{1}, s.ask)
		if n := s.asked.Load(); n != 2 {
			t.Errorf("5 s after it was asked, however long the answer took: %d", n)
		}
	})
}

func TestABadgeIsShownWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newShowing(0), &shop{is: service.Up}
		find := func() (shown, error) {
			x, _, err := b.find(t.Context(), [32]byte{1}, s.ask)
			return x, err
		}
		find()
		s.err = errors.New("away")
		time.Sleep(shownFor)
		for range 3 {
			if x, err := find(); x.is != service.Up || err != nil {
				t.Errorf("the old one: %+v, %v", x, err)
			}
		}
		if n := s.asked.Load(); n != 2 {
			t.Errorf("a store that is away is asked %d times", n)
		}
		if _, _, err := b.find(t.Context(), [32]byte{2}, s.ask); !errors.Is(err, s.err) {
			t.Errorf("one that was never shown: %v", err)
		}
		if _, _, err := b.find(t.Context(), [32]byte{2}, s.ask); !errors.Is(err, s.err) || s.asked.Load() != 3 {
			t.Errorf("and again: %v, %d", err, s.asked.Load())
		}
		time.Sleep(staleFor)
		if _, err := find(); !errors.Is(err, s.err) {
			t.Errorf("after a minute: %v", err)
		}
		s.err, s.is = nil, service.Down
		time.Sleep(failingFor)
		if x, err := find(); x.is != service.Down || err != nil {
			t.Errorf("when it is back: %+v, %v", x, err)
		}
		// What is revoked is not shown from memory.
		s.err = engine.ErrNotFound
		time.Sleep(shownFor)
		if _, err := find(); !errors.Is(err, errNoBadge) {
			t.Errorf("revoked: %v", err)
		}
		s.err = errors.New("away")
		time.Sleep(goneFor)
		if _, err := find(); !errors.Is(err, s.err) {
			t.Errorf("revoked, and the store is away: %v", err)
		}
	})
}

func TestFewBadgesAreAskedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newShowing(0), &shop{takes: 100 * time.Millisecond, is: service.Up}
		var wg sync.WaitGroup
		for i := range byte(10) { // a page of badges is shown, one after the other
			wg.Go(func() {
				if _, _, err := b.find(t.Context(), [32]byte{i}, s.ask); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.most.Load(); n != maxLooks {
			t.Errorf("%d at once", n)
		}
		s.takes = time.Minute // which is too long
		time.Sleep(shownFor)
		var refused, old atomic.Int32
		for i := range maxLooks + maxAwaiting + 20 {
			wg.Go(func() {
				_, _, err := b.find(t.Context(), [32]byte{byte(i), 1}, s.ask)
				if errors.Is(err, errManyBadges) {
					refused.Add(1)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 20 {
			t.Errorf("%d are refused at once", n)
		}
		wg.Go(func() { // what was shown before still is
			if x, _, err := b.find(t.Context(), [32]byte{1}, s.ask); x.is == service.Up && err == nil {
				old.Add(1)
			}
		})
		wg.Wait()
		if n := refused.Load(); n != 20+maxAwaiting || old.Load() != 1 {
			t.Errorf("%d are refused, and %d shown", n, old.Load())
		}
		p, _ := problem(errManyBadges)
		if p.Status != 503 || retryAfter(p) != "1" {
			t.Errorf("%+v", p)
		}
	})
}

func TestWhatOpensABadgeIsNotLogged(t *testing.T) {
	for path, want := range map[string]string{
		"/badges/cbg_aaaa.svg": "/badges/…", "//badges/cbg_aaaa.svg": "//badges/cbg_….svg", "/x/../badges/CBG_AAAA": "/x/../badges/cbg_…", "/badges/aaaa": "/badges/…", "/api/v1/badges/x": "/api/v1/badges/x",
	} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.URL.Path = path
		if got := pathOf(r); got != want {
			t.Errorf("%s is logged as %s", path, got)
		}
	}
}
