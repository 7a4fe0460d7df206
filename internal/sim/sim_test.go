package sim

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "play this seed alone")
	seeds   = flag.Int("sim.seeds", defaultSeeds, "how many seeds to play")
	first   = flag.Uint64("sim.first", 1, "the first seed to play")
	verbose = flag.Bool("sim.v", false, "print the whole history and the log of the product")
)

// template is an empty database with its schema, made once.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Migrate(ctx); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// memory is a folder in memory, if there is one: a disk that is waited for at every commit takes most of the time.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// play plays a seed in a bubble, over a database of its own.
func play(t *testing.T, seed uint64, o Options) (out Result) {
	t.Helper()
	empty, err := template()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(memory(), "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o.Path = filepath.Join(dir, "sim.db")
	if err := os.WriteFile(o.Path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	if *verbose {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	finished := false
	defer func() {
		if !finished {
			fmt.Fprintf(os.Stderr, "seed %d did not come to its end; again with: %s\n", seed, again(seed))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		if out, err = Run(seed, o); err != nil {
			t.Error(err)
		}
	})
	finished = err == nil
	return out
}

// again is the command that plays a seed again.
func again(seed uint64) string {
	return fmt.Sprintf("go test ./internal/sim -run TestSeeds -sim.seed=%d -sim.v -count=20 -failfast", seed)
}

// report fails the test with what was found.
func report(t *testing.T, seed uint64, r Result) {
	t.Helper()
	if *verbose {
		if err := r.History.Write(os.Stderr); err != nil {
			t.Error(err)
		}
	}
	if len(r.Violations) == 0 {
		return
	}
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	t.Errorf("seed %d: %d violations; again with: %s%s", seed, len(r.Violations), again(seed), b.String())
}

// TestSeeds plays many seeds, on as many processors as there are.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		report(t, *oneSeed, play(t, *oneSeed, Options{}))
		return
	}
	var next, executions, faults, longest atomic.Int64
	seen, far := tally{}, resume(t)
	next.Store(int64(far.Next - far.First))
	interrupted, listen := signal.NotifyContext(t.Context(), os.Interrupt)
	defer listen()
	begun := time.Now()
	t.Run("play", func(t *testing.T) {
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= int64(*seeds) && interrupted.Err() == nil; i = next.Add(1) {
					seed := *first + uint64(i) - 1
					r := play(t, seed, Options{})
					if r.History == nil {
						return
					}
					report(t, seed, r)
					far.done(t, seed, r)
					seen.add(r.History)
					executions.Add(int64(r.Executions))
					faults.Add(int64(r.Faults))
					for was := longest.Load(); int64(r.Settled) > was && !longest.CompareAndSwap(was, int64(r.Settled)); was = longest.Load() {
					}
				}
			})
		}
	})
	far.save(t)
	if interrupted.Err() != nil {
		t.Logf("interrupted; the next seed is %d", far.Next)
		return
	}
	if far.Next-*first >= 500 && *progressFile == "" { // with fewer, what is rare may be missing
		seen.complete(t)
	}
	t.Logf("%d seeds in %v: %d executions, %d faults of processes; the last one ended at most %v after the faults",
		*seeds, time.Since(begun).Round(time.Millisecond), executions.Load(), faults.Load(), time.Duration(longest.Load()).Round(time.Second))
	t.Logf("what happened: %s", &seen)
}

// tally counts what happened over many seeds.
type tally struct {
	mu sync.Mutex
	of map[string]int // guarded by mu
}

func (c *tally) add(h *check.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	for _, e := range h.Events() {
		switch {
		case e.Op == check.Leased && e.Group != "":
			c.of["leased of a group"]++
		case e.Op == check.Added && e.Redrive:
			c.of["redriven"]++
		case e.Op == moved:
			c.of[string(e.Op)]++
		case e.Op == check.Act && e.Kind != check.Invoke:
			c.of[string(e.Kind)+" "+e.Tag]++
		case e.Kind == check.Commit && (e.Op == check.RunBecame || e.Op == check.NodeBecame):
			c.of[string(e.Op)+" "+e.Result]++
		case e.Op == check.Ended, e.Op == check.Became:
			c.of[string(e.Op)+" "+e.Result]++
		case e.Kind == check.Commit:
			c.of[string(e.Op)]++
		case e.Kind != check.Final:
			c.of[string(e.Kind)+" "+string(e.Op)]++
		}
	}
}

// complete fails the test unless all that the simulation is for did happen.
func (c *tally) complete(t *testing.T) {
	for _, what := range []string{
		"ended finished", "ended lost", "ended left", "ended disowned", "ended forced", "ended expelled", "ended snoozed", "refused",
		"became EXPIRED", "became SKIPPED", "became SUCCEEDED", "became FAILED", "became TIMED_OUT", "became CANCELLED", "became CANCELLING", "became RETRYING",
		"ok create", "fail create", "unknown create", "ok trigger", "fail trigger", "unknown trigger", "ok cancel", "fail cancel", "ok delete", "ok limited", "ok paused",
		"redriven", "leased of a group", "moved", "parked", "withdrawn", "drawn", "ok change", "ok job paused", "became WAITING", "fault outage", "fault clock", "fault depose", "fault retire", "fault kill", "fault stop", "fault pause", "fault cut", "fault slow",
		"run began", "run again", "node started", "ok approve", "ok cancel", "ok event", "ok mark", "ok pause", "ok retry", "ok skip", "ok unpause", "run became CANCELLED", "run became CANCELLING", "run became FAILED",
		"depends", "taken", "folded", "ok depend",
		"run became PAUSED", "run became SUCCEEDED", "run became TIMED_OUT", "node became NOT_RUN", "node became SKIPPED", "node became TIMED_OUT",
	} {
		if c.of[what] == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

func (c *tally) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.of)) {
		all = append(all, fmt.Sprintf("%s %d", what, c.of[what]))
	}
	return strings.Join(all, ", ")
}
