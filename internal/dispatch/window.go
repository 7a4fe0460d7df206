package dispatch

import (
	"container/heap"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// window holds the executions that may be leased next. One goroutine owns it.
type window struct {
	size  int // how many executions it holds at the most
	ready map[job.Class]*byRank
	later byDue
	known map[job.ExecutionID]bool // what is in ready or later
	lanes map[job.Lane]*lane
}

// lane is how far a lane of the store has been read into the window.
type lane struct {
	dueAt  time.Time // the cursor: behind this execution
	after  job.ExecutionID
	more   bool // the store may hold more behind the cursor
	loaded int  // how many of its executions are in ready
}

func newWindow(size int) *window {
	return &window{size: size, ready: map[job.Class]*byRank{}, known: map[job.ExecutionID]bool{}, lanes: map[job.Lane]*lane{}}
}

// offer takes in executions known from elsewhere; what does not fit is left to the sweep.
func (w *window) offer(rs []job.Ready, now time.Time) {
	for _, r := range rs {
		if w.known[r.ID] || len(w.known) >= w.size {
			continue
		}
		w.known[r.ID] = true
		if r.DueAt.After(now) {
			heap.Push(&w.later, r)
		} else {
			w.admit(r)
		}
	}
}

func (w *window) admit(r job.Ready) {
	h := w.ready[r.Class]
	if h == nil {
		h = &byRank{}
		w.ready[r.Class] = h
	}
	heap.Push(h, r)
	w.lane(r.Lane()).loaded++
}

func (w *window) lane(k job.Lane) *lane {
	l := w.lanes[k]
	if l == nil {
		l = &lane{}
		w.lanes[k] = l
	}
	return l
}

// ripen moves what has become due to where it can be picked.
func (w *window) ripen(now time.Time) {
	for len(w.later) > 0 && !w.later[0].DueAt.After(now) {
		w.admit(heap.Pop(&w.later).(job.Ready))
	}
}

// nextDue is when the next execution in the window becomes due.
func (w *window) nextDue() (time.Time, bool) {
	if len(w.later) == 0 {
		return time.Time{}, false
	}
	return w.later[0].DueAt, true
}

// sweep begins every lane anew from its start and forgets lanes that are gone.
func (w *window) sweep(lanes []job.Lane) {
	seen := make(map[job.Lane]bool, len(lanes))
	for _, k := range lanes {
		seen[k] = true
		l := w.lane(k)
		l.dueAt, l.after, l.more = time.Time{}, job.ExecutionID{}, true
	}
	for c, h := range w.ready {
		if len(*h) == 0 {
			delete(w.ready, c)
		}
	}
	for k, l := range w.lanes {
		if !seen[k] && l.loaded == 0 {
			delete(w.lanes, k)
		} else if !seen[k] {
			l.more = false
		}
	}
}

// dry lists the lanes of the served classes that must be read before the window
// can tell what comes first: those with nothing loaded although the store may
// hold more. Where there is one, lanes that run low are read along with it.
func (w *window) dry(low int, serves func(job.Class) bool) []engine.LaneCursor {
	var cs []engine.LaneCursor
	must := false
	for k, l := range w.lanes {
		if l.more && l.loaded <= low && serves(k.Class) {
			cs = append(cs, engine.LaneCursor{Lane: k, DueAt: l.dueAt, After: l.after})
			must = must || l.loaded == 0
		}
	}
	if !must {
		return nil
	}
	return cs
}

// refill takes in what the store answered for the cursors, perLane at the most for each.
func (w *window) refill(cs []engine.LaneCursor, rs []job.Ready, perLane int) {
	read := make(map[job.Lane]int, len(cs))
	for _, r := range rs {
		l := w.lane(r.Lane())
		read[r.Lane()]++
		l.dueAt, l.after = r.DueAt, r.ID
		if !w.known[r.ID] {
			w.known[r.ID] = true
			w.admit(r)
		}
	}
	for _, c := range cs {
		w.lane(c.Lane).more = read[c.Lane] == perLane
	}
}

// holds reports whether there is anything to pick of the served classes.
func (w *window) holds(serves func(job.Class) bool) bool {
	for c, h := range w.ready {
		if len(*h) > 0 && serves(c) {
			return true
		}
	}
	return false
}

// pick takes out up to n executions of the served classes in rank order. It stops short where a
// lane has run out that the store may hold more of, since that might come first.
func (w *window) pick(n int, serves func(job.Class) bool) []job.Ready {
	var heaps []*byRank
	for c, h := range w.ready {
		if len(*h) > 0 && serves(c) {
			heaps = append(heaps, h)
		}
	}
	var picked []job.Ready
	for len(picked) < n {
		var best *byRank
		for _, h := range heaps {
			if len(*h) > 0 && (best == nil || (*h)[0].Before((*best)[0])) {
				best = h
			}
		}
		if best == nil {
			break
		}
		r := heap.Pop(best).(job.Ready)
		delete(w.known, r.ID)
		picked = append(picked, r)
		l := w.lanes[r.Lane()]
		l.loaded--
		if l.loaded == 0 && l.more {
			break
		}
	}
	return picked
}

type byRank []job.Ready

func (h byRank) Len() int           { return len(h) }
func (h byRank) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h byRank) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byRank) Push(x any)        { *h = append(*h, x.(job.Ready)) }
func (h *byRank) Pop() any          { return pop((*[]job.Ready)(h)) }

type byDue []job.Ready

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].DueAt.Before(h[j].DueAt) }
func (h byDue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDue) Push(x any)        { *h = append(*h, x.(job.Ready)) }
func (h *byDue) Pop() any          { return pop((*[]job.Ready)(h)) }

func pop(h *[]job.Ready) job.Ready {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
