//go:build unix

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// soundFleet is a run in which one job of each kind went well.
func soundFleet() *fleet {
	f := &fleet{tenants: []string{"a", "b"}, jobs: newLedger(), target: &target{calls: map[string][]called{}}, trails: newTrails()}
	f.found.tenant = map[string]int{}
	for i, id := range []string{"x", "y"} {
		f.jobs.kept["job-"+id] = &promised{tag: id, tenant: 0}
		f.found.all = append(f.found.all, client.Execution{ExecutionID: id, JobID: "job-" + id, JobName: "once", Status: "SUCCEEDED"})
		f.found.tenant[id] = 0
		at := time.Duration(i) * time.Minute
		f.target.calls[id] = []called{{at: at, until: at + time.Minute, token: 1, key: "k", asks: &asks{Tenant: "a", Group: "g", Max: 1, Paused: true}}}
	}
	f.found.flows = []flowed{{run: client.WorkflowRun{WorkflowRunID: "r", Status: "SUCCEEDED", Attempt: 1}, nodes: map[string][]client.Execution{}}}
	f.jobs.flows["r"] = &promised{tag: "r"}
	for i, id := range []string{"a", "m", "m", "m", "z"} {
		e := client.Execution{ExecutionID: fmt.Sprint("r", i), Status: "SUCCEEDED"}
		f.found.flows[0].nodes[id] = append(f.found.flows[0].nodes[id], e)
		f.target.calls[e.ExecutionID] = []called{{at: time.Duration(i) * time.Minute, asks: &asks{}}}
	}
	return f
}

// The verdict on a fleet is itself checked: each of these is wrong, and it says so.
func TestTheVerdictTurnsRed(t *testing.T) {
	judged := func(f *fleet) string {
		f.once()
		f.flows()
		f.called()
		f.limited()
		f.paused()
		return strings.Join(f.wrong, "\n")
	}
	if wrong := judged(soundFleet()); wrong != "" {
		t.Fatalf("a sound run: %s", wrong)
	}
	for say, spoil := range map[string]func(*fleet){
		"I1: job job-x (x) was accepted and is gone": func(f *fleet) { f.found.all = f.found.all[1:] },
		"I3: job job-x (x) was fired 2 times":        func(f *fleet) { f.found.all = append(f.found.all, f.found.all[0]) },
		"I3: job job-x is there, and no request":     func(f *fleet) { delete(f.jobs.kept, "job-x") },
		"I11: job job-x is of tenant b":              func(f *fleet) { f.jobs.kept["job-x"].tenant = 1 },
		"I11: execution x of a called with":          func(f *fleet) { f.target.calls["x"][0].asks.Tenant = "b" },
		"I12: execution x of x is RUNNING":           func(f *fleet) { f.found.all[0].Status = "RUNNING" },
		"I3: execution x was skipped, and called":    func(f *fleet) { f.found.all[0].Status = "SKIPPED" },
		"I2: run r (r) was acknowledged and is gone": func(f *fleet) { f.found.flows = nil },
		"I3: run r is there, and no request":         func(f *fleet) { f.found.flows = append(f.found.flows, f.found.flows[0]) },
		"I11: run r is of tenant b":                  func(f *fleet) { f.jobs.flows["r"].tenant = 1 },
		"I12: run r of r is RUNNING":                 func(f *fleet) { f.found.flows[0].run.Status = "RUNNING" },
		"I2: node m of run r has 2 executions":       func(f *fleet) { f.found.flows[0].nodes["m"] = f.found.flows[0].nodes["m"][1:] },
		"I3: execution r0 is of node":                func(f *fleet) { f.found.flows[0].nodes["z"] = f.found.flows[0].nodes["a"] },
		"I12: execution r4, node z of run r":         func(f *fleet) { f.found.flows[0].nodes["z"][0].Status = "FAILED" },
		"I9: node m of run r called at 0s":           func(f *fleet) { f.target.calls["r1"][0].at, f.target.calls["r0"][0].at = 0, time.Second },
		"I8: limit: 2 hold a/g at once":              func(f *fleet) { f.target.calls["y"][0].at = time.Second },
		"execution y was called 40s after":           func(f *fleet) { f.jobs.pauses = []pause{{from: 20 * time.Second, to: 2 * time.Minute}} },
	} {
		f := soundFleet()
		spoil(f)
		if wrong := judged(f); !strings.Contains(wrong, say) {
			t.Errorf("want %q, got:\n%s", say, wrong)
		}
	}
}

func TestGrowthIsNotFlat(t *testing.T) {
	life := func(rss, goroutines func(i int) float64) []growth {
		s := &samples{of: map[string][]sample{}, names: []string{"server 1"}}
		for i := range 60 {
			s.of["server 1"] = append(s.of["server 1"], sample{time.Duration(i) * 5 * time.Second, rss(i), goroutines(i)})
		}
		return s.growth()
	}
	warmUp := func(i int) float64 { return 100 + min(float64(i), 15)*4 }
	leak := func(i int) float64 { return 100 + float64(i)*4 }
	for _, c := range []struct {
		name            string
		rss, goroutines func(int) float64
		says            string
	}{
		{"flat after its warm-up", warmUp, warmUp, ""},
		{"memory grows", leak, warmUp, "the memory of server 1 grew from 220 to 300 MB"},
		{"goroutines grow", warmUp, func(i int) float64 { return leak(2 * i) }, "the goroutines of server 1 grew"},
	} {
		g := life(c.rss, c.goroutines)
		if len(g) != 1 || !strings.HasPrefix(g[0].flat(), c.says) || c.says == "" && g[0].flat() != "" {
			t.Errorf("%s: got %+v: %s", c.name, g, g[0].flat())
		}
	}
}
