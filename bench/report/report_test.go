package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func numbers(insert, work, both, p50 float64) *Numbers {
	return &Numbers{InsertPerS: insert, WorkPerS: work, BothPerS: both, IdlePickupMS: Pickup{P50: p50, P99: 2 * p50}, RSSMB: 30}
}

// measured has each target met.
func measured() Measured {
	return Measured{
		{System: Carillon, Runs: 3, Numbers: numbers(30_000, 40_000, 20_000, 1)},
		{System: CarillonSQLite, Runs: 3, Numbers: numbers(15_000, 15_000, 16_000, 0.5)},
		{System: River, Runs: 3, Numbers: numbers(20_000, 10_000, 8000, 2)},
		{System: Graphile, Runs: 2, Numbers: numbers(10_000, 20_000, 5000, 4), Notes: []string{"run 2 failed: no room"}},
		{System: Asynq, Runs: 3, Numbers: numbers(12_000, 9000, 7000, 3)},
	}
}

func TestAnswers(t *testing.T) {
	answers := Answers(measured())
	want := []struct {
		against string
		ratio   float64
	}{{River, 2.5}, {Graphile, 2}, {River, 2}, {River, 1.5}, {River, 0.5}}
	if len(answers) != len(want) {
		t.Fatalf("got %d answers, want %d", len(answers), len(want))
	}
	for i, a := range answers {
		if a.Verdict != Met || a.Against != want[i].against || a.Ratio.Value != want[i].ratio || a.Ratio.Why != "" || a.Note != "" {
			t.Errorf("got %+v, want it met with %+v", a, want[i])
		}
	}
}

func TestAnswersMissed(t *testing.T) {
	m := measured()
	m[0].Numbers = numbers(29_999, 39_999, 15_999, 1.001)
	m[1].Numbers = numbers(1, 1, 15_999, 1)
	for _, a := range Answers(m) {
		if a.Verdict != Missed {
			t.Errorf("%s: got %+v, want it missed by a little", a.Target, a)
		}
	}
}

func TestAnswersWithoutAPeer(t *testing.T) {
	without := func(system, why string) []Answer {
		m := measured()
		for i := range m {
			if m[i].System == system {
				m[i].Numbers, m[i].Missing = nil, why
			}
		}
		return Answers(m)
	}
	for _, a := range without(Carillon, "not built")[:2] {
		if a.Verdict != Unknown || a.Ratio.Why != "carillon: not built" {
			t.Errorf("without Carillon: got %+v", a)
		}
	}
	// The faster of two is unknown when one is missing, whatever the ratio to the other.
	for _, a := range without(Graphile, "no Node.js")[:2] {
		if a.Verdict != Unknown || a.Ratio.Value == 0 || !strings.Contains(a.Note, "graphile: no Node.js") {
			t.Errorf("without Graphile Worker: got %+v", a)
		}
	}
	for _, a := range without(River, "gone")[2:] {
		if a.Verdict != Unknown || !strings.Contains(a.Ratio.Why, "river: gone") {
			t.Errorf("without River: got %+v", a)
		}
	}
	for _, a := range Answers(nil) {
		if a.Verdict != Unknown || !strings.Contains(a.Ratio.Why, "not asked for") {
			t.Errorf("without anything: got %+v", a)
		}
	}
}

func TestRatioOfNothing(t *testing.T) {
	for _, r := range []Ratio{ratio(1, 0), ratio(0, 1), ratio(-1, 1)} {
		if r.Why == "" || r.Value != 0 {
			t.Errorf("got %+v, want a reason and no number", r)
		}
	}
}

func TestTable(t *testing.T) {
	h := Header{Jobs: 50_000, Runs: 3, Payload: 256, Cores: 2, Postgres: "PostgreSQL 15.18"}
	m := measured()
	m[2].Numbers.Settings = "MaxWorkers 200"
	golden(t, "whole.txt", Summarise(h, m))
	m[0].Numbers.BothPerS = 9000
	m[3] = Outcome{System: Graphile, Missing: "there is no Node.js"}
	m[4] = Outcome{System: Asynq, Missing: "run 1 failed: no Redis"}
	golden(t, "gaps.txt", Summarise(h, m))
}

func golden(t *testing.T, name string, f Full) {
	t.Helper()
	var got bytes.Buffer
	if err := f.Table(&got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/"+name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got.Bytes(), want)
	}
}

func TestJSON(t *testing.T) {
	m := measured()
	m[4] = Outcome{System: Asynq, Missing: "no Redis"}
	var out bytes.Buffer
	if err := Summarise(Header{Jobs: 10, Runs: 1}, m).JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got Full
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Systems) != 5 || len(got.Targets) != len(targets) || got.Jobs != 10 {
		t.Errorf("got %+v", got)
	}
	if r := got.Ratios["carillon/river"]["both/s"]; r.Value != 2.5 {
		t.Errorf("carillon/river both/s: got %+v, want 2.5", r)
	}
	if r := got.Ratios["carillon/asynq"]["both/s"]; r.Why != "asynq: no Redis" {
		t.Errorf("carillon/asynq both/s: got %+v, want the reason", r)
	}
	if slices.ContainsFunc(got.Targets, func(a Answer) bool { return a.Verdict != Met }) {
		t.Errorf("no target needs asynq, but one is unmet: %+v", got.Targets)
	}
}
