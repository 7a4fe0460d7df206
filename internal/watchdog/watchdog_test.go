package watchdog

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hangs says that this process is the one whose test cannot finish.
const hangs = "CARILLON_WATCHDOG_HANGS"

// A test that cannot finish ends its run with its name and with what it waits for, whether it waits or keeps busy.
func TestATestThatCannotFinish(t *testing.T) {
	ways := map[string]struct {
		idle, busy time.Duration
		hang       func()
		why, where string
	}{
		"it waits":      {time.Second, time.Hour, waitsForNobody, "and nothing has happened for 1s", "watchdog.waitsForNobody"},
		"it keeps busy": {time.Hour, time.Second, neverEnds, "has not finished in 1s", "watchdog.neverEnds"},
	}
	if way, ok := ways[os.Getenv(hangs)]; ok {
		watch(t, way.idle, way.busy)
		way.hang()
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestATestThatCannotFinish$", "-test.timeout=50s")
			c.Env = append(os.Environ(), hangs+"="+name)
			said, err := c.CombinedOutput()
			if err == nil {
				t.Fatal("it passed")
			}
			for _, want := range []string{"watchdog: TestATestThatCannotFinish has not finished in ", way.why, way.where} {
				if !strings.Contains(string(said), want) {
					t.Errorf("%q is not in what it said:\n%s", want, said)
				}
			}
		})
	}
}

func waitsForNobody() { <-make(chan struct{}) }

func neverEnds() {
	for {
		time.Sleep(time.Microsecond)
	}
}

// The hours of a bubble are not the test's.
func TestATestWithItsOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch(t, time.Minute, 10*time.Minute)
		time.Sleep(time.Hour)
	})
	if x, _ := overdue(time.Now(), time.Hour); x != nil {
		t.Errorf("%s is watched", x.name)
	}
}

// A test may take long while it gets somewhere, and is not watched any more once it has finished.
func TestATestThatFinishes(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		watch(t, time.Minute, time.Hour)
		now := time.Now()
		for _, c := range []struct{ took, idle time.Duration }{{0, time.Hour}, {30 * time.Minute, 59 * time.Second}} {
			if _, why := overdue(now.Add(c.took), c.idle); why != "" {
				t.Errorf("after %v, idle for %v: %s", c.took, c.idle, why)
			}
		}
	})
	if x, _ := overdue(time.Now().Add(24*time.Hour), 0); x != nil {
		t.Errorf("%s is watched", x.name)
	}
}
