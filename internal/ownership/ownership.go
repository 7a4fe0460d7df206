// Package ownership divides the partitions of a shared store among its servers.
//
// A Keeper attends: each second it says that its server lives, reads who else
// does and who owns what, takes what nobody owns, and hands on what others
// should have. Servers at which workers wait share the partitions evenly; one
// at which none does owns nothing while another has some. Schedulers have a
// keeper of their own, whose duty is another: workers play no part in it, and
// all share evenly. What the dispatcher learns from it, Holding, saves servers
// from picking the same executions and lets one of them count each limit; no
// row depends on it but by the fence that goes with a lease or a firing.
//
// The package decides who should own what (Plan, a pure function) and never
// what may be leased: the store's epochs do.
package ownership

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Config holds the options of a keeper.
type Config struct {
	Duty   engine.Duty // the duty of ownership; zero: Dispatching
	Host   string
	TTL    time.Duration // how long a server that does not attend still counts
	Change func()        // called when what the server owns has changed
}

const (
	attendEvery = time.Second
	keepFor     = 5 * time.Minute  // how long a partition that another server could not serve stays where it is served
	asksFor     = 30 * time.Second // how long after it was asked for a partition counts as received for that
	stayWaiting = 10 * time.Second // how long a server counts as having waiting workers after the last one waited
)

// duties names what partitions are owned for.
var duties = map[engine.Duty]string{engine.Dispatching: "dispatching", engine.Scheduling: "scheduling"}

// Keeper maintains what a server owns.
type Keeper struct {
	store engine.Owners
	log   *slog.Logger
	cfg   Config

	mu      sync.Mutex
	id      engine.ServerID             // guarded by mu, as all below
	started time.Time                   // of its attendance
	held    engine.Holding              //
	until   time.Time                   // the holding is valid until then, on this machine's monotonic clock
	fed     time.Time                   // when a worker last waited here
	wants   []job.Partition             // asked for since the last tick
	fit     map[job.Partition]time.Time // until when somebody here serves what waits there
	behind  []job.Partition             // partitions with executions that wait for the workers here
	slots   int                         // of those workers

	asked map[job.Partition]time.Time // when it was last asked for; only used by ticks, like the next
	kept  map[job.Partition]time.Time // received because it was asked for, and not handed on before then to balance
}

// New makes a keeper for a new server.
func New(store engine.Owners, log *slog.Logger, cfg Config) *Keeper {
	if cfg.Duty == 0 {
		cfg.Duty = engine.Dispatching
	}
	if cfg.TTL == 0 {
		cfg.TTL = 5 * time.Second
	}
	if cfg.Change == nil {
		cfg.Change = func() {}
	}
	k := &Keeper{store: store, log: log, cfg: cfg, asked: map[job.Partition]time.Time{}, kept: map[job.Partition]time.Time{}}
	k.join()
	return k
}

// join starts over as a new server. mu is held, or nobody else has the keeper.
func (k *Keeper) join() {
	k.id, k.started = engine.ServerID(uuid.Must(uuid.NewV7())), time.Now().UTC().Truncate(time.Microsecond)
	k.hold(nil)
}

// hold sets what is owned. The caller holds mu.
func (k *Keeper) hold(epochs map[job.Partition]int64) (changed bool) {
	changed = !maps.Equal(epochs, k.held.Fence.Epochs) || k.held.Fence.Server != k.id
	if changed {
		k.held.Fence, k.held.Version = engine.Fence{Server: k.id, Epochs: epochs}, k.held.Version+1
	}
	return changed
}

// Holding returns what the server owns now: nothing, if it could not renew in time.
func (k *Keeper) Holding() engine.Holding {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().After(k.until) {
		k.hold(nil)
		k.held.Lapsed = true
	}
	return k.held
}

// SetDemand sets whether workers are waiting here for executions.
func (k *Keeper) SetDemand(waiting bool) {
	if !waiting {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fed = time.Now()
}

// Want asks the owners of partitions for them, with the next tick.
func (k *Keeper) Want(ps []job.Partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wants = ps
}

// FitUntil reports until when the server can serve partitions in which executions wait that only their owner may
// lease, in which of them its workers are behind, and how many slots these workers have. A later call replaces an
// earlier one; partitions it does not name are served.
func (k *Keeper) FitUntil(at map[job.Partition]time.Time, behind []job.Partition, slots int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fit, k.behind, k.slots = at, behind, slots
}

// unfit names the partitions that the server can no longer serve. The caller holds mu.
func (k *Keeper) unfit(now time.Time) map[job.Partition]bool {
	out := map[job.Partition]bool{}
	for p, until := range k.fit {
		if !now.Before(until) {
			out[p] = true
		}
	}
	return out
}

// Borrow asks for shares of limits.
func (k *Keeper) Borrow(ctx context.Context, bs []engine.Share) ([]int, error) {
	k.mu.Lock()
	id := k.id
	k.mu.Unlock()
	return k.store.Borrow(ctx, id, bs)
}

// Tick attends once, and takes or hands on what the plan says.
func (k *Keeper) Tick(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	k.mu.Lock()
	s := engine.Server{ID: k.id, Duty: k.cfg.Duty, Host: k.cfg.Host, StartedAt: k.started, Waiting: time.Since(k.fed) < stayWaiting && !k.fed.IsZero(), Slots: k.slots}
	wants, able := k.wants, Ability{Unfit: k.unfit(began), Behind: k.behind}
	k.wants = nil
	k.mu.Unlock()
	r, err := k.store.Attend(ctx, s, k.cfg.TTL)
	if errors.Is(err, engine.ErrSession) {
		k.log.Warn("this server missed its time; what it owned is others' now")
		k.mu.Lock()
		k.join()
		k.mu.Unlock()
		k.cfg.Change()
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	k.learn(r, began)
	k.keep(r, s.ID, wants, began)
	p := Plan(s.ID, r, able, k.kept)
	if len(p.Take) > 0 {
		err = errors.Join(err, k.store.Take(ctx, s.ID, p.Take))
	}
	for to, ps := range p.Give {
		err = errors.Join(err, k.store.Give(ctx, s.ID, to, ps))
	}
	if len(wants) > 0 {
		err = errors.Join(err, k.store.Want(ctx, s.ID, wants))
	}
	if err != nil {
		return 0, err
	}
	if len(p.Take) > 0 || len(p.Give) > 0 {
		if r, err = k.store.Attend(ctx, s, k.cfg.TTL); err != nil {
			return 0, err
		}
		k.learn(r, began)
	}
	return attendEvery, nil
}

// learn applies the answer to an attendance that began at an instant.
func (k *Keeper) learn(r engine.Roster, began time.Time) {
	waiting := map[engine.ServerID]bool{}
	for _, s := range r.Servers {
		waiting[s.ID] = s.Waiting
	}
	epochs, quiet := map[job.Partition]int64{}, map[job.Partition]bool{}
	k.mu.Lock()
	for _, p := range r.Partitions {
		if p.Owner == k.id {
			epochs[p.Part] = p.Epoch
		} else if !waiting[p.Owner] {
			quiet[p.Part] = true
		}
	}
	changed := k.hold(epochs)
	k.held.Quiet, k.held.Lapsed = quiet, false
	k.until = began.Add(k.cfg.TTL - k.cfg.TTL/5)
	n := len(epochs)
	k.mu.Unlock()
	if changed {
		k.log.Info("partitions", "for", duties[k.cfg.Duty], "owned", n, "servers", len(r.Servers))
		k.cfg.Change()
	}
}

// keep records what the server asks for, and what it received for that: nobody at the previous owner serves what
// waits there, so handing it back at once to balance the load would be useless.
func (k *Keeper) keep(r engine.Roster, me engine.ServerID, wants []job.Partition, now time.Time) {
	for _, p := range r.Partitions {
		asked, ok := k.asked[p.Part]
		switch {
		case p.Owner != me:
			delete(k.kept, p.Part)
		case ok && now.Sub(asked) < asksFor:
			k.kept[p.Part] = now.Add(keepFor)
			delete(k.asked, p.Part)
		case !now.Before(k.kept[p.Part]):
			delete(k.kept, p.Part)
		}
	}
	maps.DeleteFunc(k.asked, func(_ job.Partition, at time.Time) bool { return now.Sub(at) >= asksFor })
	for _, p := range wants {
		k.asked[p] = now
	}
}

// Retire gives up everything that the server owns.
func (k *Keeper) Retire(ctx context.Context) error {
	k.mu.Lock()
	id := k.id
	k.hold(nil)
	k.until = time.Time{}
	k.mu.Unlock()
	return k.store.Retire(ctx, id)
}

// Moves lists the partitions a server must take and give up.
type Moves struct {
	Take []job.Partition
	Give map[engine.ServerID][]job.Partition
}

// Ability describes how well a server serves its partitions.
type Ability struct {
	Unfit  map[job.Partition]bool // it cannot serve everything that waits there
	Behind []job.Partition        // its workers are behind there
}

// yields returns the partitions that a server gives to another that asks for them: those it cannot serve and, of
// those in which it is behind, the second half, or all if the other has more slots.
func (a Ability) yields(mine, other int) map[job.Partition]bool {
	out := maps.Clone(a.Unfit)
	if out == nil {
		out = map[job.Partition]bool{}
	}
	keeps := (len(a.Behind) + 1) / 2
	if other > mine {
		keeps = 0
	}
	for _, p := range a.Behind[keeps:] {
		out[p] = true
	}
	return out
}

// Plan returns the moves of a server: all who plan over the same roster compute consistent moves. kept are partitions
// that are not handed on to balance the load.
func Plan(me engine.ServerID, r engine.Roster, able Ability, kept map[job.Partition]time.Time) Moves {
	all := eligible(r.Servers)
	rank := slices.Index(all, me)
	owned := map[engine.ServerID][]job.Partition{}
	var m Moves
	free := 0
	for _, p := range r.Partitions {
		if p.Owner != (engine.ServerID{}) {
			owned[p.Owner] = append(owned[p.Owner], p.Part)
			continue
		}
		// By its number, not by its position among the free ones: what another has taken meanwhile changes nobody's
		// part.
		if rank >= 0 && int(p.Part)%len(all) == rank {
			m.Take = append(m.Take, p.Part)
		}
		free++
	}
	give := func(to engine.ServerID, p job.Partition) {
		if m.Give == nil {
			m.Give = map[engine.ServerID][]job.Partition{}
		}
		m.Give[to] = append(m.Give[to], p)
	}
	mine := owned[me]
	slots := map[engine.ServerID]int{}
	for _, s := range r.Servers {
		slots[s.ID] = s.Slots
	}
	for _, p := range r.Partitions {
		if p.Owner == me && p.Wanted != me && slices.Contains(all, p.Wanted) && (rank < 0 || able.yields(slots[me], slots[p.Wanted])[p.Part]) {
			give(p.Wanted, p.Part)
			mine = slices.DeleteFunc(slices.Clone(mine), func(x job.Partition) bool { return x == p.Part })
		}
	}
	if free > 0 || len(all) == 0 || most(owned, all, me) != me {
		return m // first what nobody owns; then one server at a time hands on its surplus
	}
	least := func() engine.ServerID {
		to := all[0]
		for _, s := range all {
			if len(owned[s]) < len(owned[to]) {
				to = s
			}
		}
		return to
	}
	fair := len(r.Partitions) / len(all)
	full := (len(r.Partitions) + len(all) - 1) / len(all) // if they do not divide evenly some have one more
	spare := mine
	if rank >= 0 {
		spare = slices.DeleteFunc(slices.Clone(mine), func(p job.Partition) bool { _, ok := kept[p]; return ok })
	}
	for left := len(mine); len(spare) > 0; left-- {
		to := least()
		n := len(owned[to])
		if to == me || rank >= 0 && !(left > fair && n < fair || left > full && n < full) {
			break
		}
		p := spare[len(spare)-1]
		spare = spare[:len(spare)-1]
		give(to, p)
		owned[to] = append(owned[to], p)
	}
	return m
}

// eligible returns the servers that should own partitions: those at which workers wait, or all.
func eligible(all []engine.Server) []engine.ServerID {
	var waiting, any []engine.ServerID
	for _, s := range all {
		any = append(any, s.ID)
		if s.Waiting {
			waiting = append(waiting, s.ID)
		}
	}
	if len(waiting) == 0 {
		waiting = any
	}
	slices.SortFunc(waiting, func(a, b engine.ServerID) int { return slices.Compare(a[:], b[:]) })
	return waiting
}

// most returns the server that should hand partitions on first: one that should own none, else the one that owns the
// most.
func most(owned map[engine.ServerID][]job.Partition, all []engine.ServerID, me engine.ServerID) engine.ServerID {
	best := me
	for s, ps := range owned {
		a, b := !slices.Contains(all, s), !slices.Contains(all, best)
		switch {
		case a != b:
			if a {
				best = s
			}
		case len(ps) > len(owned[best]) || len(ps) == len(owned[best]) && slices.Compare(s[:], best[:]) < 0:
			best = s
		}
	}
	return best
}
