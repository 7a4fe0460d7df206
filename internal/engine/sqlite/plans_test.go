package sqlite

import (
	"strings"
	"testing"
)

// Every statement of the hot path finds its rows by an index.
func TestPlans(t *testing.T) {
	s := fresh(t)
	for _, sql := range []string{
		moveSQL, dueSQL, laneSQL, readySQL, aliveSQL, freeSQL, leaseSQL, heldSQL, releaseSQL, loseSQL, attemptSQL, againSQL, pastFinishSQL,
		endSQL + held, dropSQL + held + quietly, dropSQL + held + dropped, endSQL + freed, dropSQL + freed + dropped, endSQL + waiting, dropSQL + waiting + dropped,
		findIdempotencySQL, oldKeysSQL, deleteJobSQL, lossesSQL, statsSQL, durationsSQL, ownFireSQL, runningSQL,
		"SELECT " + jobColumns + " FROM jobs j WHERE j.tenant = ? AND j.id = ?",
		"SELECT " + jobColumns + " FROM jobs j WHERE j.tenant = ? AND j.key = ? AND j.key IS NOT NULL AND j.state <> 4",
		"SELECT " + jobColumns + " FROM jobs j WHERE j.tenant = ? AND j.state <> 4 ORDER BY j.id DESC LIMIT 10",
		"SELECT " + liveColumns + " FROM live v WHERE v.tenant = ? AND v.id = ?",
		"SELECT " + pastColumns + " FROM executions v WHERE v.tenant = ? AND v.id = ?",
	} {
		err := s.look(t.Context(), "explain", func(c *conn) error {
			return c.prepare("EXPLAIN QUERY PLAN " + sql).each(func(r *row) error {
				if step := r.on.ColumnText(3); strings.HasPrefix(step, "SCAN ") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
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
