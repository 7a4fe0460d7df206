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

// window holds the executions that may be leased next: those that are due in a picker, those that soon are apart. One
// goroutine owns it.
type window struct {
	size   int // how many executions it holds at most, beside the heads of lanes
	picker *pick.Picker
	later  byDue
	known  map[job.ExecutionID]*job.Ready // what is in the picker, or soon; nil: it was picked and is not let go of yet
	picked int                            // how many of those there are
	again  map[job.ExecutionID]job.Ready  // those of them that are free again, by a hint
	lanes  map[job.Lane]*lane
	last   job.Lane           // that was looked up …
	latest *lane              // … and how far it has been read; nil: none was
	round  int                // of sweeps through all lanes
	hinted bool               // hints tell of all that comes, and lanes need not be read again in every round of sweeps
	lost   int                // the last round in which hints were lost; -1: none
	empty  map[job.Lane]*lane // those that must be read before the window can tell what comes first
	probes []job.Lane         // those whose heads are to be looked at, though they hold something in the picker
	packed int                // how many in the picker the store keeps together with others of other groups
	halted bool               // the last pick stopped short, since what comes next must be read first
}

// soon stands for what is not due yet.
var soon = &job.Ready{}

// lane says how far a lane of the store has been read into the window.
type lane struct {
	dueAt   time.Time // the cursor: behind this execution
	after   job.ExecutionID
	more    bool      // the store may hold more behind the cursor
	must    bool      // it does, and before what of it is in the picker
	stale   bool      // it was listed since, and may hold what no hint told of: it is read again once it is empty
	missed  bool      // it does, and is read again by the next sweep …
	until   time.Time // … and by those until then: it holds what is due at that instant
	begun   int       // the round in which it was last read from its start
	probing bool      // it is on the list of lanes to probe
	loaded  int       // how many of its executions are in the picker
	read    int       // how many were in the answer that was last read
	empty   bool      // it is among those that must be read
	round   int       // of sweeps, in which it was last listed, or became known
}

func newWindow(size int) *window {
	w := &window{size: size, picker: pick.New(), lost: -1}
	w.reset()
	return w
}

// reset forgets all candidates, and how far lanes were read.
func (w *window) reset() {
	w.picker.Clear()
	w.packed, w.probes = 0, nil
	w.later, w.picked, w.again = nil, 0, map[job.ExecutionID]job.Ready{}
	w.known, w.lanes, w.empty, w.latest = map[job.ExecutionID]*job.Ready{}, map[job.Lane]*lane{}, map[job.Lane]*lane{}, nil
}

// offer takes in executions known from elsewhere; what does not fit is left to the sweep. What is stored together is taken in
// together, or not at all: of a bundle only some of whose executions are known only these would be leased.
func (w *window) offer(rs []job.Ready, now time.Time) {
	var begun [16]byte // the bundle of the last that was taken in: its others follow
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

// full reports whether there is no room for one more. A tenant that has little in the window always finds some, so that
// another's flood does not keep its hints out.
func (w *window) full(r job.Ready, now time.Time) bool {
	n := w.held()
	return n >= w.size && (n >= 2*w.size || r.DueAt.After(now) || w.picker.Waiting(r.Tenant) >= w.size/100)
}

// held returns how many executions the window holds for coming workers.
func (w *window) held() int { return len(w.known) - w.picked }

// miss has the next sweep read a lane again, or both where the store may list it.
func (w *window) miss(r *job.Ready) {
	x := *r
	for _, x.Packed = range []bool{false, r.Packed || x.Group.Key != 0 && job.Bundled(x.ID)} {
		if l := w.find(x.Lane()); l != nil {
			l.missed = true
		}
	}
}

// pass notes that the store holds something of a lane that there was no room for.
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
		w.miss(r) // a sweep finds it, as it does new lanes
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

// begin has a lane read from its start.
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

// mark keeps the lanes apart that must be read.
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

// find finds a lane; nil: it is not known. Most are that of the execution before.
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

// lane finds a lane, or makes it known.
func (w *window) lane(k job.Lane) *lane {
	l := w.find(k)
	if l == nil {
		l = &lane{round: w.round, begun: w.round}
		w.lanes[k], w.last, w.latest = l, k, l
	}
	return l
}

// shed lets go of what its queue's pause holds back: it stays in the store, and its lanes are read again from their start
// when the pause has ended.
func (w *window) shed(now time.Time) {
	w.picker.Shed(now, w.unload)
}

// asideMost limits how many executions are unpacked at once: each comes with all that share its row, and this must not take long.
const asideMost = 1000

// aside lets go of some of what its group holds back in the lane of what is in no group, and names it: it is to be unpacked, and then is
// in the lane of its group, which is read from its start before anything else of it is picked.
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

// ripen moves what has become due to where it can be picked.
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

// sweep begins lanes that the store lists again from their start. Where hints tell of all that comes, those of which
// something is in the window are begun when they are empty; but all at once where a hint was lost, or there was no room for
// what was not due yet. Of lanes that hold something in the window the head is probed.
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

// forget forgets those of some lanes that the store has not listed in this round, though it has gone through all of these.
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

// atOnce sets how many lanes are read at once, and fewLanes how many are read again before they are empty.
const (
	atOnce   = 1000
	fewLanes = 500
)

// dry lists the lanes that must be read before the window can tell what comes first, of those that want says: those with
// nothing loaded although the store may hold more. Where there is one, lanes that run low are read along with it, from
// their start where that is due and they are few: lanes that are filled abreast run out at about the same time, and would
// have picks stop short one after the other.
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

// low returns at how many loaded executions a lane runs low: half of what is read of one at once, or, where there are
// so many lanes that each has room for a few only, of these, since all of them would be low else, whatever they hold. One is
// always low: whoever picks it has to stop, as long as the store may hold more behind it.
func (w *window) low(most int) int { return max(1, min(most, w.size/max(1, len(w.lanes)))/2) }

// perLane returns how many executions of a lane are read at once: a part of the remaining room, which all lanes that must be
// read share. Where none is left, because what is in the window waits for limits, it is a little all the same, so that lanes
// that wait for nothing are read in more than ones, up to a window half as large again; and one in the end.
func (w *window) perLane(most, lanes int) int {
	room := w.size - w.held()
	if w.held() < w.size+w.size/2 {
		room = max(room, w.size/10)
	}
	return max(1, min(most, room/max(1, lanes, len(w.empty))))
}

// refill takes in what the store answered for the cursors, but for what is passed over. It was asked for perLane of each: less says
// that there is no more.
func (w *window) refill(cs []engine.LaneCursor, rs []job.Ready, perLane int, pass func(*job.Ready) bool) {
	for _, c := range cs {
		w.lane(c.Lane).read = 0
	}
	var changed []job.GroupKey // whose limits are no longer as they were read
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

// regrouped adds the group of a known execution to a list if the store now reads other limits for it.
func regrouped(changed []job.GroupKey, known, read *job.Ready) []job.GroupKey {
	if known == nil || known == soon || known.Group == read.Group || slices.Contains(changed, known.Group.Key) {
		return changed
	}
	return append(changed, known.Group.Key)
}

// evict lets go of all executions of some groups, so that they are read again with their new limits.
func (w *window) evict(changed []job.GroupKey) {
	for _, k := range changed {
		w.picker.Evict(k, w.unload)
	}
}

// unload lets go of an execution that was taken out of the picker: its lane is read again from its start.
func (w *window) unload(r *job.Ready) {
	delete(w.known, r.ID)
	if r.Packed {
		w.packed--
	}
	k := r.Lane()
	w.begin(w.lane(k))
	w.load(k, -1)
}

// throttledMost is of how many groups that rates hold back for long it is looked at in a sweep whether they still do.
const throttledMost = 100

// throttled has lanes read again of groups that rates hold back for longer than a sweep: the rates may have changed.
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

// pick takes out executions of the served classes, in the order in which they are to start, until with those that were picked
// before there are n; they stay known until they are let go of. It stops short where a lane has run out that the store may
// hold more of, since that might come first.
func (w *window) pick(picked []*job.Ready, n int, serves func(tenant.ID, job.Class) bool, now time.Time) []*job.Ready {
	w.halted = false
	return w.picker.Pick(picked, n, serves, now, w.took)
}

// took notes that an execution was picked, and reports whether what comes next is known.
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

// let forgets what was picked, now that the store says its outcome.
func (w *window) let(r *job.Ready) {
	delete(w.known, r.ID)
	w.picked--
	if x, ok := w.again[r.ID]; ok {
		delete(w.again, r.ID)
		w.known[x.ID] = soon
		heap.Push(&w.later, x)
	}
}

// drop takes back what was picked and not leased.
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
