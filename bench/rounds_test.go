package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/bench/report"
)

// TestMain makes this program a fake of every measured one when it is asked to.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_FAKE") {
	case "":
		os.Exit(m.Run())
	case "good":
		fmt.Println(`{"engine":"fake","insert_per_s":1,"work_per_s":2,"both_per_s":3,"idle_pickup_ms":{"p50":4,"p99":5},"rss_mb":6,"lost":0,"doubled":0}`)
	case "bad":
		fmt.Fprintln(os.Stderr, "Error: unknown command\n  \"bench\"")
		os.Exit(3)
	case "hang":
		select {}
	}
}

func TestOutput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("BENCH_FAKE", "good")
	text, err := output(t.Context(), time.Minute, []string{self})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := report.Parse(text); err != nil || n.Engine != "fake" || n.BothPerS != 3 {
		t.Errorf("got %+v, %v", n, err)
	}
	t.Setenv("BENCH_FAKE", "bad")
	if _, err := output(t.Context(), time.Minute, []string{self}); err == nil || !strings.Contains(err.Error(), `exit status 3: Error: unknown command "bench"`) {
		t.Errorf("got %v, want the exit code and the complaint", err)
	}
	t.Setenv("BENCH_FAKE", "hang")
	if _, err := output(t.Context(), 100*time.Millisecond, []string{self}); err == nil || !strings.Contains(err.Error(), "did not end in 100ms") {
		t.Errorf("got %v, want that it did not end", err)
	}
}

func systems(names ...string) []system {
	var all []system
	for _, name := range names {
		all = append(all, system{name: name, missing: func() string { return "" }})
	}
	return all
}

func TestRoundsTakeTurns(t *testing.T) {
	var order []string
	once := func(_ context.Context, sys system, _ int, _ []string) (report.Numbers, error) {
		order = append(order, sys.name)
		return report.Numbers{BothPerS: float64(len(order))}, nil
	}
	m, err := rounds(t.Context(), settings{runs: 3, jobs: 10}, systems("a", "b", "c"), once, io.Discard)
	if want := strings.Split("a b c b c a c a b", " "); err != nil || !slices.Equal(order, want) {
		t.Errorf("got %v, %v, want %v", order, err, want)
	}
	if m[0].Runs != 3 || m[0].Numbers.BothPerS != 6 {
		t.Errorf("got %+v, want the median 6 of 1, 6 and 8", m[0].Numbers)
	}
}

func TestRoundsNameWhatIsMissing(t *testing.T) {
	all := systems("flaky", "broken", "absent")
	all[2].missing = func() string { return "not here" }
	runs := 0
	once := func(_ context.Context, sys system, _ int, _ []string) (report.Numbers, error) {
		if runs++; sys.name == "absent" {
			t.Error("what is absent was run")
		}
		if sys.name == "broken" || runs < 3 {
			return report.Numbers{}, errors.New("boom")
		}
		return report.Numbers{}, nil
	}
	var progress strings.Builder
	m, err := rounds(t.Context(), settings{runs: 2, jobs: 10}, all, once, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if m[0].Numbers == nil || m[0].Runs != 1 || len(m[0].Notes) != 1 || m[0].Missing != "" {
		t.Errorf("flaky: got %+v, want one run and a note", m[0])
	}
	if m[1].Numbers != nil || m[1].Missing != "run 1 failed: boom; run 2 failed: boom" {
		t.Errorf("broken: got %+v, want both reasons", m[1])
	}
	if m[2].Numbers != nil || m[2].Missing != "not here" || !strings.Contains(progress.String(), "absent: SKIPPED: not here") {
		t.Errorf("absent: got %+v and %q, want the reason", m[2], progress.String())
	}
}

func TestRoundsStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	once := func(context.Context, system, int, []string) (report.Numbers, error) {
		cancel()
		return report.Numbers{}, ctx.Err()
	}
	if _, err := rounds(ctx, settings{runs: 2, jobs: 10}, systems("a"), once, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestTuningKeepsTheBest(t *testing.T) {
	all := systems("a")
	all[0].variants = [][]string{{"poor"}, {"best"}, {"broken"}, {"fair"}}
	var calls []string
	once := func(_ context.Context, _ system, jobs int, more []string) (report.Numbers, error) {
		calls = append(calls, fmt.Sprint(more, jobs))
		rate := map[string]float64{"poor": 1, "best": 3, "fair": 2}[more[0]]
		if rate == 0 {
			return report.Numbers{}, errors.New("boom")
		}
		return report.Numbers{InsertPerS: rate, WorkPerS: rate, BothPerS: rate}, nil
	}
	m, err := rounds(t.Context(), settings{runs: 1, jobs: 10, tune: true}, all, once, io.Discard)
	if want := []string{"[poor] 5", "[best] 5", "[broken] 5", "[fair] 5", "[best] 10"}; err != nil || !slices.Equal(calls, want) {
		t.Errorf("got %v, %v, want %v", calls, err, want)
	}
	if m[0].Numbers.WorkPerS != 3 {
		t.Errorf("got %+v, want the best", m[0].Numbers)
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("CARILLON_BENCH_POSTGRES", "postgres://x")
	s, err := parse([]string{"-systems", "river,carillon", "-jobs", "7", "-o", "json"}, io.Discard)
	if err != nil || s.jobs != 7 || s.runs != 3 || len(systemsFor(s)) != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"-jobs=0", "-runs=0", "-limit=1ms", "-o=xml", "-systems=rivr", "-systems=", "-redis-fsync=never", "more"} {
		name := strings.TrimLeft(strings.Split(bad, "=")[0], "-")
		if _, err := parse([]string{bad}, io.Discard); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: got %v, want an error that names it and what would be right", bad, err)
		}
	}
	t.Setenv("CARILLON_BENCH_POSTGRES", "")
	if _, err := parse(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "CARILLON_BENCH_POSTGRES") {
		t.Errorf("got %v, want the name of the variable", err)
	}
}

func TestEverySystemSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	empty := t.TempDir()
	s := settings{systems: everySystem, carillon: filepath.Join(empty, "carillon"), graphile: empty}
	for _, sys := range systemsFor(s) {
		if why := sys.missing(); (why == "") != (sys.name == report.River) {
			t.Errorf("%s: got %q; only River needs nothing", sys.name, why)
		}
	}
}

func TestNodeVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"v22.18.0\n": true, "v22.19.1": true, "v24.0.0": true, "v22.17.9": false, "v20.20.2": false, "": false, "node": false,
	} {
		if got := newEnough(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}

func TestMeasureRefusesOtherPeers(t *testing.T) {
	for _, args := range [][]string{nil, {"rivr"}, {"river"}, {"river", "-database", "x", "-jobs", "0"}} {
		if err := child(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}
