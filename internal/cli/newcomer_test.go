package cli

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// A notification rule whose URL may no longer be called shows it, the doctor names it, and it is not kept again.
func TestABlockedNotificationRule(t *testing.T) {
	c := at(t, "--server", devServer(t))
	set := []string{"notification", "set", "oncall", "--event", "failed", "--to", "http://127.0.0.1:1/x"}
	c.ok(set...)
	if out := c.ok("notification", "get", "oncall"); strings.Contains(out, "Blocked") {
		t.Errorf("blocked from the start:\n%s", out)
	}
	t.Cleanup(func() { // the server is for all tests
		c.ok("tenant", "quota", "default", "--https-only=false")
		c.ok("notification", "rm", "oncall", "--yes")
	})
	c.ok("tenant", "quota", "default", "--https-only")
	if out := c.ok("notification", "get", "oncall"); !strings.Contains(out, "callbacks_https_only") {
		t.Errorf("get does not say that it is blocked:\n%s", out)
	}
	if out := c.ok("notification", "list"); !strings.Contains(out, "BLOCKED") || !strings.Contains(out, "yes") {
		t.Errorf("list does not say that it is blocked:\n%s", out)
	}
	c.fails(failed, "there are problems", "doctor", "--data", t.TempDir())
	if !strings.Contains(c.out, "the rule oncall may not call http://127.0.0.1:1/x") {
		t.Errorf("the doctor says nothing of it:\n%s", c.out)
	}
	c.fails(misuse, "callbacks_https_only", set...)
	c.fails(runFailed, "BLOCKED_ADDRESS", "notification", "test", "oncall", "--wait")
	c.ok(append(set, "--silence-until", "+2h")...)
}

// A token that the user's own 'carillon dev' ignores is warned of, and an API key, which may be of another tenant, is refused.
func TestTokensThatDevIgnores(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("job", "list")
	if strings.Contains(c.err, "ignores the token") {
		t.Errorf("warned without a token: %s", c.err)
	}
	if c.ok("--token", "nonsense", "job", "list"); !strings.Contains(c.err, "ignores the token") {
		t.Errorf("no warning of a token that is ignored: %q", c.err)
	}
	c.fails(denied, "takes no API keys", "--token", "car_live_0123456789", "job", "list")
	if c.ok("tenant", "create", "Acme"); !strings.Contains(c.err, "serves only the tenant") {
		t.Errorf("the tenant's key does not work here, and nothing says so: %q", c.err)
	}
}

// The latest execution of a recurring job is the last that was due, not one that was made ahead of its time.
func TestTheLatestExecutionOfARecurringJob(t *testing.T) {
	c := at(t, "--server", devServer(t))
	id := c.ok("job", "create", "often", "--every", "4s", "--simulate", "noop") // within the look-ahead, so that one always waits
	ran := read[client.Triggered](c, "job", "trigger", id).ExecutionID
	for { // the test's own bound ends it
		all := read[[]client.Execution](c, "execution", "list", "--job", id)
		if len(all) > 1 && all[0].StartedAt == nil && all[0].DueAt.Sub(time.Now()) > time.Second {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if e := read[client.Execution](c, "execution", "get", id); e.StartedAt == nil && e.DueAt.After(time.Now()) {
		t.Errorf("the latest is %s, due at %s; want one such as %s", e.ExecutionID, e.DueAt, ran)
	}
}

// A second pause keeps what it does not say again.
func TestPausingAPausedJob(t *testing.T) {
	c := at(t, "--server", devServer(t))
	id := c.ok("job", "create", "again", "--every", "1m", "--simulate", "noop")
	c.ok("job", "pause", id, "--reason", "maintenance", "--until", "+2h")
	was := read[client.Job](c, "job", "get", id)
	c.ok("job", "pause", id)
	is := read[client.Job](c, "job", "get", id)
	if or(is.PauseReason, "") != "maintenance" || is.PausedUntil == nil || !is.PausedUntil.Equal(*was.PausedUntil) {
		t.Errorf("after a second pause: %q until %v", or(is.PauseReason, ""), is.PausedUntil)
	}
	if out := c.ok("job", "next", id, "-n", "130"); strings.Count(out, "does not fire") < 115 || strings.HasSuffix(out, "does not fire") {
		t.Errorf("next does not tell the instants in the pause from those after it:\n%s", out)
	}
	c.ok("job", "pause", id, "--reason", "", "--until", "+1h")
	if j := read[client.Job](c, "job", "get", id); or(j.PauseReason, "") != "" || !j.PausedUntil.Before(*was.PausedUntil) {
		t.Errorf("after another reason and end: %q until %v", or(j.PauseReason, ""), j.PausedUntil)
	}
}

func TestATimeThatIsPast(t *testing.T) {
	c := at(t, "--server", devServer(t))
	if c.ok("job", "create", "t1", "--at", "2020-01-01T00:00:00Z", "--simulate", "noop"); !strings.Contains(c.err, "has passed: it runs at once") {
		t.Errorf("no warning: %q", c.err)
	}
	if c.ok("job", "create", "t2", "--at", "+1h", "--simulate", "noop"); strings.Contains(c.err, "is past") {
		t.Errorf("warned: %q", c.err)
	}
}

// What health says to set is what it reads.
func TestHealthNamesWhatItReads(t *testing.T) {
	t.Setenv("CARILLON_SERVER", "http://127.0.0.1:2")
	t.Setenv("CARILLON_HEALTH_SERVER", "")
	var b strings.Builder
	exit(nil, unreachable{place{servers: []string{localServer}, from: "the default"}, healthHint, client.ErrUnavailable}, &b)
	if !strings.Contains(b.String(), "CARILLON_HEALTH_SERVER") || strings.Contains(b.String(), "--server, CARILLON_SERVER") {
		t.Errorf("it says %q", b.String())
	}
}

// Workers that drain or are cordoned are not counted as able, and a job that only they could run is named.
func TestTheDoctorKnowsWhoTakesNothing(t *testing.T) {
	c := at(t, "--server", devServer(t))
	for _, w := range read[[]client.Worker](c, "workers", "list") {
		if takes(w) {
			c.ok("workers", "cordon", w.WorkerID)
			t.Cleanup(func() { c.ok("workers", "uncordon", w.WorkerID) })
		}
	}
	c.fails(failed, "there are problems", "doctor", "--data", t.TempDir())
	if !strings.Contains(c.out, "are draining or cordoned: nothing new starts") {
		t.Errorf("the doctor says\n%s", c.out)
	}
	able, leaving := client.Worker{Status: "IDLE", Targets: []string{"http"}}, client.Worker{Status: "DRAINING", Targets: []string{"worker"}, Kinds: []string{"send-email"}}
	mail := client.Job{Name: "wz", Execution: client.JobTarget{Target: "worker", Kind: "send-email"}}
	for _, x := range []struct {
		workers []client.Worker
		want    string
	}{
		{[]client.Worker{able, leaving}, leavingOnly},
		{[]client.Worker{able}, "the target worker"},
		{[]client.Worker{leaving}, ""}, // that all leave is said once
	} {
		if got := lacking(mail, x.workers); got != x.want {
			t.Errorf("with %+v: %q, want %q", x.workers, got, x.want)
		}
	}
}

// A log says which attempt wrote what, and that there is none.
func TestLogsOfAttempts(t *testing.T) {
	c := at(t, "--server", devServer(t))
	id := c.ok("job", "create", "speaks", "--retries", "1", "--backoff", "fixed", "--retry-delay", "1s", "--", "sh", "-c", "echo hi; exit 1")
	e := read[[]client.Execution](c, "execution", "list", "--job", id)[0].ExecutionID
	c.try("execution", "watch", e)
	if out := c.ok("execution", "logs", e); out != "hi\nhi" || !strings.Contains(c.err, "Attempt 1:\n") || !strings.Contains(c.err, "Attempt 2:\n") {
		t.Errorf("the log of two attempts: %q, %q", out, c.err)
	}
	id = c.ok("job", "create", "is silent", "--http", "http://127.0.0.1:1/", "--retries", "0", "--every", "1h")
	e = read[client.Triggered](c, "job", "trigger", id).ExecutionID
	if c.ok("execution", "logs", e); !strings.Contains(c.err, "There is no log") || !strings.Contains(c.err, "execution attempts "+e) {
		t.Errorf("nothing is said of a log that is empty: %q", c.err)
	}
}

// Commands that change an execution take a job, where it is clear which one is meant.
func TestChangingAnExecutionByTheNameOfItsJob(t *testing.T) {
	c := at(t, "--server", devServer(t)) // which other tests use, too
	bad, waits := "bad-"+rand.Text(), strings.ToLower("waits-"+rand.Text())
	c.fails(runFailed, "ended as FAILED", "job", "create", bad, "--simulate", "fail_permanent", "--wait")
	c.fails(runFailed, "ended as FAILED", "job", "trigger", bad, "--wait")
	c.fails(misuse, "several dead letters", "dlq", "discard", bad, "--yes")
	dead := read[[]client.Execution](c, "execution", "list", "--job", bad)
	c.ok("dlq", "discard", dead[0].ExecutionID, "--yes")
	c.ok("dlq", "discard", bad, "--yes")
	c.fails(notFound, "has no dead letters", "dlq", "redrive", bad)
	c.fails(notFound, "has no execution to cancel", "execution", "cancel", bad)
	c.fails(notFound, "", "execution", "cancel", "nobody")
	if again := read[client.Triggered](c, "execution", "retry", bad); again.ExecutionID == "" {
		t.Error("retried nothing")
	}
	c.ok("queue", "pause", waits)
	c.ok("job", "create", waits, "--queue", waits, "--simulate", "noop")
	c.ok("job", "trigger", waits)
	c.fails(misuse, "several executions to cancel", "execution", "cancel", waits)
	one := read[[]client.Execution](c, "execution", "list", "--job", waits)[0].ExecutionID
	c.ok("execution", "cancel", one)
	c.ok("execution", "cancel", waits)
	for _, e := range read[[]client.Execution](c, "execution", "list", "--job", waits) {
		if e.Status != "CANCELLED" {
			t.Errorf("%s is %s", e.ExecutionID, e.Status)
		}
	}
	c.fails(notFound, "has no execution to cancel", "execution", "cancel", waits)
}
