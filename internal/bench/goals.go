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

	Accepted int `json:"accepted"` // instants and executions that were owed, or were stored for pages to be of
	Lost     int `json:"lost"`
	Doubled  int `json:"doubled"`
	Early    int `json:"early"`
}

// Measure is one number, with the most that it should be.
type Measure struct {
	Key   string   `json:"key"`
	Name  string   `json:"-"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Goal  *float64 `json:"goal,omitempty"` // nil: there is none
	Met   *bool    `json:"met,omitempty"`
}

// note adds a measure without a goal.
func (r *GoalReport) note(key, name string, value float64, unit string) {
	r.Measures = append(r.Measures, Measure{Key: key, Name: name, Value: value, Unit: unit})
}

// goal adds a measure that should be at most so much.
func (r *GoalReport) goal(key, name string, value float64, unit string, most float64) {
	met := value <= most
	r.Measures = append(r.Measures, Measure{key, name, value, unit, &most, &met})
}

// Missed are the measures that are not as they should be.
type Missed []Measure

func (m Missed) Error() string {
	var all []string
	for _, x := range m {
		all = append(all, fmt.Sprintf("%s is %s %s, at most %s wanted", x.Name, number(x.Value), x.Unit, number(*x.Goal)))
	}
	return "goals were missed: " + strings.Join(all, "; ")
}

// Check returns Missed where a goal is not met, and nil otherwise.
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

// number shows a measure: whole if it is large.
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
		line := fmt.Sprintf("  %-44s %12s %-7s", m.Name, number(m.Value), m.Unit)
		switch {
		case m.Goal == nil:
		case *m.Met:
			line += fmt.Sprintf(" goal ≤ %-8s %s", number(*m.Goal), paint("32", "met"))
		default:
			line += fmt.Sprintf(" goal ≤ %-8s %s", number(*m.Goal), paint("31", "MISSED"))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	r.writePages(&b, paint)
	text, code := r.verdict()
	fmt.Fprintf(&b, "\n  %s\n\n", paint(code, text))
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict is the last line, and its colour.
func (r GoalReport) verdict() (text, code string) {
	switch {
	case r.Lost+r.Doubled+r.Early > 0:
		return fmt.Sprintf("LOST %s, DOUBLED %s, EARLY %s of %s", thousands(r.Lost), thousands(r.Doubled), thousands(r.Early), thousands(r.Accepted)), "31"
	case len(r.Pages) > 0:
		return r.answered()
	}
	return fmt.Sprintf("lost 0, doubled 0, early 0: all %s fired and ran exactly once, none before its instant", thousands(r.Accepted)), "32"
}

// measure runs one benchmark over a store of its own, whose process has to do with little memory.
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

// measureOver runs one benchmark over a rig that build makes of a store of its own.
func measureOver(ctx context.Context, o Options, name string, build func(context.Context, engine.Store, Load) (*Rig, error), run func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error)) (rep GoalReport, err error) {
	rep = GoalReport{Benchmark: name, Cores: runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	began := time.Now()
	store, remove, err := o.Open(ctx)
	if err != nil {
		return rep, err
	}
	defer func() {
		// Also after Ctrl-C: what was made is removed.
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

// watchHeap looks at the heap twice a second until it is asked for the most that it has seen.
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

// foresee is an instant by which so many jobs are surely created, at a rate that was seen.
func foresee(now time.Time, jobs int, perSecond float64) time.Time {
	wait := time.Duration(float64(jobs) / max(perSecond, 1) * 2 * float64(time.Second))
	return now.Add(wait + lookAhead + 3*time.Second).Truncate(time.Second).Add(time.Second)
}

// errSlow says that creating took longer than foreseen.
var errSlow = errors.New("creating the jobs took longer than foreseen, so that the first instants passed meanwhile: the machine was too busy; try again")

// probe creates a few recurring jobs, to see how fast that goes.
func (r *Rig) probe(ctx context.Context, jobs int) (perS float64, err error) {
	n := min(max(jobs/20, r.load.Batch), 20_000)
	began := time.Now()
	var done atomic.Int64
	err = r.loadFar(ctx, everybody.Tenant, n, &done)
	return perSecond(n, began), err
}
