package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app/apptest"
)

// read decodes what a command printed with -o json.
func read[T any](c *console, args ...string) (v T) {
	c.Helper()
	if err := json.Unmarshal([]byte(c.ok(append(args, "-o", "json")...)), &v); err != nil {
		c.Fatalf("carillon %q: %v\n%s", args, err, c.out)
	}
	return v
}

func TestAJobFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	id := c.ok("job", "create", "hello there", "--every", "1h", "--http", "http://127.0.0.1:1/x", "--key", "hello", "--tag", "a,b", "--header", "X-A: b: c", "--timeout", "90s",
		"--retries", "0", "--priority", "2", "--rate", "5/s", "--payload", `{"n": 12345678901234567890}`, "--jitter", "2s", "--expires-after", "10m")
	if !uuid.MatchString(id) || !strings.Contains(c.err, "Created the job hello there (every 1h); it runs in 59m") {
		t.Errorf("%q, %q", id, c.err)
	}
	for _, ref := range []string{id, "hello", "key:hello", "hello there"} {
		j := read[client.Job](c, "job", "get", ref)
		if j.JobID != id || j.Execution.Headers["X-A"] != "b: c" || j.Execution.TimeoutSeconds != 90 || j.RetryPolicy.MaxRetries != 0 || j.RateLimit.Count != 5 || or(j.Schedule.JitterMS, 0) != 2000 {
			t.Errorf("%s: %+v", ref, j)
		}
		if string(j.Execution.Payload) != `{"n": 12345678901234567890}` && !strings.Contains(string(j.Execution.Payload), "12345678901234567890") {
			t.Errorf("payload %s", j.Execution.Payload)
		}
	}
	if y := c.ok("job", "get", "hello", "-o", "yaml"); !strings.Contains(y, `"n": 12345678901234567890`+"\n") {
		t.Errorf("a large number is not exact in\n%s", y)
	}
	if got := c.ok("job", "edit", "hello", "--cron", "30 4 * * *", "--tz", "Europe/Berlin", "--dry-run"); !strings.Contains(got, `"cron_expression": "30 4 * * *"`) {
		t.Errorf("dry run: %s", got)
	}
	c.ok("job", "edit", "hello", "--cron", "30 4 * * *", "--tz", "Europe/Berlin", "--description", "good morning")
	c.fails(conflict, "someone else changed it", "job", "edit", "hello", "--priority", "3", "--revision", "1")
	if out := c.ok("job", "next", "hello", "-n", "3"); strings.Count(out, "\n") != 3 || !strings.Contains(c.err, "At 04:30 every day (Europe/Berlin)") {
		t.Errorf("next:\n%s\n%s", out, c.err)
	}
	c.ok("job", "pause", "hello", "--reason", "tests", "--until", "+2h")
	if j := read[client.Job](c, "job", "get", "hello"); j.Status != "PAUSED" || or(j.PauseReason, "") != "tests" || j.PausedUntil == nil {
		t.Errorf("paused: %+v", j)
	}
	c.ok("job", "resume", "hello")
	if n := c.ok("job", "backfill", "hello", "--from", "-72h", "--to", "now", "--dry-run"); n != "3" && n != "2" && n != "4" {
		t.Errorf("backfill: %q, %s", n, c.err)
	}
	c.ok("job", "occurrences", "hello")
	if all := c.ok("job", "list", "--tag", "a", "-o", "name"); all != id {
		t.Errorf("list: %q", all)
	}
	c.ok("job", "delete", "hello", "--dry-run")
	c.fails(misuse, "--yes", "job", "delete", "hello")
	c.ok("job", "delete", "hello", "--yes")
	if j := read[client.Job](c, "job", "get", id); j.Status != "DELETED" {
		t.Errorf("deleted: %+v", j)
	}
	c.fails(notFound, "\n  do: look for it", "job", "get", "hello there")
}

// A deletion leaves what runs, or cancels it where that is asked for.
func TestDeletingAJobThatRuns(t *testing.T) {
	c := at(t, "--server", devServer(t))
	for how, want := range map[string]string{"leave": "RUNNING", "cancel": "CANCELLED"} {
		j := read[client.Job](c, "job", "create", "runs on", "--simulate", "hang")
		status := func() string { return read[client.Execution](c, "execution", "get", j.ExecutionID).Status }
		wait := func(want string) {
			t.Helper()
			for began := time.Now(); status() != want; <-time.After(50 * time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatalf("--running %s: it is %s, want %s", how, status(), want)
				}
			}
		}
		wait("RUNNING")
		c.fails(misuse, "want leave or cancel", "job", "delete", j.JobID, "--yes", "--running", "stop")
		c.ok("job", "delete", j.JobID, "--yes", "--running", how)
		if asked := strings.Contains(c.err, "are stopping"); asked != (how == "cancel") {
			t.Errorf("--running %s says %q", how, c.err)
		}
		wait(want)
		if want == "RUNNING" {
			c.ok("execution", "cancel", j.ExecutionID)
		}
	}
}

func TestWaitingForExecutions(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("job", "create", "good", "--simulate", "noop", "--wait")
	if !strings.Contains(c.out, "Status     SUCCEEDED") {
		t.Errorf("waited:\n%s\n%s", c.out, c.err)
	}
	c.fails(runFailed, "ended as FAILED", "job", "create", "bad", "--simulate", "fail_permanent", "--wait")
	run := read[client.Triggered](c, "job", "trigger", "good", "--idempotency-key", "k1")
	if again := read[client.Triggered](c, "job", "trigger", "good", "--idempotency-key", "k1"); again.ExecutionID != run.ExecutionID {
		t.Errorf("ran twice: %v, %v", run, again)
	}
	c.ok("execution", "watch", run.ExecutionID)
	if e := read[client.Execution](c, "exec", "get", "good"); e.ExecutionID != run.ExecutionID {
		t.Errorf("the latest of good is %+v", e)
	}
	c.ok("execution", "timeline", run.ExecutionID)
	c.ok("execution", "compare", run.ExecutionID)
	c.ok("execution", "list", "--job", "good", "--status", "succeeded")
	c.fails(conflict, "", "execution", "cancel", run.ExecutionID)
	c.fails(notFound, "has no execution to cancel", "execution", "cancel", "good")

	dead := strings.TrimSpace(c.ok("execution", "list", "--job", "bad", "-o", "name"))
	c.ok("dlq", "show", dead)
	if !strings.Contains(c.out, "NOT_RETRYABLE") {
		t.Errorf("dead letter:\n%s", c.out)
	}
	if byJob := c.ok("dlq", "show", "bad"); !strings.Contains(byJob, dead) {
		t.Errorf("the dead letter of the job:\n%s", byJob)
	}
	c.fails(notFound, "has no dead letters", "dlq", "show", "good")
	c.fails(runFailed, "", "execution", "retry", dead, "--wait")
	c.fails(misuse, "which dead letters", "dlq", "redrive")
	if n := c.ok("dlq", "redrive", "--job", "bad", "--dry-run"); n != "1" {
		t.Errorf("would redrive %q: %s", n, c.err)
	}
	c.ok("dlq", "redrive", "--job", "bad", "--wait")
	c.fails(misuse, "--yes", "dlq", "discard", "--everything")
	c.ok("operation", "list")

	hung := read[client.Job](c, "job", "create", "hung", "--simulate", "hang", "--unique-key", "one").ExecutionID
	if again := read[client.Job](c, "job", "create", "other", "--simulate", "hang", "--unique-key", "one"); again.Name != "hung" || !strings.Contains(c.err, "Nothing was created") {
		t.Errorf("of the same unique key: %+v, %s", again, c.err)
	}
	c.ok("execution", "cancel", hung, "--dry-run")
	c.ok("execution", "cancel", hung, "--reason", "tests")
	c.fails(runFailed, "ended as CANCELLED", "execution", "watch", hung)

	// All of a filter: told how many, and asked, before any is cancelled.
	many := read[client.Job](c, "job", "create", "waits", "--kind", "nobody")
	c.fails(misuse, "this would cancel 1 execution,", "execution", "cancel", "--filter", "job="+many.JobID)
	if e := read[client.Execution](c, "execution", "get", many.ExecutionID); e.Status == "CANCELLED" || e.Status == "CANCELLING" {
		t.Errorf("it is %s, before anyone said that it is meant", e.Status)
	}
	c.ok("execution", "cancel", "--filter", "job="+many.JobID, "--yes", "--wait")
	c.fails(runFailed, "ended as CANCELLED", "execution", "watch", many.ExecutionID)
	c.ok("execution", "retry", "--filter", "job="+many.JobID, "--filter", "status=CANCELLED", "--wait")
	if !strings.Contains(c.err, "This will retry 1 execution.") {
		t.Errorf("retried without a count: %s", c.err)
	}
	c.ok("execution", "cancel", "--filter", "job="+many.JobID, "--yes", "--wait")

	if out := c.ok("job", "create", "echo", "--follow", "--", "echo", "a\x1b[31mb"); out != `a\x1b[31mb` {
		t.Errorf("followed: %q, %s", out, c.err)
	}
}

func TestSettingsFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", realServer(t), "--token", apptest.Key)
	c.in = "s3cr3t\nof two lines\n"
	c.ok("secret", "set", "pay")
	if strings.Contains(c.err+c.out, "s3cr3t") {
		t.Errorf("it tells the secret: %s", c.err)
	}
	c.ok("secret", "list")
	c.ok("secret", "rm", "pay", "--yes")
	c.ok("calendar", "set", "holidays", "--yearly", "12-25", "--weekday", "SUN", "--window", "2026-12-24T18:00/2026-12-27", "--tz", "Europe/Berlin")
	if out := c.ok("calendar", "list"); !strings.Contains(out, "SUN, 1 days a year, 1 windows") {
		t.Error(out)
	}
	c.ok("calendar", "get", "holidays")
	c.ok("calendar", "rm", "holidays", "-y")
	c.ok("queue", "limit", "mail", "--max-concurrent", "5", "--rate", "10/m")
	if out := c.ok("queue", "get", "mail"); !strings.Contains(out, "10/1m") {
		t.Error(out)
	}
	c.fails(misuse, "--none", "queue", "limit", "mail")
	c.fails(misuse, "--burst", "queue", "limit", "mail", "--max-concurrent", "5", "--burst", "3")
	c.ok("queue", "limit", "mail", "--rate", "10/m", "--burst", "7")
	if out := c.ok("queue", "get", "mail", "-o", "json"); !strings.Contains(out, `"burst": 7`) {
		t.Error(out)
	}
	c.ok("queue", "pause", "mail", "--dry-run")
	c.ok("queue", "pause", "mail", "reports", "--reason", "moved", "--until", "+2h")
	if !strings.Contains(c.err, "Paused the queue mail until ") {
		t.Error(c.err)
	}
	if out := c.ok("queue", "list", "-o", "wide"); strings.Count(out, "PAUSED") != 4 || !strings.Contains(out, "moved") { // two of them heads of columns
		t.Error(out)
	}
	if out := c.ok("queue", "get", "mail"); !strings.Contains(out, "moved") {
		t.Error(out)
	}
	c.fails(misuse, "--until", "queue", "pause", "mail", "--until", "soon")
	c.ok("queue", "resume", "mail", "reports")
	if out := c.ok("queue", "list"); strings.Contains(out, "PAUSED") {
		t.Error(out)
	}
	c.ok("queue", "limit", "mail", "--none")
	acme := c.ok("tenant", "create", "Acme", "--tier", "pro")
	c.ok("tenant", "quota", acme, "--tier", "enterprise")
	c.ok("tenant", "limit", "--max-concurrent", "100", "--tenant", acme)
	key := c.ok("key", "create", "ci", "--role", "viewer", "--for-tenant", acme, "--expires", "+720h")
	if !strings.HasPrefix(key, "car_live_") || strings.Contains(c.err, key) {
		t.Errorf("key %q: %s", key, c.err)
	}
	viewer := at(t, "--server", realServer(t), "--token", key)
	viewer.ok("job", "list")
	viewer.fails(denied, "role", "job", "create", "x", "--simulate", "noop")
	at(t, "--server", realServer(t), "--token", "wrong").fails(denied, "carillon login", "job", "list")
	keys := read[[]client.APIKey](c, "key", "list", "--tenant", acme)
	if len(keys) != 1 || keys[0].Name != "ci" {
		t.Fatalf("keys: %+v", keys)
	}
	c.ok("key", "rotate", keys[0].KeyID, "--overlap", "1h", "--tenant", acme)
	c.ok("key", "revoke", keys[0].KeyID, "--yes", "--tenant", acme)
	if out := c.ok("sign-in", "list"); !strings.Contains(out+c.err, "Nobody is signed in") {
		t.Error(out)
	}
	browser := client.New([]string{realServer(t)}, apptest.Key)
	if _, err := browser.SignIn(t.Context(), client.SignInRequest{Credential: apptest.Key}); err != nil {
		t.Fatal(err)
	}
	in := c.ok("sign-in", "list", "-o", "name")
	c.fails(notFound, "carillon sign-in list", "sign-in", "end", "nobody", "--yes")
	c.ok("sign-in", "end", in, "--dry-run")
	c.ok("sign-in", "end", in, "--yes")
	if out := c.ok("sign-in", "list", "-o", "name"); out != "" {
		t.Errorf("ended, and still there: %s", out)
	}
	c.ok("signing", "create")
	id := c.ok("signing", "list", "-o", "name")
	c.ok("signing", "rm", id, "--yes")
	if public := c.ok("signing", "create", "--algorithm", "ed25519"); !strings.HasPrefix(public, "whpk_") {
		t.Errorf("the public key is %q", public)
	}
	for _, id := range strings.Fields(c.ok("signing", "list", "-o", "name")) {
		c.ok("signing", "rm", id, "--yes")
	}
	c.ok("notification", "set", "on-call", "--event", "failed,late", "--to", "https://example.com/x", "--late-after", "2m")
	c.ok("notification", "get", "on-call")
	c.ok("notification", "list")
	c.ok("notification", "rm", "on-call", "--yes")
	c.ok("job", "create", "shown to all", "--key", "shown", "--simulate", "noop")
	if out := c.ok("badge", "create", "shown", "--dry-run"); !strings.Contains(c.err, "Dry run") || strings.Contains(out, "cbg_") {
		t.Errorf("%s%s", out, c.err)
	}
	address := c.ok("badge", "create", "shown", "--label", "Shown")
	if !strings.HasPrefix(address, realServer(t)+"/badges/cbg_") || !strings.HasSuffix(address, ".svg") || strings.Contains(c.err, "cbg_") {
		t.Errorf("the badge is at %q: %s", address, c.err)
	}
	if b := read[client.Badge](c, "badge", "create", "shown to all"); b.JSON == nil || !strings.HasSuffix(*b.JSON, ".json") || b.Label != nil {
		t.Errorf("%+v", b)
	}
	if out := c.ok("badge", "list"); !strings.Contains(out, "Shown") || !strings.Contains(out, "shown to all") || strings.Contains(out, "cbg_") {
		t.Error(out)
	}
	c.fails(notFound, "carillon badge list", "badge", "revoke", "nobody", "--yes")
	for _, id := range strings.Fields(c.ok("badge", "list", "-o", "name")) {
		c.ok("badge", "revoke", id, "--dry-run")
		c.ok("badge", "revoke", strings.ToUpper(id), "--yes")
	}
	if out := c.ok("badge", "list", "-o", "name"); out != "" {
		t.Errorf("revoked, and still there: %s", out)
	}
	c.ok("workers", "list")
	c.ok("workers", "get", strings.Split(c.ok("workers", "list", "-o", "name"), "\n")[0])
	c.ok("forecast", "--days", "2")
	c.ok("top", "--once")

	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	id = c.ok("artifact", "push", file)
	if got := c.ok("artifact", "get", id); got != "#!/bin/sh" {
		t.Errorf("artifact: %q", got)
	}
	c.ok("artifact", "rm", id, "--yes")
}

func TestExitCodes(t *testing.T) {
	dev := devServer(t)
	answer := func(status int, code string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"status": %d, "code": %q, "detail": "The detail.", "request_id": "r-17", "errors": [{"field": "priority", "value": "11", "want": "1 to 10"}]}`, status, code)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	const gone = "http://127.0.0.1:1" // no other test can listen there
	for name, c := range map[string]struct {
		code int
		args []string
		says []string
	}{
		"done":           {done, []string{"job", "list", "--server", dev}, nil},
		"failed":         {failed, []string{"job", "list", "--server", answer(500, "internal")}, []string{"The detail.", "request: r-17"}},
		"no command":     {misuse, []string{"job", "lst"}, []string{"carillon job --help", "did you mean get or list?"}},
		"no flag":        {misuse, []string{"job", "list", "--nope"}, []string{"--nope", "carillon job list --help"}},
		"no argument":    {misuse, []string{"job", "get"}, []string{"want carillon job get JOB"}},
		"no output":      {misuse, []string{"job", "list", "-o", "xml"}, []string{"table, wide, json"}},
		"no address":     {misuse, []string{"job", "list", "--server", "ftp://x"}, []string{"https://carillon.example"}},
		"invalid":        {misuse, []string{"job", "list", "--server", answer(422, "invalid")}, []string{`priority is "11"; want 1 to 10`, "r-17"}},
		"no target":      {misuse, []string{"job", "create", "x"}, []string{"--http"}},
		"two targets":    {misuse, []string{"job", "create", "x", "--http", "http://x", "--kind", "k"}, []string{"--http and --kind"}},
		"no payload":     {misuse, []string{"job", "create", "x", "--kind", "k", "--payload", "{"}, []string{"want JSON"}},
		"no instant":     {misuse, []string{"job", "create", "x", "--kind", "k", "--at", "soon"}, []string{"+10m"}},
		"no context":     {misuse, []string{"job", "list", "--context", "nowhere"}, []string{"carillon login"}},
		"not found":      {notFound, []string{"job", "get", job1, "--server", dev}, []string{"request: ", "carillon job list"}},
		"not found, ran": {notFound, []string{"execution", "get", execution1, "--server", dev}, nil},
		"no credential":  {denied, []string{"job", "list", "--server", realServer(t)}, []string{"carillon login", "request: "}},
		"denied":         {denied, []string{"job", "list", "--server", answer(403, "forbidden")}, []string{"role"}},
		"conflict":       {conflict, []string{"job", "list", "--server", answer(409, "conflict")}, []string{"The detail."}},
		"revision":       {conflict, []string{"job", "list", "--server", answer(412, "revision_mismatch")}, []string{"Load it again"}},
		"limited":        {unavailable, []string{"job", "list", "--server", answer(429, "limited")}, []string{"Try again in 60m"}},
		"away":           {unavailable, []string{"job", "list", "--server", answer(503, "unavailable")}, []string{"Try again in 60m"}},
		"nobody there":   {unavailable, []string{"job", "list", "--server", gone}, []string{"no server answers at " + gone, "from --server", "doctor"}},
		"run failed":     {runFailed, []string{"job", "create", "x", "--simulate", "fail_permanent", "--wait", "--server", dev}, []string{"carillon execution timeline"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := at(t).try(c.args...)
			if x.code != c.code {
				t.Errorf("exit code %d, want %d:\n%s%s", x.code, c.code, x.out, x.err)
			}
			for _, want := range c.says {
				if !strings.Contains(x.err, want) {
					t.Errorf("%q is not in\n%s", want, x.err)
				}
			}
			if c.code != done && c.code != runFailed && x.out != "" {
				t.Errorf("an error is no data: %q", x.out)
			}
		})
	}
}

func TestLoginAndContexts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	real := realServer(t)
	c := at(t)
	c.in = "wrong-key\n"
	c.fails(denied, "unknown", "login", real)
	file := filepath.Join(dir, "carillon", "contexts.json")
	if _, err := os.Stat(file); err == nil {
		t.Error("a key that does not work was kept")
	}
	c.in = apptest.Key + "\n"
	c.ok("login", real, "--name", "real", "--dry-run")
	if _, err := os.Stat(file); err == nil {
		t.Error("a rehearsal kept the key")
	}
	c.ok("login", real, "--name", "real")
	if strings.Contains(c.out+c.err, apptest.Key) {
		t.Errorf("it tells the key: %s", c.err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	c.ok("job", "list")
	c.ok("login", devServer(t), "--name", "dev")
	if out := c.ok("context", "list"); !strings.Contains(out, "*        dev") || strings.Contains(out, apptest.Key) {
		t.Errorf("contexts:\n%s", out)
	}
	c.ok("tenant", "list", "--context", "real")
	// A stored key goes to no other server.
	var sent string
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		fmt.Fprint(w, "{}")
	}))
	defer spy.Close()
	c.ok("context", "use", "real")
	if c.ok("job", "list", "--server", spy.URL); sent != "" {
		t.Errorf("the key of the context went to another server: %q", sent)
	}
	t.Setenv("CARILLON_TOKEN", "wrong-key") // stands above the key of a context, unless that is asked for by name
	c.fails(denied, "unknown", "tenant", "list")
	c.ok("tenant", "list", "--token", apptest.Key)
	c.ok("tenant", "list", "--context", "real")
	t.Setenv("CARILLON_TOKEN", "")
	t.Setenv("CARILLON_CONTEXT", "dev")
	c.ok("job", "list")
	c.ok("context", "delete", "real")
	c.fails(notFound, "no context", "context", "use", "real")
}

func TestCompletion(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("job", "create", "complete me", "--every", "1h", "--simulate", "noop", "--key", "complete-me", "--tag", "completion")
	words := func(args ...string) string {
		t.Helper()
		x := at(t).try(append([]string{"__complete"}, args...)...)
		return x.out
	}
	for want, args := range map[string][]string{
		"complete-me\tcomplete me, ACTIVE": {"job", "get", "--server", devServer(t), "comp"},
		"completion":                       {"job", "list", "--server", devServer(t), "--tag", "compl"},
		"jsonl":                            {"job", "list", "-o", "js"},
		"TIMED_OUT":                        {"execution", "list", "--status", "TI"},
		"occurrences":                      {"job", "occ"},
	} {
		if got := words(args...); !strings.Contains(got, want) {
			t.Errorf("%q: %q is not in\n%s", args, want, got)
		}
	}
	began := time.Now()
	if got := words("job", "get", "--server", "http://127.0.0.1:1", ""); strings.Contains(got, "rror") || time.Since(began) > 20*time.Second {
		t.Errorf("without a server: %s after %v", got, time.Since(began))
	}
}

func TestDoctor(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("job", "create", "needs a gpu", "--every", "1h", "--simulate", "noop", "--label", "gpu", "--key", "gpu")
	c.fails(failed, "there are problems: 1", "doctor", "--data", t.TempDir())
	for _, want := range []string{"ok       server:", "ok       version:", "ok       clock:", "ok       store:", "ok       workers:", "ok       disk:", "schedules: ", "problem  jobs: no worker has the labels gpu, which 1 job needs: needs a gpu\n", "do: "} {
		if !strings.Contains(c.out, want) {
			t.Errorf("%q is not in\n%s", want, c.out)
		}
	}
	c.ok("job", "delete", "gpu", "-y")
	file := filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.WriteFile(file, []byte("workflows:\n  - key: doctored\n    name: doctored\n    nodes:\n      - {key: a, execution: {target: simulate, work_kind: noop}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("apply", "-f", file) // servers begin its runs: it needs no worker
	c.ok("doctor", "-o", "json")
	none := at(t, "--server", "http://127.0.0.1:1")
	none.fails(failed, "", "doctor")
	if !strings.Contains(none.out, "problem  server: http://127.0.0.1:1 does not answer") {
		t.Errorf("without a server:\n%s", none.out)
	}
}

// A list is of the user's own jobs: those by which notifications are sent are shown when asked for.
func TestNotificationJobsAreListedOnlyWhenAskedFor(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("job", "create", "mine", "--every", "1h", "--simulate", "noop", "--tag", "billing")
	c.ok("job", "create", "notification: oncall", "--every", "1h", "--simulate", "noop", "--tag", "carillon-notification")
	c.ok("job", "create", "plain", "--every", "1h", "--simulate", "noop")
	for args, want := range map[string][]string{
		"": {"plain", "mine"}, "--notifications": {"plain", "notification: oncall", "mine"}, "--tag carillon-notification": {"notification: oncall"}, "--tag billing": {"mine"},
	} {
		var got []string
		for _, j := range read[[]client.Job](c, append([]string{"job", "list"}, strings.Fields(args)...)...) {
			if slices.Contains([]string{"plain", "mine", "notification: oncall"}, j.Name) { // other tests have made others
				got = append(got, j.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("job list %s: got %q, want %q", args, got, want)
		}
	}
	if got := c.ok("job", "list", "--name", "notification: oncall"); !strings.Contains(got, "oncall") {
		t.Errorf("by name: got %q", got)
	}
}

func TestTagsAreAddedAndRemoved(t *testing.T) {
	c := at(t, "--server", devServer(t))
	id := c.ok("job", "create", "tagged", "--every", "1h", "--simulate", "noop", "--tag", "kept,gone", "--key", "tagged")
	c.fails(misuse, "--add goes with tag and --remove with untag, not with tag", "job", "bulk", "tag", "--name", "tagged", "--remove", "gone")
	c.fails(misuse, "not with untag", "job", "bulk", "untag", "--name", "tagged", "--add", "gone")
	c.fails(misuse, "not with pause", "job", "bulk", "pause", "--name", "tagged", "--add", "gone")
	c.ok("job", "bulk", "untag", "--name", "tagged", "--remove", "gone", "--wait")
	c.ok("job", "bulk", "tag", "--name", "tagged", "--add", "new", "--wait")
	if j := read[client.Job](c, "job", "get", id); strings.Join(j.Tags, ",") != "kept,new" {
		t.Errorf("its tags are %q", j.Tags)
	}
}

// Commands on the database itself: nothing is changed by a rehearsal, and no file is made where none is.
func TestOverTheDatabase(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c, db := at(t), "sqlite:"+filepath.Join(dir, "c.db")
	c.fails(failed, "", "key", "recover", "--database", db)
	if _, err := os.Stat(filepath.Join(dir, "c.db")); err == nil {
		t.Fatal("it made a database")
	}
	c.ok("migrate", "up", "--database", db)
	c.ok("key", "recover", "--database", db, "--dry-run")
	if c.out != "" {
		t.Errorf("a rehearsal printed %q", c.out)
	}
	if key := c.ok("key", "recover", "--database", db); !strings.HasPrefix(key, "car_live_") || strings.Contains(c.err, key) {
		t.Errorf("%q: %s", key, c.err)
	}
	c.ok("backup", "create", "b.db", "--database", db, "--dry-run")
	if _, err := os.Stat("b.db"); err == nil || !strings.Contains(c.err, filepath.Join(dir, "b.db")) {
		t.Errorf("%v: %s", err, c.err)
	}
	c.ok("backup", "create", "b.db", "--database", db)
	c.fails(failed, "exists", "backup", "create", "b.db", "--database", db, "--dry-run")
	c.fails(misuse, "want --to", "backup", "--keep", "3", "--database", db)
	c.fails(misuse, "1 or more", "backup", "--to", "file:saved", "--keep", "0", "--database", db)
	c.fails(misuse, "file:PATH", "backup", "--to", "store:", "--database", db)
	c.fails(notFound, "holds no replica and no backup", "restore", "--from", "file:saved", "--to", "r.db")
	for range 3 {
		c.ok("backup", "--to", "file:saved", "--keep", "2", "--database", db)
	}
	if out := c.ok("restore", "--from", "file:saved", "--dry-run"); strings.Count(out, "\n") != 2 || !strings.Contains(c.err, "Nothing was done") {
		t.Errorf("%s%s", out, c.err)
	}
	c.ok("restore", "--from", "file:saved", "--to", "r.db")
	if !strings.Contains(c.err, "Lost is everything acknowledged after that backup") {
		t.Error(c.err)
	}
	c.ok("backup", "verify", "r.db")
	c.fails(misuse, "exists", "restore", "--from", "file:saved", "--to", "r.db")
	c.fails(misuse, "is not a time", "restore", "--from", "file:saved", "--to", "s.db", "--at", "soon")
	c.fails(notFound, "goes back to", "restore", "--from", "file:saved", "--to", "s.db", "--at", "2020-01-01")
	c.fails(misuse, "want --from", "restore", "--to", "s.db")
	manifests, _ := filepath.Glob("saved/backups/*/manifest")
	if len(manifests) != 2 || os.WriteFile(manifests[1], []byte("hello"), 0o600) != nil {
		t.Fatalf("the backups are %v", manifests)
	}
	newest := filepath.Base(filepath.Dir(manifests[1]))
	c.fails(failed, newest, "restore", "--from", "file:saved", "--to", "s.db")
	if !strings.Contains(c.err, "the last instant that can be restored is") || !strings.Contains(c.err, "--last-good") {
		t.Error(c.err)
	}
	c.fails(failed, newest, "restore", "--from", "file:saved", "--dry-run")
	if strings.Count(c.out, "\n") != 2 {
		t.Errorf("a rehearsal of what is refused lists %q", c.out)
	}
	c.ok("restore", "--from", "file:saved", "--to", "s.db", "--last-good")
	if !strings.Contains(c.err, "It ends there because") || !strings.Contains(c.err, "Everything acknowledged before") || !strings.Contains(c.err, newest) {
		t.Error(c.err)
	}
	t.Setenv("CARILLON_SECRETS_KEY", strings.Repeat("k", 43)+"=")
	if out := c.ok("secret", "rekey", "--database", db, "--dry-run"); !strings.Contains(out, "0 secrets are encrypted with other keys") {
		t.Error(out)
	}
}
