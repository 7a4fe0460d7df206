package app

import (
	"runtime"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 1000, 1 << 20: 1000, 13 << 20: 300, 26 << 20: 100, 52 << 20: 100, 1 << 30: 100} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d bytes in use: %d percent; want %d", live, got, want)
		}
	}
}

func TestAfterCollections(t *testing.T) {
	called := make(chan struct{}, 100)
	afterCollections(func() {
		select {
		case called <- struct{}{}:
		default:
		}
	})
	for n := range 4 { // at once, and after each of some collections
		if n > 0 {
			runtime.GC()
		}
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatalf("not called after collection %d", n)
		}
	}
}

func TestWhatABurstHasLeftBehindIsGivenBack(t *testing.T) {
	given := 0
	now := heap{cycles: 7, live: 30 << 20, held: 90 << 20}
	read := func() heap { return now }
	give := func() { given++; now.cycles++; now.held = now.live + 1<<20 }
	var g giver
	for _, x := range []struct {
		why  string
		as   func()
		want int
	}{
		{"it has just begun to look", func() {}, 0},
		{"nothing was collected since", func() {}, 1},
		{"there is nothing to give", func() {}, 1},
		{"little has gathered", func() { now.held = now.live + worthwhile }, 1},
		{"there is a burst", func() { now.cycles += 5; now.held = 200 << 20 }, 1},
		{"it goes on", func() { now.cycles++ }, 1},
		{"it is over", func() {}, 2},
	} {
		x.as()
		g.look(read, give)
		if given != x.want {
			t.Errorf("%s: memory was given back %d times, want %d", x.why, given, x.want)
		}
	}
	runtime.GC()
	if h := readHeap(); h.cycles == 0 || h.live == 0 || h.held < h.live {
		t.Errorf("the runtime says %+v", h)
	}
}
