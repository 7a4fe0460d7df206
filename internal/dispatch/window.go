package dispatch

import (
	"bytes"
	"container/heap"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// window holds the executions that may be leased next: due ones in a picker, those that are due soon apart. One
// goroutine owns it.
type window struct {
	size   int // how many executions it holds at most, besides the heads of lanes
	picker *pick.Picker
	later  byDue
	known  map[job.ExecutionID]*job.Ready // everything in the picker, or soon; nil: it was picked and not released yet
	picked int                            // how many of those there are
	again  map[job.ExecutionID]job.Ready  // those of them that a hint reported as free again
	lanes  map[job.Lane]*lane
	last   job.Lane           // that was looked up …
	latest *lane              // … and how far it has been read; nil: none was
	round  int                // of sweeps through all lanes
	hinted bool               // hints cover everything new, and lanes need not be read again in every round of sweeps
	lost   int                // the last round in which hints were lost; -1: none
	empty  map[job.Lane]*lane // those that must be read before the window can tell what comes first
	probes []job.Lane         // those whose heads are to be examined, though they hold something in the picker
	packed int                // how many in the picker the store keeps packed with others of other groups
	halted bool               // the last pick stopped short, since what comes next must be read first
}

// soon holds what is not due yet.
var soon = &job.Ready{}

// lane records how far a lane of the store has been read into the window.
type lane struct {
	dueAt   time.Time // the cursor: after this execution
	after   job.ExecutionID
	more    bool      // the store may hold more after the cursor
	must    bool      // it does, and possibly before what of it is in the picker
	stale   bool      // it was listed since, and may hold executions without a hint: it is read again once it is empty
	missed  bool      // it does, and the next sweep reads it again …
	until   time.Time // … and sweeps until then: it holds what is due at that instant
	begun   int       // the round in which it was last read from its start
	probing bool      // it is on the list of lanes to probe
	loaded  int       // how many of its executions are in the picker
	read    int       // how many were in the last answer
	empty   bool      // it is among those that must be read
	round   int       // the round of sweeps in which it was last listed, or became known
}

func newWindow(size int) *window {
	w := &window{size: size, picker: pick.New(), lost: -1}
	w.reset()
	return w
}

// reset drops all candidates, and forgets how far lanes were read.
func (w *window) reset() {
	w.picker.Clear()
	w.packed, w.probes = 0, nil
	w.later, w.picked, w.again = nil, 0, map[job.ExecutionID]job.Ready{}
	w.known, w.lanes, w.empty, w.latest = map[job.ExecutionID]*job.Ready{}, map[job.Lane]*lane{}, map[job.Lane]*lane{}, nil
}

// offer adds executions known from hints; those that do not fit are left to the sweep. Executions stored together are
// added together, or not at all: if only some executions of a bundle were known, only these would be leased.
func (w *window) offer(rs []job.Ready, now time.Time) {
	var begun [16]byte // the bundle of the last one added: its others follow
	for _, r := range rs {
		if waits, known := w.known[r.ID]; known {
			if waits == nil {
				w.again[r.ID] = r // its lease was not answered yet
			}
			continue
		}
		if w.full(r, now) && !(job.Bundled(r.ID) && job.BundleOf(r.ID) == begun) {
			w.pass(&r, now)
			continue
		}
		begun = job.BundleOf(r.ID)
		if r.DueAt.After(now) {
			w.known[r.ID] = soon
			heap.Push(&w.later, r)
		} else {
			w.admit(r)
		}
	}
}

// full reports whether there is no room for one more. A tenant that has little in the window always finds some, so
// that another's flood does not keep its hints out.
func (w *window) full(r job.Ready, now time.Time) bool {
	n := w.held()
	return n >= w.size && (n >= 2*w.size || r.DueAt.After(now) || w.picker.Waiting(r.Tenant) >= w.size/100)
}

// held returns how many executions the window holds for coming workers.
func (w *window) held() int { return len(w.known) - w.picked }

// miss makes the next sweep read a lane again, or both possible ones.
func (w *window) miss(r *job.Ready) {
	x := *r
	for _, x.Packed = range []bool{false, r.Packed || x.Group.Key != 0 && job.Bundled(x.ID)} {
		if l := w.find(x.Lane()); l != nil {
			l.missed = true
		}
	}
}

// pass records that the store holds something of a lane for which there was no room.
func (w *window) pass(r *job.Ready, now time.Time) {
	k := r.Lane()
	l := w.find(k)
	switch {
	case r.DueAt.After(now): // a sweep finds it when it is due
		if l == nil && len(w.lanes) < w.size {
			l = w.lane(k)
		}
		if l != nil && r.DueAt.After(l.until) {
			l.until = r.DueAt
		}
		return
	case l == nil || r.Group.Key != 0 && job.Bundled(r.ID):
		w.miss(r) // a sweep finds it, as it finds new lanes
	}
	if l == nil {
		return
	}
	if r.DueAt.Before(l.dueAt) || r.DueAt.Equal(l.dueAt) && bytes.Compare(r.ID[:], l.after[:]) <= 0 {
		w.begin(l)
	}
	l.more = true
	w.mark(k, l)
}

// begin makes a lane be read from its start.
func (w *window) begin(l *lane) {
	l.dueAt, l.after, l.more, l.stale, l.missed, l.begun = time.Time{}, job.ExecutionID{}, true, false, false, w.round
}

func (w *window) admit(r job.Ready) {
	w.known[r.ID] = &r
	w.picker.Add(&r)
	if r.Packed {
		w.packed++
	}
	w.load(r.Lane(), 1)
}

// load changes how many executions of a lane are in the picker.
func (w *window) load(k job.Lane, n int) *lane {
	l := w.lane(k)
	l.loaded += n
	w.mark(k, l)
	return l
}

// mark tracks the lanes that must be read.
func (w *window) mark(k job.Lane, l *lane) {
	if empty := l.more && (l.loaded == 0 || l.must); empty == l.empty {
		return
	}
	if l.empty = !l.empty; l.empty {
		w.empty[k] = l
	} else {
		delete(w.empty, k)
	}
}

// find finds a lane; nil: it is not known. Usually it is that of the previous execution.
func (w *window) find(k job.Lane) *lane {
	if w.latest != nil && w.last == k {
		return w.latest
	}
	l := w.lanes[k]
	if l != nil {
		w.last, w.latest = k, l
	}
	return l
}

// lane finds or adds a lane.
func (w *window) lane(k job.Lane) *lane {
	l := w.find(k)
	if l == nil {
		l = &lane{round: w.round, begun: w.round}
		w.lanes[k], w.last, w.latest = l, k, l
	}
	return l
}

// shed drops executions of paused queues: they stay in the store, and their lanes are read again from their start
// when the pause has ended.
func (w *window) shed(now time.Time) {
	w.picker.Shed(now, w.unload)
}

// asideMost limits how many executions are unpacked at once: each comes with all others in its row, and this must not
// take long.
const asideMost = 1000

// aside drops some executions that their group holds back in the lane of those in no group, and returns them for
// unpacking. After that they are in the lane of their group, which is read from its start before anything else of it
// is picked.
func (w *window) aside() (ids []job.ExecutionID) {
	if w.packed == 0 {
		return nil
	}
	w.picker.Aside(asideMost, func(r *job.Ready) {
		delete(w.known, r.ID)
		w.packed--
		w.load(r.Lane(), -1)
		loose := *r
		loose.Packed = false
		k := loose.Lane()
		l := w.lane(k)
		w.begin(l)
		l.must = true
		w.mark(k, l)
		ids = append(ids, r.ID)
	})
	return ids
}

// ripen moves executions that have become due to the picker.
func (w *window) ripen(now time.Time) {
	for len(w.later) > 0 && !w.later[0].DueAt.After(now) {
		w.admit(heap.Pop(&w.later).(job.Ready))
	}
}

// next returns when something in the window becomes due, or when a rate that holds something back allows it.
func (w *window) next() (at time.Time, ok bool) {
	if len(w.later) > 0 {
		at, ok = w.later[0].DueAt, true
	}
	if t := w.picker.Next(); !t.IsZero() && (!ok || t.Before(at)) {
		at, ok = t, true
	}
	return at, ok
}

// sweep begins lanes that the store lists again from their start. If hints cover everything new, lanes that have
// something in the window are begun when they are empty; but all at once if a hint was lost, or there was no room for
// what was not due yet. For lanes that hold something in the window, the head is probed.
func (w *window) sweep(lanes []job.Lane, now time.Time) {
	for _, k := range lanes {
		if k.Group != 0 && len(w.lanes) >= w.size && w.lanes[k] == nil {
			continue // enough of those are known; they are found when others have gone
		}
		l := w.lane(k)
		l.round = w.round
		if l.stale = true; !w.hinted || l.loaded == 0 || l.missed || !l.until.IsZero() || l.begun <= w.lost {
			w.begin(l)
		}
		if l.loaded > 0 && !l.probing {
			l.probing = true
			w.probes = append(w.probes, k)
		}
		if !now.Before(l.until) {
			l.until = time.Time{}
		}
		w.mark(k, l)
	}
}

// forget drops those of some lanes that the store has not listed in this round, though it has covered all of these.
func (w *window) forget(some func(job.Lane) bool) {
	for k, l := range w.lanes {
		if l.round == w.round || !some(k) {
			continue
		}
		l.more, l.stale = false, false
		w.mark(k, l)
		if l.loaded == 0 {
			delete(w.lanes, k)
			w.latest = nil
		}
	}
}

// atOnce is how many lanes are read at once, and fewLanes how many are read again before they are empty.
const (
	atOnce   = 1000
	fewLanes = 500
)

// dry lists the lanes that must be read before the window can tell what comes first, of those that want accepts:
// those with nothing loaded although the store may hold more. If there is one, lanes that run low are read along with
// it, from their start if that is due and they are few: lanes that are filled together run out at about the same
// time, and would stop picks one after the other.
func (w *window) dry(low int, want func(job.Lane) bool) []engine.LaneCursor {
	var cs []engine.LaneCursor
	for k, l := range w.empty {
		if len(cs) < atOnce && want(k) {
			cs = append(cs, engine.LaneCursor{Lane: k, DueAt: l.dueAt, After: l.after})
		}
	}
	if len(cs) == 0 || low == 0 {
		return cs
	}
	for k, l := range w.lanes {
		anew := l.stale && len(w.lanes) <= fewLanes
		if len(cs) < atOnce && (l.more || anew) && !l.must && l.loaded > 0 && l.loaded <= low && want(k) {
			if anew {
				w.begin(l)
			}
			cs = append(cs, engine.LaneCursor{Lane: k, DueAt: l.dueAt, After: l.after})
		}
	}
	return cs
}

// low returns the number of loaded executions at which a lane runs low: half of what is read of one at once or, if
// there are so many lanes that each has room for only a few, half of these, since otherwise all of them would always
// be low. One is always low: whoever picks it has to stop, as long as the store may hold more after it.
func (w *window) low(most int) int { return max(1, min(most, w.size/max(1, len(w.lanes)))/2) }

// perLane returns how many executions of a lane are read at once: a part of the remaining room, shared by all lanes
// that must be read. If none is left, because what is in the window waits for limits, it is still a few, so that
// lanes that wait for nothing are not read one by one, until the window is half as large again; and then one.
func (w *window) perLane(most, lanes int) int {
	room := w.size - w.held()
	if w.held() < w.size+w.size/2 {
		room = max(room, w.size/10)
	}
	return max(1, min(most, room/max(1, lanes, len(w.empty))))
}

// refill adds the store's answers for the cursors, skipping some. perLane of each were requested: a shorter answer
// means that there is no more.
func (w *window) refill(cs []engine.LaneCursor, rs []job.Ready, perLane int, pass func(*job.Ready) bool) {
	for _, c := range cs {
		w.lane(c.Lane).read = 0
	}
	var changed []job.GroupKey // those whose limits have changed since they were read
	for _, r := range rs {
		l := w.lane(r.Lane())
		l.read++
		l.dueAt, l.after = r.DueAt, r.ID
		if x, known := w.known[r.ID]; known {
			changed = regrouped(changed, x, &r)
		} else if !pass(&r) {
			w.admit(r)
		}
	}
	for _, c := range cs {
		l := w.lane(c.Lane)
		l.more, l.must = l.read >= perLane, false
		w.mark(c.Lane, l)
	}
	w.evict(changed)
}

// regrouped adds the group of a known execution to a list if its limits in the store have changed.
func regrouped(changed []job.GroupKey, known, read *job.Ready) []job.GroupKey {
	if known == nil || known == soon || known.Group == read.Group || slices.Contains(changed, known.Group.Key) {
		return changed
	}
	return append(changed, known.Group.Key)
}

// evict drops all executions of some groups, so that they are read again with their new limits.
func (w *window) evict(changed []job.GroupKey) {
	for _, k := range changed {
		w.picker.Evict(k, w.unload)
	}
}

// unload drops an execution that was taken out of the picker: its lane is read again from its start.
func (w *window) unload(r *job.Ready) {
	delete(w.known, r.ID)
	if r.Packed {
		w.packed--
	}
	k := r.Lane()
	w.begin(w.lane(k))
	w.load(k, -1)
}

// throttledMost is how many groups that rates hold back for long a sweep checks.
const throttledMost = 100

// throttled rereads lanes of groups that rates hold back for longer than a sweep: the rates may have changed.
func (w *window) throttled(now time.Time, most int) {
	for k, l := range w.lanes {
		if most > 0 && k.Group != 0 && l.loaded > 0 && w.picker.Throttled(k.Group, now, sweepEvery) {
			most--
			w.begin(l)
			l.must = true
			w.mark(k, l)
		}
	}
}

// pick removes executions of the served classes, in the order in which they should start, until there are n including
// those picked before; they stay known until they are released. It stops short if a lane has run out that may have
// more in the store, since that might come first.
func (w *window) pick(picked []*job.Ready, n int, serves func(tenant.ID, job.Class) bool, now time.Time) []*job.Ready {
	w.halted = false
	return w.picker.Pick(picked, n, serves, now, w.took)
}

// took records that an execution was picked, and reports whether what comes next is known.
func (w *window) took(r *job.Ready) bool {
	w.known[r.ID] = nil
	w.picked++
	if r.Packed {
		w.packed--
	}
	k := r.Lane()
	l := w.load(k, -1)
	goOn := l.loaded > 0 || !l.more
	w.halted = !goOn
	if l.loaded == 0 && l.stale {
		w.begin(l)
		w.mark(k, l)
	}
	return goOn
}

// let drops what was picked, now that the store has returned its outcome.
func (w *window) let(r *job.Ready) {
	delete(w.known, r.ID)
	w.picked--
	if x, ok := w.again[r.ID]; ok {
		delete(w.again, r.ID)
		w.known[x.ID] = soon
		heap.Push(&w.later, x)
	}
}

// drop returns what was picked and not leased.
func (w *window) drop(r *job.Ready) {
	w.let(r)
	w.miss(r)
	w.picker.Dropped(r)
}

type byDue []job.Ready

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].DueAt.Before(h[j].DueAt) }
func (h byDue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDue) Push(x any)        { *h = append(*h, x.(job.Ready)) }
func (h *byDue) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
