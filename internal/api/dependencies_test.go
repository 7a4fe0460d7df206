package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/scheduler"
)

// manual makes a job that the crew runs when it is triggered, with a key.
func (f face) manual(key string) string {
	f.Helper()
	return f.scheduled(key, `{"type": "MANUAL"}`)
}

func (f face) scheduled(key, schedule string) string {
	f.Helper()
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(
		`{"key": %[1]q, "name": "job %[1]s", "schedule": %s, "execution": {"target": "worker", "kind": "x"}, "retry_policy": {"max_retries": 0}}`, key, schedule))
	return j.JobID
}

// ends triggers a job and has the crew end its execution, which it returns.
func (c *crew) ends(key, outcome string) string {
	c.Helper()
	e := want[client.Triggered](c.face, 202, "POST", "/api/v1/jobs/key:"+key+"/trigger", "").ExecutionID
	c.take(1)
	a := c.held[0]
	c.held = c.held[1:]
	if a.ExecutionID != e {
		c.Fatalf("the crew got an execution of %s; want one of %s", a.JobName, key)
	}
	c.report(a, outcome)
	return e
}

// tokens lists by key what the parents of a job have left.
func (f face) tokens(key string) map[string]string {
	f.Helper()
	out := map[string]string{}
	for _, d := range want[client.JobDependencies](f, 200, "GET", "/api/v1/jobs/key:"+key+"/dependencies", "").DependsOn {
		out[*d.Key] = ""
		if d.ExecutionID != nil {
			out[*d.Key] = *d.ExecutionID
		}
	}
	return out
}

// settles waits until the parents of a job have left these tokens, and no others.
func (f face) settles(key string, tokens map[string]string) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := f.tokens(key)
		if fmt.Sprint(got) == fmt.Sprint(tokens) {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("the tokens are %v; want %v", got, tokens)
		}
	}
}

func (f face) executionsOf(key string) []client.Execution {
	f.Helper()
	return want[client.Executions](f, 200, "GET", "/api/v1/jobs/key:"+key+"/executions", "").Executions
}

func TestAJobRunsAfterOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		f.manual("a")
		b := f.manual("b")
		f.manual("c")
		const path = "/api/v1/jobs/key:c/dependencies"
		if d := want[client.JobDependencies](f, 200, "GET", path, ""); d.Condition != nil || d.DependsOn == nil || len(d.DependsOn) != 0 {
			t.Errorf("before: %s", encoded(d))
		}
		d := want[client.JobDependencies](f, 200, "PUT", path, `{"depends_on": ["key:a", "`+b+`"]}`)
		if *d.Condition != "success" || *d.Key != "c" || len(d.DependsOn) != 2 || d.DependsOn[1].JobID != b || d.DependsOn[1].ExecutionID != nil {
			t.Errorf("set: %s", encoded(d))
		}
		c.ends("a", "FAILED")
		first := c.ends("a", "SUCCEEDED")
		f.settles("c", map[string]string{"a": first, "b": ""})
		second := c.ends("a", "SUCCEEDED")
		f.settles("c", map[string]string{"a": second, "b": ""})
		want[client.JobDependencies](f, 200, "PUT", path, `{"depends_on": ["key:a", "`+b+`"], "condition": "success"}`) // as it is
		if got := f.executionsOf("c"); len(got) != 0 {
			t.Errorf("it ran before b: %s", encoded(got))
		}
		c.ends("b", "SUCCEEDED")
		c.take(1)
		if a := c.held[0]; a.JobName != "job c" {
			t.Errorf("the crew got %s", a.JobName)
		}
		c.report(c.held[0], "SUCCEEDED")
		c.held = nil
		f.settles("c", map[string]string{"a": "", "b": ""})
		if got := f.executionsOf("c"); len(got) != 1 || got[0].Trigger != "workflow" || got[0].Status != "SUCCEEDED" {
			t.Errorf("it ran as %s", encoded(got))
		}
		if x := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+f.executionsOf("c")[0].ExecutionID+"/explain", ""); x.Code != "SUCCEEDED" {
			t.Errorf("explained as %+v", x)
		}

		// While it is paused the tokens are kept, and it runs once when it is resumed.
		want[client.JobDependencies](f, 200, "PUT", path, `{"depends_on": ["key:a"], "condition": "failure"}`)
		want[client.Job](f, 200, "POST", "/api/v1/jobs/key:c/pause", "")
		c.ends("a", "FAILED")
		last := c.ends("a", "FAILED")
		f.settles("c", map[string]string{"a": last})
		want[client.Job](f, 200, "POST", "/api/v1/jobs/key:c/resume", "")
		c.take(1)
		c.report(c.held[0], "SUCCEEDED")
		c.held = nil
		f.settles("c", map[string]string{"a": ""})
		if got := f.executionsOf("c"); len(got) != 2 {
			t.Errorf("it ran %d times", len(got))
		}

		// A change of the job keeps its dependencies, and one without them runs after nothing.
		want[client.Job](f, 200, "PATCH", "/api/v1/jobs/key:c", `{"description": "after a"}`)
		if got := f.tokens("c"); len(got) != 1 {
			t.Errorf("after a change it depends on %v", got)
		}
		p := want[client.Problem](f, 409, "DELETE", "/api/v1/jobs/key:a", "")
		if p.Code != "in_use" || !strings.Contains(p.Detail, "jobs depend on it: key:c") || len(p.Errors) != 1 {
			t.Errorf("deleting a parent: %s", encoded(p))
		}
		if d := want[client.JobDependencies](f, 200, "DELETE", path, ""); d.Condition != nil || len(d.DependsOn) != 0 {
			t.Errorf("removed: %s", encoded(d))
		}
		want[client.Job](f, 200, "DELETE", "/api/v1/jobs/key:a", "")
		var actions []string
		for _, e := range want[client.AuditEntries](f, 200, "GET", "/api/v1/audit?limit=100", "").Audit {
			actions = append(actions, e.Action)
		}
		if !slices.Contains(actions, "job.dependencies.set") || !slices.Contains(actions, "job.dependencies.remove") {
			t.Errorf("the audit log has %q", actions)
		}
	})
}

func TestDependenciesThatAreRefused(t *testing.T) {
	f := newFace(t)
	for _, key := range []string{"a", "b", "c"} {
		f.manual(key)
	}
	want[client.JobDependencies](f, 200, "PUT", "/api/v1/jobs/key:b/dependencies", `{"depends_on": ["key:a"]}`)
	want[client.JobDependencies](f, 200, "PUT", "/api/v1/jobs/key:c/dependencies", `{"depends_on": ["key:b"]}`)
	var many []string
	for range 101 {
		many = append(many, `"key:b"`)
	}
	for body, says := range map[string]string{
		`{"depends_on": ["key:c"]}`: "a → b → c → a",
		`{"depends_on": ["key:a"]}`: "a → a",
		`{"depends_on": []}`:        "at least one job",
		`{}`:                        "at least one job",
		`{"depends_on": ["key:b", "key:nobody"]}`:           "depends_on[1]",
		`{"depends_on": ["b"]}`:                             "depends_on[0]",
		`{"depends_on": ["key:b", "key:b"]}`:                "each job only once",
		`{"depends_on": ["key:b"], "condition": "done"}`:    "one of success, failure, always",
		`{"depends_on": [` + strings.Join(many, ",") + `]}`: "at most 100",
	} {
		p := want[client.Problem](f, 422, "PUT", "/api/v1/jobs/key:a/dependencies", body)
		if !strings.Contains(encoded(p), says) {
			t.Errorf("%.60s: %s; want %q", body, encoded(p), says)
		}
	}
	want[client.Problem](f, 404, "PUT", "/api/v1/jobs/key:nobody/dependencies", `{"depends_on": ["key:a"]}`)
	want[client.Problem](f, 404, "GET", "/api/v1/jobs/key:nobody/dependencies", "")
	if got := f.tokens("a"); len(got) != 0 {
		t.Errorf("what was refused is stored: %v", got)
	}
}

// A workflow that runs a job as a node may not depend on it, directly or not: each would have the other run for ever.
func TestACircleThroughAWorkflow(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		for _, key := range []string{"a", "b", "c"} {
			f.manual(key)
		}
		const uses = `{"key": "w", "name": "w", "nodes": [{"key": "n", "job_id": "key:%s"}]}`
		want[client.Workflow](f, 201, "POST", "/api/v1/workflows", fmt.Sprintf(uses, "a"))
		want[client.JobDependencies](f, 200, "PUT", "/api/v1/jobs/key:b/dependencies", `{"depends_on": ["key:a"]}`)
		for on, says := range map[string]string{"a": "w → a → w", "b": "w → a → b → w"} {
			p := want[client.Problem](f, 422, "PUT", "/api/v1/jobs/key:w/dependencies", `{"depends_on": ["key:`+on+`"]}`)
			if !strings.Contains(encoded(p), says) {
				t.Errorf("on %s: %s; want %q", on, encoded(p), says)
			}
		}
		want[client.JobDependencies](f, 200, "PUT", "/api/v1/jobs/key:w/dependencies", `{"depends_on": ["key:c"]}`)
		p := want[client.Problem](f, 422, "PUT", "/api/v1/workflows/key:w", fmt.Sprintf(uses, "c"))
		if !strings.Contains(encoded(p), "w → c → w") || !strings.Contains(encoded(p), "nodes[0].job_id") {
			t.Errorf("running what it depends on: %s", encoded(p))
		}
		want[client.Workflow](f, 200, "PUT", "/api/v1/workflows/key:w", fmt.Sprintf(uses, "b"))
	})
}

// What its own schedule fires waits for the parents, and is what runs when they have ended.
func TestAScheduledJobWaitsForOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		var store engine.Store
		f := open(withRuns(t), func(_ *api.Config, s engine.Store) { store = s })
		c := newCrew(f)
		f.manual("a")
		f.scheduled("c", `{"type": "INTERVAL", "every": "1h"}`)
		want[client.JobDependencies](f, 200, "PUT", "/api/v1/jobs/key:c/dependencies", `{"depends_on": ["key:a"]}`)
		want[client.Job](f, 200, "PATCH", "/api/v1/jobs/key:c", `{"schedule": {"type": "INTERVAL", "every": "1s"}}`)
		s := scheduler.New(store, clock.System{}, scheduler.Config{LookAhead: 5 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { loop.Run(ctx, nil, "scheduler", nil, s.Tick) })
		defer func() { cancel(); wg.Wait() }()
		fired := func(status string) (out []client.Execution) {
			for _, e := range f.executionsOf("c") {
				if e.Status == status {
					out = append(out, e)
				}
			}
			return out
		}
		for deadline := time.Now().Add(2 * time.Minute); len(fired("SKIPPED")) == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("two instants have passed, and there are %s", encoded(f.executionsOf("c")))
			}
		}
		waits := fired("WAITING")
		if len(waits) != 1 || len(fired("PENDING")) != 0 || waits[0].Trigger != "schedule" {
			t.Fatalf("what fired is %s", encoded(f.executionsOf("c")))
		}
		x := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+waits[0].ExecutionID+"/explain", "")
		if x.Code != "WAITING_FOR_PARENTS" || !strings.Contains(x.Summary, "have not succeeded: a.") || !slices.Equal(x.Details.Parents, []string{"a"}) {
			t.Errorf("explained as %s", encoded(x))
		}
		cancel()
		c.ends("a", "SUCCEEDED")
		c.take(1)
		if c.held[0].ExecutionID != waits[0].ExecutionID {
			t.Errorf("the crew got %s, not what waited", c.held[0].JobName)
		}
		f.settles("c", map[string]string{"a": ""})
	})
}
