package dispatch

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// reportParked accepts outcomes some of which are parked: their targets complete them, so they continue to count as
// running, though their worker no longer holds them.
func (d *Dispatcher) reportParked(ctx context.Context, w job.WorkerID, outcomes []job.Outcome) ([]job.Verdict, error) {
	var parked, ended []job.Outcome
	for _, o := range outcomes {
		if o.Status == job.OutcomeParked {
			parked = append(parked, o)
		} else {
			ended = append(ended, o)
		}
	}
	pv, err := d.park(ctx, w, parked)
	if err != nil {
		return nil, err
	}
	var ev []job.Verdict
	if len(ended) > 0 {
		if ev, err = d.reports.call(ctx, report{w, ended}); err != nil {
			return nil, err // the worker reports all of them again, and parked ones are accepted again
		}
	}
	out := make([]job.Verdict, 0, len(outcomes))
	for _, o := range outcomes {
		from := &ev
		if o.Status == job.OutcomeParked {
			from = &pv
		}
		out, *from = append(out, (*from)[0]), (*from)[1:]
	}
	return out, nil
}

func (d *Dispatcher) park(ctx context.Context, w job.WorkerID, os []job.Outcome) ([]job.Verdict, error) {
	ls := make([]job.Lease, len(os))
	for i, o := range os {
		ls[i] = o.Lease
	}
	held, err := d.store.Held(ctx, ls)
	if err != nil {
		return nil, err
	}
	until := make(map[job.Lease]time.Time, len(held))
	for _, h := range held {
		until[job.Lease{Execution: h.ID, Token: h.Token}] = h.Deadline()
	}
	ps := make([]engine.Parking, len(os))
	for i, o := range os {
		ps[i] = engine.Parking{Outcome: o, Worker: w, Until: until[o.Lease]}
	}
	vs, err := d.store.Park(ctx, ps)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.known[w]; s != nil {
		for _, l := range ls {
			s.drop(l.Token)
		}
	}
	return vs, nil
}

// drop removes one execution that the session was given under a token.
func (s *session) drop(t job.Token) {
	if s.held[t]--; s.held[t] <= 0 {
		delete(s.held, t)
	}
}
