package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// skewed is the clock of the store, which differs from those of the servers, and may be set.
type skewed struct{ by atomic.Int64 }

func newSkewed(by time.Duration) *skewed {
	s := &skewed{}
	s.by.Store(int64(by))
	return s
}

func (s *skewed) Now() time.Time { return time.Now().Add(time.Duration(s.by.Load())).UTC() }

// host is the clock of a server's machine, which may be set, too.
type host struct{ by atomic.Int64 }

func (h *host) now() time.Time { return time.Now().Add(time.Duration(h.by.Load())) }

// setClocks sets the clocks of the store and of a server according to the script.
func (w *world) setClocks() {
	if j := w.hostJump; j.last != 0 {
		w.wg.Go(func() {
			if s := w.aServer(j.whom); w.after(j.at) && s != nil {
				w.fault("clock", s.name)
				s.host.by.Add(int64(j.last))
			}
		})
	}
	if j := w.jump; j.last != 0 {
		w.wg.Go(func() {
			if w.after(j.at) {
				w.fault("clock", "store")
				w.clock.by.Add(int64(j.last))
				w.jumped.Store(int64(time.Since(w.store.begun)))
			}
		})
	}
}

// unsettled is how long after the store's clock was set its old decisions may show.
const unsettled = 30 * time.Second

// skewOf returns how far the store's clock is from those of the servers: in half of all seeds it is not skewed.
func skewOf(seed uint64) time.Duration {
	switch r := stream(seed, "clock"); r.IntN(4) {
	case 0:
		return 25 * time.Second
	case 1:
		return -25 * time.Second
	}
	return 0
}

// now is the time by the store's clock.
func (w *world) now() time.Time { return w.clock.Now() }

// Flaws are ways in which a run is broken outside its store.
type Flaws struct {
	HostClock   bool // schedulers use the clock of their machine
	NoSelfFence bool // workers treat every heartbeat as answered
}

// schedulerClock returns the clock that a scheduler uses.
func (w *world) schedulerClock(c clock.Clock) clock.Clock {
	if w.flaws.HostClock {
		return clock.System{}
	}
	return c
}

// believe sends a heartbeat, and treats it as answered if there is no reply.
func (r *remote) believe(ctx context.Context, x client.Session, b client.Beat) (client.Orders, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	o, err := speak(ctx, r, x, func(ctx context.Context, s *server) (client.Orders, error) { return s.door.Beat(ctx, x, b) })
	if errors.Is(err, client.ErrSession) {
		return o, err
	}
	return o, nil
}

// long is the prefix of jobs whose attempts last longer than a lease, and stop when told.
const long = "long-"

// longs generates a client's long-running jobs, and a cut of a worker that coincides with one.
func longs(r *rand.Rand, client int) ([]wish, []fault) {
	var out []wish
	for n := range 2 + r.IntN(3) {
		out = append(out, wish{at: upTo(r, 4*time.Second), kind: wishCreate, gap: time.Second, try: 3, def: job.Definition{
			Name: fmt.Sprintf("%sc%d-j%d", long, client, n), Schedule: job.Schedule{Type: job.Immediate}, Priority: 1, Queue: "default",
			Target: job.Target{Kind: job.Handler, Handler: kind, Timeout: time.Minute},
			Retry:  job.RetryPolicy{MaxRetries: 3, Backoff: job.Fixed, InitialDelay: 100 * time.Millisecond, MaxDelay: time.Second},
		}})
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	cuts := []fault{{at: 4*time.Second + upTo(r, 3*time.Second), kind: cutWorker, whom: r.IntN(8), last: 2*lease + upTo(r, lease)}}
	return out, cuts
}

// runs tracks the attempts of long jobs that are being executed: of one execution there is one at a time, as long as
// their workers move.
type runs struct {
	mu    sync.Mutex
	of    map[string][]longRun
	wrong []check.Violation
}

type longRun struct {
	x     *executor
	event check.Event
}

// begin records that an attempt is executed, and returns a function that records its end.
func (rs *runs) begin(x *executor, e check.Event) (end func()) {
	if !strings.HasPrefix(e.Job, long) {
		return func() {}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.of == nil {
		rs.of = map[string][]longRun{}
	}
	for _, other := range rs.of[e.Execution] {
		if other.event.Token < e.Token && !other.x.dead() && !other.x.standsStill() {
			rs.wrong = append(rs.wrong, check.Violation{Check: "fence", Slice: []check.Event{other.event, e}, What: fmt.Sprintf("%s runs at %s while %s still does", e.Execution, e.Proc, other.event.Proc)})
		}
	}
	mine := longRun{x, e}
	rs.of[e.Execution] = append(rs.of[e.Execution], mine)
	return func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.of[e.Execution] = slices.DeleteFunc(rs.of[e.Execution], func(r longRun) bool { return r == mine })
	}
}

// note records a violation.
func (rs *runs) note(v check.Violation) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.wrong = append(rs.wrong, v)
}

// standsStill reports whether the process is suspended: it can do nothing about its attempts.
func (x *executor) standsStill() bool {
	if x.still == nil {
		return false
	}
	select {
	case <-x.still():
		return false
	default:
		return true
	}
}

// counted checks the counts of an execution that succeeded: each attempt but the last failed, or lost its worker.
func (w *world) counted(x job.Execution) []check.Violation {
	if x.Status != job.Succeeded || x.Attempt == x.Tries+x.Lost+1 {
		return nil
	}
	return []check.Violation{{Check: "counts", What: fmt.Sprintf("%s succeeded with attempt %d; %d failed and %d were lost", w.store.name(x.ID), x.Attempt, x.Tries, x.Lost)}}
}

// early checks that nothing fires long before its instant, by the store's clock.
func (w *world) early(e job.Execution) {
	if at := w.jumped.Load(); at > 0 && time.Since(w.store.begun)-time.Duration(at) < unsettled {
		return
	}
	if by := e.ScheduledAt.Sub(w.now()); by > ahead+time.Second {
		w.runs.note(check.Violation{Check: "early", What: fmt.Sprintf("an execution of %s was made %v before its instant", e.JobName, by)})
	}
}
