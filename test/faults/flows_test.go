//go:build unix

package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// flows are the runs of one workflow: a node, a map below it, and a node that joins the items.
type flows struct {
	*installation
	width    int
	simulate bool // the items call no target
	asked    sync.WaitGroup
	runs     []string // once all who asked are answered
}

// call names the node, and the item, that calls the target.
type call struct {
	Run  string `json:"run"`
	Node string `json:"node"`
	Item int    `json:"item"`
}

// newFlows makes the workflow.
func newFlows(in *installation, width int, simulate bool) *flows {
	in.Helper()
	f := &flows{installation: in, width: width, simulate: simulate}
	callback := func(node, item string) string {
		return fmt.Sprintf(`"execution": {"callback_url": %q, "payload": {"run": "{{ run.id }}", "node": %q, "item": %s}}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 10, "max_delay_ms": 10}`, in.target.URL, node, item)
	}
	items := callback("m", `"{{ index }}"`)
	if simulate {
		items = `"execution": {"target": "simulate", "work_kind": "noop"}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 10, "max_delay_ms": 10}`
	}
	f.insist(201, "/api/v1/workflows", "flow", fmt.Sprintf(`{"key": "flow", "name": "flow", "nodes": [{"key": "a", %s}, {"key": "m", "depends_on": ["a"], "map": %d, "max_parallel": %d, %s}, {"key": "j", "depends_on": ["m"], %s}]}`,
		callback("a", "0"), width, width, items, callback("j", "0")))
	return f
}

// insist sends a request, under a key, until it is answered with a status.
func (f *flows) insist(status int, path, key, body string) string {
	var got harness.Answer
	var err error
	if !harness.Within(time.Minute, func() bool {
		got, err = harness.At(f.T, f.base()).Do("POST", path, body, "X-Idempotency-Key", f.Name()+key)
		return err == nil && got.Code < 500 && got.Code != 429
	}) || got.Code != status {
		f.Errorf("POST %s: %d %s, %v", path, got.Code, got.Body, err)
	}
	return got.Body
}

// trigger asks for runs.
func (f *flows) trigger(n int) {
	f.runs = make([]string, n)
	for i := range n {
		f.asked.Go(func() {
			var r client.WorkflowTriggered
			text := f.insist(202, "/api/v1/workflows/key:flow/trigger", fmt.Sprint(i), `{}`)
			if err := json.Unmarshal([]byte(text), &r); err != nil || r.WorkflowRunID == "" {
				f.Errorf("triggered: %s, %v", text, err)
			}
			f.runs[i] = r.WorkflowRunID
		})
	}
}

func (f *flows) read(run string) client.WorkflowRun {
	f.Helper()
	return harness.Read[client.WorkflowRun](harness.At(f.T, f.base()), "/api/v1/workflow-runs/"+run)
}

// started counts how many items of a run have started.
func (f *flows) started(run string) int {
	f.Helper()
	for _, n := range f.read(run).Nodes {
		if n.Key == "m" && n.Map != nil {
			return n.Map.Running + n.Map.Succeeded
		}
	}
	return 0
}

// takes bounds how long the runs may take.
func (f *flows) takes() time.Duration {
	return 3*time.Minute + time.Duration(f.width)*5*time.Millisecond
}

// settle waits until every run has ended and compares everything: each node and each item has one execution, which succeeded; it called
// the target after its parents had; and the tables have as many rows as that takes.
func (f *flows) settle() {
	f.Helper()
	f.asked.Wait()
	if slices.Contains(f.runs, "") || len(slices.Compact(slices.Sorted(slices.Values(f.runs)))) != len(f.runs) {
		f.Fatalf("I1: the runs %v", f.runs)
	}
	var all []ended
	of := map[call]string{} // executions of nodes and items, as the API tells
	for _, id := range f.runs {
		var r client.WorkflowRun
		harness.Eventually(f.T, f.takes(), "the run to end", func() bool { r = f.read(id); return r.FinishedAt != nil })
		if r.Status != "SUCCEEDED" || r.Attempt != 1 {
			f.Errorf("I12: run %s is %s in attempt %d: %+v", id, r.Status, r.Attempt, r.Error)
		}
		for _, n := range r.Nodes {
			switch {
			case n.Status != "SUCCEEDED":
				f.Errorf("I12: node %s of run %s is %s", n.Key, id, n.Status)
			case n.Map != nil:
				if n.Map.Total != f.width || n.Map.Succeeded != f.width {
					f.Errorf("the map of run %s: %+v", id, n.Map)
				}
				f.items(id, of)
			default:
				of[call{id, n.Key, 0}] = *n.ExecutionID
			}
		}
	}
	executions := map[string]call{}
	for c, e := range of {
		if was, twice := executions[e]; twice {
			f.Errorf("I3: execution %s is %v and %v", e, was, c)
		}
		if executions[e] = c; c.Node == "m" && f.simulate {
			continue
		}
		past := harness.Read[client.ExecutionAttempts](harness.At(f.T, f.base()), "/api/v1/executions/"+e+"/attempts").Attempts
		all = append(all, ended{e, c.Run, harness.Read[client.Execution](harness.At(f.T, f.base()), "/api/v1/executions/"+e).Status, past})
	}
	f.arrived(all, executions)
	if !f.simulate {
		f.linear(all)
	}
	f.rows()
}

// items reads the items of a run.
func (f *flows) items(run string, of map[call]string) {
	f.Helper()
	seen := 0
	for cursor := ""; ; {
		page := harness.Read[client.WorkflowRunItems](harness.At(f.T, f.base()), "/api/v1/workflow-runs/"+run+"/nodes/m/items?limit=1000"+cursor)
		for _, it := range page.Items {
			if it.Index != seen || it.Status != "SUCCEEDED" || it.ExecutionID == nil {
				f.Fatalf("I2: item %d of run %s: %+v", seen, run, it)
			}
			of[call{run, "m", seen}] = *it.ExecutionID
			seen++
		}
		if page.Pagination.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
	if seen != f.width {
		f.Errorf("I2: run %s lists %d items, want %d", run, seen, f.width)
	}
}

// arrived compares what the target saw with what there is.
func (f *flows) arrived(all []ended, executions map[string]call) {
	f.Helper()
	calls := map[string][]harness.Arrival{}
	first, last := map[call]time.Time{}, map[call]time.Time{}
	for _, a := range f.target.Seen() {
		calls[a.Execution] = append(calls[a.Execution], a)
		var c call
		if err := json.Unmarshal([]byte(a.Body), &c); err != nil || executions[a.Execution] != c {
			f.Errorf("I3: execution %s called as %s; the API knows it as %v", a.Execution, a.Body, executions[a.Execution])
		}
		if node := (call{c.Run, c.Node, 0}); first[node].IsZero() || a.At.Before(first[node]) {
			first[node] = a.At
		}
	}
	for _, e := range all {
		for _, w := range checkCalls(e, calls[e.id], history{}) {
			f.Errorf("%s (execution %s, calls %s)", w, e.id, show(calls[e.id]))
		}
		for _, a := range calls[e.id] { // the one that counted came under the newest token
			if c := executions[e.id]; len(e.past) > 0 && a.Token == e.past[len(e.past)-1].FencingToken {
				node := call{c.Run, c.Node, 0}
				if a.At.After(last[node]) {
					last[node] = a.At
				}
			}
		}
	}
	below := map[string]string{"m": "a", "j": "m"}
	if f.simulate {
		below = map[string]string{"j": "a"}
	}
	for _, run := range f.runs {
		for node, parent := range below {
			if begun, done := first[call{run, node, 0}], last[call{run, parent, 0}]; begun.Before(done) || done.IsZero() {
				f.Errorf("I9: in run %s node %s began at %v, and %s above it had succeeded after %v", run, node, begun, parent, done)
			}
		}
	}
}

// rows stops the server and counts.
func (f *flows) rows() {
	f.Helper()
	s := f.now()
	s.Signal(syscall.SIGTERM)
	if code := s.Exit(); code != 0 {
		f.Errorf("the server ended with exit code %d", code)
	}
	live := "SELECT count(*) FROM live"
	if !strings.HasPrefix(f.where, "sqlite:") {
		live = "SELECT (SELECT count(*) FROM live) + (SELECT count(*) FROM bundles)"
	}
	n := len(f.runs)
	members := n * (f.width + 2)
	for _, q := range []struct {
		sql  string
		want int
	}{
		{"SELECT count(*) FROM runs WHERE ended_at IS NOT NULL", n},
		{"SELECT count(*) FROM run_members", members},
		{"SELECT count(*) FROM (SELECT DISTINCT run, place FROM run_members) p", members},
		{"SELECT count(*) FROM executions", n + members},
		{"SELECT count(DISTINCT id) FROM executions", n + members},
		{"SELECT count(*) FROM executions WHERE status <> 10", 0},
		{"SELECT (SELECT count(*) FROM run_marks) + (SELECT count(*) FROM run_waits)", 0},
		{live, 0},
	} {
		if got := f.count(q.sql); got != q.want {
			f.Errorf("%s: %d, want %d", q.sql, got, q.want)
		}
	}
}

// failWorkflow has a server meet the point while it runs workflows.
func failWorkflow(in *installation, point, action, spec string) {
	p := in.serve(spec)
	width, runs := 3, 4
	if point == "workflow.midExpand" { // more than one commit starts
		width, runs, in.bulk = 1100, 1, true
	}
	in.work("")
	f := newFlows(in, width, width > 3)
	f.trigger(runs)
	comeBack(in, p, point, action)
	f.settle()
}

// A server is killed again and again while it starts the items of a wide map: afterwards there is each item once.
func TestAMapThatIsKilledWhileItExpands(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		width, kills := 5_000, 2
		if all {
			width, kills = 100_000, 5
		}
		in := install(t, where, "api,scheduler")
		in.bulk = true
		// Each server starts its share of the items, a thousand a commit, and then stands still until it is killed.
		halts := fmt.Sprintf("workflow.midExpand=sleep(1h)@%d-%d", width/1000/(kills+1), width)
		const long = "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=20" // no lease is to be lost while there is much to do
		in.serve(halts, long)
		f := newFlows(in, width, true)
		w := in.work("")
		stopping := make(chan struct{})
		in.target.OnArrival(func(harness.Arrival) error { <-stopping; return nil })
		f.trigger(1)
		f.asked.Wait()
		harness.Eventually(t, 20*time.Second, "the first call", func() bool { return len(in.target.Seen()) > 0 })
		w.Signal(syscall.SIGTERM) // nobody runs items until there are all of them
		harness.Eventually(t, 20*time.Second, "the worker to stop", func() bool { return w.Says("stopping: ") })
		close(stopping)
		for i := range kills {
			s := in.now()
			harness.Eventually(t, f.takes(), "the server to halt", func() bool { return s.Says("workflow.midExpand: sleep") })
			n := f.started(f.runs[0])
			if s.Kill(); n == 0 || n >= width {
				t.Errorf("%d of %d items had started before kill %d; want some, and not all", n, width, i+1)
			}
			next := halts
			if i == kills-1 {
				next = ""
			}
			in.serve(next, long)
		}
		w.Exit()
		harness.Eventually(t, f.takes(), "all items", func() bool { return f.started(f.runs[0]) == width })
		in.work("")
		in.work("")
		f.settle()
	})
}

// While a run starts and runs a wide map, the single jobs of another tenant begin as soon as the product promises.
func TestAWideMapDelaysNobody(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		const promised = 2 * time.Second
		width := 6_000
		if all {
			width = 20_000
		}
		in := install(t, where, "api,scheduler")
		in.bulk = true
		s := in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=10")
		f := newFlows(in, width, true)
		other := harness.Want[client.Tenant](s, 201, "POST", "/api/v1/tenants", `{"name": "other", "tier": "pro"}`).TenantID
		in.work("")
		f.trigger(1)
		f.asked.Wait()
		var jobs []string
		for f.read(f.runs[0]).FinishedAt == nil && len(jobs) < 100 {
			a, err := s.Do("POST", "/api/v1/jobs", `{"name": "single", "execution": {"target": "simulate", "work_kind": "noop"}}`, "X-Tenant-ID", other)
			var j client.Job
			if err != nil || a.Code != 201 || json.Unmarshal([]byte(a.Body), &j) != nil {
				t.Fatalf("a job of the other tenant: %d %s %v", a.Code, a.Body, err)
			}
			jobs = append(jobs, j.ExecutionID)
			<-time.After(50 * time.Millisecond)
		}
		if len(jobs) < 3 {
			t.Errorf("the map was over after %d jobs", len(jobs))
		}
		var slowest time.Duration
		for _, id := range jobs {
			var e client.Execution
			harness.Eventually(t, 20*time.Second, "a job to end", func() bool {
				a, err := s.Do("GET", "/api/v1/executions/"+id, "", "X-Tenant-ID", other)
				return err == nil && a.Code == 200 && json.Unmarshal([]byte(a.Body), &e) == nil && e.FinishedAt != nil
			})
			slowest = max(slowest, e.StartedAt.Sub(e.DueAt))
		}
		t.Logf("%d jobs beside a map of %d; the slowest began after %v", len(jobs), width, slowest)
		if slowest > atMost(promised) {
			t.Errorf("a job waited for %v, want %v at the most", slowest, promised)
		}
		harness.Eventually(t, f.takes(), "the run to end", func() bool { return f.read(f.runs[0]).FinishedAt != nil })
		if r := f.read(f.runs[0]); r.Status != "SUCCEEDED" {
			t.Errorf("the run is %s", r.Status)
		}
	})
}
