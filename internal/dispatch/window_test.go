package dispatch

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

func all(tenant.ID, job.Class) bool { return true }

func everyLane(job.Lane) bool { return true }

func none(*job.Ready) bool { return false }

// However a backlog is cut into lanes, offers and reads, it is picked in rank order, also while the store does not know yet
// what was picked.
func TestWindowPicksInRankOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		f := newFake(func() time.Time { return now })
		var backlog []job.Ready
		for i := range rapid.IntRange(0, 120).Draw(t, "n") {
			r := job.Ready{
				ID: job.ExecutionID{15: byte(i)}, Tenant: "t", Partition: job.Partition(rapid.IntRange(0, 2).Draw(t, "part")),
				Class:    rapid.SampledFrom([]job.Class{"http", "worker\x1fx"}).Draw(t, "class"),
				Priority: rapid.IntRange(1, 3).Draw(t, "priority"), DueAt: now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "age")) * time.Second),
				Group:  job.Group{Key: job.GroupKey(rapid.IntRange(0, 2).Draw(t, "group"))},
				Packed: rapid.Bool().Draw(t, "packed"),
			}
			backlog = append(backlog, r)
			f.add(r)
		}
		w := newWindow(1000)
		w.hinted = rapid.Bool().Draw(t, "hinted")
		per := rapid.IntRange(1, 10).Draw(t, "per lane")
		lanes, _ := f.Lanes(t.Context(), nil, 1000)
		w.sweep(lanes, now)
		var after *job.Lane
		var got []job.Ready
		var inFlight []*job.Ready // picked, and still there by what the store says
		land := func() {
			for _, r := range inFlight {
				delete(f.free, r.ID)
				w.let(r)
			}
			inFlight = nil
		}
		for {
			if cs := w.dry(rapid.IntRange(0, 3).Draw(t, "low"), everyLane); len(cs) > 0 {
				rs, _ := f.Ready(t.Context(), cs, per)
				w.refill(cs, rs, per, none)
				continue
			}
			picked := w.pick(nil, rapid.IntRange(1, 20).Draw(t, "take"), all, now)
			if len(picked) == 0 {
				break
			}
			for _, r := range picked {
				got = append(got, *r)
			}
			inFlight = append(inFlight, picked...)
			if rapid.Bool().Draw(t, "land") {
				land()
			}
			if rapid.IntRange(0, 5).Draw(t, "must") == 0 {
				for k, l := range w.lanes { // as if something of it had been unpacked
					w.begin(l)
					l.must = true
					w.mark(k, l)
					break
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "sweep") == 0 {
				n := rapid.IntRange(1, 20).Draw(t, "lanes")
				lanes, _ := f.Lanes(t.Context(), after, n)
				w.sweep(lanes, now)
				after = nil
				if len(lanes) == n {
					after = &lanes[n-1]
				} else {
					w.forget(everyLane)
					w.round++
				}
			}
		}
		slices.SortFunc(backlog, func(a, b job.Ready) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, backlog) {
			t.Fatalf("picked %d of %d, or not in order", len(got), len(backlog))
		}
		land()
		if len(w.known) != 0 {
			t.Fatalf("%d are known although none is left", len(w.known))
		}
	})
}

// However many lanes wait, and whatever for, the window holds little more than its size and the heads of lanes.
func TestWindowHoldsLittleOfManyLanes(t *testing.T) {
	now := time.Now()
	const size, lanes, each = 1000, 800, 25
	w := newWindow(size)
	waiting := map[job.Lane][]job.Ready{}
	var all []job.Lane
	for i := range lanes {
		k := job.Lane{Tenant: "t", Class: "http", Group: job.GroupKey(i + 1), Priority: 5}
		all = append(all, k)
		for n := range each {
			waiting[k] = append(waiting[k], job.Ready{ID: job.ExecutionID{0: byte(i >> 8), 1: byte(i), 2: byte(n)}, Tenant: "t", Class: "http", Priority: 5, DueAt: now, Group: job.Group{Key: k.Group, Max: 1}})
		}
	}
	for len(all) > 0 {
		w.sweep(all[:100], now)
		all = all[100:]
		for cs := w.dry(25, everyLane); len(cs) > 0; cs = w.dry(25, everyLane) {
			per := w.perLane(100, len(cs))
			var rs []job.Ready
			for _, c := range cs {
				rs = append(rs, waiting[c.Lane][:min(per, each)]...)
			}
			w.refill(cs, rs, per, none)
		}
	}
	if n := len(w.known); n > size+size/2+lanes {
		t.Errorf("it holds %d", n)
	}
	if len(w.empty) != 0 {
		t.Errorf("%d lanes were not read", len(w.empty))
	}
}

// A sweep does not have the window read what it was told of; what no hint told of is found when the lane is empty, and at
// once where hints were lost.
func TestSweepsReadLittleThatIsKnown(t *testing.T) {
	now := time.Now()
	for _, lost := range []bool{false, true} {
		f := newFake(func() time.Time { return now })
		w := newWindow(1000)
		w.hinted = true
		var rs []job.Ready
		for i := range 40 {
			rs = append(rs, ready(i, now))
		}
		f.add(rs...)
		read := func() (read int) {
			low := 5
			if lost {
				low = 25
			}
			cs := w.dry(low, everyLane)
			got, _ := f.Ready(t.Context(), cs, 100)
			w.refill(cs, got, 100, none)
			return len(cs)
		}
		sweep := func() int {
			lanes, _ := f.Lanes(t.Context(), nil, 1000)
			w.sweep(lanes, now)
			w.round++
			return read()
		}
		if n := sweep(); n != 4 { // nothing is known
			t.Errorf("%d lanes read, want all four", n)
		}
		silent := ready(100, now.Add(-time.Minute))
		fresh := ready(101, now) // of a lane that is new, and must be read
		fresh.Priority = 1
		f.add(silent, fresh)
		if lost {
			w.lost = w.round
		}
		if n := sweep(); n != 1 && !lost || n != 5 && lost {
			t.Errorf("a hint was lost: %v; %d lanes were read", lost, n)
		}
		if lost != (w.known[silent.ID] != nil) {
			t.Errorf("a hint was lost: %v; what it would have told of is known: %v", lost, w.known[silent.ID] != nil)
		}
		for _, r := range w.pick(nil, 1000, all, now) {
			delete(f.free, r.ID)
			w.let(r)
		}
		read()
		if got := w.pick(nil, 1000, all, now); !lost && (len(got) != 1 || got[0].ID != silent.ID) {
			t.Errorf("picked %v, want what no hint told of", got)
		}
	}
}

// A lane that must be read is read once, however little of it is loaded.
func TestALaneThatMustBeReadIsReadOnce(t *testing.T) {
	now := time.Now()
	w := newWindow(1000)
	r := ready(1, now)
	w.offer([]job.Ready{r}, now)
	l := w.lane(r.Lane())
	w.begin(l)
	l.must = true
	w.mark(r.Lane(), l)
	if cs := w.dry(50, everyLane); len(cs) != 1 {
		t.Errorf("it is read %d times", len(cs))
	}
}

// Lanes that were filled abreast run out at about the same time; they are read together, so that picks hardly ever stop short.
func TestLanesThatRunOutTogetherAreReadTogether(t *testing.T) {
	now := time.Now()
	for name, sweeps := range map[string]bool{"as they were listed": false, "listed anew meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			f := newFake(func() time.Time { return now })
			const lanes, batches = 64, 40
			rows := map[job.Lane][]job.Ready{} // in due order; what was picked is at the front
			at := 0                            // each bundle is in the next partition
			for b := range batches {
				for i := range 1000 {
					if i%job.Bundle == 0 {
						at++
					}
					r := job.Ready{ID: job.ExecutionID{0: byte(b), 1: byte(i >> 8), 2: byte(i)}, Tenant: "t", Partition: job.Partition(at % lanes), Priority: 5, DueAt: now.Add(time.Duration(b-batches) * time.Millisecond)}
					rows[r.Lane()] = append(rows[r.Lane()], r)
					f.add(r)
				}
			}
			w := newWindow(50_000)
			w.hinted = true
			listed, _ := f.Lanes(t.Context(), nil, 1000)
			w.sweep(listed, now)
			picks, reads, total := 0, 0, 0
			for total < 1000*batches && picks < 1000 {
				if cs := w.dry(w.low(100), everyLane); len(cs) > 0 {
					var rs []job.Ready
					for _, c := range cs {
						behind := rows[c.Lane]
						for len(behind) > 0 && !c.DueAt.IsZero() && (behind[0].DueAt.Before(c.DueAt) || behind[0].ID == c.After || behind[0].DueAt.Equal(c.DueAt) && bytes.Compare(behind[0].ID[:], c.After[:]) < 0) {
							behind = behind[1:]
						}
						rs = append(rs, behind[:min(len(behind), 100)]...)
					}
					w.refill(cs, rs, 100, none)
					reads++
				}
				for _, r := range w.pick(nil, 1000, all, now) {
					rows[r.Lane()] = rows[r.Lane()][1:]
					w.let(r)
					total++
				}
				if picks++; sweeps && picks%5 == 0 {
					w.sweep(listed, now)
					w.round++
				}
			}
			if total != 1000*batches || picks > 55 || reads > 12 {
				t.Errorf("%d picked by %d picks and %d reads; want all, by hardly more than the 40 picks of a thousand that it takes, and few reads", total, picks, reads)
			}
		})
	}
}

// Where lanes are very many, those that were listed again are read once they are empty.
func TestVeryManyLanesAreNotReadAnewTogether(t *testing.T) {
	now := time.Now()
	for lanes, want := range map[int]int{fewLanes - 1: fewLanes, fewLanes + 100: 1} {
		w := newWindow(50_000)
		w.hinted = true
		var listed []job.Lane
		for i := range lanes {
			r := ready(i, now)
			r.Group.Key = job.GroupKey(i + 1)
			listed = append(listed, r.Lane())
			w.offer([]job.Ready{r}, now)
		}
		w.sweep(append(listed, job.Lane{Tenant: "new"}), now)
		if cs := w.dry(w.low(100), everyLane); len(cs) != want {
			t.Errorf("of %d lanes and a new one %d are read, want %d", lanes, len(cs), want)
		}
	}
}

// What is said to be free again before its lease was answered is picked again once it was.
func TestAHintForWhatIsOnItsWay(t *testing.T) {
	now := time.Now()
	w := newWindow(10)
	r := ready(1, now)
	w.offer([]job.Ready{r}, now)
	picked := w.pick(nil, 1, all, now)
	r.DueAt = now.Add(time.Second)
	w.offer([]job.Ready{r}, now)
	if got := w.pick(nil, 1, all, now.Add(time.Hour)); len(got) != 0 {
		t.Fatalf("picked %v twice", got)
	}
	w.let(picked[0])
	w.ripen(now)
	if got := w.pick(nil, 1, all, now); len(got) != 0 {
		t.Fatalf("picked %v before its time", got)
	}
	w.ripen(r.DueAt)
	if got := w.pick(nil, 1, all, r.DueAt); len(got) != 1 || got[0].ID != r.ID || w.held() != 0 {
		t.Errorf("picked %v, want it", got)
	}
}

// What there was no room for is read when it is due, also where its lane is never empty.
func TestWhatThereWasNoRoomFor(t *testing.T) {
	now := time.Now()
	f := newFake(func() time.Time { return now })
	w := newWindow(10)
	w.hinted = true
	for i := range 10 {
		r := ready(4*i, now) // all of one lane
		f.add(r)
		w.offer([]job.Ready{r}, now)
	}
	later, due := ready(400, now.Add(time.Second)), ready(404, now.Add(-time.Second))
	f.add(later, due)
	w.offer([]job.Ready{later, due}, now)
	if len(w.known) != 10 {
		t.Fatalf("%d are known", len(w.known))
	}
	sweep := func() {
		lanes, _ := f.Lanes(t.Context(), nil, 100)
		w.sweep(lanes, now)
		w.round++
		for range 10 { // it runs low, and is read along with one that is empty
			w.empty[job.Lane{Partition: 63}] = &lane{}
			cs := w.dry(25, everyLane)
			rs, _ := f.Ready(t.Context(), cs, 20)
			w.refill(cs, rs, 20, none)
		}
	}
	sweep()
	if w.known[later.ID] != nil || w.known[due.ID] == nil {
		t.Errorf("of what there was no room for, %v", w.known)
	}
	now = now.Add(time.Second)
	sweep()
	if w.known[later.ID] == nil {
		t.Error("what is due now is not known")
	}
}

func TestWindowIsBounded(t *testing.T) {
	now := time.Now()
	w := newWindow(100)
	var rs []job.Ready
	for i := range 1000 {
		rs = append(rs, ready(i, now.Add(time.Hour)))
	}
	w.offer(rs, now)
	if len(w.known) != 100 || len(w.later) != 100 {
		t.Errorf("it holds %d", len(w.known))
	}
	w.offer(rs[:50], now)
	if len(w.known) != 100 {
		t.Errorf("it holds %d", len(w.known))
	}
	w.ripen(now.Add(time.Hour))
	if got := len(w.pick(nil, 1000, all, now.Add(time.Hour))); got != 100 {
		t.Errorf("picked %d", got)
	}
}

// Of a bundle a window takes in all or nothing, so that it is leased as a whole: where the last begins that there is room for, it is a
// little larger.
func TestAWindowTakesInWholeBundles(t *testing.T) {
	now := time.Now()
	w := newWindow(100)
	var rs []job.Ready
	for i := range 8 {
		ids := job.BundleIDs([16]byte{byte(i)}, 1, 20)
		for k, id := range ids[:20] {
			rs = append(rs, job.Ready{ID: job.ExecutionID(id), Tenant: "default", Partition: 1, Priority: 5, DueAt: now, Group: job.Group{Key: job.GroupKey(k + 1), Max: 9}, Packed: true})
		}
	}
	w.offer([]job.Ready{ready(1, now)}, now)
	w.offer(rs, now)
	if len(w.known) != 101 {
		t.Errorf("it holds %d", len(w.known))
	}
	for i := range rs {
		if (w.known[rs[i].ID] != nil) != (w.known[rs[i/20*20].ID] != nil) {
			t.Errorf("number %d of the bundle %d is not treated as its first", i%20, i/20)
		}
	}
}
