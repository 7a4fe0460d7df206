package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
	"github.com/carillon-jobs/carillon/internal/watchdog"
)

// fresh is a migrated store over a new database.
func fresh(t testing.TB) *Store {
	t.Helper()
	watchdog.Watch(t)
	s, err := Open(t.Context(), Config{URL: migratedURL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil { // finds it done
		t.Fatal(err)
	}
	return s
}

// migratedURL is a new database with the schema.
func migratedURL(t testing.TB) string {
	t.Helper()
	return postgrestest.Migrated(t, func(ctx context.Context, url string) error {
		s, err := Open(ctx, Config{URL: url})
		if err != nil {
			return err
		}
		return errors.Join(s.Migrate(ctx), s.Close())
	})
}

// direct is a connection of the test's own to the store's database.
func direct(t *testing.T, s *Store) *pgx.Conn {
	t.Helper()
	c, err := pgx.ConnectConfig(t.Context(), s.admin.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

// exec runs a statement as the test's own.
func exec(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// few are tables that are small for good, so that all of one may be looked at.
var few = map[string]bool{"sessions": true, "servers": true}

type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Cond     string     `json:"Index Cond"`
	Plans    []planNode `json:"Plans"`
}

// asked are the indexes that statements may use, and the columns that each must be asked for by: an index that has columns
// before these, or lacks some, goes through very many rows.
var asked = map[string][]string{
	"calendars_pkey": {"tenant"}, "secrets_pkey": {"tenant", "name"}, "secrets_named": {"tenant"},
	"attempts_pkey": {"execution"}, "badges_pkey": {"tenant"}, "holds_pkey": {"tenant"}, "holds_job": {"tenant", "job"}, "blobs_pkey": {"id"}, "blobs_name": {"name"}, "blob_chunks_pkey": {"blob"}, "settling_pkey": {"tenant", "job"}, "buckets_pkey": {"bucket"}, "bundles_lane": {"lane", "priority"},
	"bundles_pkey": {"key"}, "bundles_tenant": {"tenant"}, "dead_letters_pkey": {"execution"},
	"dead_letters_redrive": {"redrive_at"}, "depths_pkey": {"tenant", "at"}, "events_pkey": {"execution", "kind", "token"},
	"executions_id_idx": {"id"}, "failures_pkey": {"tenant", "hour"}, "fingerprints_pkey": {"tenant", "fingerprint"},
	"job_counts_pkey": {"tenant"}, "job_durations_pkey": {"tenant", "job"}, "job_months_age": {"month"},
	"job_months_pkey": {"tenant", "job"}, "job_revisions_pkey": {"tenant", "job"}, "job_retentions_pkey": {"tenant"}, "archive_shares_pkey": {"tenant"}, "job_stats_pkey": {"tenant", "job"},
	"jobs_name": {"name"}, "jobs_paused": {"paused_until"}, "jobs_pkey": {"tenant", "id"}, "jobs_planned": {"tenant"},
	"run_members_pkey": {"execution"}, "runs_execution": {"execution"}, "leases_pkey": {"lease"}, "leases_worker": {"worker"}, "limit_shares_pkey": {"tenant", "queue"}, "live_expires": {"expires_at"},
	"live_fire": {"job"}, "live_lane": {"lane", "group_key", "priority"}, "live_parked": {"parked_until"}, "live_pkey": {"id"},
	"live_tenant": {"tenant"}, "live_unique": {"tenant", "unique_key"}, "logs_pkey": {"execution"}, "minutes_pkey": {"at"},
	"operations_finished": {"finished_at"}, "operations_pkey": {"id"}, "operations_running": {}, "orders_age": {"kind"},
	"orders_pkey": {"worker"}, "partitions_pkey": {"duty", "part"}, "past_secrets_whose": {"tenant", "job"}, "schedules_due": {"part", "next_run_at"},
	"schedules_pkey": {"part", "job"}, "secrets_job": {"tenant", "job"}, "servers_pkey": {}, "sessions_deposed": {},
	"sessions_pkey": {}, "tenant_minutes_pkey": {"tenant", "at"}, "traces_at": {"at"}, "traces_pkey": {"of"},
	"job_edges_pkey": {"tenant", "child"}, "job_edges_parent": {"parent"}, "edge_marks_pkey": {"child"}, "edge_marks_child": {"child"}, "edge_marks_age": {"at"}, "live_dependent": {"job"},
	"executions_tenant_scheduled_at_id_idx": {"tenant"}, "executions_job_scheduled_at_id_idx": {"job"}, "alarms_pkey": {"tenant"}, "runs_pkey": {"id"}, "run_attempts_pkey": {"execution"}, "run_attempts_run": {"run"},
	"runs_ended": {"tenant", "ended_at"}, "runs_workflow": {"tenant", "workflow"}, "run_members_run": {"run"}, "run_results_pkey": {"run"}, "run_events_woken": {"at"},
	"workflow_uses_pkey": {"tenant", "job"}, "workflow_versions_pkey": {"tenant", "workflow"},
}

// dayNamed is the name of a day in that of its indexes.
var dayNamed = regexp.MustCompile(`^executions_[0-9]{8}`)

// bad says what in a plan depends on how large the planner believes a table to be.
// walked is a table that the statement is to go through.
func (n planNode) bad(limited bool, walked string) []string {
	var out []string
	switch n.Type {
	case "Hash Join", "Merge Join", "Materialize", "Bitmap Heap Scan", "Gather", "Gather Merge":
		out = append(out, n.Type)
	case "Seq Scan":
		if !few[n.Relation] && n.Relation != walked {
			out = append(out, "Seq Scan of "+n.Relation)
		}
	case "Index Scan", "Index Only Scan":
		index := dayNamed.ReplaceAllString(n.Index, "executions")
		want, known := asked[index]
		if !known {
			out = append(out, fmt.Sprintf("%s, of which the test does not know what is to be asked: %s", n.Index, n.Cond))
		}
		if n.Index == "events_pkey" && strings.Contains(n.Cond, "result_refused") {
			want = want[:2] // of these there are few
		}
		if n.Index == "events_pkey" && !strings.Contains(n.Cond, "kind") {
			want = want[:1] // all of an execution
		}
		if n.Cond == "" && few[n.Relation] || n.Cond == "" && n.Relation == walked || n.Cond == "" && limited {
			break
		}
		if n.Cond == "" {
			out = append(out, "a walk through all of "+n.Index)
		}
		for _, column := range want {
			if !strings.Contains(n.Cond, column) {
				out = append(out, fmt.Sprintf("%s without %s: %s", n.Index, column, n.Cond))
			}
		}
	}
	for _, p := range n.Plans {
		out = append(out, p.bad(n.Type == "Limit" || n.Type == "LockRows" && limited, walked)...)
	}
	return out
}

func TestPlans(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	statements := map[string]string{
		"lease": leaseSQL, "lease to one": leaseOneSQL, "lease to one fenced": leaseOneFencedSQL, "succeed": succeedSQL, "finish": finishSQL, "judge": judgeSQL, "ready": readySQL, "lanes": lanesSQL, "fire": moveSQL, "lock fired": lockSQL, "drop replaced": dropReplacedSQL, "ask replaced": askReplacedSQL, "end replaced": endReplacedSQL, "unplan": unplanSQL, "lock plan": lockPlanSQL, "replan": replanSQL, "due": dueSQL, "ahead": aheadSQL,
		"held": heldSQL, "release": releaseSQL, "renew": renewSQL, "hand back": handBackSQL, "dead": deadSQL, "reap": reapSQL,
		"trigger": triggerSQL, "trigger keyed": triggerKeyedSQL, "delete job": deleteJobSQL, "cancel": cancelSQL, "left of a deletion": leftSQL, "tidy leases": tidyLeasesSQL,
		"tidy live": tidyLiveSQL, "tidy orders": tidyOrdersSQL, "cancel one": cancelOneSQL, "ask": askSQL, "force": forceSQL, "discard": discardSQL,
		"lease fenced": leaseFencedSQL, "fire judged": fireJudgedSQL, "refused": refusedSQL, "advance": advanceSQL, "drain": drainSQL, "incumbents": incumbentsSQL,
		"running": runningSQL, "overrun": overrunSQL, "park": parkSQL, "overdue parked": overdueParkedSQL, "expire": expireSQL, "redrivable": redrivableSQL, "postpone": postponeSQL, "rerun": rerunSQL,
		"relimit": relimitSQL, "draw": drawSQL, "peek": peekSQL, "tidy buckets": tidyBucketsSQL, "tidy operations": tidyOperationsSQL,
		"take": takeSQL, "give": giveSQL, "want": wantSQL, "nobody": nobodySQL, "lock shares": lockSharesSQL, "borrow": borrowSQL,
		"finished": finishedSQL, "runnable": runnableSQL, "known": knownSQL, "exhume": exhumeSQL,
		"stats": statsSQL, "last status": lastStatusSQL, "job": "SELECT " + jobColumns + " FROM " + plannedJobs + waits + " WHERE j.tenant = $1 AND j.id = $2",
		"live jobs": liveJobsSQL, "bundled jobs": bundledJobsSQL, "planned jobs": plannedJobsSQL, "keep count": keepCountSQL, "add to count": addCountSQL, "tidy minutes": tidyMinutesSQL, "tidy traces": tidyTracesSQL,
		"lock job": lockJobSQL, "take back": takeBackSQL, "hold": holdSQL, "hold own": holdOwnSQL, "settling": settlingSQL, "settled": settledSQL, "settle from": settleFromSQL, "update job": updateJobSQL, "updated": updatedSQL, "resumable": resumableSQL,
		"mark tally": markTallySQL, "keep tenant minutes": keepTenantMinutesSQL, "months": monthsSQL, "keep months": keepMonthsSQL, "old months": oldMonthsSQL,
		"add failures": addFailuresSQL, "name failures": nameFailuresSQL,
		"lease bundles": leaseBundlesSQL, "lease bundles fenced": leaseBundlesFencedSQL, "finish bundles": finishBundlesSQL, "unpack": unpackSQL, "unpack free": unpackFreeSQL,
		"ready bundles": readyBundlesSQL, "bundled lanes": bundledLanesSQL, "given bundles": givenBundlesSQL, "held by": heldBySQL, "overdue bundles": overdueBundlesSQL, "watch": watchSQL, "secrets of": secretsOfSQL,
		"names": namesSQL, "late jobs": lateJobsSQL, "tidy months": tidyMonthsSQL, "tidy revisions": tidyRevisionsSQL,
	}
	statements["take operation"] = sqlstore.PostgreSQL.Text(sqlstore.TakeOperation)
	statements["job failures"] = sqlstore.PostgreSQL.Text(sqlstore.JobFailures)
	for name, sql := range sqlstore.Statements {
		statements[name] = sqlstore.PostgreSQL.Text(sql)
	}
	// A table that the planner takes for empty is the trap: a walk through all of it looks free.
	exec(t, direct(t, s), "VACUUM ANALYZE")
	c, err := s.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	for name, sql := range statements {
		text := planOf(t, c, name, sql)
		if text == nil {
			continue
		}
		if name == "due" && !strings.Contains(string(text), "Merge Append") || name == "due" && strings.Contains(string(text), `"Sort"`) {
			t.Errorf("due: no merge of the partitions: %s", text)
		}
		if name == "last status" && (strings.Contains(string(text), `"live"`) || strings.Contains(string(text), "job_durations")) {
			t.Errorf("last status: what waits, or the durations, are read: %s", text)
		}
		if name == "stats" && strings.Count(string(text), `"live_fire"`) != strings.Count(string(text), `"Limit"`) {
			t.Errorf("stats: what waits is read to its end: %s", text)
		}
		badPlan(t, name, text, map[string]string{"running": "leases", "overrun": "leases", "borrow": "partitions"}[name])
	}
}

// planOf is the generic plan of a statement; nil, which fails the test, if there is none.
func planOf(t *testing.T, c *pgxpool.Conn, name, sql string) (text []byte) {
	t.Helper()
	id := "plan_" + strings.ReplaceAll(name, " ", "_")
	sd, err := c.Conn().Prepare(t.Context(), id, sql)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	call := id
	if n := len(sd.ParamOIDs); n > 0 {
		call += "(" + strings.Join(slices.Repeat([]string{"NULL"}, n), ", ") + ")"
	}
	if err := c.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE "+call).Scan(&text); err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	return text
}

// badPlan fails the test where a plan depends on how large the planner believes a table to be.
func badPlan(t *testing.T, name string, text []byte, walked string) {
	t.Helper()
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	if bad := plans[0].Plan.bad(false, walked); len(bad) > 0 {
		t.Errorf("%s: %s", name, strings.Join(bad, "; "))
	}
}

// Leases find rows by their ids, however large the planner believes live and jobs to be.
func TestLeasePlansAtEverySize(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	store(t, s, creation(t, s, 100))
	d := direct(t, s)
	exec(t, d, "VACUUM ANALYZE live, jobs")
	c, err := s.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	sizes := []int{0, 1, 100, 10_000, 1_000_000, 100_000_000}
	for _, live := range sizes {
		for _, jobs := range sizes {
			// What is believed of a page is multiplied by the pages that there are.
			exec(t, d, "UPDATE pg_class SET relpages = 1, reltuples = $1 WHERE oid = 'live'::regclass", live)
			exec(t, d, "UPDATE pg_class SET relpages = 1, reltuples = $1 WHERE oid = 'jobs'::regclass", jobs)
			for name, sql := range map[string]string{"lease": leaseSQL, "lease fenced": leaseFencedSQL, "lease to one": leaseOneSQL, "lease to one fenced": leaseOneFencedSQL} {
				if text := planOf(t, c, name, sql); text != nil {
					badPlan(t, fmt.Sprintf("%s, with %d of live and %d of jobs on a page", name, live, jobs), text, "")
				}
			}
		}
	}
}

func TestLeasesAreHotUpdates(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 2_000
	leaseMany(t, s, n)
	c := direct(t, s)
	_ = s.Close() // a backend reports its counts at its end, at the latest
	updates, hot := 0, 0
	for updates < n {
		// The pause is the server's: it answers when the counts may have come.
		if err := c.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables, pg_sleep(0.02) WHERE relname = 'live'").Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if hot != updates {
		t.Errorf("%d of %d leases touched no index, want all", hot, updates)
	}
}

// A list of executions reads an index in its order, and no more than a page of it, however the filter and the tables are.
func TestSearchPlans(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	registerArrays(c)
	exec(t, c, "VACUUM ANALYZE")
	exec(t, c, "BEGIN")
	exec(t, c, searching)
	busy := engine.ExecutionFilter{
		Tenant: "t", Statuses: []job.Status{job.Pending, job.Succeeded}, Triggers: []job.Trigger{job.ByHand, job.ByAPI}, Worker: job.WorkerID{1}, Tag: "x", JobName: "x", Text: "x",
		From: time.Unix(1, 0), Until: time.Unix(2, 0),
	}
	in := engine.Span{After: engine.Place{At: time.Unix(2, 0)}, Until: engine.Place{At: time.Unix(1, 0)}}
	for _, f := range []engine.ExecutionFilter{{Tenant: "t"}, busy, {Tenant: "t", OwnAsOf: time.Now()}, {Tenant: "t", Statuses: []job.Status{job.Failed}}} {
		for _, b := range slices.Concat(tenantBranches(f), jobBranches(f, job.ID{1})) {
			explain := func(sql string, ps params) {
				t.Helper()
				var text []byte
				if err := c.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+sql, ps...).Scan(&text); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				own := strings.Contains(b.where, "NOT v.tally") // of which there is one
				for _, bad := range []string{`"Sort"`, `"Seq Scan"`, `"Bitmap`, `"Hash`, `"Materialize"`} {
					if strings.Contains(string(text), bad) && !(own && bad == `"Sort"`) {
						t.Errorf("%s: %s: %s", sql, bad, text)
					}
				}
				index := map[bool]string{true: "_tenant", false: "_fire"}[strings.Contains(b.where, "priority")]
				if b.table == "executions" {
					index = "tenant_scheduled_at_id"
				}
				if !strings.Contains(b.where, "tally") && !strings.Contains(string(text), index) {
					t.Errorf("%s: not by %s: %s", sql, index, text)
				}
			}
			explain(b.nthSQL(engine.Place{}, 10))
			explain(b.nthSQL(in.After, 10))
			explain(b.readSQL(engine.Span{}, 10))
			explain(b.readSQL(in, 10))
			explain(b.countSQL(engine.Span{}, 10))
			explain(b.countSQL(in, 10))
		}
	}
}

// What is looked at of many jobs, or executions, is found by indexes, and in no table of a day before.
func TestGlancePlans(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	registerArrays(c)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for i := range 5 {
		if err := makeDay(t.Context(), c, today.AddDate(0, 0, -1-i)); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, c, "VACUUM ANALYZE")
	exec(t, c, "BEGIN")
	exec(t, c, glancing)
	ids := uuids(2)
	ids.uuid([16]byte{1})
	ids.uuid([16]byte{2})
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"recent": {recentSQL, []any{"t", ids, 10, today}},
		"whose":  {whoseSQL, []any{ids, today}},
		"late":   {lateSchedulesSQL, []any{today, lateEach, "t", 10}},
	} {
		var text []byte
		if err := c.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+q.sql, q.args...).Scan(&text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, bad := range []string{`"Seq Scan"`, `"Bitmap`, `"Hash`, `"Merge Join`, `"Materialize"`, dayTable(today.AddDate(0, 0, -1)), dayTable(today.AddDate(0, 0, -5))} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s: %s: %s", name, bad, text)
			}
		}
	}
}
