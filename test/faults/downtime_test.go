//go:build unix

package faults

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// change runs a statement on the store, beside whoever uses it.
func (in *installation) change(sql string) {
	in.Helper()
	if path, ok := strings.CutPrefix(in.where, "sqlite:"); ok {
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			in.Fatal(err)
		}
		defer c.Close()
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			in.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, in.where)
	if err != nil {
		in.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		in.Fatal(err)
	}
}

// Everything is stopped for two hours and started again. Each job catches up as it says: of every minute that passed there is one
// execution or one record that covers it, and what is due now does not wait for that (row 27).
//
// The two hours pass in the store: while nothing runs, all that is next becomes two hours older.
func TestEverythingWasDownForTwoHours(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler,worker")
		s := in.serve("")
		for time.Now().Second() > 50 { // so that no minute passes before the two hours do
			<-time.After(100 * time.Millisecond)
		}
		type caught struct {
			policy string
			fires  int // of 120 minutes, about
			jobs   []string
		}
		kinds := []*caught{
			{policy: `"catch_up": "all", "catch_up_limit": 1000`, fires: 120},
			{policy: `"catch_up": "all", "catch_up_limit": 30`, fires: 30},
			{policy: `"catch_up": "latest"`, fires: 1},
			{policy: `"catch_up": "none"`, fires: 0},
		}
		for _, k := range kinds {
			for range 3 {
				k.jobs = append(k.jobs, s.Create(fmt.Sprintf(`{"name": "minutely", "execution": {"callback_url": %q}, "schedule": {"type": "CRON", "cron_expression": "* * * * *"}, %s}`, in.target.URL, k.policy)).JobID)
			}
		}
		if code := s.End(syscall.SIGTERM); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		shift := "UPDATE schedules SET next_run_at = next_run_at - interval '2 hours'"
		if strings.HasPrefix(where, "sqlite:") {
			shift = "UPDATE schedules SET next_run_at = next_run_at - 7200000000"
		}
		first := time.Now().Truncate(time.Minute).Add(time.Minute - 2*time.Hour).UTC()
		in.change(shift)
		s = in.serve("")
		restarted := time.Now()
		now := s.Create(in.body("")) // somebody's who was never away
		harness.Eventually(t, 10*time.Second, "what is due now", func() bool {
			return harness.Read[client.Job](s, "/api/v1/jobs/"+now.JobID).Status == "COMPLETED"
		})
		t.Logf("what came after the restart ran within %v", time.Since(restarted).Round(10*time.Millisecond))
		for _, k := range kinds {
			for _, id := range k.jobs {
				var wrong []string
				var es []client.Execution
				var last time.Time
				harness.Within(60*time.Second, func() bool {
					last = time.Now().Truncate(time.Minute).UTC()
					es = executions(s, id, last)
					wrong = cover(minutes(first, last), es)
					return len(wrong) == 0
				})
				for _, w := range wrong {
					t.Errorf("%s: %s", k.policy, w)
				}
				ran := 0
				for _, e := range es {
					if e.Status == "SUCCEEDED" {
						ran++
					}
				}
				// A minute or two may have passed meanwhile, and those fire in any case.
				if passed := int(last.Sub(restarted.Truncate(time.Minute)) / time.Minute); ran < k.fires || ran > k.fires+passed+2 {
					t.Errorf("%s: %d ran, want %d and those of the %d minutes since", k.policy, ran, k.fires, passed)
				}
			}
		}
	})
}

// minutes are those from one to another.
func minutes(from, to time.Time) (all []time.Time) {
	for t := from; !t.After(to); t = t.Add(time.Minute) {
		all = append(all, t)
	}
	return all
}
