package ownership

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// board is a store's part in ownership, in memory.
type board struct {
	mu      sync.Mutex
	servers map[engine.ServerID]engine.Server
	expires map[engine.ServerID]time.Time
	gone    map[engine.ServerID]bool
	parts   []engine.Partition
	away    map[engine.ServerID]bool // cut off
	late    time.Duration            // that its answers take
	moves   int
}

func newBoard() *board {
	b := &board{servers: map[engine.ServerID]engine.Server{}, expires: map[engine.ServerID]time.Time{}, gone: map[engine.ServerID]bool{}, away: map[engine.ServerID]bool{}}
	for p := range job.Partitions {
		b.parts = append(b.parts, engine.Partition{Part: job.Partition(p)})
	}
	return b
}

var errAway = errors.New("away")

func (b *board) alive(s engine.ServerID) bool { return !b.gone[s] && time.Now().Before(b.expires[s]) }

func (b *board) Attend(_ context.Context, s engine.Server, ttl time.Duration) (engine.Roster, error) {
	defer func() { <-time.After(b.late) }()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away[s.ID] {
		return engine.Roster{}, errAway
	}
	if _, known := b.servers[s.ID]; known && !b.alive(s.ID) {
		b.gone[s.ID] = true
		return engine.Roster{}, engine.ErrSession
	}
	b.servers[s.ID], b.expires[s.ID] = s, time.Now().Add(ttl)
	var r engine.Roster
	for id, x := range b.servers {
		if b.alive(id) {
			r.Servers = append(r.Servers, x)
		}
	}
	slices.SortFunc(r.Servers, func(a, c engine.Server) int { return slices.Compare(a.ID[:], c.ID[:]) })
	for _, p := range b.parts {
		if !b.alive(p.Owner) {
			p.Owner = engine.ServerID{}
		}
		r.Partitions = append(r.Partitions, p)
	}
	return r, nil
}

func (b *board) move(ps []job.Partition, to engine.ServerID, ok func(engine.Partition) bool) {
	for _, p := range ps {
		if x := &b.parts[p]; ok(*x) {
			x.Owner, x.Wanted = to, engine.ServerID{}
			x.Epoch++
			b.moves++
		}
	}
}

func (b *board) Take(_ context.Context, s engine.ServerID, ps []job.Partition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(ps, s, func(p engine.Partition) bool { return !b.alive(p.Owner) })
	return nil
}

func (b *board) Give(_ context.Context, from, to engine.ServerID, ps []job.Partition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(ps, to, func(p engine.Partition) bool { return p.Owner == from && b.alive(to) })
	return nil
}

func (b *board) Want(_ context.Context, s engine.ServerID, ps []job.Partition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range ps {
		b.parts[p].Wanted = s
	}
	return nil
}

func (b *board) Retire(_ context.Context, s engine.ServerID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone[s] = true
	return nil
}

func (b *board) Borrow(context.Context, engine.ServerID, []engine.Share) ([]int, error) {
	return nil, nil
}

// counts returns how many partitions each server owns.
func (b *board) counts() map[engine.ServerID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[engine.ServerID]int{}
	for _, p := range b.parts {
		out[p.Owner]++
	}
	return out
}

func keeper(b *board) *Keeper { return New(b, slog.New(slog.DiscardHandler), Config{Host: "h"}) }

func tick(t *testing.T, ks ...*Keeper) {
	t.Helper()
	for _, k := range ks {
		if _, err := k.Tick(t.Context()); err != nil && !errors.Is(err, errAway) {
			t.Fatal(err)
		}
	}
}

func rounds(t *testing.T, n int, ks ...*Keeper) {
	t.Helper()
	for range n {
		tick(t, ks...)
		<-time.After(attendEvery)
	}
}

func TestAloneItOwnsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		k := keeper(b)
		if h := k.Holding(); len(h.Fence.Epochs) != 0 {
			t.Errorf("before it attends it owns %d", len(h.Fence.Epochs))
		}
		tick(t, k)
		if h := k.Holding(); len(h.Fence.Epochs) != job.Partitions || h.Fence.Server != k.id {
			t.Errorf("it owns %d", len(h.Fence.Epochs))
		}
	})
}

func TestServersShareEvenlyAndMoveLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		ks := []*Keeper{keeper(b)}
		rounds(t, 2, ks...)
		for n := 2; n <= 5; n++ {
			ks = append(ks, keeper(b))
			before := b.moves
			rounds(t, 6, ks...)
			for id, c := range b.counts() {
				if c < job.Partitions/n || c > job.Partitions/n+1 {
					t.Errorf("of %d servers %x owns %d", n, id[12:], c)
				}
			}
			if moved := b.moves - before; moved > job.Partitions/n+n {
				t.Errorf("%d moved when server %d came", moved, n)
			}
			before = b.moves
			rounds(t, 5, ks...)
			if b.moves != before {
				t.Errorf("%d moved although nothing had changed", b.moves-before)
			}
		}
	})
}

func TestADeadServersPartitionsMoveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		x, y, z := keeper(b), keeper(b), keeper(b)
		rounds(t, 5, x, y, z)
		b.away[z.id] = true
		began := time.Now()
		for {
			tick(t, x, y)
			if c := b.counts(); c[z.id] == 0 && c[x.id]+c[y.id] == job.Partitions {
				break
			}
			<-time.After(attendEvery)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
		if h := z.Holding(); len(h.Fence.Epochs) != 0 {
			t.Error("cut off, it still believes to own something")
		}
		b.away[z.id] = false
		old := z.id
		rounds(t, 5, x, y, z)
		if z.id == old || len(z.Holding().Fence.Epochs) < 21 {
			t.Errorf("back, it owns %d", len(z.Holding().Fence.Epochs))
		}
	})
}

// A server owns what it was told for as long as the store counts it in since it asked, however late the answer came.
func TestALateAnswerDoesNotLengthenOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		k := keeper(b)
		rounds(t, 2, k)
		b.late = 2 * time.Second
		asked := time.Now()
		tick(t, k)
		if len(k.Holding().Fence.Epochs) == 0 {
			t.Fatal("it owns nothing, and this shows nothing")
		}
		<-time.After(time.Until(asked.Add(k.cfg.TTL - time.Millisecond)))
		if n := len(k.Holding().Fence.Epochs); n != 0 {
			t.Errorf("it still owns %d when others may take them", n)
		}
	})
}

func TestWhereWorkersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		x, y := keeper(b), keeper(b)
		rounds(t, 4, x, y)
		for range 10 {
			y.SetDemand(true)
			x.SetDemand(false)
			rounds(t, 1, x, y)
		}
		if c := b.counts(); c[y.id] != job.Partitions {
			t.Errorf("with workers at one server only it owns %d", c[y.id])
		}
		if h := x.Holding(); len(h.Quiet) != 0 {
			t.Error("the other server's partitions are said to be quiet")
		}
		if h := y.Holding(); len(h.Quiet) != 0 {
			t.Error("its own partitions are said to be quiet")
		}
		for range 10 {
			x.SetDemand(true)
			y.SetDemand(true)
			rounds(t, 1, x, y)
		}
		if c := b.counts(); c[y.id] != job.Partitions/2 {
			t.Errorf("with workers at both one owns %d", c[y.id])
		}
		x.Want([]job.Partition{b.parts[0].Part})
		p := slices.IndexFunc(b.parts, func(p engine.Partition) bool { return p.Owner == y.id })
		x.Want([]job.Partition{job.Partition(p)})
		rounds(t, 2, x, y)
		if b.parts[p].Owner != y.id {
			t.Error("it gave away what it serves")
		}
		y.FitUntil(map[job.Partition]time.Time{job.Partition(p): time.Now().Add(3 * time.Second)}, nil, 0)
		x.Want([]job.Partition{job.Partition(p)})
		rounds(t, 2, x, y)
		if b.parts[p].Owner != y.id {
			t.Error("it gave away what it still serves")
		}
		rounds(t, 2, x, y)
		if b.parts[p].Owner != x.id {
			t.Error("it kept what it does not serve any more")
		}
	})
}

func TestRetiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		x, y := keeper(b), keeper(b)
		rounds(t, 4, x, y)
		if err := x.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := x.Holding(); len(h.Fence.Epochs) != 0 {
			t.Error("retired, it owns something")
		}
		tick(t, y)
		if c := b.counts(); c[y.id] != job.Partitions {
			t.Errorf("the other owns %d", c[y.id])
		}
	})
}

// Whatever the roster, what servers plan agrees: nothing is taken twice, and only what one owns is given.
func TestPlansAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "servers")
		var r engine.Roster
		for i := range n {
			r.Servers = append(r.Servers, engine.Server{ID: engine.ServerID{byte(i + 1)}, Waiting: rapid.Bool().Draw(t, "waiting")})
		}
		for p := range job.Partitions {
			owner := engine.ServerID{byte(rapid.IntRange(0, n).Draw(t, "owner"))}
			wanted := engine.ServerID{byte(rapid.IntRange(0, n).Draw(t, "wanted"))}
			r.Partitions = append(r.Partitions, engine.Partition{Part: job.Partition(p), Owner: owner, Wanted: wanted})
		}
		taken := map[job.Partition]bool{}
		free := 0
		for _, p := range r.Partitions {
			if p.Owner == (engine.ServerID{}) {
				free++
			}
		}
		for _, s := range r.Servers {
			unfit := map[job.Partition]bool{job.Partition(rapid.IntRange(0, 63).Draw(t, "unfit")): true}
			m := Plan(s.ID, r, Ability{Unfit: unfit}, nil)
			for _, p := range m.Take {
				if taken[p] || r.Partitions[p].Owner != (engine.ServerID{}) {
					t.Fatalf("partition %d is taken twice, or from its owner", p)
				}
				taken[p] = true
			}
			for to, ps := range m.Give {
				for _, p := range ps {
					if r.Partitions[p].Owner != s.ID || to == s.ID {
						t.Fatalf("partition %d is not its own to give, or stays", p)
					}
				}
			}
		}
		if len(taken) != free {
			t.Fatalf("%d of %d free partitions are taken", len(taken), free)
		}
	})
}

// Who takes which of the partitions of a dead server does not depend on what the others have taken by then: all have an
// owner after one tick of each.
func TestWhatADeadServerHadIsTakenInOneRound(t *testing.T) {
	var r engine.Roster
	for i := range 3 {
		r.Servers = append(r.Servers, engine.Server{ID: engine.ServerID{byte(i + 1)}})
	}
	for p := range job.Partitions {
		r.Partitions = append(r.Partitions, engine.Partition{Part: job.Partition(p)})
	}
	for _, s := range r.Servers {
		for _, p := range Plan(s.ID, r, Ability{}, nil).Take {
			if r.Partitions[p].Owner != (engine.ServerID{}) {
				t.Errorf("partition %d is taken twice", p)
			}
			r.Partitions[p].Owner = s.ID
		}
	}
	for _, p := range r.Partitions {
		if p.Owner == (engine.ServerID{}) {
			t.Errorf("partition %d has no owner", p.Part)
		}
	}
}

// A partition that a server is given because it serves what waits there stays with it, though that makes it the one with the most: it went
// back and forth between the two forever, and what waited in it with it.
func TestWhatWasAskedForStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		one, other := keeper(b), keeper(b)
		for range 3 {
			one.SetDemand(true)
			other.SetDemand(true)
			rounds(t, 1, one, other)
		}
		if _, ok := other.Holding().Fence.Epochs[job.Partitions-1]; ok {
			one, other = other, one // what is handed on to even things out is what comes last
		}
		mine := slices.Sorted(maps.Keys(one.Holding().Fence.Epochs))
		if len(mine) != len(other.Holding().Fence.Epochs) {
			t.Fatalf("they have %d and %d", len(mine), len(other.Holding().Fence.Epochs))
		}
		wanted := mine[len(mine)-2:]
		moved := 0
		for range 20 {
			one.SetDemand(true)
			other.SetDemand(true)
			one.FitUntil(map[job.Partition]time.Time{wanted[0]: {}, wanted[1]: {}}, nil, 0)
			held := other.Holding().Fence.Epochs
			for _, p := range wanted {
				if _, ok := held[p]; !ok {
					other.Want(wanted)
				}
			}
			rounds(t, 1, one, other)
			for _, p := range wanted {
				_, had := held[p]
				if _, has := other.Holding().Fence.Epochs[p]; has != had {
					moved++
				}
			}
		}
		if moved != len(wanted) {
			t.Errorf("%d partitions were asked for, and moved %d times", len(wanted), moved)
		}
		if n, m := len(one.Holding().Fence.Epochs), len(other.Holding().Fence.Epochs); n != m {
			t.Errorf("in the end they have %d and %d: others were not handed on in their place", n, m)
		}
	})
}

// Of the partitions in which its workers are behind a server gives up half, and all of them to a server with more slots.
func TestAServerThatIsBehindGivesPartitionsUp(t *testing.T) {
	me, other := engine.ServerID{1}, engine.ServerID{2}
	for _, c := range []struct {
		name        string
		mine, their int
		behind      []job.Partition
		want        []job.Partition
	}{
		{"as many slots", 4, 4, []job.Partition{3, 5, 7}, []job.Partition{7}},
		{"fewer slots", 4, 1, []job.Partition{3, 5}, []job.Partition{5}},
		{"the last one stays", 4, 4, []job.Partition{3}, nil},
		{"more slots", 1, 9, []job.Partition{3}, []job.Partition{3}},
		{"not behind", 1, 9, nil, nil},
	} {
		r := engine.Roster{Servers: []engine.Server{{ID: me, Waiting: true, Slots: c.mine}, {ID: other, Waiting: true, Slots: c.their}}}
		for p := range job.Partitions {
			x := engine.Partition{Part: job.Partition(p), Owner: me, Wanted: other}
			if p >= job.Partitions/2 {
				x = engine.Partition{Part: job.Partition(p), Owner: other}
			}
			r.Partitions = append(r.Partitions, x)
		}
		if got := Plan(me, r, Ability{Behind: c.behind}, nil).Give[other]; !slices.Equal(got, c.want) {
			t.Errorf("%s: gives %v, want %v", c.name, got, c.want)
		}
	}
}
