package replica

import (
	"fmt"
	"time"
)

// failed notes a failure, and returns how long to wait.
func (s *Shipper) failed(err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failedLocked(err)
}

func (s *Shipper) failedLocked(err error) time.Duration {
	s.fails++
	s.counts.Failures++
	if s.failing == nil {
		s.cfg.Log.Warn("the store cannot be replicated for now; it works on, and changes wait", "place", s.cfg.Place.String(), "error", err)
	}
	s.failing = err
	return min(longestWait, s.cfg.Every<<min(s.fails-1, 10))
}

func (s *Shipper) recovered() {
	if s.failing != nil {
		s.cfg.Log.Info("the store is replicated again", "place", s.cfg.Place.String(), "failures", s.fails)
	}
	s.fails, s.failing = 0, nil
}

// Status is how far the replica has come.
type Status struct {
	Counts
	Generation string        // empty: none has begun
	Behind     time.Duration // age of the moment of which everything can be restored
	Waiting    int64         // bytes to be stored
	Failing    error         // nil: the last attempt was good
	Whole      bool          // the generation has a snapshot
}

// Status returns how far the replica has come.
func (s *Shipper) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Counts: s.counts, Behind: max(0, s.cfg.Now().Sub(s.complete)), Waiting: s.waiting(), Failing: s.failing}
	if s.gen != nil {
		out.Generation, out.Whole = s.gen.id, !s.gen.snapshot.IsZero()
	}
	return out
}

// Warning says, without naming the place, that the replica is too far behind; empty: it is not.
func (x Status) Warning() string {
	if x.Behind < tooFar {
		return ""
	}
	text := fmt.Sprintf("The continuous backup is %s behind.", x.Behind.Round(time.Second))
	switch {
	case x.Failing != nil:
		return text + " The place where it is stored refuses or cannot be reached; the server's log says why."
	case !x.Whole:
		return text + " Its first snapshot is not complete yet."
	}
	return text
}
