package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// ledger records what was accepted, what handlers received and what ended, to compare with the store.
type ledger struct {
	start  time.Time
	shards [64]shard
	first  atomic.Int64  // when the first handler began since the last query, after the start; 0: none has
	last   atomic.Int64  // when ends were last acknowledged, after the start
	ended  atomic.Int64  // executions whose success the dispatcher has acknowledged; until they are entered, some are counted twice
	news   chan struct{} // ended may have grown

	mu       sync.Mutex
	accepted map[tenant.ID][]made // guarded by mu
	count    atomic.Int64         // of accepted
	checked  atomic.Int64         // of those
}

// made is an accepted job and its execution.
type made struct {
	job       job.ID
	execution job.ExecutionID
}

// shard is a part of the records, so that workers do not block each other. Events are first appended to a list and
// entered into the records later: looking the records up would cost as much as much of what is measured.
type shard struct {
	mu      sync.Mutex
	notes   []note                     // guarded by mu
	records map[job.ExecutionID]record // guarded by mu
}

// note records that a handler received an execution, or that its success was acknowledged.
type note struct {
	id    job.ExecutionID
	began time.Duration // after the start
	ended bool
}

// record holds the outcome of an execution, as seen from the worker. There are very many, so it is small and holds no
// pointers for the garbage collector to follow.
type record struct {
	began time.Duration // when its handler first began, after the start
	runs  int32         // how often it did
	ends  int32         // how often its success was acknowledged
}

func newLedger() *ledger {
	l := &ledger{start: time.Now(), news: make(chan struct{}, 1), accepted: map[tenant.ID][]made{}}
	for i := range l.shards {
		l.shards[i].records = map[job.ExecutionID]record{}
	}
	return l
}

func (l *ledger) shard(id job.ExecutionID) *shard { return &l.shards[id[len(id)-1]%64] }

// accept records what the service has accepted.
func (l *ledger) accept(t tenant.ID, all ...service.NewJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range all {
		l.accepted[t] = append(l.accepted[t], made{n.Job.ID, n.Execution})
	}
	l.count.Add(int64(len(all)))
}

// begin records that a handler received an execution.
func (l *ledger) begin(id job.ExecutionID, at time.Time) {
	if l.first.Load() == 0 {
		l.first.CompareAndSwap(0, int64(at.Sub(l.start)))
	}
	l.note(note{id: id, began: at.Sub(l.start)})
}

// end records that the success of an execution was acknowledged.
func (l *ledger) end(id job.ExecutionID) {
	l.note(note{id: id, ended: true})
	l.ended.Add(1)
}

func (l *ledger) note(n note) {
	s := l.shard(n.id)
	s.mu.Lock()
	s.notes = append(s.notes, n)
	s.mu.Unlock()
}

// enter moves events into the records of a shard; the caller holds its lock.
func (l *ledger) enter(s *shard) {
	for _, n := range s.notes {
		r, known := s.records[n.id]
		switch {
		case !n.ended:
			if r.runs++; r.runs == 1 {
				r.began = n.began
			}
		case !known: // nobody has begun it
			l.ended.Add(-1)
			continue
		default:
			if r.ends++; r.ends > 1 {
				l.ended.Add(-1)
			}
		}
		s.records[n.id] = r
	}
	s.notes = s.notes[:0]
}

// acknowledged counts acknowledged ends, whose events follow.
func (l *ledger) acknowledged() { l.last.Store(int64(time.Since(l.start))) }

// tell wakes the goroutines that wait for ends.
func (l *ledger) tell() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// rate returns the rate of n ends, from an instant until the last end.
func (l *ledger) rate(n int, from time.Duration) float64 {
	took := time.Duration(l.last.Load()) - from
	if n <= 0 || took <= 0 {
		return 0
	}
	return round(float64(n)/took.Seconds(), 1)
}

func (l *ledger) record(id job.ExecutionID) record {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.enter(s)
	return s.records[id]
}

// done reports whether everything accepted has ended.
func (l *ledger) done() bool {
	if l.ended.Load() < l.count.Load() {
		return false
	}
	l.size() // events counted twice are entered now
	return l.ended.Load() >= l.count.Load()
}

// wait returns when everything accepted has ended, or all=false when nothing has ended for patience.
func (l *ledger) wait(ctx context.Context, patience time.Duration) (all bool, err error) {
	stalled := time.NewTimer(patience)
	defer stalled.Stop()
	for before := l.ended.Load(); !l.done(); {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-l.news:
			if now := l.ended.Load(); now != before {
				before = now
				stalled.Reset(patience)
			}
		case <-stalled.C:
			return false, nil // the check says what is lost
		}
	}
	return true, nil
}

// Tally holds the findings of a check.
type Tally struct {
	Accepted int // executions
	Lost     int // of these, those that did not succeed
	Doubled  int // those that ran or ended more than once for no reason known to the store, or that nobody asked for
	Early    int // those that ran before their instant
}

// checkBatch bounds the jobs looked up at once.
const checkBatch = 1000

// check compares the ledger with the store.
func (l *ledger) check(ctx context.Context, store engine.Store) (t Tally, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := 0
	for id, all := range l.accepted {
		t.Accepted += len(all)
		for part := range slices.Chunk(all, checkBatch) {
			ids := make([]job.ID, len(part))
			for i, m := range part {
				ids[i] = m.job
			}
			stats, err := store.Stats(ctx, id, ids)
			if err != nil {
				return t, fmt.Errorf("check that nothing was lost: %w", err)
			}
			for i, m := range part {
				r := l.record(m.execution)
				if r != (record{}) {
					seen++
				}
				if stats[i].Succeeded == 0 {
					t.Lost++
				}
				doubled := stats[i].Total > 1 || r.ends > 1
				if !doubled && r.runs > 1 {
					if doubled, err = unjustified(ctx, store, id, m.execution, int(r.runs)); err != nil {
						return t, err
					}
				}
				if doubled {
					t.Doubled++
				}
			}
			l.checked.Add(int64(len(part)))
		}
	}
	t.Doubled += l.size() - seen
	return t, nil
}

// unjustified reports whether an execution ran more often than the lost leases in the store account for.
func unjustified(ctx context.Context, store engine.Store, t tenant.ID, id job.ExecutionID, runs int) (bool, error) {
	e, err := store.Execution(ctx, t, id)
	if err != nil {
		return false, fmt.Errorf("check that nothing was doubled: %w", err)
	}
	return runs > 1+e.Lost, nil
}

// size returns how many executions have records after all events are entered.
func (l *ledger) size() int {
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		l.enter(s)
		n += len(s.records)
		s.mu.Unlock()
	}
	return n
}
