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
