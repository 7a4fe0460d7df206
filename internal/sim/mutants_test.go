package sim

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// mutantSeeds is within how many seeds a mutant must be found.
const mutantSeeds = 300

// Each mutant is a store that breaks one promise. A simulation that does not notice would prove nothing.
func TestMutantsAreFound(t *testing.T) {
	if raced {
		t.Skip("it takes some hundred seeds, and proves nothing about races")
	}
	for _, m := range []struct {
		name   string
		mutant func(engine.Store) engine.Store
		checks []string          // one of them must say so
		fits   func(script) bool // seeds that can show it; nil: all
	}{
		{"a finish does not look at its token", func(s engine.Store) engine.Store {
			return &tokenBlind{Store: s, newest: map[job.ExecutionID]job.Token{}}
		}, []string{"fencing"}, nil},
		{"an execution is given to two workers", func(s engine.Store) engine.Store { return &generous{Store: s} }, []string{"exclusion", "fencing"}, nil},
		{"one creation in twenty is acknowledged and not stored", func(s engine.Store) engine.Store { return &forgetful{Store: s} }, []string{"durability"}, nil},
		{"one result in twenty is acknowledged and not stored", func(s engine.Store) engine.Store { return &forgetfulFinish{Store: s} }, []string{"answers", "liveness"}, nil},
		{"what is reaped is dropped", func(s engine.Store) engine.Store { return &dropping{Store: s} }, []string{"liveness"}, nil},
		{"an instant fires twice", func(s engine.Store) engine.Store { return &eager{Store: s} }, []string{"uniqueness"}, nil},
		{"a lease does not look at epochs", func(s engine.Store) engine.Store { return &epochBlind{Store: s} }, []string{"concurrency"}, deposes},
		{"a paused queue is ignored", func(s engine.Store) engine.Store { return &restless{Store: s} }, []string{"pauses"}, func(s script) bool { return s.pauses() }},
		{"a lost claim is never disowned", func(s engine.Store) engine.Store { return &owning{Store: s} }, []string{"heard"}, func(s script) bool { return s.lasting }},
		{"what runs is not counted after a takeover", func(s engine.Store) engine.Store { return &countless{Store: s} }, []string{"concurrency"}, nil},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, Options{Mutant: m.mutant}, m.fits, m.checks...)
		})
	}
}

// A server that keeps shares of limits, whatever the others may have, is found.
func TestAShareThatIsNotShrunkIsFound(t *testing.T) {
	if raced {
		t.Skip("it takes some hundred seeds, and proves nothing about races")
	}
	hunt(t, Options{Owners: func(o engine.Owners) engine.Owners { return &grasping{Owners: o, had: map[engine.ServerID][]int{}} }}, func(s script) bool { return s.tight }, "shares")
}

// grasping never lets go of a share that a server once had.
type grasping struct {
	engine.Owners
	mu  sync.Mutex
	had map[engine.ServerID][]int // guarded by mu
}

func (g *grasping) Borrow(ctx context.Context, me engine.ServerID, bs []engine.Share) ([]int, error) {
	got, err := g.Owners.Borrow(ctx, me, bs)
	g.mu.Lock()
	defer g.mu.Unlock()
	if had := g.had[me]; err == nil && len(had) == len(got) {
		for i := range got {
			got[i] = max(got[i], had[i])
		}
	}
	g.had[me] = got
	return got, err
}

// restless tells nobody that a queue is paused.
type restless struct{ engine.Store }

func (s *restless) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	ls, err := s.Store.Limits(ctx, t)
	for i := range ls {
		ls[i].Pause = job.Pause{}
	}
	return ls, err
}

// owning never takes back what a worker does not know that it has.
type owning struct{ engine.Store }

func (s *owning) Disown(context.Context, job.WorkerID, []job.Token, time.Time) (engine.Requeued, error) {
	return engine.Requeued{}, nil
}

// deposes is for seeds in which a server is cut off while many of one group wait.
func deposes(s script) bool {
	return s.servers > 1 && s.crowded && slices.ContainsFunc(s.faults, func(f fault) bool { return f.kind == cutServer })
}

// tokenBlind accepts every result as if it came under the newest token.
type tokenBlind struct {
	engine.Store
	mu     sync.Mutex
	newest map[job.ExecutionID]job.Token // guarded by mu
}

func (s *tokenBlind) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := s.Store.Lease(ctx, gs, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range as {
		s.newest[a.Execution] = a.Token
	}
	return as, err
}

func (s *tokenBlind) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	s.mu.Lock()
	fs = slices.Clone(fs)
	for i := range fs {
		fs[i].Outcome.Token, fs[i].Worker = s.newest[fs[i].Outcome.Execution], job.WorkerID{} // nor at who reports it
	}
	s.mu.Unlock()
	return s.Store.Finish(ctx, fs)
}

// generous gives every fourth time also what another was given last.
type generous struct {
	engine.Store
	mu    sync.Mutex
	calls int           // guarded by mu
	last  []job.Attempt // guarded by mu
}

func (s *generous) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := s.Store.Lease(ctx, gs, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(as) == 0 {
		return as, err
	}
	s.calls++
	more := s.last
	s.last = as
	if s.calls%4 == 0 {
		return append(slices.Clone(as), more...), nil
	}
	return as, nil
}

// forgetful acknowledges one creation in twenty without storing it.
type forgetful struct {
	engine.Store
	mu    sync.Mutex
	calls int // guarded by mu
}

func (s *forgetful) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	s.mu.Lock()
	s.calls++
	forget := s.calls%20 == 7
	s.mu.Unlock()
	if forget {
		return make([]engine.Created, len(cs)), nil
	}
	return s.Store.CreateJobs(ctx, cs)
}

// forgetfulFinish acknowledges one report in twenty without storing it.
type forgetfulFinish struct {
	engine.Store
	mu    sync.Mutex
	calls int // guarded by mu
}

func (s *forgetfulFinish) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	s.mu.Lock()
	s.calls++
	answerLost := s.calls%20 == 3
	s.mu.Unlock()
	if !answerLost {
		return s.Store.Finish(ctx, fs)
	}
	vs := make([]job.Verdict, len(fs))
	for i, f := range fs {
		vs[i] = job.Verdict{Execution: f.Outcome.Execution, Accepted: true}
	}
	return vs, nil
}

// dropping never gives out again what was reaped.
type dropping struct {
	engine.Store
	mu      sync.Mutex
	dropped []job.ExecutionID // guarded by mu
}

func (s *dropping) Reap(ctx context.Context, limit, poison int) (engine.Reaped, error) {
	got, err := s.Store.Reap(ctx, limit, poison)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range got.Ready {
		s.dropped = append(s.dropped, r.ID)
	}
	got.Ready = nil
	return got, err
}

func (s *dropping) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	s.mu.Lock()
	gs = slices.Clone(gs)
	for i := range gs {
		gs[i].Executions = slices.DeleteFunc(slices.Clone(gs[i].Executions), func(id job.ExecutionID) bool { return slices.Contains(s.dropped, id) })
	}
	s.mu.Unlock()
	return s.Store.Lease(ctx, gs, f)
}

// eager fires every third instant twice.
type eager struct {
	engine.Store
	mu    sync.Mutex
	calls int // guarded by mu
}

func (s *eager) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	rs, err := s.Store.Fire(ctx, fs, x)
	s.mu.Lock()
	s.calls++
	twice := s.calls%3 == 0
	s.mu.Unlock()
	if err != nil || !twice || len(rs.Ready) == 0 {
		return rs, err
	}
	e := fs[0].Executions[0]
	e.ID, e.Trigger = job.ExecutionID(uuid.Must(uuid.NewV7())), job.ByHand // else the store would refuse it
	if _, err := s.Store.Trigger(ctx, tenant.Default, e, engine.Idempotency{}, nil); err != nil {
		return rs, nil // its job was deleted meanwhile
	}
	rs.Ready = append(rs.Ready, e.Ready())
	return rs, nil
}

// epochBlind leases for whoever asks, also for a server that no longer owns the partition.
type epochBlind struct{ engine.Store }

func (s *epochBlind) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	if shared, ok := s.Store.(*enginetest.Shared); ok {
		return shared.Store.Lease(ctx, gs, f)
	}
	return s.Store.Lease(ctx, gs, f)
}

// countless says that nothing runs to whoever would count it.
type countless struct{ engine.Store }

func (s *countless) Running(context.Context, []job.Partition) ([]engine.Running, error) {
	return nil, nil
}
