package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i)*time.Millisecond)
	}
	if got, want := *quantiles(all), (Quantiles{500, 990, 999}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := *quantiles(all[:1]), (Quantiles{1, 1, 1}); got != want {
		t.Errorf("of one: got %v, want %v", got, want)
	}
	if got := *quantiles(nil); got != (Quantiles{}) {
		t.Errorf("of none: got %v", got)
	}
}

func TestPayload(t *testing.T) {
	for n, want := range []string{"", "1", `""`, `"x"`} {
		if got := string(Payload(n)); got != want {
			t.Errorf("%d bytes: got %q, want %q", n, got, want)
		}
	}
	if got := len(Payload(256)); got != 256 {
		t.Errorf("got %d bytes, want 256", got)
	}
}

func TestHighWater(t *testing.T) {
	for status, want := range map[string]uint64{
		"Name:\tcarillon\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n": 2 << 20,
		"Name:\tcarillon\n":      0,
		"VmHWM:\t many kB\n":     0,
		"":                       0,
		"VmHWM:\t2048 kB more\n": 0,
	} {
		if got := highWater([]byte(status)); got != want {
			t.Errorf("%q: got %d, want %d", status, got, want)
		}
	}
	if peakMemory() == 0 {
		t.Error("this process uses no memory")
	}
}

func TestTable(t *testing.T) {
	r := Report{
		Engine: "SQLite 3.53.4", Version: "v1", Platform: "linux/amd64", Cores: 1, InsertPerS: 17161.4, WorkPerS: 24012, BothPerS: 999,
		SinglePerS: 8207, SingleMS: &Quantiles{23.04, 144.4, 145.8}, IdlePickupMS: &Quantiles{0.794, 5.59, 8.07},
		AtRate: &AtRate{Rate: 1000, ReachedPerS: 998, P50: 6.33, P99: 28.7, P999: 36.7}, RSSMB: 76.4, Accepted: 325210,
		Config: Config{Jobs: 100_000, Batch: 1000, Payload: 256, Slots: 8, Callers: 200, Samples: 200},
	}
	const want = `
Carillon v1 on SQLite 3.53.4, 1 core, linux/amd64
100 000 jobs of 256 bytes in batches of 1 000, 8 slots; every commit durable

  insert                    17 161 jobs/s
  work                      24 012 jobs/s
  insert and work              999 jobs/s
  insert one by one          8 207 jobs/s   p50    23.0 ms   p99     144 ms   p99.9     146 ms   200 callers
  pickup when idle                          p50    0.79 ms   p99    5.59 ms   p99.9    8.07 ms   200 samples
  pickup at 1 000/s            998 jobs/s   p50    6.33 ms   p99    28.7 ms   p99.9    36.7 ms
  memory                        76 MB       of this process, at the most

  lost 0, doubled 0: all 325 210 executions succeeded exactly once

`
	var b strings.Builder
	if err := r.WriteTable(&b, false); err != nil || b.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), want)
	}
	b.Reset()
	err := Report{Engine: "SQLite", Accepted: 1000, Lost: 3, Doubled: 1}.WriteTable(&b, true)
	if err != nil || !strings.Contains(b.String(), "\x1b[31mLOST 3, DOUBLED 1 of 1 000 executions\x1b[0m") || strings.Contains(b.String(), "jobs/s") {
		t.Errorf("got %v\n%s", err, b.String())
	}
}

// screen keeps what was written, for two goroutines.
type screen struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		b := &Bar{Out: &out}
		b.Begin("work", 3000, func() int { return 1500 })
		<-time.After(1050 * time.Millisecond)
		b.End()
		got := strings.Split(out.text.String(), wipe)
		if len(got) < 12 || got[1] != "  work      ███████████████░░░░░░░░░░░░░░░ 1 500 of 3 000" || got[11] != got[1]+"  1 500/s" || got[len(got)-1] != "" {
			t.Errorf("got %q", got)
		}
	})
	if got, want := (&Bar{Colour: true}).line("n", 0, 5, time.Hour), "  n         \x1b[36m"+strings.Repeat("█", 30)+"\x1b[0m 0 of 0"; got != want {
		t.Errorf("of nothing: got %q, want %q", got, want)
	}
}

// told is a store that says what it is told to about one execution.
type told struct {
	engine.Store
	stats job.Stats
	lost  int
}

func (s told) Stats(context.Context, tenant.ID, []job.ID) ([]job.Stats, error) {
	return []job.Stats{s.stats}, nil
}

func (s told) Execution(context.Context, tenant.ID, job.ExecutionID) (job.Execution, error) {
	return job.Execution{Lost: s.lost}, nil
}

func TestCheck(t *testing.T) {
	ok := job.Stats{Total: 1, Succeeded: 1}
	for name, c := range map[string]struct {
		store      told
		runs, ends int
		stranger   bool
		want       Tally
	}{
		"once":                            {store: told{stats: ok}, runs: 1, ends: 1, want: Tally{Accepted: 1, Lost: 0, Doubled: 0}},
		"twice, for a lease was lost":     {store: told{stats: ok, lost: 1}, runs: 2, ends: 1, want: Tally{Accepted: 1, Lost: 0, Doubled: 0}},
		"twice, for no reason":            {store: told{stats: ok}, runs: 2, ends: 1, want: Tally{Accepted: 1, Lost: 0, Doubled: 1}},
		"ended twice":                     {store: told{stats: ok}, runs: 1, ends: 2, want: Tally{Accepted: 1, Lost: 0, Doubled: 1}},
		"two executions in the store":     {store: told{stats: job.Stats{Total: 2, Succeeded: 2}}, runs: 1, ends: 1, want: Tally{Accepted: 1, Lost: 0, Doubled: 1}},
		"never":                           {want: Tally{Accepted: 1, Lost: 1, Doubled: 0}},
		"ended as failed":                 {store: told{stats: job.Stats{Total: 1}}, runs: 1, want: Tally{Accepted: 1, Lost: 1, Doubled: 0}},
		"run twice and lost":              {runs: 2, want: Tally{Accepted: 1, Lost: 1, Doubled: 1}},
		"one that nobody asked for, also": {store: told{stats: ok}, runs: 1, ends: 1, stranger: true, want: Tally{Accepted: 1, Lost: 0, Doubled: 1}},
	} {
		l := newLedger()
		l.accept("t", service.NewJob{Job: &job.Job{}, Execution: job.ExecutionID{1}})
		for range c.runs {
			l.begin(job.ExecutionID{1}, time.Now())
		}
		for range c.ends {
			l.end(job.ExecutionID{1})
		}
		if c.stranger {
			l.begin(job.ExecutionID{2}, time.Now())
		}
		if got, err := l.check(t.Context(), c.store); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestWaitingEndsWhereNothingDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.accept("t", slices.Repeat([]service.NewJob{{Job: &job.Job{}}}, 3)...)
		go func() {
			<-time.After(50 * time.Second)
			l.begin(job.ExecutionID{1}, time.Now())
			l.end(job.ExecutionID{1})
			l.tell()
			<-time.After(20 * time.Second)
			l.tell() // of a report that ended nothing
		}()
		began := time.Now()
		if all, err := l.wait(t.Context(), time.Minute); all || err != nil || time.Since(began) != 110*time.Second {
			t.Errorf("got %v, %v after %v; want a minute after the last end", all, err, time.Since(began))
		}
		l.begin(job.ExecutionID{2}, time.Now())
		l.begin(job.ExecutionID{3}, time.Now())
		l.end(job.ExecutionID{2})
		l.end(job.ExecutionID{2}) // counts once
		l.end(job.ExecutionID{4}) // never began
		if l.tell(); l.done() || l.ended.Load() != 2 {
			t.Errorf("%d of 3 have ended, want 2", l.ended.Load())
		}
		l.end(job.ExecutionID{3})
		if all, err := l.wait(t.Context(), time.Minute); !all || err != nil {
			t.Errorf("got %v, %v, want all", all, err)
		}
	})
}

// Of turns the one with the median share counts, whole: numbers of two turns say nothing of each other.
func TestMedianOfTurns(t *testing.T) {
	turns := []Report{{BothPerS: 60, LimitsPerS: 50}, {BothPerS: 90, LimitsPerS: 45}, {BothPerS: 80, LimitsPerS: 64}}
	for range turns {
		if got := median(turns); got.BothPerS != 80 || got.LimitsPerS != 64 {
			t.Errorf("of %+v: %v and %v, want 80 and 64", turns, got.BothPerS, got.LimitsPerS)
		}
		turns = append(turns[1:], turns[0])
	}
}

// Phases that are compared begin in turns, and what is told is the turn that counts, not the last.
func TestTakeTurns(t *testing.T) {
	limits := []float64{80, 90, 50} // of 100
	var order []string
	var rep Report
	err := takeTurns([]phase{{names: []string{"both"}}, {names: []string{"limits"}}}, Options{}, &rep, func(p phase, _ Options) error {
		if order = append(order, p.names[0]); p.names[0] == "both" {
			rep.BothPerS, rep.BothCost = 100, &Cost{Process: float64(len(order))}
		} else {
			rep.LimitsPerS, rep.LimitsCost = limits[(len(order)-1)/2], &Cost{Process: float64(len(order))}
		}
		return nil
	})
	if want := []string{"both", "limits", "limits", "both", "both", "limits"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("ran %v, %v; want %v", order, err, want)
	}
	if rep.Turns != 3 || rep.BothPerS != 100 || rep.LimitsPerS != 80 || rep.BothCost.Process != 1 || rep.LimitsCost.Process != 2 {
		t.Errorf("told of %+v, want the first turn", rep)
	}
}
