// Package watchdog ends a test run when one of its tests cannot finish, with the name of the test and what every
// goroutine waits for. Fixtures that tests share call Watch, so that tests need not. It is for tests only.
//
// A test that has taken a minute cannot finish if its process has done next to nothing for a minute: even on a busy
// machine a working test makes some progress. One that stays busy forever is ended later.
package watchdog

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	idleLimit  = time.Minute
	idleWork   = 300 * time.Millisecond // of CPU time in idleLimit, or less: next to nothing
	shortLimit = 5 * time.Minute
	longLimit  = 20 * time.Minute // without -short
	raceFactor = 5
)

// entry is a running test.
type entry struct {
	name       string
	idle, busy time.Duration // what it may take
	begun      time.Time     // by the clock of the watching goroutine; zero until it has seen the test
}

var (
	mu    sync.Mutex
	under = map[*entry]bool{} // guarded by mu
)

// The watching goroutine belongs to no test, so it uses the real clock even if a test is in a bubble.
func init() {
	go func() {
		worked, since := CPU(), time.Now()
		for now := range time.Tick(250 * time.Millisecond) {
			if u := CPU(); u-worked > idleWork {
				worked, since = u, now
			}
			if x, why := overdue(now, now.Sub(since)); x != nil {
				fmt.Fprintf(os.Stderr, "watchdog: %s %s; this is where it and all others stand:\n\n%s\n", x.name, why, stacks())
				os.Exit(2)
			}
		}
	}()
}

// Watch ends the whole run, with a reason, if the test cannot finish.
func Watch(t testing.TB) {
	limit := longLimit
	if testing.Short() {
		limit = shortLimit
	}
	watch(t, idleLimit, Allow(limit))
}

// Allow returns a limit of time for this build: a longer one with the race detector.
func Allow(limit time.Duration) time.Duration {
	if race {
		return limit * raceFactor
	}
	return limit
}

func watch(t testing.TB, idle, busy time.Duration) {
	x := &entry{name: t.Name(), idle: idle, busy: busy}
	mu.Lock()
	defer mu.Unlock()
	under[x] = true
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		delete(under, x)
	})
}

// overdue finds a test that cannot finish, in a process that has been idle for a time.
func overdue(now time.Time, idle time.Duration) (*entry, string) {
	mu.Lock()
	defer mu.Unlock()
	for x := range under {
		if x.begun.IsZero() {
			x.begun = now
		}
		switch took := now.Sub(x.begun); {
		case took > x.busy:
			return x, fmt.Sprintf("has not finished in %v", x.busy)
		case took > x.idle && idle > x.idle:
			return x, fmt.Sprintf("has not finished in %v, and nothing has happened for %v", took.Round(time.Second), x.idle)
		}
	}
	return nil, ""
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	buf := make([]byte, 4<<20)
	return buf[:runtime.Stack(buf, true)]
}
