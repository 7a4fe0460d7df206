package bench

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// page is a request that the dashboard makes to the API.
type page struct {
	name  string
	route string // as in the API's table, after /api/v1
	goal  float64
	query func(c *chance) string // returns the query to add to the route, and the ids in it, see chance.path
}

// chance chooses the subjects of requests.
type chance struct {
	stock *stock
	id    string // of what the route is about
}

// of returns one of the ids; if there are none, an unknown one.
func of(ids []string) string {
	if len(ids) == 0 {
		return nothing()
	}
	return ids[rand.IntN(len(ids))]
}

// nothing returns an unknown id.
func nothing() string {
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", 0x01900000+rand.Uint32N(0xffff), 0x1000+rand.Uint32N(0xefff), rand.Uint32N(0xfff), rand.Uint32N(0xfff), rand.Uint64N(1<<48))
}

func text(s string) string { return url.QueryEscape(s) }

// name returns the name of one of the jobs.
func (c *chance) name() string { return text(nameOf(rand.IntN(c.stock.jobs)/5*5 + 1)) }

// span returns a time range of the month, as a query.
func (c *chance) span(d time.Duration) string {
	from := c.stock.began.Add(-rand.N(month))
	return "start_date=" + text(from.Format(time.RFC3339)) + "&end_date=" + text(from.Add(d).Format(time.RFC3339))
}

func (c *chance) job() string {
	if rand.IntN(5) == 0 && len(c.stock.oneOff.ids) > 0 {
		return of(c.stock.oneOff.ids)
	}
	return of(c.stock.plain.ids)
}

func (c *chance) busy() string {
	if len(c.stock.busy) == 0 {
		return c.job()
	}
	return c.stock.busy[rand.IntN(len(c.stock.busy))].ID.String()
}

func (c *chance) execution() string {
	ids := c.stock.well.ids
	switch n := rand.IntN(5); {
	case n == 0 && len(c.stock.ill.ids) > 0:
		ids = c.stock.ill.ids
	case n == 1 && len(c.stock.twice.ids) > 0:
		ids = c.stock.twice.ids
	}
	return of(ids)
}

func (c *chance) jobs(n int) string {
	ids := map[string]bool{}
	for range 3 * n {
		if ids[c.job()] = true; len(ids) == n {
			break
		}
	}
	var all []string
	for id := range ids {
		all = append(all, id)
	}
	return strings.Join(all, ",")
}

// path returns the path of a request for a page.
func (p page) path(s *stock) string {
	c := &chance{stock: s}
	q := p.query(c)
	path := strings.NewReplacer("{id}", url.PathEscape(c.id), "{queue}", url.PathEscape(c.id), "{key}", "n0").Replace(p.route)
	if q != "" {
		path += "?" + q
	}
	return path
}

// plainly requests the route with the same query each time.
func plainly(q string) func(*chance) string { return func(*chance) string { return q } }

// about requests one of several things.
func about(id func(*chance) string, q string) func(*chance) string {
	return func(c *chance) string { c.id = id(c); return q }
}

func anyJob(c *chance) string       { return c.job() }
func busyJob(c *chance) string      { return c.busy() }
func anyExecution(c *chance) string { return c.execution() }
func anyQueue(*chance) string       { return of(queues) }
func anyWorkflow(c *chance) string  { return of(c.stock.furniture.workflows) }
func anyRun(c *chance) string       { return of(c.stock.furniture.runs) }

// pageTable lists the requests of screens. Filters that match little or nothing are the hardest for an index.
var pageTable = []page{
	{"jobs", "/jobs", goalList, plainly("limit=50")},
	{"jobs, for their tags", "/jobs", goalList, plainly("limit=200")},
	{"jobs that are active", "/jobs", goalList, plainly("limit=50&status=ACTIVE")},
	{"jobs that are paused", "/jobs", goalList, plainly("limit=50&status=PAUSED")},
	{"jobs that are completed", "/jobs", goalList, plainly("limit=50&status=COMPLETED")},
	{"jobs that are deleted: none", "/jobs", goalList, plainly("limit=50&status=DELETED")},
	{"jobs by type", "/jobs", goalList, func(*chance) string {
		return "limit=50&schedule_type=" + of([]string{"CRON", "INTERVAL", "ONE_TIME", "IMMEDIATE"})
	}},
	{"jobs by tag", "/jobs", goalList, func(*chance) string { return "limit=50&tag=" + of([]string{"billing", "eu", "etl"}) }},
	{"jobs by a rare tag", "/jobs", goalList, plainly("limit=50&tag=" + rare)},
	{"jobs by a tag that none has", "/jobs", goalList, plainly("limit=50&tag=nowhere")},
	{"jobs of an owner that none has", "/jobs", goalList, plainly("limit=50&owner=nobody")},
	{"jobs that are late", "/jobs", goalList, plainly("limit=50&late=true")},
	{"jobs by name", "/jobs", goalList, func(c *chance) string { return "limit=50&name=" + c.name() }},
	{"jobs by a name of many", "/jobs", goalList, plainly("limit=50&name=" + text("nightly report"))},
	{"jobs by a name that none has", "/jobs", goalList, plainly("limit=50&name=nobody")},
	{"jobs by a common text", "/jobs", goalList, func(*chance) string { return "limit=50&q=" + of(nouns) }},
	{"jobs by the text of one", "/jobs", goalList, func(c *chance) string { return "limit=8&q=" + c.name() }},
	{"jobs by part of a number", "/jobs", goalList, func(c *chance) string { return fmt.Sprintf("limit=50&q=%06d", rand.IntN(c.stock.jobs)) }},
	{"jobs by a text that none has", "/jobs", goalList, plainly("limit=50&q=" + text("no such thing"))},
	{"jobs by text, tag and type", "/jobs", goalList, func(*chance) string {
		return "limit=50&schedule_type=CRON&status=PAUSED&tag=" + of([]string{"billing", "etl", rare}) + "&q=" + of(nouns)
	}},
	{"last runs of 50 jobs", "/jobs:runs", goalPage, func(c *chance) string { return "n=30&ids=" + c.jobs(50) }},
	{"last runs of a job", "/jobs:runs", goalPage, func(c *chance) string { return "n=50&ids=" + c.busy() }},
	{"job", "/jobs/{id}", goalPage, about(anyJob, "")},
	{"job by its key", "/jobs/{id}", goalPage, func(c *chance) string {
		c.id = "key:job-" + strconv.Itoa(rand.IntN((c.stock.jobs+59)/60)*60)
		return ""
	}},
	{"job that is busy", "/jobs/{id}", goalPage, about(busyJob, "")},
	{"next instants of a job", "/jobs/{id}/next", goalPage, about(func(c *chance) string { return of(c.stock.plain.ids) }, "n=10")},
	{"occurrences of a job", "/jobs/{id}/occurrences", goalList, about(anyJob, "limit=100")},
	{"occurrences of a busy job", "/jobs/{id}/occurrences", goalList, about(busyJob, "limit=100")},
	{"calendar of a job", "/jobs/{id}/calendar", goalPage, about(anyJob, "")},
	{"calendar of a busy job", "/jobs/{id}/calendar", goalPage, about(busyJob, "")},
	{"revisions of a job", "/jobs/{id}/revisions", goalList, about(func(c *chance) string { return of(c.stock.plain.ids[:min(100, len(c.stock.plain.ids))]) }, "limit=20")},
	{"executions of a job", "/jobs/{id}/executions", goalList, about(anyJob, "limit=50")},
	{"executions of a busy job", "/jobs/{id}/executions", goalList, about(busyJob, "limit=50")},
	{"  for its plot", "/jobs/{id}/executions", goalPage, about(busyJob, "limit=400&status=SUCCEEDED,FAILED,TIMED_OUT")},
	{"  that failed", "/jobs/{id}/executions", goalList, about(busyJob, "limit=50&status=FAILED")},
	{"  that were skipped: none", "/jobs/{id}/executions", goalList, about(busyJob, "limit=50&status=SKIPPED")},
	{"  that succeeded last", "/jobs/{id}/executions", goalList, about(busyJob, "limit=2&status=SUCCEEDED")},
	{"  of a day", "/jobs/{id}/executions", goalList, func(c *chance) string { c.id = c.busy(); return "limit=50&" + c.span(24*time.Hour) }},

	{"executions", "/executions", goalList, plainly("limit=50")},
	{"executions, one", "/executions", goalList, plainly("limit=1")},
	{"executions that failed", "/executions", goalList, plainly("limit=50&status=FAILED")},
	{"executions that timed out", "/executions", goalList, plainly("limit=50&status=TIMED_OUT")},
	{"executions that were cancelled: none", "/executions", goalList, plainly("limit=50&status=CANCELLED")},
	{"executions that run: none", "/executions", goalList, plainly("limit=50&status=RUNNING,CANCELLING")},
	{"executions that wait", "/executions", goalList, plainly("limit=20&status=PENDING,WAITING,RETRYING")},
	{"executions that have ended", "/executions", goalPage, plainly("limit=200&status=SUCCEEDED,FAILED,TIMED_OUT")},
	{"executions by hand: few", "/executions", goalList, plainly("limit=50&trigger=manual")},
	{"executions of workflows: none", "/executions", goalList, plainly("limit=50&trigger=workflow")},
	{"executions by tag", "/executions", goalList, func(*chance) string { return "limit=50&tag=" + of([]string{"billing", "etl"}) }},
	{"executions by a rare tag", "/executions", goalList, plainly("limit=50&tag=" + rare)},
	{"executions by a tag that none has", "/executions", goalList, plainly("limit=50&tag=nowhere")},
	{"executions by the name of a job", "/executions", goalList, func(c *chance) string { return "limit=50&job_name=" + c.name() }},
	{"executions by a name of many jobs", "/executions", goalList, plainly("limit=50&job_name=" + text("nightly report"))},
	{"executions by a name that none has", "/executions", goalList, plainly("limit=50&job_name=nobody")},
	{"executions by job", "/executions", goalList, func(c *chance) string { return "limit=50&job_id=" + c.busy() + "&status=FAILED" }},
	{"executions by worker", "/executions", goalList, func(c *chance) string { return "limit=25&worker_id=" + of(c.stock.furniture.workers) }},
	{"executions by a worker that had none", "/executions", goalList, func(*chance) string { return "limit=25&worker_id=" + nothing() }},
	{"executions of an hour", "/executions", goalList, func(c *chance) string { return "limit=50&" + c.span(time.Hour) }},
	{"executions of a week that failed", "/executions", goalList, func(c *chance) string { return "limit=50&status=FAILED&" + c.span(7*24*time.Hour) }},
	{"executions of the last minutes", "/executions", goalPage, func(c *chance) string {
		return "limit=1000&start_date=" + text(c.stock.began.Add(-time.Duration(15+rand.IntN(45))*time.Minute).Format(time.RFC3339))
	}},
	{"executions by a common text", "/executions", goalList, func(*chance) string { return "limit=50&q=" + of(nouns) }},
	{"executions by the text of an error", "/executions", goalList, plainly("limit=50&q=" + text("connection refused"))},
	{"executions by a rare text", "/executions", goalList, func(c *chance) string { return "limit=50&q=" + c.name() }},
	{"executions by a text that none has", "/executions", goalList, plainly("limit=50&q=" + text("no such thing"))},
	{"executions by id", "/executions", goalList, func(c *chance) string { return "limit=50&q=" + c.execution() }},
	{"executions by the id of a job", "/executions", goalList, func(c *chance) string { return "limit=50&q=" + c.job() }},
	{"executions by tag, status and time", "/executions", goalList, func(c *chance) string {
		return "limit=50&status=FAILED,TIMED_OUT&trigger=schedule&tag=" + of([]string{"billing", rare}) + "&" + c.span(24*time.Hour)
	}},
	{"execution", "/executions/{id}", goalPage, about(anyExecution, "")},
	{"attempts of an execution", "/executions/{id}/attempts", goalList, about(anyExecution, "")},
	{"events of an execution", "/executions/{id}/events", goalList, about(anyExecution, "limit=1000")},
	{"report of an execution", "/executions/{id}/report", goalPage, about(anyExecution, "")},
	{"why an execution ended", "/executions/{id}/explain", goalPage, about(anyExecution, "")},
	{"why an execution waits", "/executions/{id}/explain", goalPage, about(func(c *chance) string { return of(c.stock.wait.ids) }, "")},
	{"log of an execution", "/executions/{id}/logs", goalPage, about(func(c *chance) string { return of(c.stock.logged.ids) }, "limit=1000")},

	{"workflows", "/workflows", goalList, plainly("limit=50")},
	{"workflow", "/workflows/{id}", goalPage, about(anyWorkflow, "")},
	{"graph of a workflow", "/workflows/{id}/graph", goalPage, about(anyWorkflow, "")},
	{"runs of workflows", "/workflow-runs", goalList, plainly("limit=50")},
	{"runs of a workflow", "/workflow-runs", goalList, func(c *chance) string { return "limit=50&workflow=" + anyWorkflow(c) }},
	{"run of a workflow", "/workflow-runs/{id}", goalPage, about(anyRun, "")},
	{"why a run waits", "/workflow-runs/{id}/explain", goalPage, about(anyRun, "")},
	{"items of a map", "/workflow-runs/{id}/nodes/{key}/items", goalList, about(anyRun, "limit=50")},
	{"approvals", "/approvals", goalList, plainly("limit=50")},
	{"versions of a workflow", "/workflows/{id}/versions", goalList, about(anyWorkflow, "limit=20")},

	{"dead letters", "/dead-letters", goalList, plainly("limit=50")},
	{"dead letters of a job", "/dead-letters", goalList, func(c *chance) string { return "limit=50&job_id=" + c.busy() }},
	{"dead letters by reason", "/dead-letters", goalList, plainly("limit=50&reason=ATTEMPTS_EXHAUSTED")},
	{"dead letters by a reason that none has", "/dead-letters", goalList, plainly("limit=50&reason=POISON")},
	{"dead letters by a common text", "/dead-letters", goalList, plainly("limit=50&q=ledger")},
	{"dead letters by a text that none has", "/dead-letters", goalList, plainly("limit=50&q=" + text("no such thing"))},
	{"dead letters of no time", "/dead-letters", goalList, func(c *chance) string { return "limit=50&" + c.span(time.Hour) }},
	{"groups of dead letters", "/dead-letters:groups", goalPage, plainly("limit=20")},
	{"groups by a text that none has", "/dead-letters:groups", goalPage, plainly("limit=20&q=" + text("no such thing"))},
	{"groups by a reason that none has", "/dead-letters:groups", goalPage, plainly("limit=20&reason=POISON")},

	{"overview", "/overview", goalPage, plainly("")},
	{"series", "/series", goalPage, func(*chance) string { return "hours=24&step=300&scope=" + of([]string{"tenant", "installation"}) }},
	{"series of delays", "/series/delays", goalPage, plainly("hours=24&step=900")},
	{"series of queues", "/series/queues", goalPage, func(*chance) string { return "hours=24&step=300&scope=" + of([]string{"tenant", "installation"}) }},
	{"failures of a day", "/failures", goalPage, plainly("hours=24&limit=8")},
	{"failures of a week", "/failures", goalPage, plainly("hours=168&limit=20")},
	{"failures of a job", "/failures", goalPage, func(c *chance) string { return "hours=168&job_id=" + c.job() }},
	{"forecast of an hour", "/forecast", goalPage, plainly("hours=1")},
	{"forecast of a day", "/forecast", goalPage, plainly("hours=24")},
	{"forecast of a week", "/forecast", goalPage, plainly("hours=168")},
	{"forecast of a day, spread", "/forecast", goalPage, plainly("hours=24&spread=true")},
	{"queue status", "/admin/queue/status", goalPage, plainly("")},
	{"queue status with a day of minutes", "/admin/queue/status", goalPage, plainly("minutes=1440")},
	{"workers", "/workers", goalList, plainly("limit=1000")},
	{"worker", "/workers/{id}", goalPage, about(func(c *chance) string { return of(c.stock.furniture.workers) }, "")},
	{"queues", "/queues", goalList, plainly("limit=100")},
	{"queue", "/queues/{queue}", goalPage, about(anyQueue, "")},
	{"what waits in a queue", "/queues/{queue}/waiting", goalPage, about(anyQueue, "")},
	{"what waits in a queue that nobody serves", "/queues/{queue}/waiting", goalPage, about(func(*chance) string { return nobody }, "")},
	{"limits", "/limits", goalList, plainly("limit=1000")},
	{"session", "/session", goalPage, plainly("")},
	{"quotas", "/quotas", goalPage, plainly("")},
	{"sizes", "/admin/sizes", goalPage, plainly("")},
	{"operations", "/operations", goalList, plainly("limit=50")},
	{"operation", "/operations/{id}", goalPage, about(func(c *chance) string { return of(c.stock.furniture.operations) }, "")},
	{"tenants", "/tenants", goalList, plainly("limit=100")},
	{"tenant", "/tenants/{id}", goalPage, about(func(c *chance) string { return of(c.stock.furniture.tenants) }, "")},
	{"API keys", "/api-keys", goalList, plainly("limit=50")},
	{"sign-ins", "/sign-ins", goalList, plainly("limit=50")},
	{"calendars", "/calendars", goalList, plainly("limit=200")},
	{"notification rules", "/notification-rules", goalList, plainly("limit=100")},
	{"secrets", "/secrets", goalList, plainly("")},
	{"signing secrets", "/signing-secrets", goalList, plainly("")},
	{"badges", "/badges", goalList, plainly("limit=50")},
	{"audit", "/audit", goalList, plainly("limit=50")},
	{"audit by action", "/audit", goalList, func(*chance) string { return "limit=50&action=" + of([]string{"job.create", "job.", "tenant."}) }},
	{"audit by an action that nobody did", "/audit", goalList, plainly("limit=50&action=job.delete")},
	{"audit by object", "/audit", goalList, func(c *chance) string { return "limit=50&object=" + c.job() }},
	{"audit by principal", "/audit", goalList, func(*chance) string { return "limit=50&principal=" + text("importer "+strconv.Itoa(rand.IntN(40))) }},
	{"audit of an hour", "/audit", goalList, func(c *chance) string {
		from := c.stock.began.Add(-rand.N(month))
		return "limit=50&from=" + text(from.Format(time.RFC3339)) + "&to=" + text(from.Add(time.Hour).Format(time.RFC3339))
	}},
	{"audit, verified", "/audit/verify", goalPage, plainly("")},
}

// display is a screen of the dashboard: what it requests at once, and then what depends on the answers.
type display struct {
	name  string
	waves [][]string // names of pages
}

var screens = []display{
	{"Now", [][]string{{"session", "overview", "failures of a day", "series of delays", "series of queues", "forecast of an hour"}}},
	{"Jobs", [][]string{{"session", "jobs"}, {"last runs of 50 jobs"}}},
	{"Jobs, searched", [][]string{{"session", "jobs by part of a number"}, {"last runs of 50 jobs"}}},
	{"Job", [][]string{{"session", "job that is busy"}, {"last runs of a job", "next instants of a job", "calendar of a busy job", "  for its plot", "executions of a busy job"}}},
	{"Executions", [][]string{{"session", "executions", "operations", "workers"}}},
	{"Executions that failed", [][]string{{"session", "executions that failed", "operations", "workers"}}},
	{"Execution", [][]string{{"session", "execution"}, {"report of an execution", "events of an execution", "why an execution ended", "job", "workers", "log of an execution"}}},
	{"Dead letters", [][]string{{"session", "dead letters", "groups of dead letters", "operations"}}},
	{"Queues", [][]string{{"session"}, {"queue status with a day of minutes", "queues", "limits", "series", "workers", "executions that wait"}, {"why an execution waits", "why an execution waits"}}},
	{"Workers", [][]string{{"session", "workers", "executions of the last minutes"}}},
	{"Forecast", [][]string{{"session", "forecast of a day", "calendars", "workers", "executions that have ended"}}},
	{"Forecast, spread", [][]string{{"forecast of a day, spread"}}},
	{"Admin", [][]string{{"session", "quotas", "queue status", "sizes", "workers"}}},
	{"Audit", [][]string{{"session", "audit"}}},
	{"Tenants", [][]string{{"session", "tenants"}}},
}

// walks lists the lists to page through.
var walks = []struct{ name, route, query, rows, id string }{
	{"jobs, page by page", "/jobs", "limit=50", "jobs", "job_id"},
	{"executions, page by page", "/executions", "limit=50", "executions", "execution_id"},
	{"executions that failed, page by page", "/executions", "limit=50&status=FAILED", "executions", "execution_id"},
	{"dead letters, page by page", "/dead-letters", "limit=50", "dead_letters", "execution_id"},
	{"audit, page by page", "/audit", "limit=50", "audit", "seq"},
}
