package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// neverBegan holds for executions x that no run has.
	neverBegan = ` AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.id /*postgres: OFFSET 0*/)
		AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.execution = x.id /*postgres: OFFSET 0*/)
		AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.execution = x.id /*postgres: OFFSET 0*/)`

	// A list has neither the states of runs nor their inputs and outputs: each of these may be large.
	begunColumns   = "r.id, r.execution, r.token, r.tenant, r.workflow, r.version, r.attempt, r.status, r.ending, r.scheduled_at, r.begun_at, r.ended_at, r.seq"
	waitingColumns = "x.id, x.tenant, x.job, x.scheduled_at, x.lease, x.hold"
	skippedColumns = "x.id, x.tenant, x.job, x.scheduled_at, x.status, x.finished_at, x.ending"

	// isHeld holds for a live execution x that is WAITING.
	isHeld = "(x.lease <= 0 AND x.hold <> 0)"

	// isWorkflow holds for jobs whose targets begin with engine.WorkflowMark.
	isWorkflow     = "/*postgres: substring(target FROM 1 FOR 15) = '\\x7b226b223a22776f726b666c6f7722'::bytea*//*sqlite: substr(target, 1, 15) = x'7b226b223a22776f726b666c6f7722'*/"
	workflowIDsSQL = "SELECT id FROM jobs /*sqlite: INDEXED BY jobs_workflows*/ WHERE tenant = $1 AND " + isWorkflow + " ORDER BY id LIMIT $2"
)

// fewWorkflows is how many workflows of a tenant are looked at one by one for runs that ended without having begun; of more, all that the
// tenant ran and that did not succeed is.
const fewWorkflows = 16

// WorkflowRuns lists runs, latest scheduled time first.
func (s Runs) WorkflowRuns(ctx context.Context, f engine.RunFilter, p engine.Page) (out engine.Listed[engine.WorkflowRun], err error) {
	err = s.db.List(ctx, "list runs", func(tx Tx) error {
		of := []job.ID{f.Workflow}
		if f.Workflow.IsZero() {
			if of, err = all(tx, func(r Row) (id job.ID, err error) { return id, r.Scan((*[16]byte)(&id)) }, workflowIDsSQL, string(f.Tenant), fewWorkflows+1); err != nil {
				return err
			}
		}
		out, err = engine.ListAll(p, runSources(tx, f, of), func(r *engine.WorkflowRun) engine.Place { return engine.Place{At: r.ScheduledAt, ID: r.ID} })
		return err
	})
	return out, err
}

// runSources are the parts of a list of runs: those that have begun, those that wait, and those that ended without having begun.
func runSources(tx Tx, f engine.RunFilter, of []job.ID) (out []engine.SourceOf[engine.WorkflowRun]) {
	chooses := func(any func(job.Status) bool) bool {
		return len(f.Statuses) == 0 || slices.ContainsFunc(f.Statuses, func(s int) bool { return any(job.Status(s)) })
	}
	waits := func(s job.Status) bool { return s == job.Waiting || s == job.Pending }
	if chooses(func(s job.Status) bool { return !waits(s) }) {
		out = append(out, begunRuns(tx, f))
	}
	if chooses(waits) {
		out = append(out, waitingRuns(tx, f))
	}
	if !chooses(func(s job.Status) bool { return s > job.Succeeded }) {
		return out
	}
	if len(of) > fewWorkflows {
		l := neverRuns(tx, f, "executions_ill")
		l.indexed = len(l.params)
		l.also = " AND x.job IN (SELECT id FROM jobs WHERE tenant = $1 AND " + isWorkflow + ")" + l.also
		return append(out, l.ended(f))
	}
	for _, id := range of {
		l := neverRuns(tx, f, "executions_job")
		l.where += " AND x.job = " + l.params.add([16]byte(id)) + " AND /*postgres: tally*//*sqlite: x.id <> x.job*/"
		l.indexed = len(l.params)
		own := neverRuns(tx, f, "")
		own.where += " AND x.id = " + own.params.add([16]byte(id)) + " AND x.id = x.job" // what a job fires as it is created has its id
		own.indexed = len(own.params)
		out = append(out, l.ended(f), own.ended(f))
	}
	return out
}

// runListing is a part of a list of runs.
type runListing struct{ listing[engine.WorkflowRun] }

func listingRuns(tx Tx, f engine.RunFilter, table, index, columns string, scan func(Row) (engine.WorkflowRun, error)) *runListing {
	if index != "" {
		table += " /*sqlite: INDEXED BY " + index + "*/"
	}
	l := &runListing{listing[engine.WorkflowRun]{
		tx: tx, table: table, columns: columns, key: []string{"scheduled_at", "id"}, at: "scheduled_at", scan: scan,
		keys: func(p engine.Place) []any { return []any{p.At, [16]byte(p.ID)} },
		place: func(r Row) (p engine.Place, err error) {
			err = r.Scan(&p.At, (*[16]byte)(&p.ID))
			return p, err
		},
	}}
	l.where = "tenant = " + l.params.add(string(f.Tenant))
	return l
}

// ended adds what a filter says of executions that ended.
func (l *runListing) ended(f engine.RunFilter) listing[engine.WorkflowRun] {
	l.also += " AND finished_at >= " + l.params.add(since(f.Kept))
	return l.chosen(f)
}

// chosen adds the statuses of a filter.
func (l *runListing) chosen(f engine.RunFilter) listing[engine.WorkflowRun] {
	if len(f.Statuses) > 0 {
		marks := make([]string, len(f.Statuses))
		for i, s := range f.Statuses {
			marks[i] = l.params.add(s)
		}
		l.also += " AND status IN (" + strings.Join(marks, ", ") + ")"
	}
	return l.listing
}

func scanBegun(r Row) (out engine.WorkflowRun, err error) {
	var ending []byte
	err = r.Scan((*[16]byte)(&out.ID), (*[16]byte)(&out.Execution), (*int64)(&out.Token), (*string)(&out.Tenant), (*[16]byte)(&out.Workflow), &out.Version, &out.Attempt, &out.Status,
		&ending, &out.ScheduledAt, &out.BegunAt, &out.EndedAt, &out.Seq)
	if err != nil {
		return out, err
	}
	out.Error, _, err = engine.DecodeEnd(orNil(ending))
	return out, err
}

func begunRuns(tx Tx, f engine.RunFilter) listing[engine.WorkflowRun] {
	index := "runs_tenant"
	if !f.Workflow.IsZero() {
		index = "runs_workflow"
	}
	l := listingRuns(tx, f, "runs r", index, begunColumns, scanBegun)
	if !f.Workflow.IsZero() {
		l.where += " AND workflow = " + l.params.add([16]byte(f.Workflow))
	}
	l.indexed = len(l.params)
	return l.chosen(f)
}

func waitingRuns(tx Tx, f engine.RunFilter) listing[engine.WorkflowRun] {
	l := listingRuns(tx, f, "live x", "live_runs", waitingColumns, func(r Row) (out engine.WorkflowRun, err error) {
		var lease int64
		var hold int
		err = r.Scan((*[16]byte)(&out.ID), (*string)(&out.Tenant), (*[16]byte)(&out.Workflow), &out.ScheduledAt, &lease, &hold)
		out.Execution, out.Attempt = out.ID, 1
		if out.Status = int(job.Pending); lease <= 0 && hold != 0 {
			out.Status = int(job.Waiting)
		}
		return out, err
	})
	l.where += " AND class = 'workflow'"
	l.indexed = len(l.params)
	if !f.Workflow.IsZero() {
		l.also += " AND job = " + l.params.add([16]byte(f.Workflow))
	}
	if len(f.Statuses) > 0 {
		switch waiting, pending := slices.Contains(f.Statuses, int(job.Waiting)), slices.Contains(f.Statuses, int(job.Pending)); {
		case !pending:
			l.also += " AND " + isHeld
		case !waiting:
			l.also += " AND NOT " + isHeld
		}
	}
	l.also += neverBegan
	return l.listing
}

// neverRuns is a list of executions that ended, to be limited to those of workflows.
func neverRuns(tx Tx, f engine.RunFilter, index string) *runListing {
	l := listingRuns(tx, f, "executions x", index, skippedColumns, func(r Row) (out engine.WorkflowRun, err error) {
		var ending []byte
		err = r.Scan((*[16]byte)(&out.ID), (*string)(&out.Tenant), (*[16]byte)(&out.Workflow), &out.ScheduledAt, &out.Status, &out.EndedAt, &ending)
		if err != nil {
			return out, err
		}
		out.Execution, out.Attempt = out.ID, 1
		out.Error, _, err = engine.DecodeEnd(orNil(ending))
		return out, err
	})
	l.where += " AND status > 10"
	l.also = neverBegan
	return l
}
