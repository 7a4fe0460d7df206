package dispatch

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	probeEvery = 100 * time.Millisecond // how often lanes that could not be probed at once are retried
	probeLanes = 1000                   // lanes read in one try
	probeRows  = 1024                   // rows read at once, over all lanes probed together
	probeLeast = 4                      // rows read of each lane at least
)

// probe examines the heads of lanes that still hold something in the window, once in every round of sweeps. Such
// lanes are not read again until they run low, so executions without a hint would otherwise wait for all that is
// loaded.
func (m *matcher) probe(ctx context.Context, now time.Time) error {
	if len(m.win.probes) == 0 || now.Sub(m.probed) < probeEvery {
		return nil
	}
	m.probed = now
	cs := m.win.heads(probeLanes, func(k job.Lane) bool {
		return m.own(k.Partition) && m.serves(k.Tenant, k.Class) && !m.paused(k)
	})
	for began := time.Now(); len(cs) > 0; {
		per := min(m.d.cfg.PerLane, max(probeLeast, probeRows/len(cs)))
		rs, err := m.d.store.Ready(ctx, cs, per)
		if err != nil {
			m.d.missed.Store(true) // the next sweep probes them all again
			return err
		}
		cs = m.win.probed(cs, rs, per)
		if time.Since(began) > sweepTime {
			return nil
		}
	}
	return nil
}

// heads takes up to most lanes off the list of those to probe, and returns cursors at the start of those that want
// accepts. The others stay on the list, after those that were not examined.
func (w *window) heads(most int, want func(job.Lane) bool) []engine.LaneCursor {
	var cs []engine.LaneCursor
	looked := w.probes[:min(most, len(w.probes))]
	rest := w.probes[len(looked):]
	for _, k := range looked {
		l := w.lanes[k]
		switch {
		case l == nil:
		case l.loaded == 0: // it is read from its start anyway
			l.probing = false
		case want(k):
			l.probing = false
			cs = append(cs, engine.LaneCursor{Lane: k})
		default:
			rest = append(rest, k)
		}
	}
	w.probes = rest
	return cs
}

// probed handles the store's answer for the heads of lanes: it adds what comes before the first execution that is
// known and waits, as far as there is room. It returns cursors after answers in which there was none, because
// everything in them is in flight, or new.
func (w *window) probed(cs []engine.LaneCursor, rs []job.Ready, perLane int) []engine.LaneCursor {
	type answer struct {
		engine.LaneCursor
		n   int  // executions in the answer
		new int  // of them that were not known
		met bool // one of them is known and waits
	}
	answers := make(map[job.Lane]*answer, len(cs))
	var changed []job.GroupKey
	for _, r := range rs {
		a := answers[r.Lane()]
		if a == nil {
			a = &answer{LaneCursor: engine.LaneCursor{Lane: r.Lane()}}
			answers[r.Lane()] = a
		}
		a.n++
		if a.met {
			continue
		}
		a.DueAt, a.After = r.DueAt, r.ID
		switch x, known := w.known[r.ID]; {
		case !known && w.held() < 2*w.size:
			a.new++
			w.admit(r)
		case x != nil:
			a.met = true
			changed = regrouped(changed, x, &r)
		}
	}
	w.evict(changed)
	var again []engine.LaneCursor
	for _, a := range answers {
		if !a.met && a.n >= perLane && (a.new == 0 || w.held() < w.size) {
			again = append(again, a.LaneCursor)
		}
	}
	return again
}
