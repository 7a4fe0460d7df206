package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// GoalReport is the result of a benchmark with goals, for programs.
type GoalReport struct {
	Benchmark string         `json:"benchmark"`
	Engine    string         `json:"engine"`
	Version   string         `json:"version"`
	Platform  string         `json:"platform"`
	Cores     int            `json:"cores"`
	Config    map[string]any `json:"config"`
	Measures  []Measure      `json:"measures"`
	Pages     []PageMeasure  `json:"pages,omitempty"` // of the benchmark of pages only
	Seconds   float64        `json:"seconds"`

	Accepted int `json:"accepted"` // instants and executions that were due, or were stored for pages to show
	Lost     int `json:"lost"`
	Doubled  int `json:"doubled"`
	Early    int `json:"early"`

	flows bool // of the benchmark of workflows
	moves bool // of the benchmark of history
}

// Measure is one number, with an upper or lower bound.
type Measure struct {
	Key   string   `json:"key"`
	Name  string   `json:"-"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Goal  *float64 `json:"goal,omitempty"`     // nil: there is none
	Least bool     `json:"at_least,omitempty"` // the goal is a minimum, not a maximum
	Met   *bool    `json:"met,omitempty"`
	Aim   *float64 `json:"aim,omitempty"` // the desired value; nil: there is none
	Hit   *bool    `json:"aim_met,omitempty"`
}

// note adds a measure without a goal.
func (r *GoalReport) note(key, name string, value float64, unit string) {
	r.Measures = append(r.Measures, Measure{Key: key, Name: name, Value: value, Unit: unit})
}

// goal adds a measure that should not exceed a value.
func (r *GoalReport) goal(key, name string, value float64, unit string, most float64) {
	met := value <= most
	r.Measures = append(r.Measures, Measure{Key: key, Name: name, Value: value, Unit: unit, Goal: &most, Met: &met})
}

// most adds a measure that must not exceed a value, and should become less.
func (r *GoalReport) most(key, name string, value float64, unit string, most, aim float64) {
	met, hit := value <= most, value <= aim
	r.Measures = append(r.Measures, Measure{Key: key, Name: name, Value: value, Unit: unit, Goal: &most, Met: &met, Aim: &aim, Hit: &hit})
}

// least adds a measure that must reach a value, and should become more.
func (r *GoalReport) least(key, name string, value float64, unit string, least, aim float64) {
	met, hit := value >= least, value >= aim
	r.Measures = append(r.Measures, Measure{Key: key, Name: name, Value: value, Unit: unit, Goal: &least, Least: true, Met: &met, Aim: &aim, Hit: &hit})
}

// onSQLite reports whether SQLite was measured.
func (r *GoalReport) onSQLite() bool { return strings.HasPrefix(r.Engine, "SQLite") }

// bound returns the words for an upper or a lower bound.
func (m Measure) bound(most, least string) string {
	if m.Least {
		return least
	}
	return most
}

// Missed lists the measures that missed their goal.
type Missed []Measure

func (m Missed) Error() string {
	var all []string
	for _, x := range m {
		all = append(all, fmt.Sprintf("%s is %s %s, %s %s wanted", strings.TrimSpace(x.Name), number(x.Value), x.Unit, x.bound("at most", "at least"), number(*x.Goal)))
	}
	return "goals were missed: " + strings.Join(all, "; ")
}

// Check returns Missed if a goal is missed, and nil otherwise.
func (r GoalReport) Check() error {
	var m Missed
	for _, x := range r.Measures {
		if x.Met != nil && !*x.Met {
			m = append(m, x)
		}
	}
	for _, p := range r.Pages {
		if !p.Met {
			m = append(m, Measure{Name: p.title() + ", p99", Value: p.P99, Unit: "ms", Goal: &p.Goal, Met: &p.Met})
		}
	}
	if m == nil {
		return nil
	}
	return m
}

// number formats a measure: as an integer if it is large.
func number(x float64) string {
	switch {
	case x >= 1000:
		return thousands(int(math.Round(x)))
	case x >= 100 || x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// WriteTable prints the report for people.
func (r GoalReport) WriteTable(w io.Writer, colour bool) error {
	paint := func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nCarillon %s on %s, %s, %s: %s; every commit durable\n\n", r.Version, r.Engine, plural(r.Cores, "core"), r.Platform, r.Benchmark)
	for _, m := range r.Measures {
		line := fmt.Sprintf("  %-52s %10s %-4s", m.Name, number(m.Value), m.Unit)
		judge := func(what string, wanted float64, met bool) {
			mark, code := "✓", "32"
			if !met {
				mark, code = "✗", "31"
			}
			line += fmt.Sprintf(" %s %s %-6s %s", what, m.bound("≤", "≥"), number(wanted), paint(code, mark))
		}
		if m.Goal != nil {
			judge("goal", *m.Goal, *m.Met)
		}
		if m.Aim != nil {
			judge(" aim", *m.Aim, *m.Hit)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	r.writePages(&b, paint)
	text, code := r.verdict()
	fmt.Fprintf(&b, "\n  %s\n\n", paint(code, text))
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict returns the last line, and its colour.
func (r GoalReport) verdict() (text, code string) {
	switch {
	case r.Lost+r.Doubled+r.Early > 0:
		return fmt.Sprintf("LOST %s, DOUBLED %s, EARLY %s of %s", thousands(r.Lost), thousands(r.Doubled), thousands(r.Early), thousands(r.Accepted)), "31"
	case len(r.Pages) > 0:
		return r.answered()
	case r.flows:
		return fmt.Sprintf("lost 0, doubled 0: each of the %s nodes and plain executions succeeded exactly once", thousands(r.Accepted)), "32"
	}
	if r.moves {
		return fmt.Sprintf("lost 0, doubled 0: of %s executions, all that were asked for were found once", thousands(r.Accepted)), "32"
	}
	return fmt.Sprintf("lost 0, doubled 0, early 0: all %s fired and ran exactly once, none before its instant", thousands(r.Accepted)), "32"
}

// measure runs one benchmark over its own store, with a process that keeps little memory.
func measure(ctx context.Context, o Options, name string, run func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error)) (GoalReport, error) {
	return measureOver(ctx, o, name, NewRig, func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error) {
		heap := watchHeap()
		t, err := run(ctx, r, rep)
		most := heap()
		if err == nil {
			rep.goal("rss_mb", "memory of this process, at the most", round(float64(peakMemory())/(1<<20), 1), "MB", goalMemory)
			rep.note("heap_mb", "of it the heap, at the most", round(float64(most)/(1<<20), 1), "MB")
		}
		return t, err
	})
}

// measureOver runs one benchmark over a rig that build makes from its own store.
func measureOver(ctx context.Context, o Options, name string, build func(context.Context, engine.Store, Load) (*Rig, error), run func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error)) (rep GoalReport, err error) {
	rep = GoalReport{Benchmark: name, Cores: runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	began := time.Now()
	store, remove, err := o.Open(ctx)
	if err != nil {
		return rep, err
	}
	defer func() {
		// Clean up after Ctrl-C, too.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, remove(clean))
	}()
	rep.Engine, _, _ = strings.Cut(store.Describe(), " at ")
	rig, err := build(ctx, store, o.Load)
	if err != nil {
		return rep, err
	}
	defer rig.Close()
	t, err := run(ctx, rig, &rep)
	if err != nil {
		return rep, err
	}
	rep.Accepted, rep.Lost, rep.Doubled, rep.Early = t.Accepted, t.Lost, t.Doubled, t.Early
	rep.Seconds = round(time.Since(began).Seconds(), 1)
	if t.Lost+t.Doubled+t.Early > 0 {
		return rep, Wrong{t}
	}
	return rep, nil
}

// watchHeap samples the heap twice a second and returns the peak when asked.
func watchHeap() (most func() uint64) {
	var high atomic.Uint64
	quit, done := make(chan struct{}), make(chan struct{})
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		high.Store(max(high.Load(), m.HeapInuse))
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { close(quit); <-done; return high.Load() }
}

// foresee returns an instant by which n jobs are surely created, at the observed rate.
func foresee(now time.Time, jobs int, perSecond float64) time.Time {
	wait := time.Duration(float64(jobs) / max(perSecond, 1) * 2 * float64(time.Second))
	return now.Add(wait + lookAhead + 3*time.Second).Truncate(time.Second).Add(time.Second)
}

// errSlow means that creating jobs took longer than expected.
var errSlow = errors.New("creating the jobs took longer than foreseen, so that the first instants passed meanwhile: the machine was too busy; try again")

// probe creates a few recurring jobs to measure how fast that is.
func (r *Rig) probe(ctx context.Context, jobs int) (perS float64, err error) {
	n := min(max(jobs/20, r.load.Batch), 20_000)
	began := time.Now()
	var done atomic.Int64
	err = r.loadFar(ctx, everybody.Tenant, n, &done)
	return perSecond(n, began), err
}
