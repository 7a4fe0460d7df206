package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/wire"
)

// flowPrefix is the prefix of workflows that are triggered, and of the jobs of their nodes.
const flowPrefix = "flow-"

// The events of waits.
const events = 3

// flowWish is a client's request about a workflow or a run.
type flowWish struct {
	flow  service.Workflow // to be made
	act   string           // pause, unpause, cancel, force, retry, retry only, skip, mark, approve, reject
	nodes []string         // of the act
	event string           // to be sent
}

// flows makes up what a client wants of workflows: it makes some, triggers them, and acts on the runs, in any order that it likes. Maps have
// up to six times widths items.
func flows(r *rand.Rand, client, widths int) []wish {
	var out []wish
	count := 1 + r.IntN(3)
	sub := ""
	for n := range count {
		f := randomFlow(r, fmt.Sprintf("%sc%d-j%d", flowPrefix, client, n), sub, widths)
		if sub == "" && len(f.Graph.Nodes) < 5 && r.IntN(2) == 0 {
			f.Key = f.Name
			sub = f.Key
		}
		w := wish{at: upTo(r, 2*time.Second), kind: wishFlow, flowWish: flowWish{flow: f}, gap: time.Second, try: 4}
		if r.IntN(4) == 0 {
			w.flow.Schedule = job.Schedule{Type: job.Interval, Every: time.Duration(4+r.IntN(6)) * time.Second}
			w.flow.Overlap = job.Overlaps()[r.IntN(len(job.Overlaps()))]
			w.flow.CatchUp, w.flow.CatchUpLimit = job.CatchUpLatest, 1
			w.flow.Name = every + w.flow.Name
			w.last = 3*time.Second + upTo(r, chaos)
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	var ats []time.Duration
	var more []wish
	var runs []int // the workflow of each
	for range 4 + r.IntN(12) {
		ats = append(ats, 2*time.Second+upTo(r, chaos))
		w := wish{gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4), key: "a"}
		if len(runs) == 0 || r.IntN(3) == 0 {
			w.kind, w.of = wishTrigger, r.IntN(count)
			runs = append(runs, w.of)
			more = append(more, w)
			continue
		}
		w.kind = wishAct
		w.of = r.IntN(len(runs))
		w.act = []string{"pause", "pause", "unpause", "cancel", "cancel", "force", "retry", "retry", "retry", "retry only", "skip", "mark", "approve", "approve", "reject", "stop", "event"}[r.IntN(17)]
		all := out[runs[w.of]].flow.Graph.Nodes
		switch w.act {
		case "event":
			w.kind, w.event = wishEvent, fmt.Sprint("event-", r.IntN(events))
		case "stop":
			w.kind = wishCancel
		case "retry":
			if r.IntN(3) == 0 {
				w.nodes = []string{all[r.IntN(len(all))].Key}
			}
		case "retry only", "skip", "mark":
			w.nodes = []string{all[r.IntN(len(all))].Key}
		case "approve", "reject":
			w.nodes = []string{all[r.IntN(len(all))].Key}
			for _, n := range all {
				if n.Wait != nil && n.Wait.Approval != nil {
					w.nodes = []string{n.Key}
				}
			}
		}
		more = append(more, w)
	}
	slices.Sort(ats)
	for i := range more {
		more[i].at = ats[i]
		if k := more[i].kind; k == wishAct || k == wishCancel {
			more[i].of += count // executions are numbered after the jobs that a client made
		}
	}
	return append(out, more...)
}

var flowTriggers = []string{
	"", "", "", "all_success", "none_failed", "none_failed_min_one_success", "any_success", "all_done", "always", "all_failed", "one_success", "one_done", "one_failed", "failure",
}

// randomFlow makes up a workflow. Its nodes depend on those before them.
func randomFlow(r *rand.Rand, name, sub string, widths int) service.Workflow {
	w := service.Workflow{Definition: job.Definition{Name: name, Schedule: job.Schedule{Type: job.Manual}, Priority: 1, Queue: "default", Retry: job.RetryPolicy{Backoff: job.Exponential}}}
	g := &w.Graph
	if r.IntN(4) == 0 {
		g.OnFailure = workflow.Stop
	}
	if r.IntN(6) == 0 {
		g.Timeout = fmt.Sprintf("%ds", 6+r.IntN(15))
	}
	count := 2 + r.IntN(7)
	last := count
	if r.IntN(3) == 0 {
		last -= 1 + r.IntN(min(2, count-1))
	}
	for i := range count {
		n := workflow.Node{Key: fmt.Sprintf("n%d", i), Finally: i >= last}
		for p := range i {
			if (p >= last) == n.Finally && r.IntN(3) == 0 && len(n.DependsOn) < 3 {
				n.DependsOn = append(n.DependsOn, fmt.Sprintf("n%d", p))
			}
		}
		eager := false
		if len(n.DependsOn) > 0 {
			n.Trigger = flowTriggers[r.IntN(len(flowTriggers))]
			eager = strings.HasPrefix(n.Trigger, "one_") || n.Trigger == "failure"
		}
		if k := r.IntN(12); k < 2 && !eager {
			n.If = []string{"true", "false"}[k]
		}
		switch r.IntN(10) {
		case 0:
			n.OnFailure = workflow.Handle
		case 1:
			n.OnFailure = workflow.Ignore
		case 2:
			n.OnFailure = workflow.Stop
		}
		w.Inline = append(w.Inline, what(r, &n, sub, widths))
		g.Nodes = append(g.Nodes, n)
	}
	return w
}

// what makes up what a node does.
func what(r *rand.Rand, n *workflow.Node, sub string, widths int) *service.Inline {
	if k := r.IntN(10); k == 0 && sub != "" && !n.Finally {
		n.JobID = "key:" + sub
		return nil
	} else if k < 3 && !n.Finally {
		n.Wait = &workflow.Wait{}
		switch r.IntN(3) {
		case 0:
			n.Wait.Timer = fmt.Sprintf("%dms", 100+r.IntN(4000))
		case 1:
			n.Wait.Approval = &workflow.Approval{}
		case 2:
			n.Wait.Event = fmt.Sprint("event-", r.IntN(events))
		}
		if r.IntN(5) < 3 && n.Wait.Timer == "" {
			n.Timeout = fmt.Sprintf("%ds", 1+r.IntN(8))
			n.OnTimeout = []workflow.OnTimeout{"", workflow.TimeoutFails, workflow.TimeoutSkips, workflow.TimeoutSucceeds}[r.IntN(4)]
		}
		return nil
	}
	if r.IntN(4) == 0 {
		n.Map = json.RawMessage(fmt.Sprint(widths * r.IntN(7)))
		n.MaxParallel = r.IntN(4)
		n.Tolerate = json.RawMessage([]string{`0`, `1`, `"50%"`, `"100%"`}[r.IntN(4)])
	}
	if r.IntN(8) == 0 {
		n.Timeout = fmt.Sprintf("%ds", 2+r.IntN(8))
	}
	timeout, retries, delay := int64(1+r.IntN(5)), r.IntN(2), int64(500)
	text := `{"node":"` + n.Key + `","run":"{{ run.input.tag }}"}`
	if n.Map != nil {
		text = `{"node":"` + n.Key + `","run":"{{ run.input.tag }}","item":"{{ index }}"}`
	}
	e := client.Target{Target: "worker", Kind: kind, TimeoutSeconds: &timeout, Payload: json.RawMessage(text)}
	n.Execution, _ = json.Marshal(e) // texts and numbers always encode
	p := client.RetryPolicy{MaxRetries: &retries, Backoff: "FIXED", InitialDelayMS: &delay, MaxDelayMS: &delay}
	n.RetryPolicy, _ = json.Marshal(p) // likewise
	return &service.Inline{Target: wire.Target(e), Payload: wire.Payload(e), Retry: wire.Retry(&p, job.RetryPolicy{}), Sample: wire.Target(e)}
}

// graphOf returns the graph by which runs of a definition are judged.
func graphOf(d workflow.Definition) *check.Graph {
	g := &check.Graph{}
	for _, n := range d.Nodes {
		x := check.Node{
			Key: n.Key, After: n.DependsOn, Trigger: n.Trigger, OnFailure: string(n.OnFailure), Finally: n.Finally, Never: n.If == "false", Map: n.Map != nil, Parallel: n.MaxParallel,
			Tolerate: strings.Trim(string(n.Tolerate), `"`), Timeout: n.Timeout != "",
		}
		if x.OnFailure == "" {
			x.OnFailure = string(d.OnFailure)
		}
		if w := n.Wait; w != nil {
			x.Wait = "timer"
			if w.Approval != nil {
				x.Wait = "approval"
			} else if w.Event != "" {
				x.Wait = "event"
			}
		}
		g.Nodes = append(g.Nodes, x)
	}
	return g
}
