package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var _ engine.Owners = (*Shared)(nil)

// Shared adapts a single-process store to several servers in that process: it keeps in memory who owns which
// partition, and enforces fences. It knows the executions that were created, or listed as ready, through it.
type Shared struct {
	engine.Store

	mu      sync.Mutex // held while something is leased, so that no partition moves meanwhile
	servers map[engine.ServerID]*attendant
	parts   map[engine.Duty][]engine.Partition
	shares  map[scope]map[engine.ServerID]pick.Lent
	places  map[job.ExecutionID]place
}

// attendant is a server that has attended.
type attendant struct {
	engine.Server
	expires time.Time
	deposed bool
}

// scope is what a limit applies to.
type scope struct {
	tenant tenant.ID
	queue  string
}

// place is what a fence requires of an execution; it never changes.
type place struct {
	part  job.Partition
	group job.GroupKey
}

// NewShared wraps a store.
func NewShared(s engine.Store) *Shared {
	x := &Shared{
		Store: s, servers: map[engine.ServerID]*attendant{}, shares: map[scope]map[engine.ServerID]pick.Lent{}, places: map[job.ExecutionID]place{},
		parts: map[engine.Duty][]engine.Partition{},
	}
	for p := range job.Partition(job.Partitions) {
		for _, d := range []engine.Duty{engine.Dispatching, engine.Scheduling} {
			x.parts[d] = append(x.parts[d], engine.Partition{Part: p})
		}
	}
	return x
}

// note records the partitions of executions, before anybody can lease them.
func (s *Shared) note(es []job.Execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range es {
		s.places[e.ID] = place{e.Partition, e.Group.Key}
	}
}

func (s *Shared) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	for _, c := range cs {
		s.note(c.Executions)
	}
	return s.Store.CreateJobs(ctx, cs)
}

func (s *Shared) Trigger(ctx context.Context, t tenant.ID, x job.Execution, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	s.note([]job.Execution{x})
	return s.Store.Trigger(ctx, t, x, i, e)
}

func (s *Shared) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	s.note(r.Executions)
	return s.Store.Rerun(ctx, t, r)
}

func (s *Shared) BeginRuns(ctx context.Context, all []engine.NewRun) ([]engine.Begun, error) {
	out, err := s.Store.BeginRuns(ctx, all)
	for i := range out {
		s.ready(out[i].Changed)
	}
	return out, err
}

func (s *Shared) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	outs, err := s.Store.ChangeRuns(ctx, ids, decide)
	s.ready(outs...)
	return outs, err
}

func (s *Shared) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) ([]job.Verdict, []engine.RunChanged, error) {
	vs, outs, err := s.Store.FinishNodes(ctx, fs, decide)
	s.ready(outs...)
	return vs, outs, err
}

// ready records the partitions of waiting workflow nodes.
func (s *Shared) ready(outs ...engine.RunChanged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range outs {
		for _, r := range out.Ready {
			s.places[r.ID] = place{r.Partition, r.Group.Key}
		}
	}
}

// Fire skips firings that the fence rejects.
func (s *Shared) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	for _, f := range fs {
		s.note(f.Executions)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fs = slices.DeleteFunc(slices.Clone(fs), func(f engine.Firing) bool {
		part := job.PartitionOf(f.Job)
		epoch, named := x.Epochs[part]
		p := s.parts[engine.Scheduling][part]
		return named && (p.Owner != x.Server || p.Epoch != epoch)
	})
	return s.Store.Fire(ctx, fs, x)
}

func (s *Shared) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	rs, err := s.Store.Ready(ctx, cs, perLane)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		s.places[r.ID] = place{r.Partition, r.Group.Key}
	}
	return rs, err
}

// Lease skips executions that the fence rejects; the requested order is kept.
func (s *Shared) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gs = slices.Clone(gs)
	for i := range gs {
		gs[i].Executions = slices.DeleteFunc(slices.Clone(gs[i].Executions), func(id job.ExecutionID) bool { return !s.admits(f, id) })
	}
	return s.Store.Lease(ctx, gs, f)
}

// admits reports whether a fence lets an execution through. The caller holds mu.
func (s *Shared) admits(f engine.Fence, id job.ExecutionID) bool {
	at, known := s.places[id]
	epoch, named := f.Epochs[at.part]
	switch {
	case !known:
		return false
	case !named:
		return at.group == 0
	}
	p := s.parts[engine.Dispatching][at.part]
	return p.Owner == f.Server && p.Epoch == epoch
}

// serves reports whether a server is present. The caller holds mu.
func (s *Shared) serves(id engine.ServerID) bool {
	a := s.servers[id]
	return a != nil && !a.deposed && time.Now().Before(a.expires)
}

// Attend keeps a server alive, deposes those that missed their time, and returns who is present.
func (s *Shared) Attend(ctx context.Context, me engine.Server, ttl time.Duration) (r engine.Roster, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return r, err
	}
	a := s.servers[me.ID]
	if a == nil {
		a = &attendant{}
		s.servers[me.ID] = a
	}
	if a.deposed {
		return r, fmt.Errorf("attend: %w", engine.ErrSession)
	}
	a.Server, a.expires = me, time.Now().Add(ttl)
	for id, x := range s.servers {
		x.deposed = x.deposed || id != me.ID && !s.serves(id)
		if s.serves(id) && x.Duty == me.Duty {
			r.Servers = append(r.Servers, x.Server)
		}
	}
	slices.SortFunc(r.Servers, func(a, b engine.Server) int { return slices.Compare(a.ID[:], b.ID[:]) })
	r.Partitions = slices.Clone(s.parts[me.Duty])
	for i := range r.Partitions {
		for _, x := range []*engine.ServerID{&r.Partitions[i].Owner, &r.Partitions[i].Wanted} {
			if !s.serves(*x) {
				*x = engine.ServerID{}
			}
		}
	}
	return r, nil
}

// part returns a partition as seen by a server's duty. The caller holds mu.
func (s *Shared) part(of engine.ServerID, p job.Partition) *engine.Partition {
	duty := engine.Dispatching
	if a := s.servers[of]; a != nil {
		duty = a.Duty
	}
	return &s.parts[duty][p]
}

// move assigns a new owner to those of the partitions that may be moved.
func (s *Shared) move(ps []job.Partition, to engine.ServerID, may func(engine.Partition) bool) {
	for _, p := range ps {
		if x := s.part(to, p); s.serves(to) && may(*x) {
			x.Owner, x.Wanted = to, engine.ServerID{}
			x.Epoch++
		}
	}
}

// Take makes the server the owner of those partitions that no live server owns.
func (s *Shared) Take(_ context.Context, me engine.ServerID, ps []job.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(ps, me, func(p engine.Partition) bool { return !s.serves(p.Owner) })
	return nil
}

// Give hands partitions that the server owns to another live server.
func (s *Shared) Give(_ context.Context, from, to engine.ServerID, ps []job.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(ps, to, func(p engine.Partition) bool { return p.Owner == from })
	return nil
}

// Want records which server asks for partitions of others: the first, until it gets them, is gone, or has no waiting
// worker any more.
func (s *Shared) Want(_ context.Context, me engine.ServerID, ps []job.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		if x := s.part(me, p); x.Owner != me && x.Owner != (engine.ServerID{}) && !(s.serves(x.Wanted) && s.servers[x.Wanted].Waiting) {
			x.Wanted = me
		}
	}
	return nil
}

// Retire ends a server at once.
func (s *Shared) Retire(_ context.Context, me engine.ServerID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.servers[me]; a != nil {
		a.deposed = true
	}
	return nil
}

// Borrow sets how much of each limit the server holds for itself. It fails with ErrSession if the server is gone:
// nobody could return its share.
func (s *Shared) Borrow(_ context.Context, me engine.ServerID, bs []engine.Share) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serves(me) {
		return nil, fmt.Errorf("borrow: %w", engine.ErrSession)
	}
	owns := map[engine.ServerID]bool{}
	for _, ps := range s.parts {
		for _, p := range ps {
			owns[p.Owner] = true
		}
	}
	out := make([]int, len(bs))
	for i, b := range bs {
		k := scope{b.Tenant, b.Queue}
		if s.shares[k] == nil {
			s.shares[k] = map[engine.ServerID]pick.Lent{}
		}
		shares := s.shares[k]
		maps.DeleteFunc(shares, func(id engine.ServerID, _ pick.Lent) bool { return s.servers[id].deposed && !owns[id] })
		mine := shares[me]
		mine.Want = b.Want
		shares[me] = mine
		ids := slices.SortedFunc(maps.Keys(shares), func(a, b engine.ServerID) int { return slices.Compare(a[:], b[:]) })
		all := make([]pick.Lent, len(ids))
		for n, id := range ids {
			if all[n] = shares[id]; !s.serves(id) {
				all[n].Want = 0
			}
		}
		out[i], shares[me] = pick.Allot(b.Max, all, slices.Index(ids, me), b.Used, time.Now())
	}
	return out, nil
}

// Epoch returns the epoch under which the server that leases from a partition owns it.
func (s *Shared) Epoch(p job.Partition) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[engine.Dispatching][p].Epoch
}

// Lent lists the servers' shares of a tenant's limits.
func (s *Shared) Lent(_ context.Context, t tenant.ID) (out []engine.Lending, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, shares := range s.shares {
		for id, l := range shares {
			if k.tenant != t || l.Share == 0 {
				continue
			}
			x := engine.Lending{Queue: k.queue, Server: id, Host: s.servers[id].Host, Share: l.Share}
			for _, p := range s.parts[engine.Dispatching] {
				if p.Owner == id {
					x.Parts = append(x.Parts, p.Part)
				}
			}
			if !s.servers[id].deposed || len(x.Parts) > 0 {
				out = append(out, x)
			}
		}
	}
	slices.SortFunc(out, func(a, b engine.Lending) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), slices.Compare(a.Server[:], b.Server[:]))
	})
	return out, nil
}

// Fences runs the part of the suite about who may lease what, on a store that several servers share although it can
// be opened only once.
func Fences(t *testing.T, h Harness) {
	h.Shared = true
	t.Run("groups", func(t *testing.T) { concurrencyGroups(t, h) })
	t.Run("lease", func(t *testing.T) { lease(t, h) })
	t.Run("owners", func(t *testing.T) { owners(t, h) })
}
