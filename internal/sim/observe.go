package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// starved limits how long an execution that may start, and for which a worker is free, may wait once the faults
	// are over, while nothing of its partition is leased: servers without workers give partitions up after 10 s, and
	// shares go back within two. Only the workers of a partition's owner serve it, so a backlog of one job lasts,
	// however many workers wait at other servers.
	starved = 15 * time.Second
	// reaped limits how long after the end of its worker's session an execution may still be held.
	reaped = 10 * time.Second
	calmed = 10 * time.Second // after the last fault schedules are punctual
	late   = 3 * time.Second  // how long after its instant a schedule may fire
)

// found creates the tenants of a run.
func (w *world) found(ctx context.Context, s engine.Store) error {
	days := keepDays
	for _, t := range w.tenants[1:] {
		if err := s.CreateTenant(ctx, tenant.Tenant{ID: t, Name: string(t), Tier: tenant.Enterprise, CreatedAt: w.now(), Overrides: tenant.Overrides{HistoryDays: &days}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// gone reports whether all servers are gone at an instant of the script.
func (w *world) gone(at time.Duration) bool {
	return w.outage.last > 0 && at >= w.outage.at && at < w.outage.at+w.outage.last
}

// observe checks each second what waits and what is held, until the run is over.
func (w *world) observe() {
	for w.after(time.Second) {
		w.store.mu.Lock()
		w.look()
		w.store.mu.Unlock()
	}
}

// look records what waits or is held for too long. The caller holds the recorder's mu.
func (w *world) look() {
	serving, calm := w.serving(), w.quiet.Load()
	now, r := w.now(), w.store
	sessions := map[string]bool{}
	for _, x := range r.sessions {
		if time.Now().Before(x.expires) {
			sessions[x.name] = true
		}
	}
	free := w.free(sessions)
	var running inUse
	newest := map[job.Partition]job.Token{}
	for _, s := range r.known {
		if !s.status.Final() {
			running.add(s)
		}
		newest[s.part] = max(newest[s.part], s.token)
	}
	served := func(s *seen) bool { return newest[s.part] > r.newest[s.part] } // something of its partition was leased since the last look
	for _, s := range r.known {
		switch {
		case s.held() && !s.parked:
			s.waits = 0
			x := r.sessions[s.worker]
			if x == nil || time.Now().Before(x.expires) {
				s.orphaned = 0
			} else if serving {
				s.orphaned += time.Second
			}
			if s.orphaned == reaped+time.Second {
				r.wrong("recovery", "%s is still held, %v after the session of its worker ended", s.name, reaped)
			}
		case calm && serving && !served(s) && s.waiting() && !s.due.After(now) && !r.heldBack(s, running, now) && slices.ContainsFunc(free, func(x *executor) bool { return x.whose == "" || x.whose == s.tenant }):
			if s.waits += time.Second; s.waits == starved+time.Second {
				r.wrong("starvation", "%s has waited for %v although it may start and %s is free", s.name, starved, free[0].proc)
			}
		default:
			s.waits = 0
		}
	}
	r.newest = newest
}

// inUse counts held executions by what limits them.
type inUse struct {
	groups map[job.GroupKey]int // a rate holds all of its group back: it counts as a running one
	scopes map[[2]string]int
}

func (t *inUse) add(s *seen) {
	if t.groups == nil {
		t.groups, t.scopes = map[job.GroupKey]int{}, map[[2]string]int{}
	}
	if s.held() || !s.group.Rate.IsZero() {
		t.groups[s.group.Key]++
	}
	if !s.held() || s.flow {
		return
	}
	t.scopes[[2]string{string(s.tenant), ""}]++
	t.scopes[[2]string{string(s.tenant), s.queue}]++
}

// waiting reports whether the execution only waits for its turn.
func (s *seen) waiting() bool { return s.status == job.Pending || s.status == job.Retrying }

// heldBack reports whether a limit, or a pause, may keep an execution from starting: for a group it assumes so if
// anything runs, since those before it may have other limits. The caller holds mu.
func (r *recorder) heldBack(s *seen, running inUse, now time.Time) bool {
	if s.group.Key != 0 && running.groups[s.group.Key] > 0 || r.deleted[s.job] {
		return true
	}
	for _, q := range []string{"", s.queue} {
		k := [2]string{string(s.tenant), q}
		l := r.limits[k]
		if !l.Rate.IsZero() || l.Max > 0 && running.scopes[k] >= l.Max || l.Pause.Holds(now) {
			return true
		}
	}
	return false
}

// serving reports whether a server lives, and the store is quick.
func (w *world) serving() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.servers) > 0 && !w.slow.Load() && !w.out.Load()
}

// free returns the workers that could run something: they have a session, and room.
func (w *world) free(sessions map[string]bool) []*executor {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*executor
	for _, r := range w.remotes {
		if w.picky[r.n].kind == kind {
			out = append(out, r.exec)
		}
	}
	for _, s := range w.servers {
		if s.exec != nil {
			out = append(out, s.exec)
		}
	}
	return slices.DeleteFunc(out, func(x *executor) bool {
		return !sessions[x.proc] || x.busy.Load() >= slots || x.dead() || x.standsStill()
	})
}

// limit sets or replaces a limit. The caller holds mu.
func (r *recorder) limit(l job.Limit) {
	k := [2]string{string(l.Tenant), l.Queue}
	l.Pause = r.limits[k].Pause
	r.limits[k] = l
}

func (r *recorder) SetLimit(ctx context.Context, l job.Limit, e *audit.Entry) error {
	_, err := commit(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Store.SetLimit(ctx, l, e) }, func(context.Context, struct{}) { r.limit(l) })
	return err
}

func (r *recorder) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause, e *audit.Entry) error {
	_, err := commit(ctx, r, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.Store.PauseQueue(ctx, t, queue, p, e)
	}, func(context.Context, struct{}) {
		k := [2]string{string(t), queue}
		l := r.limits[k]
		l.Pause = p
		r.limits[k] = l
	})
	return err
}

// returned checks, when nothing runs or waits any more, that no server keeps a share of a limit.
func (w *world) returned() {
	s := shared(w.shares)
	if s == nil || w.store.open() > 0 {
		return
	}
	if !w.after(shareBack) {
		return
	}
	for _, t := range w.tenants {
		ls, err := s.Lent(w.ctx, t)
		for _, l := range ls {
			w.runs.note(check.Violation{Check: "shares", What: fmt.Sprintf("%s keeps %d of the limit of %s/%s, %v after the last execution ended (%v)", l.Host, l.Share, t, l.Queue, shareBack, err)})
		}
	}
}

// shareBack limits how long after the last execution ended a server may keep a share.
const shareBack = 4 * time.Second
