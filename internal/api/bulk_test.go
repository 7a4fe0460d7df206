package api_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// many is a clockwork with jobs of a tag, and one job of another.
func many(t *testing.T, n int) (c *clockwork, tagged []string, other string) {
	t.Helper()
	c = newClockwork(t)
	one := recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, `, "tags": ["night"]`)
	made := want[client.CreatedJobs](c.face, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(one+",", n-1)+one+"]")
	for _, j := range made.Jobs {
		tagged = append(tagged, j.JobID)
	}
	return c, tagged, want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 7 * * *"}`, "")).JobID
}

// ends steps a runner, a second at a time, until an operation has ended.
func (c *clockwork) ends(r *service.Runner, id string) client.Operation {
	c.Helper()
	for range 1000 {
		if _, err := r.Tick(c.Context()); err != nil {
			c.Fatal(err)
		}
		if o := want[client.Operation](c.face, 200, "GET", "/api/v1/operations/"+id, ""); o.State != "RUNNING" {
			return o
		}
		c.clock.Advance(time.Second)
	}
	c.Fatalf("operation %s does not end", id)
	return client.Operation{}
}

func (c *clockwork) runner() *service.Runner { return c.service.Runner(slog.New(slog.DiscardHandler)) }

func (c *clockwork) bulk(body string) client.Operation {
	c.Helper()
	return c.ends(c.runner(), want[client.BulkBegun](c.face, 202, "POST", "/api/v1/jobs:bulk", body).OperationID)
}

// count returns how many jobs a filter chooses.
func (c *clockwork) count(filter string) int64 {
	c.Helper()
	return want[client.Jobs](c.face, 200, "GET", "/api/v1/jobs?limit=1&"+filter, "").Pagination.Total
}

func TestBulkOverJobs(t *testing.T) {
	const n = 250
	c, ids, other := many(t, n)
	const night = `"filter": {"tag": "night"}`
	// A dry run counts, shows the first, and does nothing.
	got := want[client.BulkBegun](c.face, 200, "POST", "/api/v1/jobs:bulk", `{`+night+`, "action": "delete", "dry_run": true}`)
	if got.Count != n || got.OperationID != "" || len(got.Sample) != 10 || got.Sample[0] != (client.BulkSample{JobID: ids[n-1], Name: "again", Status: "ACTIVE"}) {
		t.Errorf("dry run: %+v", got)
	}
	if got := want[client.Operations](c.face, 200, "GET", "/api/v1/operations", ""); len(got.Operations) != 0 {
		t.Errorf("a dry run left %+v", got)
	}
	// Pausing changes what the filter chooses, and still reaches all; what is created meanwhile is left out.
	begun := want[client.BulkBegun](c.face, 202, "POST", "/api/v1/jobs:bulk", `{"filter": {"tag": "night", "status": "active"}, "action": "pause", "reason": "moving", "until": "2030-04-02T00:00:00Z"}`)
	late := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, `, "tags": ["night"]`))
	if o := c.ends(c.runner(), begun.OperationID); begun.Count != n || o.Kind != "pause" || o.State != "SUCCEEDED" || o.Done != n || o.Passed != 0 || o.Error != nil {
		t.Errorf("pause: %+v", o)
	}
	if got := c.count("tag=night&status=paused"); got != n {
		t.Errorf("%d are paused", got)
	}
	if j := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+late.JobID, ""); j.Status != "ACTIVE" {
		t.Errorf("the late one: %+v", j)
	}
	// By ids, of which one is twice and one is unknown.
	if o := c.bulk(fmt.Sprintf(`{"ids": [%q, %q, %q, "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"], "action": "resume"}`, ids[0], ids[1], ids[0])); o.Done != 2 || o.Passed != 1 || o.Total != 2 || *o.Error != "1 passed over: deleted, or completed." {
		t.Errorf("resume: %+v", o)
	}
	if o := c.bulk(`{` + night + `, "action": "tag", "tags": ["a", "night", "b"]}`); o.Done != n+1 {
		t.Errorf("tag: %+v", o)
	}
	if o := c.bulk(`{"filter": {"tag": "a"}, "action": "untag", "tags": ["a"]}`); o.Done != n+1 {
		t.Errorf("untag: %+v", o)
	}
	if j := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+ids[3], ""); strings.Join(j.Tags, " ") != "night b" {
		t.Errorf("tags: %v", j.Tags)
	}
	if o := c.bulk(`{` + night + `, "action": "trigger", "payload_override": {"by": "bulk"}}`); o.Done != n+1 {
		t.Errorf("trigger: %+v", o)
	}
	for _, id := range ids {
		if e := want[client.Executions](c.face, 200, "GET", "/api/v1/jobs/"+id+"/executions", "").Executions; len(e) != 1 || e[0].Trigger != "manual" {
			t.Fatalf("triggered: %+v", e)
		}
	}
	if o := c.bulk(`{` + night + `, "action": "delete"}`); o.Done != n+1 || o.Passed != 0 {
		t.Errorf("delete: %+v", o)
	}
	if got := c.count(""); got != 1 {
		t.Errorf("%d are left", got)
	}
	if j := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+other, ""); j.Status != "ACTIVE" || len(j.Tags) != 0 {
		t.Errorf("another: %+v", j)
	}
	// Over nothing at all.
	if o := c.bulk(`{` + night + `, "action": "trigger"}`); o.State != "SUCCEEDED" || o.Done != 0 || o.Total != 0 {
		t.Errorf("nothing: %+v", o)
	}
}

// A server that dies in the middle leaves the rest to another; no job is triggered twice.
func TestABulkTriggerGoesOn(t *testing.T) {
	const n = 230
	c, ids, _ := many(t, n)
	for _, selection := range []string{`"filter": {"tag": "night"}`, fmt.Sprintf(`"ids": ["%s"]`, strings.Join(ids, `", "`))} {
		before := must(c.store.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: ref(ids[0]).ID}, engine.Page{Limit: 1})).Total.Count
		begun := want[client.BulkBegun](c.face, 202, "POST", "/api/v1/jobs:bulk", `{`+selection+`, "action": "trigger", "rate_per_s": 70}`)
		path := "/api/v1/operations/" + begun.OperationID
		first := c.runner()
		for want[client.Operation](c.face, 200, "GET", path, "").Done < 100 {
			if _, err := first.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.clock.Advance(time.Second)
		}
		c.clock.Advance(time.Minute) // nobody has it any more
		if o := c.ends(c.runner(), begun.OperationID); o.State != "SUCCEEDED" || o.Done != n || o.Total != n {
			t.Errorf("ended: %+v", o)
		}
		for _, id := range ids {
			if got := must(c.store.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: ref(id).ID}, engine.Page{Limit: 1})).Total.Count; got != before+1 {
				t.Fatalf("%d executions", got-before)
			}
		}
	}
	// Cancelled, it does no more.
	begun := want[client.BulkBegun](c.face, 202, "POST", "/api/v1/jobs:bulk", `{"filter": {}, "action": "delete", "rate_per_s": 1}`)
	r := c.runner()
	for range 3 {
		if _, err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.clock.Advance(time.Second)
	}
	want[client.Operation](c.face, 202, "POST", "/api/v1/operations/"+begun.OperationID+"/cancel", "")
	if o := c.ends(r, begun.OperationID); o.State != "CANCELLED" || o.Done > 3 {
		t.Errorf("cancelled: %+v", o)
	}
	if got := c.count(""); got < n-3 {
		t.Errorf("%d are left", got)
	}
}

func TestBadBulkRequestsAreRefused(t *testing.T) {
	c, ids, _ := many(t, 1)
	for _, x := range []struct {
		body  string
		code  int
		field string
	}{
		{`{"action": "pause"}`, 422, "ids"},
		{`{"action": "pause", "ids": []}`, 422, "ids"},
		{`{"action": "pause", "ids": ["x"]}`, 422, "ids[0]"},
		{fmt.Sprintf(`{"action": "pause", "ids": [%q], "filter": {}}`, ids[0]), 422, "filter"},
		{`{"action": "pause", "filter": {"status": "late"}}`, 422, "filter.status"},
		{`{"action": "pause", "filter": {"schedule_type": "hourly"}}`, 422, "filter.schedule_type"},
		{`{"action": "pause", "filter": {"tags": "x"}}`, 400, "filter.tags"},
		{`{"filter": {}}`, 422, "action"},
		{`{"filter": {}, "action": "explode"}`, 422, "action"},
		{`{"filter": {}, "action": "tag"}`, 422, "tags"},
		{`{"filter": {}, "action": "tag", "tags": [""]}`, 422, "tags[0]"},
		{`{"filter": {}, "action": "tag", "tags": ["a", "a"]}`, 422, "tags[1]"},
		{`{"filter": {}, "action": "delete", "tags": ["a"]}`, 422, "tags"},
		{`{"filter": {}, "action": "delete", "reason": "a"}`, 422, "reason"},
		{`{"filter": {}, "action": "resume", "until": "2030-05-01T00:00:00Z"}`, 422, "until"},
		{`{"filter": {}, "action": "pause", "until": "2020-05-01T00:00:00Z"}`, 422, "until"},
		{`{"filter": {}, "action": "pause", "reason": "a\u0000"}`, 422, "reason"},
		{`{"filter": {}, "action": "pause", "payload_override": {}}`, 422, "payload_override"},
		{`{"filter": {}, "action": "trigger", "payload_override": {"key": "${secret:nowhere}"}}`, 422, "payload_override"},
		{`{"filter": {}, "action": "pause", "rate_per_s": 0}`, 422, "rate_per_s"},
		{`{"filter": {}, "action": "pause", "rate_per_s": 1e9}`, 422, "rate_per_s"},
		{`{"filter": {}, "action": "pause", "rate": 1}`, 400, "rate"},
	} {
		p := want[client.Problem](c.face, x.code, "POST", "/api/v1/jobs:bulk", x.body)
		if len(p.Errors) != 1 || p.Errors[0].Field != x.field || p.Errors[0].Want == "" {
			t.Errorf("%s: %+v", x.body, p)
		}
	}
	if got := want[client.Operations](c.face, 200, "GET", "/api/v1/operations", ""); len(got.Operations) != 0 {
		t.Errorf("%+v", got.Operations)
	}
}

func TestJobsByOwnerAndThoseThatAreLate(t *testing.T) {
	t.Parallel()
	c, ids, other := many(t, 3)
	want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+other, `{"owner": "Alice & Bob"}`)
	for filter, n := range map[string]int64{"owner=Alice+%26+Bob": 1, "owner=alice": 0, "owner=Alice": 0, "late=true": 0, "late=": 4} {
		if got := c.count(filter); got != n {
			t.Errorf("%s: %d jobs, want %d", filter, got, n)
		}
	}
	for _, value := range []string{"false", "yes", "TRUE", "1"} {
		if p := want[client.Problem](c.face, 400, "GET", "/api/v1/jobs?late="+value, ""); p.Errors[0].Field != "late" {
			t.Errorf("late=%s: %+v", value, p)
		}
	}
	due := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+ids[0], "").Schedule.NextRunAt
	c.clock.Advance(due.Sub(c.clock.Now()) + service.OverdueAfter)
	if n := c.count("late=true"); n != 0 {
		t.Errorf("%d jobs are late after five seconds", n)
	}
	c.clock.Advance(time.Millisecond)
	if n := c.count("late=true&tag=night"); n != 3 {
		t.Errorf("%d jobs are late after more than five seconds, want 3", n)
	}
	if o := c.bulk(`{"action": "pause", "filter": {"late": true}}`); o.Done != 3 || o.Total != 3 {
		t.Errorf("to pause what is late: %+v", o)
	}
	if o := c.bulk(`{"action": "tag", "tags": ["whose"], "filter": {"owner": "Alice & Bob"}}`); o.Done != 1 || c.count("tag=whose&status=ACTIVE") != 1 {
		t.Errorf("to tag what is theirs: %+v", o)
	}
}

// A job on hold, or one that a workflow uses, does not keep a bulk deletion from the others.
func TestBulkDeletePassesOverWhatIsHeld(t *testing.T) {
	c := newClockwork(t)
	var ids []string
	for range 3 {
		ids = append(ids, want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, `, "tags": ["z"]`)).JobID)
	}
	want[client.Hold](c.face, 200, "PUT", "/api/v1/holds", fmt.Sprintf(`{"job_id": %q, "reason": "Case 4711"}`, ids[1]))
	if o := c.bulk(`{"filter": {"tag": "z"}, "action": "delete"}`); o.State != "SUCCEEDED" || o.Done != 2 || o.Passed != 1 || o.Error == nil || !strings.Contains(*o.Error, "on hold") {
		t.Errorf("delete: %+v", o)
	}
}
