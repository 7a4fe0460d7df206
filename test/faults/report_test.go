//go:build unix

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is the result of a run.
type report struct {
	What       string      `json:"what"`
	Title      string      `json:"-"`
	Seed       uint64      `json:"seed"`
	Again      string      `json:"again"`
	Day        string      `json:"day"`
	Machine    string      `json:"machine"`
	Servers    int         `json:"servers"`
	Workers    int         `json:"workers"`
	Tenants    int         `json:"tenants"`
	Lease      string      `json:"lease"`
	Seconds    float64     `json:"seconds"`
	Capacity   float64     `json:"capacity_per_second,omitempty"`
	Asked      float64     `json:"asked_per_second"`
	Held       float64     `json:"ended_per_second"`
	Jobs       int         `json:"jobs_accepted"`
	Requests   int         `json:"requests"`
	Unanswered int         `json:"requests_without_an_answer_that_tells"`
	Executions int         `json:"executions"`
	Owed       int         `json:"instants_owed"`
	Runs       int         `json:"workflow_runs"`
	Nodes      int         `json:"workflow_nodes"`
	Calls      int         `json:"calls_at_the_target"`
	Twice      int         `json:"executions_called_again"`
	Cancels    int         `json:"cancels"`
	Refused    int         `json:"stale_results_refused"`
	Judged     int         `json:"executions_judged"`
	Recorded   int         `json:"calls_recorded"`
	Unknown    int         `json:"calls_without_an_answer"`
	Faults     []faultKind `json:"faults"`
	Promise    float64     `json:"promise_seconds"`
	Settled    float64     `json:"settled_seconds"`
	Memory     []growth    `json:"memory,omitempty"`
	Lost       int         `json:"lost"`
	Doubled    int         `json:"doubled"`
	Stale      int         `json:"stale_accepted"`
	Wrong      []string    `json:"wrong"`
}

// faultKind counts how faults of one kind went.
type faultKind struct {
	Kind     string `json:"kind"`
	Times    int    `json:"times"`
	Recovery struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"recovery_seconds"`
}

func (f *fleet) report(what, again string) report {
	took := f.quiet - f.began
	r := report{
		What: what, Title: map[string]string{"nemesis": "A run of the nemesis", "soak": "A soak"}[what], Seed: f.seed, Again: again, Day: time.Now().UTC().Format(time.DateOnly), Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.GOARCH),
		Servers: len(f.servers), Workers: len(f.workers), Tenants: len(f.tenants), Lease: f.lease.String(), Seconds: took.Seconds(), Capacity: f.capacity, Asked: f.plan.rate,
		Held: float64(f.done) / took.Seconds(), Jobs: len(f.jobs.kept), Requests: f.jobs.tries, Unanswered: f.jobs.lost, Executions: len(f.found.all), Owed: f.found.owed, Runs: len(f.found.flows), Nodes: len(f.found.nodes),
		Calls: f.target.total, Twice: f.found.again, Cancels: len(f.jobs.cancels), Refused: f.trails.refused, Judged: f.found.judged, Recorded: f.found.calls, Unknown: f.trails.unknown,
		Promise: f.promise().Seconds(), Settled: f.found.settled.Seconds(), Lost: f.found.lost, Doubled: f.found.doubled, Stale: f.found.stale, Wrong: f.wrong,
	}
	if f.samples != nil {
		r.Memory = f.samples.growth()
	}
	by := map[string][]float64{}
	for _, x := range f.faults {
		by[x.Kind] = append(by[x.Kind], x.Recovery.Seconds())
		by["all"] = append(by["all"], x.Recovery.Seconds())
	}
	for _, b := range append(slices.Clone(blows), kindOfFault{kind: "all"}) {
		if s := by[b.kind]; len(s) > 0 {
			slices.Sort(s)
			k := faultKind{Kind: b.kind, Times: len(s)}
			k.Recovery.P50, k.Recovery.P99, k.Recovery.Max = s[len(s)/2], s[min(len(s)-1, len(s)*99/100)], s[len(s)-1]
			r.Faults = append(r.Faults, k)
		}
	}
	return r
}

// String is the report for people, as Markdown.
func (r report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s\n", r.Title)
	line("Written by the run itself; [testing](testing.md#the-simulations-twin-real-processes) says what it does.\n")
	line("`%s`, %s, %s: %d servers and %d workers over one PostgreSQL, %d tenants, leases of %s, %.0f s.", r.Again, r.Day, r.Machine, r.Servers, r.Workers, r.Tenants, r.Lease, r.Seconds)
	line("")
	line("| what | |")
	line("| --- | --- |")
	if r.Capacity > 0 {
		line("| executions a second, without faults and with all that it could do | %.0f |", r.Capacity)
	}
	line("| jobs asked for, a second | %.0f |", r.Asked)
	line("| results taken a second, with faults | %.0f |", r.Held)
	line("| jobs accepted · requests · of these without an answer that tells | %d · %d · %d |", r.Jobs, r.Requests, r.Unanswered)
	line("| executions · instants owed by recurring jobs | %d · %d |", r.Executions, r.Owed)
	line("| runs of workflows · executions of their nodes | %d · %d |", r.Runs, r.Nodes)
	line("| calls at the target · executions called again, each with a recorded reason | %d · %d |", r.Calls, r.Twice)
	line("| executions that were asked to stop · stale results refused | %d · %d |", r.Cancels, r.Refused)
	line("| executions judged by porcupine · calls of workers and users in these · without an answer | %d · %d · %d |", r.Judged, r.Recorded, r.Unknown)
	line("| all ended after the last fault | %.1f s |", r.Settled)
	line("| **lost · doubled · stale accepted** | **%d · %d · %d** |", r.Lost, r.Doubled, r.Stale)
	line("")
	line("Recovery: until all that was owed flows again, %.0f s at the most.", r.Promise)
	line("")
	line("| fault | times | p50 | p99 | max |")
	line("| --- | --- | --- | --- | --- |")
	for _, k := range r.Faults {
		line("| %s | %d | %.1f s | %.1f s | %.1f s |", k.Kind, k.Times, k.Recovery.P50, k.Recovery.P99, k.Recovery.Max)
	}
	if len(r.Memory) > 0 {
		line("")
		line("%s", flatRule)
		line("")
		line("| process | for | memory, middle third | last third | goroutines, middle third | last third |")
		line("| --- | --- | --- | --- | --- | --- |")
		for _, g := range r.Memory {
			line("| %s | %.0f s | %.0f MB | %.0f MB | %.0f | %.0f |", g.Name, g.Seconds, g.Before, g.After, g.GoBefore, g.GoAfter)
		}
	}
	for _, w := range r.Wrong {
		line("\n- %s", w)
	}
	return b.String()
}

// publish prints the report, and keeps it where it is wanted.
func (f *fleet) publish(what, again string) {
	f.Helper()
	r := f.report(what, again)
	f.Log("\n" + r.String())
	if *reportTo == "" {
		return
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(*reportTo, 0o755)
	}
	for name, b := range map[string][]byte{what + ".json": append(data, '\n'), what + ".md": []byte(r.String())} {
		if err == nil {
			err = os.WriteFile(filepath.Join(*reportTo, name), b, 0o644)
		}
	}
	if err != nil {
		f.Error(err)
	}
}
