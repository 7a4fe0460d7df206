package sqlite

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// small lists what has few rows.
var small = regexp.MustCompile(`^SCAN (above|CONSTANT ROW|tokens|f|json_each.*|\(subquery-\d+\)|\d+-ROW VALUES CLAUSE)$`)

// Every statement of the hot path finds its rows by an index.
func TestPlans(t *testing.T) {
	s := fresh(t)
	sqls := []string{
		anyFireSQL, freeFireSQL, recordSQL, planSQL, takeBackSQL, holdOwnSQL, pieceSQL, holdSQL, settlingSQL, settledSQL, updateJobSQL, resumableSQL,
		moveSQL, spareSQL, replanSQL, unplanSQL, replacedSQL, dueSQL, aheadSQL, readySQL, aliveSQL, freeSQL.bulk, leaseSQL.bulk, heldSQL, releaseSQL, loseSQL, attemptSQL, againSQL, pastFinishSQL,
		endAllSQL.bulk, dropAllSQL.bulk, endSQL + held, dropSQL + held + quietly, dropSQL + held + dropped, endSQL + freed, dropSQL + freed + dropped, endSQL + waiting, dropSQL + waiting + dropped,
		endSQL + alone, dropSQL + alone + dropped, askSQL, askedSQL, overdueSQL, orderSQL, dropOrderSQL, lostOrdersSQL, renewSQL, oneWorkerSQL, staleOrdersSQL, ordersSQL,
		endedSQL, exhume, finishedSQL, finishedSQL + isDeadLetter, attemptsSQL,
		holderSQL, lateSQL, redrivableSQL, stayDeadSQL, tellSQL, holdsSQL, advanceSQL, drainSQL, runningLeaseSQL, clockSQL, grantsSQL, burySQL,
		oldOperationsSQL, fullBucketsSQL, bucketSQL, fillSQL,
		findIdempotencySQL, oldKeysSQL, deleteJobSQL, lossesSQL, statsSQL, durationsSQL, ownFireSQL, runningSQL, lastStatusSQL,
		logHeadSQL, logHeldSQL, appendLogSQL, readLogsSQL, lastLogSQL, nextLoggedSQL, dropLogSQL,
		"SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE j.tenant = ? AND j.id = ?",
		"SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE j.tenant = ? AND j.key = ? AND j.key IS NOT NULL AND j.state <> 4",
		"SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE j.tenant = ? AND j.state <> 4 ORDER BY j.id DESC LIMIT 10",
		"SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE " + jobsWhere(engine.JobFilter{LateBefore: time.Unix(1, 0)}, true).String() + " ORDER BY j.id DESC LIMIT 10",
		"SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE " + jobsWhere(engine.JobFilter{LateBefore: time.Unix(1, 0)}, false).String() + " ORDER BY j.id DESC LIMIT 10",
		"SELECT " + liveColumns + " FROM live v WHERE v.tenant = ? AND v.id = ?",
		"SELECT " + pastColumns + " FROM executions v WHERE v.tenant = ? AND v.id = ?",
	}
	for _, f := range []engine.DeadLetterFilter{
		{}, {Job: job.ID{1}}, {Execution: job.ExecutionID{1}}, {Job: job.ID{1}, Execution: job.ExecutionID{1}},
		{Reason: job.DeadPoison, Text: "x", From: time.Unix(1, 0), Until: time.Unix(2, 0)},
	} {
		from, _, w := deadWhere(f)
		list := "SELECT d.at FROM " + from + " WHERE " + w.String()
		sqls = append(sqls, list+latestFirst, list+" ORDER BY d.at LIMIT 1",
			deadLettersSQL+from+withExecution+w.String()+" AND (d.at, d.execution) < (?, ?)"+latestFirst+" LIMIT 10")
	}
	sqls = append(sqls, nextLaneSQLs...)
	busy := engine.ExecutionFilter{
		Statuses: []job.Status{job.Pending, job.Succeeded}, Triggers: []job.Trigger{job.ByHand}, Worker: job.WorkerID{1}, Tag: "x", JobName: "x", Text: "x",
		From: time.Unix(1, 0), Until: time.Unix(2, 0),
	}
	for _, f := range []engine.ExecutionFilter{{}, busy, {OwnAsOf: time.Now()}, {Statuses: []job.Status{job.Failed}}} {
		for _, b := range slices.Concat(tenantBranches(f), jobBranches(f, job.ID{1})) {
			in := engine.Span{After: engine.Place{At: time.Unix(2, 0)}, Until: engine.Place{At: time.Unix(1, 0)}}
			if b.own { // of which there is one at most, and which is found by its id
				sqls = append(sqls, strings.TrimSuffix(b.readSQL(b.all), inOrder))
				continue
			}
			sqls = append(sqls, b.nthSQL(b.index), b.nthSQL(within(b.index, in)), b.readSQL(b.all), b.readSQL(within(b.all, in)), b.countSQL(b.all), b.countSQL(within(b.all, in)))
		}
	}
	sqls = append(sqls, manyJobsSQL)
	sqls = append(sqls, recentRuns...)
	sqls = append(sqls, whoseLiveSQL, whosePastSQL, nameSQL, lateSchedulesSQL, lateJobSQL, walkRevisionsSQL, dropRevisionSQL, oldRevisionsSQL,
		markTallySQL, keepTenantMinuteSQL, monthSQL, keepMonthSQL, oldMonthsSQL, addFailureSQL, nameFailureSQL, idleMonthsSQL)
	for _, sql := range sqlstore.Statements {
		sqls = append(sqls, sqlstore.SQLite.Text(sql))
	}
	for sql := range oldTallies {
		sqls = append(sqls, sql)
	}
	for _, sql := range sqls {
		err := s.look(t.Context(), "explain", func(c *conn) error {
			return c.prepare("EXPLAIN QUERY PLAN " + sql).each(func(r *row) error {
				if step := r.on.ColumnText(3); strings.HasPrefix(step, "SCAN ") && !small.MatchString(step) || strings.Contains(step, "TEMP B-TREE") && !(strings.Contains(step, "LAST TERM") && strings.Contains(sql, "live_fire")) { // of one instant there are few
					t.Errorf("%s:\n%s", sql, step)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A statement is compiled once, also if its limit is a variable.
func TestALimitIsCompiledOnce(t *testing.T) {
	c, err := openConn(":memory:", driver.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	compiled := 0
	if err := c.SetAuthorizer(driver.AuthorizeFunc(func(driver.Action) driver.AuthResult { compiled++; return driver.AuthResultOK })); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT 1 AS a UNION SELECT 2 ORDER BY a LIMIT ?", "SELECT 1 AS a UNION SELECT 2 ORDER BY a LIMIT $1"} {
		compiled = 0
		for n := range 3 {
			rows, before := 0, compiled
			if err := c.prepare(sql).args([]any{n}).each(func(*row) error { rows++; return nil }); err != nil || rows != n {
				t.Errorf("%s with %d: %d rows, %v", sql, n, rows, err)
			}
			if (compiled > before) != (n == 0) {
				t.Errorf("%s was compiled with the limit %d", sql, n)
			}
		}
	}
}
