package postgres

import (
	"fmt"
	"time"
)

// The time limits of a statement, on the server and, if that no longer answers, here. The client's limit covers the
// wait for a connection and retries. The package's tests wait longer.
var (
	hotStatement  = 3 * time.Second
	readStatement = 4 * time.Second
	patience      = 5 * time.Second
)

// Statements of the hot path must not depend on statistics: a queue's tables
// are empty and huge by turns, and a plan made for the one is ruinous for the
// other. The settings leave nested loops over indexes, which also lock rows in
// the order of the array that drives them. They do not forbid the planner to
// walk a whole index where it believes a table to be empty, so the statements do:
//
//   - an updated or deleted table is joined by v.id = ANY (ARRAY[c.id]): usable
//     with the index, but no equality that a walk in index order could serve;
//     or it drives, by v.id = ANY ($n), where nothing but the id differs by row;
//   - jobs is joined by tenant = ANY (ARRAY[…]) AND id BETWEEN x AND x likewise;
//   - what is only read stands in a LATERAL subquery with OFFSET 0;
//   - nothing else that compares names the leading column of another index, or
//     implies the condition of a partial one (IS NOT DISTINCT FROM implies none);
//   - the key of a table is made after its other indexes: of those that seem to cost the same, the planner takes the last;
//   - live_lane is partial over all rows, so that only those who say lane >= 0
//     use it: its last column is the id, too.
//
// TestPlans holds every statement to this, on tables the planner takes for empty.
var hotSettings = map[string]string{
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_sort":                         "off", // if an index gives the order; otherwise it sorts all the same
	"max_parallel_workers_per_gather":     "0",
	"plan_cache_mode":                     "force_generic_plan",
	"jit":                                 "off",
	"statement_timeout":                   setting(hotStatement),
	"idle_in_transaction_session_timeout": setting(hotStatement),
}

var readSettings = map[string]string{
	"jit":                                 "off",
	"statement_timeout":                   setting(readStatement),
	"idle_in_transaction_session_timeout": setting(readStatement),
}

// setting formats a duration for PostgreSQL's settings.
func setting(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
