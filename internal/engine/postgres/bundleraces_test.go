package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Each member of a bundle is finished by another, at the same time: none is lost, and none is finished twice.
func TestMembersAreFinishedAtOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 8)
	store(t, s, c)
	as := grant(t, s, ids(c)...)
	rand.Shuffle(len(as), func(i, k int) { as[i], as[k] = as[k], as[i] })
	var wg sync.WaitGroup
	for part := range slices.Chunk(as, 3) {
		for range 2 { // and reported twice
			wg.Go(func() { finishAll(t, s, part) })
		}
	}
	wg.Wait()
	wantPlaces(t, d, "finished", 0, 0, 0, 128)
}

// A bundle is parted while another looks for a member of what is left of it, and a lease commits while its session is ended.
func TestABundleThatIsPartedMeanwhile(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	mine := direct(t, s)
	registerArrays(mine)
	c := bundle(t, s, 4)
	store(t, s, c)
	all := ids(c)
	part := func(n int, ids []job.ExecutionID) {
		t.Helper()
		w := session(t, s, time.Hour)
		workers, wanted, firsts, ns, gs, ats, masks := uuids(1), uuids(n), uuids(1), ints(1), ints(1), ints(1), bigints(1)
		workers.uuid(w)
		mask := int64(0)
		for _, id := range ids[:n] {
			wanted.uuid(id)
			mask |= 1 << job.Member(id)
		}
		firsts.uuid(ids[0])
		ns.int4(n)
		gs.int4(1)
		ats.int4(1)
		masks.int8(mask)
		exec(t, mine, "BEGIN")
		if done, err := mine.Exec(t.Context(), leaseBundlesSQL, workers, wanted, firsts, ns, gs, ats, masks, 1); err != nil || done.RowsAffected() != int64(n) {
			t.Fatalf("leased %v: %v", done, err)
		}
	}
	meanwhile := func(do func() error) {
		t.Helper()
		errs := make(chan error, 1)
		go func() { errs <- do() }()
		untilOneWaits(t, direct(t, s))
		exec(t, mine, "COMMIT")
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	part(5, all[:16])
	meanwhile(func() error { // of what is left
		st, err := s.Cancel(t.Context(), tenant.Default, all[10], "x", nil)
		if err == nil && st.Status != job.Cancelled {
			err = fmt.Errorf("it is %v", st.Status)
		}
		return err
	})
	wantPlaces(t, mine, "cancelled", 4, 53, 10, 1)
	part(5, all[16:32])
	meanwhile(func() error { // of what was leased
		st, err := s.Cancel(t.Context(), tenant.Default, all[18], "x", nil)
		if err == nil && st.Status != job.Cancelling {
			err = fmt.Errorf("it is %v", st.Status)
		}
		return err
	})
	part(5, all[32:48])
	meanwhile(func() error { // behind it
		if as := grant(t, s, all[37:48]...); len(as) != 11 {
			return fmt.Errorf("leased %d of 11", len(as))
		}
		return nil
	})
	part(16, all[48:])
	meanwhile(func() error {
		if as := grant(t, s, all[48:]...); len(as) != 0 {
			return fmt.Errorf("leased %d twice", len(as))
		}
		return nil
	})
	if _, packed, live, past := places(t, mine); packed+live+past != 64 {
		t.Errorf("%d packed, %d live, %d past", packed, live, past)
	}
}

// Many clients lease, fail, hand back, lose, cancel and finish bundles at random: each execution ends once.
func TestEveryMemberEndsOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 40)
	store(t, s, c)
	all := ids(c)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var mu sync.Mutex
	ended := map[job.ExecutionID]int{}
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ended) == len(all)
	}
	count := func(ids ...job.ExecutionID) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			ended[id]++
		}
	}
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(client)))
			fine := func(doing string, err error) bool {
				if err != nil && !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrConflict) && ctx.Err() == nil {
					t.Errorf("%s: %v", doing, err)
				}
				return err == nil
			}
			for !over() && ctx.Err() == nil {
				w := job.Worker{ID: newID(), Host: "h", Version: "v", StartedAt: c.Jobs[0].CreatedAt}
				if !fine("register", s.Register(ctx, w, time.Minute)) {
					continue
				}
				from := rng.IntN(len(all))
				if rng.IntN(2) == 0 {
					from -= from % some
				}
				wanted := all[from:min(len(all), from+1+rng.IntN(70))]
				as, err := s.Lease(ctx, []engine.Grant{{Worker: w.ID, Executions: wanted}}, engine.Fence{})
				if !fine("lease", err) {
					continue
				}
				switch rng.IntN(8) {
				case 0: // this one dies with what it holds, but does not know it
					_, err := s.Renew(ctx, []engine.Renewal{{Worker: w.ID}}, -time.Second)
					if err == nil {
						_, err = s.Reap(ctx, 100, 0)
					}
					fine("reap", err)
				case 1:
					_, err := s.Leave(ctx, w.ID)
					fine("leave", err)
				case 2:
					if st, err := s.Cancel(ctx, tenant.Default, all[rng.IntN(len(all))], "x", nil); fine("cancel", err) && st.Status == 0 {
						t.Error("a cancel found nothing")
					}
				case 3:
					var ls []job.Lease
					for _, a := range as[:len(as)/3] {
						ls = append(ls, a.Lease)
					}
					_, err := s.Release(ctx, w.ID, ls)
					fine("release", err)
				}
				for len(as) > 0 {
					n := 1 + rng.IntN(len(as))
					var fs []job.Finish
					for _, a := range as[:n] {
						if f := success(a); rng.IntN(40) == 0 {
							fs = append(fs, failure(a))
						} else {
							fs = append(fs, f)
						}
					}
					as = as[n:]
					vs, err := s.Finish(ctx, fs)
					if !fine("finish", err) {
						continue
					}
					for i, v := range vs {
						if v.Accepted && fs[i].Then.Status.Final() {
							count(v.Execution)
						}
					}
				}
				if rng.IntN(5) == 0 { // what was cancelled
					rows, err := s.FindExecutions(ctx, engine.ExecutionFilter{Tenant: tenant.Default, Statuses: []job.Status{job.Cancelled}}, engine.Page{Limit: 1000})
					if fine("list", err) {
						mu.Lock()
						for _, e := range rows.Executions {
							ended[e.ID] = max(1, ended[e.ID])
						}
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	wantPlaces(t, d, "over", 0, 0, 0, len(all))
	for id, n := range ended {
		if n != 1 {
			t.Errorf("%s ended %d times", id, n)
		}
	}
}
