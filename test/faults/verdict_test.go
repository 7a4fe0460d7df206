//go:build unix

package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/test/harness"
)

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// found holds what there is in the end.
type found struct {
	all     []client.Execution // of jobs
	nodes   []client.Execution // of runs of workflows
	flows   []flowed
	tenant  map[string]int // of executions
	settled time.Duration  // how long after the last fault all had ended
	judged  int            // executions whose calls were put in order
	calls   int            // of these
	again   int            // executions that called more than once
	owed    int            // instants of recurring jobs
	lost    int
	doubled int
	stale   int
}

// verdict waits until everything has ended and compares what users were told, what the target saw, what there is, and what the
// tables say.
func (f *fleet) verdict() {
	f.Helper()
	end := time.Now().Truncate(time.Second).UTC() // what recurs continues
	x := &f.found
	x.tenant = map[string]int{}
	f.wrong = append(f.wrong, f.jobs.wrong...)
	if f.ended(end) { // else what is there changes while it is looked at
		x.settled = f.now() - f.quiet
		for i := range f.tenants {
			f.list(i, "once", time.Now().Add(time.Hour))
			f.list(i, "again", end)
			f.listFlows(i)
		}
		f.once()
		f.flows()
		f.recurred(end)
		f.called()
		f.limited()
		f.paused()
		f.linear()
		f.counted(end)
	}
	f.count()
	for i, w := range f.wrong {
		if i == shownWrong {
			f.Errorf("and %d more", len(f.wrong)-i)
			f.wrong = f.wrong[:i]
			break
		}
		f.Error(w)
	}
	if f.Failed() && f.history != nil {
		f.keepHistory()
	}
}

// shownWrong limits how many mistakes are shown.
const shownWrong = 30

// count sorts what is wrong into what was lost, doubled and taken stale.
func (f *fleet) count() {
	for _, w := range f.wrong {
		switch {
		case strings.HasPrefix(w, "I1: job") && strings.Contains(w, "gone"), strings.HasPrefix(w, "I2"), strings.Contains(w, "is lost"):
			f.found.lost++
		case strings.HasPrefix(w, "I3"), strings.HasPrefix(w, "I7"), strings.Contains(w, "times"):
			f.found.doubled++
		case strings.HasPrefix(w, "linearizability"), strings.HasPrefix(w, "I4"), strings.HasPrefix(w, "I5"):
			f.found.stale++
		}
	}
}

var alive = "status=WAITING,PENDING,RUNNING,RETRYING,CANCELLING"

// ended waits until nothing that was asked for is alive, and nothing that recurs of instants until one. That may take a lease, what
// was behind takes at the rate at which it was done before, and a minute.
func (f *fleet) ended(end time.Time) bool {
	f.Helper()
	done := f.trails.completed()
	behind := max(0, len(f.jobs.kept)-done)
	pace := float64(done) / f.quiet.Seconds()
	settle := f.lease + time.Duration(float64(behind)/pace*float64(time.Second)) + time.Minute
	late := time.Now().Add(atMost(settle))
	for id, j := range f.jobs.kept { // what is asked for later is not alive before it is due
		if !j.later || j.told < f.quiet-time.Minute {
			continue
		}
		for {
			var now client.Job
			if f.must(&now, 200, j.tenant, "GET", "/api/v1/jobs/"+id, ""); now.Status == "COMPLETED" {
				break
			}
			if time.Now().After(late) {
				f.say("I12: job %s (%s), for later, is %s %v after the last fault", id, j.tag, now.Status, f.now()-f.quiet)
				return false
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	for tenant := range f.tenants {
		for _, of := range []string{"job_name=once", "job_name=again&end_date=" + end.Add(time.Second).Format(time.RFC3339)} {
			for {
				var live client.Executions
				f.must(&live, 200, tenant, "GET", "/api/v1/executions?limit=5&"+alive+"&"+of, "")
				if len(live.Executions) == 0 && live.Pagination.NextCursor == nil {
					break
				}
				if time.Now().After(late) {
					for _, e := range live.Executions {
						f.say("I12: execution %s of tenant %s is %s %v after the last fault", e.ExecutionID, f.tenants[tenant], e.Status, f.now()-f.quiet)
					}
					f.say("I12: not all has ended within %v; %d of %d were behind when the last fault was over, at %.0f a second; since then %d have ended", settle, behind, len(f.jobs.kept), pace, f.trails.completed()-done)
					f.stands()
					return false
				}
				<-time.After(100 * time.Millisecond)
			}
		}
	}
	return f.flowsEnded(late)
}

// stands says what of each tenant waits and runs, and who has how much of a limit: for whoever looks for the reason.
func (f *fleet) stands() {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, f.db.url())
	if err != nil {
		f.Log(err)
		return
	}
	defer c.Close(ctx)
	for _, sql := range []string{
		`SELECT format('%s: %s wait, %s of them not due, %s run, the oldest since %s', tenant, count(*) FILTER (WHERE lease <= 0), count(*) FILTER (WHERE lease <= 0 AND due_at > now()), count(*) FILTER (WHERE lease > 0), min(leased_at) FILTER (WHERE lease > 0)) FROM live GROUP BY tenant`,
		`SELECT format('%s bundles of %s', count(*), tenant) FROM bundles GROUP BY tenant`,
		`SELECT row_to_json(s)::text FROM limit_shares s WHERE share > 0 OR want > 0`,
	} {
		rows, _ := c.Query(ctx, sql)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.Log(strings.Join(all, "; "), err)
	}
}

// list reads the executions of a tenant's jobs of a name, until an instant.
func (f *fleet) list(tenant int, name string, end time.Time) {
	f.Helper()
	path := "/api/v1/executions?limit=1000&job_name=" + name + "&end_date=" + end.Add(time.Second).UTC().Format(time.RFC3339)
	for cursor := ""; ; {
		var page client.Executions
		f.must(&page, 200, tenant, "GET", path+cursor, "")
		for _, e := range page.Executions {
			if e.ScheduledTime.After(end) {
				continue
			}
			if _, twice := f.found.tenant[e.ExecutionID]; twice {
				f.say("I3: execution %s is listed twice", e.ExecutionID)
			}
			f.found.tenant[e.ExecutionID] = tenant
			f.found.all = append(f.found.all, e)
		}
		if page.Pagination.NextCursor == nil {
			return
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

// once: every job that was acknowledged has one execution, of its own tenant, and it succeeded unless somebody cancelled it; and there
// is none that nobody was told of.
func (f *fleet) once() {
	byJob := map[string][]client.Execution{}
	for _, e := range f.found.all {
		if e.JobName == "once" {
			byJob[e.JobID] = append(byJob[e.JobID], e)
		}
	}
	for id, j := range f.jobs.kept {
		es := byJob[id]
		delete(byJob, id)
		switch {
		case len(es) == 0:
			f.say("I1: job %s (%s) was accepted and is gone, or has no execution", id, j.tag)
			continue
		case len(es) > 1:
			f.say("I3: job %s (%s) was fired %d times", id, j.tag, len(es))
		}
		e := es[0]
		if f.found.tenant[e.ExecutionID] != j.tenant {
			f.say("I11: job %s is of tenant %s and its execution of %s", id, f.tenants[j.tenant], f.tenants[f.found.tenant[e.ExecutionID]])
		}
		if e.Status != "SUCCEEDED" && !f.jobs.cancels[e.ExecutionID] { // what was asked to stop and fails is not tried again
			f.say("I12: execution %s of %s is %s: %+v", e.ExecutionID, j.tag, e.Status, e.Error)
		}
	}
	for id := range byJob {
		f.say("I3: job %s is there, and no request was answered with it", id)
	}
}

// recurred: every instant that is owed, by an oracle that shares nothing with the product, is one execution or in one record.
func (f *fleet) recurred(end time.Time) {
	byJob := map[string][]client.Execution{}
	for _, e := range f.found.all {
		if e.JobName == "again" {
			byJob[e.JobID] = append(byJob[e.JobID], e)
		}
	}
	for _, j := range slices.Concat(f.probes, f.others) {
		owed := j.instants(end)
		f.found.owed += len(owed)
		for _, w := range cover(owed, byJob[j.id]) {
			f.say("I2: job %s (%s): %s", j.id, j.body, w)
		}
	}
}

// called: what the target saw is what there is; a second call has a reason on record; tokens grow; payloads are of their tenants.
func (f *fleet) called() {
	for _, e := range slices.Concat(f.found.all, f.found.nodes) {
		calls := f.target.of(e.ExecutionID)
		tenant := f.tenants[f.found.tenant[e.ExecutionID]]
		for _, c := range calls {
			if c.asks.Tenant != tenant {
				f.say("I11: execution %s of %s called with a payload of %s", e.ExecutionID, tenant, c.asks.Tenant)
			}
		}
		switch {
		case e.Status == "SKIPPED" && len(calls) > 0:
			f.say("I3: execution %s was skipped, and called", e.ExecutionID)
		case e.Status != "SUCCEEDED":
		case len(calls) == 1:
		default:
			f.found.again += min(1, len(calls)-1)
			var told client.ExecutionAttempts
			f.must(&told, 200, f.found.tenant[e.ExecutionID], "GET", "/api/v1/executions/"+e.ExecutionID+"/attempts?limit=1000", "")
			for _, w := range checkCalls(ended{id: e.ExecutionID, status: e.Status, past: told.Attempts}, arrivals(calls), history{stale: true}) {
				f.say("%s (execution %s, calls %s)", w, e.ExecutionID, show(arrivals(calls)))
			}
		}
	}
}

// limited: of a group no more ran at once than its jobs allow: from a call to its answer, of attempts that were not lost.
func (f *fleet) limited() {
	by := map[int][]judge.Interval{}
	for _, e := range f.found.all {
		calls := f.target.of(e.ExecutionID)
		if n := len(calls); n == 1 && calls[0].asks.Group != "" && e.Status == "SUCCEEDED" {
			c := calls[0]
			by[c.asks.Max] = append(by[c.asks.Max], judge.Interval{
				Key: c.asks.Tenant + "/" + c.asks.Group, Start: c.at, End: c.until,
				By: judge.Event{At: c.at, Proc: "target", Kind: judge.Arrive, Op: judge.Execute, Execution: e.ExecutionID, Token: c.token, Group: c.asks.Group, Max: c.asks.Max},
			})
		}
	}
	for limit, all := range by {
		for _, v := range judge.Limit(all, limit) {
			f.say("I8: %s", v)
		}
	}
}

// heeded sets how long after its answer a pause is known everywhere; the simulation allows as much.
const heeded = 14 * time.Second

// paused: nothing of a queue begins while it is paused.
func (f *fleet) paused() {
	for _, p := range f.jobs.pauses {
		for _, e := range f.found.all {
			if f.found.tenant[e.ExecutionID] != p.tenant {
				continue
			}
			for _, c := range f.target.of(e.ExecutionID) {
				if c.asks.Paused && c.at > p.from+heeded && c.at < p.to {
					f.say("a pause of %v: execution %s was called %v after it was answered", p.to-p.from, e.ExecutionID, c.at-p.from)
				}
			}
		}
	}
}

// linear: what workers and users were told of each execution is linearizable.
func (f *fleet) linear() {
	f.Helper()
	x := &f.found
	h := judge.NewHistory()
	r := f.rec.Aside(h) // not f.rec: workers may still be busy with what recurs, of which the fleet was not asked
	for _, e := range slices.Concat(x.all, x.nodes) {
		t := f.trails.of[e.ExecutionID]
		x.judged++
		calls := f.target.of(e.ExecutionID)
		if t != nil && t.short {
			x.calls += 3
			if e.Status == "SUCCEEDED" && len(calls) == 1 && calls[0].token == t.token {
				continue // claimed, called and completed once
			}
			t.events, t.short = t.long(e.ExecutionID), false
		}
		if t == nil && len(calls) == 0 {
			continue // nobody ever had it
		}
		if t != nil {
			x.calls += len(t.events) / 2
			for _, v := range t.events {
				h.Add(v)
			}
		}
		r.Arrived(arrivals(calls))
		var told client.Events
		f.must(&told, 200, x.tenant[e.ExecutionID], "GET", "/api/v1/executions/"+e.ExecutionID+"/events?limit=1000", "")
		r.Ended(e, told.Events)
	}
	for _, v := range judge.Linear(h) {
		f.say("%s", v)
	}
	f.history = h
}

// counted: the tables say the same as the API.
func (f *fleet) counted(end time.Time) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, f.db.url())
	if err != nil {
		f.Fatal(err)
	}
	defer c.Close(ctx)
	var n, twice int
	if err := c.QueryRow(ctx, `SELECT count(*), count(*) - count(DISTINCT x.id) FROM (SELECT id, job, scheduled_at FROM executions UNION ALL SELECT id, job, scheduled_at FROM live) x
		JOIN jobs j ON j.id = x.job WHERE j.name = 'once' OR j.name = 'again' AND x.scheduled_at <= $1`, end).Scan(&n, &twice); err != nil {
		f.Fatal(err)
	}
	if n != len(f.found.all) || twice > 0 {
		f.say("I3: the tables have %d executions, %d of them twice; the API lists %d", n, twice, len(f.found.all))
	}
	var rows string
	if err := c.QueryRow(ctx, flowsSQL).Scan(&rows); err != nil {
		f.Fatal(err)
	}
	if want := f.flowCounts(); strings.ReplaceAll(rows, " ", "") != want {
		f.say("I3: of runs the tables have %s, want %s (runs, nodes, places of nodes, executions, marks and waits)", rows, want)
	}
}

// arrivals are calls as the other checks know them.
func arrivals(calls []called) (out []harness.Arrival) {
	for _, c := range calls {
		out = append(out, harness.Arrival{Execution: c.id, Attempt: int(c.attempt), Token: c.token, Key: c.key, Job: c.job, Instant: c.instant, At: c.when})
	}
	slices.SortStableFunc(out, func(a, b harness.Arrival) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return out
}

// keepHistory writes what was recorded of executions that were not simple, for whoever looks for the mistake.
func (f *fleet) keepHistory() {
	file, err := os.CreateTemp("", fmt.Sprintf("carillon-history-%d-*.jsonl", f.seed))
	if err != nil {
		f.Log(err)
		return
	}
	defer file.Close()
	if err := f.history.Write(file); err != nil {
		f.Log(err)
		return
	}
	f.Logf("the history is in %s", file.Name())
}
