//go:build unix

package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// fleetItems counts the items of the map in a fleet's workflow.
const fleetItems = 3

// flowing makes a workflow in each tenant: a node, a map and a wait for an event below it, and a node that joins both.
func (f *fleet) flowing() {
	f.Helper()
	for i, tenant := range f.tenants {
		call := func(item string) string {
			return fmt.Sprintf(`"execution": {"callback_url": %q, "payload": {"tenant": %q, "ms": 20}}, %s%s`, f.target.URL, tenant, policy, item)
		}
		f.must(nil, 201, i, "POST", "/api/v1/workflows", fmt.Sprintf(`{"key": "flow", "name": "flow", "nodes": [{"key": "a", %s}, {"key": "m", "depends_on": ["a"], %s},
			{"key": "w", "depends_on": ["a"], "wait": {"event": "go", "match": "run.id"}}, {"key": "z", "depends_on": ["m", "w"], %s}]}`,
			call(""), call(fmt.Sprintf(`, "map": %d, "max_parallel": 2`, fleetItems)), call("")))
	}
}

// flow begins a run, and sends the event that it waits for.
func (c *crowd) flow(w wish) {
	p := &promised{tag: w.tag, tenant: w.tenant, first: c.now()}
	key := fmt.Sprintf("seed-%d-%s", c.seed, w.tag)
	var r client.WorkflowTriggered
	if err := c.insist(&r, 202, w.tenant, "POST", "/api/v1/workflows/key:flow/trigger", `{}`, "X-Idempotency-Key", key); err != nil || r.WorkflowRunID == "" {
		c.jobs.say("I1: nobody knows what became of %s: %v", w.tag, err)
		return
	}
	p.told = c.now()
	c.jobs.mu.Lock()
	if was, twice := c.jobs.flows[r.WorkflowRunID]; twice {
		c.jobs.wrong = append(c.jobs.wrong, fmt.Sprintf("I1: run %s is the answer to %s and to %s", r.WorkflowRunID, was.tag, w.tag))
	}
	c.jobs.flows[r.WorkflowRunID] = p
	c.jobs.mu.Unlock()
	if err := c.insist(nil, 200, w.tenant, "POST", "/api/v1/events:send", fmt.Sprintf(`{"event": "go", "match": %q}`, r.WorkflowRunID)); err != nil {
		c.jobs.say("an event: %v", err)
	}
}

// flowsEnded waits until no run is in flight.
func (f *fleet) flowsEnded(late time.Time) bool {
	f.Helper()
	for tenant := range f.tenants {
		for {
			var live client.WorkflowRuns
			f.must(&live, 200, tenant, "GET", "/api/v1/workflow-runs?limit=5&status=WAITING,PENDING,RUNNING,PAUSED,CANCELLING", "")
			if len(live.WorkflowRuns) == 0 && live.Pagination.NextCursor == nil {
				break
			}
			if time.Now().After(late) {
				for _, r := range live.WorkflowRuns {
					f.say("I12: run %s of tenant %s is %s %v after the last fault", r.WorkflowRunID, f.tenants[tenant], r.Status, f.now()-f.quiet)
				}
				return false
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	return true
}

// flowed is a run as it stands in the end, with the executions of its nodes, by node.
type flowed struct {
	run   client.WorkflowRun
	nodes map[string][]client.Execution
}

// listFlows reads all runs of a tenant, and their nodes.
func (f *fleet) listFlows(tenant int) {
	f.Helper()
	for cursor := ""; ; {
		var page client.WorkflowRuns
		f.must(&page, 200, tenant, "GET", "/api/v1/workflow-runs?limit=100"+cursor, "")
		for _, r := range page.WorkflowRuns {
			x := flowed{nodes: map[string][]client.Execution{}}
			f.must(&x.run, 200, tenant, "GET", "/api/v1/workflow-runs/"+r.WorkflowRunID, "")
			for _, n := range x.run.Nodes {
				ids := []*string{n.ExecutionID}
				if n.Map != nil {
					var items client.WorkflowRunItems
					f.must(&items, 200, tenant, "GET", "/api/v1/workflow-runs/"+r.WorkflowRunID+"/nodes/"+n.Key+"/items?limit=100", "")
					ids = nil
					for _, it := range items.Items {
						ids = append(ids, it.ExecutionID)
					}
				}
				for _, id := range ids {
					if id != nil {
						var e client.Execution
						f.must(&e, 200, tenant, "GET", "/api/v1/executions/"+*id, "")
						x.nodes[n.Key] = append(x.nodes[n.Key], e)
						f.found.tenant[e.ExecutionID] = tenant
						f.found.nodes = append(f.found.nodes, e)
					}
				}
			}
			f.found.tenant[r.WorkflowRunID] = tenant
			f.found.flows = append(f.found.flows, x)
		}
		if page.Pagination.NextCursor == nil {
			return
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

// flows: every run that was acknowledged is there once, of its own tenant, and succeeded in its first attempt; each node and each item
// has one execution, which succeeded; and none called before all that it depends on had succeeded.
func (f *fleet) flows() {
	left := maps.Clone(f.jobs.flows)
	executions := map[string]string{}
	for _, x := range f.found.flows {
		id := x.run.WorkflowRunID
		p := f.jobs.flows[id]
		if left[id] == nil {
			f.say("I3: run %s is there, and no request was answered with it, or it is listed twice", id)
			continue
		}
		delete(left, id)
		if f.found.tenant[id] != p.tenant {
			f.say("I11: run %s is of tenant %s and listed by %s", id, f.tenants[p.tenant], f.tenants[f.found.tenant[id]])
		}
		if x.run.Status != "SUCCEEDED" || x.run.Attempt != 1 {
			f.say("I12: run %s of %s is %s in attempt %d", id, p.tag, x.run.Status, x.run.Attempt)
		}
		for key, want := range map[string]int{"a": 1, "m": fleetItems, "z": 1} {
			es := x.nodes[key]
			if len(es) != want {
				f.say("I2: node %s of run %s has %d executions, want %d", key, id, len(es), want)
			}
			for _, e := range es {
				if was := executions[e.ExecutionID]; was != "" {
					f.say("I3: execution %s is of node %s of run %s and of %s", e.ExecutionID, key, id, was)
				}
				if executions[e.ExecutionID] = key + " of run " + id; e.Status != "SUCCEEDED" {
					f.say("I12: execution %s, node %s of run %s, is %s: %+v", e.ExecutionID, key, id, e.Status, e.Error)
				}
			}
		}
		for child, parent := range map[string]string{"m": "a", "z": "m"} {
			if first, last := f.firstCall(x.nodes[child]), f.lastSuccess(x.nodes[parent]); first < last {
				f.say("I9: node %s of run %s called at %v, and %s above it succeeded in a call at %v", child, id, first, parent, last)
			}
		}
	}
	for id, p := range left {
		f.say("I2: run %s (%s) was acknowledged and is gone", id, p.tag)
	}
}

// firstCall returns when the first of some executions called; the end of time if none did.
func (f *fleet) firstCall(es []client.Execution) time.Duration {
	first := time.Duration(1<<63 - 1)
	for _, e := range es {
		for _, c := range f.target.of(e.ExecutionID) {
			first = min(first, c.at)
		}
	}
	return first
}

// lastSuccess returns when the last of some executions made the first call that can have succeeded. Of several calls of one, nobody but the
// store knows which counted; what depends on it cannot begin before the first.
func (f *fleet) lastSuccess(es []client.Execution) time.Duration {
	last := time.Duration(0)
	for _, e := range es {
		if calls := f.target.of(e.ExecutionID); len(calls) > 0 {
			last = max(last, slices.MinFunc(calls, func(a, b called) int { return int(a.at - b.at) }).at)
		}
	}
	return last
}

// flowCounts returns the rows that the tables must hold of runs, in the order of flowsSQL.
func (f *fleet) flowCounts() string {
	n := len(f.found.flows)
	b, _ := json.Marshal([]int{n, n * (fleetItems + 2), n * (fleetItems + 2), n * (fleetItems + 3), 0})
	return string(b)
}

const flowsSQL = `SELECT json_build_array((SELECT count(*) FROM runs), (SELECT count(*) FROM run_members), (SELECT count(*) FROM (SELECT DISTINCT run, place FROM run_members) p),
	(SELECT count(*) FROM executions x JOIN jobs j ON j.id = x.job WHERE j.name = 'flow' OR j.name LIKE 'flow/%'), (SELECT count(*) FROM run_marks) + (SELECT count(*) FROM run_waits))::text`
