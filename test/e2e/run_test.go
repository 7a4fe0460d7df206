package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

func TestAJobTravelsFromTheAPIIntoHistory(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		s.Answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "thanks") })
		p := harness.Serve(t, where)
		j := p.Create(s.Call(""))
		e := p.Ends(j.ExecutionID, "SUCCEEDED")
		if e.AttemptNumber != 1 || e.StartedAt == nil || e.FinishedAt == nil || e.DurationMS == nil || e.WorkerID == nil ||
			e.CallbackResponse == nil || e.CallbackResponse.HTTPStatus != 200 || e.CallbackResponse.BodyPreview != "thanks" {
			t.Errorf("execution: %+v", e)
		}
		got := s.Seen()
		if len(got) != 1 {
			t.Fatalf("%d arrivals", len(got))
		}
		for name, value := range map[string]string{
			"X-Job-ID": j.JobID, "X-Execution-ID": j.ExecutionID, "X-Attempt-Number": "1", "X-Idempotency-Key": e.IdempotencyKey, "Content-Type": "application/json",
		} {
			if got[0].Header.Get(name) != value {
				t.Errorf("%s: got %q, want %q", name, got[0].Header.Get(name), value)
			}
		}
		if got[0].Body != `{"n":1}` {
			t.Errorf("body %s", got[0].Body)
		}
		job := harness.Want[client.Job](p, 200, "GET", "/api/v1/jobs/"+j.JobID, "")
		if job.Status != "COMPLETED" || job.Stats.TotalRuns != 1 || job.Stats.SuccessRate != 1 || job.Stats.LastStatus == nil || job.Schedule.LastRunAt == nil {
			t.Errorf("job: %s, %+v", job.Status, job.Stats)
		}
		tr := harness.Want[client.Triggered](p, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", `{"payload_override": {"n": 2}}`)
		p.Ends(tr.ExecutionID, "SUCCEEDED")
		if got := s.Seen(); len(got) != 2 || got[1].Body != `{"n":2}` {
			t.Errorf("triggered: %+v", got)
		}
		list := harness.Want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions?status=SUCCEEDED", "")
		if len(list.Executions) != 2 || list.Pagination.Total != 2 {
			t.Errorf("history: %+v", list)
		}
		if code := p.End(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		policy := `, "retry_policy": {"max_retries": 2, "backoff": "FIXED", "initial_delay_ms": 10, "max_delay_ms": 10}}`
		for _, c := range []struct {
			execution, status string
			attempts          int
			failure           string
		}{
			{`{"target": "simulate", "work_kind": "noop"}`, "SUCCEEDED", 1, ""},
			{`{"target": "simulate", "work_kind": "sleep", "duration_ms": 50}`, "SUCCEEDED", 1, ""},
			{`{"target": "simulate", "work_kind": "flaky", "fail_attempts": 2}`, "SUCCEEDED", 3, ""},
			{`{"target": "simulate", "work_kind": "fail"}`, "FAILED", 3, "HANDLER_ERROR"},
			{`{"target": "simulate", "work_kind": "fail_permanent"}`, "FAILED", 1, "HANDLER_ERROR"},
			{`{"target": "simulate", "work_kind": "cancel"}`, "CANCELLED", 1, "CANCELLED"},
			{`{"target": "simulate", "work_kind": "hang", "timeout_seconds": 1}`, "TIMED_OUT", 3, "TIMEOUT"},
			{`{"callback_url": "http://127.0.0.1:1/"}`, "FAILED", 3, "CONNECTION_REFUSED"},
			{`{"callback_url": "http://169.254.169.254/"}`, "FAILED", 1, "BLOCKED_ADDRESS"},
			{`{"callback_url": "http://10.0.0.1/"}`, "FAILED", 1, "BLOCKED_ADDRESS"},
		} {
			j := p.Create(`{"name": "outcome", "execution": ` + c.execution + policy)
			e := p.Ends(j.ExecutionID, c.status)
			if e.AttemptNumber != c.attempts || c.failure != "" && (e.Error == nil || e.Error.Type != c.failure) || c.failure == "" && e.Error != nil {
				t.Errorf("%s: %d attempts, error %+v", c.execution, e.AttemptNumber, e.Error)
			}
		}
	})
}

func TestOneTimeIsNeverEarly(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		p := harness.Start(t, harness.Settings("CARILLON_SCHEDULER_LOOK_AHEAD_SECONDS=1"), "serve", "--database", where)
		at := time.Now().Add(6 * time.Second).UTC() // later than the answer to its creation, on a slow machine, too
		j := p.Create(s.Call(fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, at.Format(time.RFC3339Nano))))
		if j.ExecutionID != "" || j.Schedule.NextRunAt == nil {
			t.Errorf("it fired at once: %+v", j.Schedule)
		}
		var list client.Executions
		harness.Eventually(t, 20*time.Second, "the job to run", func() bool {
			list = harness.Want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions", "")
			return len(list.Executions) == 1 && list.Executions[0].Status == "SUCCEEDED"
		})
		if got := s.Seen(); len(got) != 1 || got[0].At.Before(at) || got[0].Header.Get("X-Scheduled-Time") == "" {
			t.Errorf("%d arrivals, the first %v after the instant", len(got), got[0].At.Sub(at))
		}
		e := list.Executions[0]
		if !e.ScheduledTime.Equal(at.Truncate(time.Microsecond)) || e.StartedAt.Before(e.DueAt) {
			t.Errorf("scheduled %v, due %v, started %v", e.ScheduledTime, e.DueAt, e.StartedAt)
		}
		if job := harness.Want[client.Job](p, 200, "GET", "/api/v1/jobs/"+j.JobID, ""); job.Status != "COMPLETED" || job.Schedule.NextRunAt != nil {
			t.Errorf("the job is %s", job.Status)
		}
	})
}

func TestKill9InTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		block := make(chan struct{})
		s.Answer(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		p := harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		j := p.Create(s.Call(""))
		harness.Eventually(t, 20*time.Second, "the first attempt", func() bool { return len(s.Seen()) == 1 })
		if got := p.Execution(j.ExecutionID); got.Status != "RUNNING" {
			t.Errorf("it is %s", got.Status)
		}
		p.End(syscall.SIGKILL)
		close(block)
		p = harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		e := p.Ends(j.ExecutionID, "SUCCEEDED")
		// A machine that stands still for seconds may have lost another with so short a lease.
		if e.AttemptNumber < 2 || e.LostAttempts != e.AttemptNumber-1 {
			t.Errorf("%d attempts, %d lost", e.AttemptNumber, e.LostAttempts)
		}
		got := s.Seen()
		if len(got) < 2 || len(got) > e.AttemptNumber {
			t.Fatalf("%d arrivals of %d attempts", len(got), e.AttemptNumber)
		}
		first, second := got[0].Header, got[1].Header
		if first.Get("X-Idempotency-Key") != second.Get("X-Idempotency-Key") || first.Get("X-Execution-ID") != second.Get("X-Execution-ID") {
			t.Error("the attempts carry different keys")
		}
		a, _ := strconv.ParseInt(first.Get("X-Fencing-Token"), 10, 64)
		b, _ := strconv.ParseInt(second.Get("X-Fencing-Token"), 10, 64)
		if a <= 0 || b <= a {
			t.Errorf("tokens %d, then %d", a, b)
		}
	})
}

func TestWhatIsAcknowledgedSurvivesKill9(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		var mu sync.Mutex
		var acked []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					code, body, err := p.Ask("POST", "/api/v1/jobs", `{"name": "survivor", "execution": {"target": "simulate", "work_kind": "noop"}}`)
					if err != nil {
						return // it was killed
					}
					if code != 201 {
						continue // a machine that is busy sends callers away for a while
					}
					_, rest, _ := strings.Cut(body, `"execution_id":"`)
					mu.Lock()
					acked = append(acked, rest[:36])
					mu.Unlock()
				}
			})
		}
		harness.Eventually(t, 20*time.Second, "200 jobs", func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) >= 200 })
		p.End(syscall.SIGKILL)
		wg.Wait()
		p = harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		for _, id := range acked {
			p.Ends(id, "SUCCEEDED")
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		gone := make(chan struct{}, 1)
		s.Answer(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the caller hangs up
			gone <- struct{}{}
		})
		p := harness.Serve(t, where)
		j := p.Create(s.Call(""))
		harness.Eventually(t, 20*time.Second, "the run", func() bool { return len(s.Seen()) == 1 })
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if code, body, err := p.Ask("POST", "/api/v1/executions/"+j.ExecutionID+"/cancel", `{"reason": "enough"}`); err != nil || code != 202 {
					t.Errorf("cancel: %d, %v: %s", code, err, body)
				}
			})
		}
		wg.Wait()
		e := p.Ends(j.ExecutionID, "CANCELLED")
		if e.AttemptNumber != 1 || e.Error == nil || e.Error.Type != "CANCELLED" {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		select {
		case <-gone:
		case <-time.After(harness.Slack * 20 * time.Second):
			t.Error("the callback was not stopped")
		}
		if got := harness.Want[client.Workers](p, 200, "GET", "/api/v1/workers", ""); len(got.Workers) != 1 || got.Workers[0].Status == "DEAD" {
			t.Errorf("workers: %+v", got.Workers)
		}
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		s.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		p := harness.Serve(t, where)
		j := p.Create(s.Call(`, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1, "max_delay_ms": 1}`))
		p.Ends(j.ExecutionID, "FAILED")
		dead := harness.Want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters
		if len(dead) != 1 || dead[0].ExecutionID != j.ExecutionID || dead[0].Reason != "ATTEMPTS_EXHAUSTED" || len(dead[0].Errors) != 2 {
			t.Fatalf("got %+v", dead)
		}
		s.Answer(nil)
		tr := harness.Want[client.Triggered](p, 202, "POST", "/api/v1/dead-letters/"+j.ExecutionID+"/redrive", "")
		e := p.Ends(tr.ExecutionID, "SUCCEEDED")
		if e.RetryOf == nil || *e.RetryOf != j.ExecutionID || e.Trigger != "redrive" {
			t.Errorf("got %+v", e)
		}
		if dead := harness.Want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters; len(dead) != 0 {
			t.Errorf("%d are left", len(dead))
		}
	})
}

// What kills its worker three times within an hour is not given to a fourth.
func TestPoison(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		j := ""
		for n := 1; n <= 3; n++ {
			p := harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
			if j == "" {
				j = p.Create(`{"name": "deadly", "execution": {"target": "simulate", "work_kind": "hang"}}`).ExecutionID
			}
			harness.Eventually(t, 30*time.Second, fmt.Sprintf("attempt %d", n), func() bool {
				e := p.Execution(j)
				return e.Status == "RUNNING" && e.AttemptNumber >= n || e.Status == "FAILED" // a slow machine may lose one by itself
			})
			p.End(syscall.SIGKILL)
		}
		p := harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		e := p.Ends(j, "FAILED")
		if e.Error == nil || e.Error.Type != "POISON" || e.LostAttempts != 3 {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
	})
}

// A process that stands still past its lease, in the middle of a backlog, loses nothing: what it held is run again, by
// itself or by another, and its late results are refused.
func TestAPausePastTheLease(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Start(t, harness.Settings(harness.ShortLease), "serve", "--database", where)
		one := `{"name": "short", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 1}}`
		made := harness.Want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(one+",", 1999)+one+"]")
		for range 2 {
			p.Freeze()
			<-time.After(4 * time.Second) // longer than the lease of 3
			p.Thaw()
			<-time.After(100 * time.Millisecond)
		}
		for _, j := range made.Jobs {
			p.Ends(j.ExecutionID, "SUCCEEDED")
		}
	})
}

// Workers are separate processes on either store; one that is killed loses what it ran to another.
func TestWorkerProcesses(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		block := make(chan struct{})
		s.Answer(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		env := harness.Settings(harness.ShortLease)
		server := harness.Start(t, env, "serve", "--database", where, "--roles", "api,scheduler")
		plain := harness.Start(t, env, "worker", "--server", server.Base, "--capacity", "4")
		j := server.Create(s.Call(""))
		harness.Eventually(t, 20*time.Second, "the first attempt", func() bool { return len(s.Seen()) == 1 })
		gpu := server.Create(`{"name": "needs a gpu", "labels": ["gpu"], "execution": {"target": "simulate", "work_kind": "noop"}}`)
		plain.End(syscall.SIGKILL)
		close(block)
		strong := harness.Start(t, env, "worker", "--server", server.Base, "--labels", "gpu,eu")
		if e := server.Ends(gpu.ExecutionID, "SUCCEEDED"); e.LostAttempts != e.AttemptNumber-1 {
			t.Errorf("attempt %d, lost %d", e.AttemptNumber, e.LostAttempts)
		}
		if e := server.Ends(j.ExecutionID, "SUCCEEDED"); e.AttemptNumber < 2 || e.LostAttempts != e.AttemptNumber-1 {
			t.Errorf("attempt %d, lost %d", e.AttemptNumber, e.LostAttempts)
		}
		ws := harness.Want[client.Workers](server, 200, "GET", "/api/v1/workers", "").Workers
		dead := slices.DeleteFunc(slices.Clone(ws), func(w client.Worker) bool { return w.Status != "DEAD" })
		// A machine that stands still for seconds may have cost the second a session, too; it has another by now.
		if len(ws) != len(dead)+1 || len(dead) < 1 || ws[0].Status == "DEAD" || len(ws[0].Labels) != 2 || len(dead[len(dead)-1].Labels) != 0 {
			t.Errorf("workers: %+v", ws)
		}
		if code := strong.End(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// Workers outlive the server: they finish what they hold and report when it is back. (On SQLite a new server
// process ends the sessions of the one before, so there the execution is run again.)
func TestTheServerDiesAndComesBack(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	s := harness.NewSink(t)
	block := make(chan struct{})
	s.Answer(func(http.ResponseWriter, *http.Request) { <-block })
	listen := []string{"serve", "--database", where, "--roles", "api,scheduler"}
	env := harness.Settings("CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=30")
	server := harness.Start(t, env, listen...)
	harness.Start(t, env, "worker", "--server", server.Base)
	j := server.Create(s.Call(""))
	harness.Eventually(t, 20*time.Second, "the run", func() bool { return len(s.Seen()) == 1 })
	server.End(syscall.SIGKILL)
	close(block) // it ends while there is no server
	back := harness.Launch(t, env, append(listen, "--listen", strings.TrimPrefix(server.Base, "http://"))...)
	back.Base = server.Base
	harness.Eventually(t, 20*time.Second, "the server", func() bool { return back.Ready() })
	if e := back.Ends(j.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 1 || e.LostAttempts != 0 || len(s.Seen()) != 1 {
		t.Errorf("attempt %d, lost %d, %d arrivals", e.AttemptNumber, e.LostAttempts, len(s.Seen()))
	}
}

func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		release := make(chan struct{})
		s.Answer(func(_ http.ResponseWriter, r *http.Request) { <-release })
		p := harness.Serve(t, where)
		j := p.Create(s.Call(""))
		harness.Eventually(t, 20*time.Second, "the run", func() bool { return len(s.Seen()) == 1 })
		p.Signal(syscall.SIGTERM)
		harness.Eventually(t, 10*time.Second, "it to be no longer ready", func() bool {
			code, _, err := p.Ask("GET", "/readyz", "")
			return err != nil || code == 503
		})
		close(release)
		if code := p.Exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = harness.Serve(t, where)
		if e := p.Execution(j.ExecutionID); e.Status != "SUCCEEDED" || e.AttemptNumber != 1 {
			t.Errorf("it is %s after %d attempts", e.Status, e.AttemptNumber)
		}
	})
}

func TestWhatDoesNotEndInTimeIsHandedBackAtOnce(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		env := harness.Settings("CARILLON_WORKERS_DRAIN_TIMEOUT_SECONDS=1", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=300")
		p := harness.Start(t, env, "serve", "--database", where)
		j := p.Create(`{"name": "long", "execution": {"target": "simulate", "work_kind": "hang"}}`)
		p.Ends(j.ExecutionID, "RUNNING")
		if code := p.End(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = harness.Start(t, env, "serve", "--database", where, "--roles", "api")
		if e := p.Execution(j.ExecutionID); e.Status != "PENDING" || e.AttemptNumber != 0 || e.LostAttempts != 0 {
			t.Errorf("it is %s, attempt %d, lost %d", e.Status, e.AttemptNumber, e.LostAttempts)
		}
		p.Signal(syscall.SIGTERM)
		p.End(syscall.SIGTERM)
	})
}

func TestTheStoreGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	p := harness.Serve(t, where)
	admin, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	var ids []string
	for range 20 {
		if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
		code, body, err := p.Ask("POST", "/api/v1/jobs", `{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`, "X-Idempotency-Key", fmt.Sprint(len(ids)))
		switch {
		case err != nil:
			t.Fatal(err)
		case code == 201:
			_, rest, _ := strings.Cut(body, `"execution_id":"`)
			ids = append(ids, rest[:36])
		case code != 503:
			t.Errorf("got %d %s", code, body)
		}
	}
	for _, id := range ids {
		p.Ends(id, "SUCCEEDED")
	}
	harness.Eventually(t, 20*time.Second, "it to be ready", p.Ready)
}

func TestSeveralServersOverOnePostgreSQL(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	s := harness.NewSink(t)
	var servers []*harness.Process
	for range 3 {
		servers = append(servers, harness.Serve(t, where))
	}
	at := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	var all []string
	for i := range 60 {
		more := ""
		if i%2 == 0 {
			more = fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, at)
		}
		all = append(all, servers[i%3].Create(s.Call(more)).JobID)
	}
	for _, id := range all {
		harness.Eventually(t, 40*time.Second, "job "+id, func() bool {
			return harness.Want[client.Job](servers[0], 200, "GET", "/api/v1/jobs/"+id, "").Status == "COMPLETED"
		})
	}
	calls := map[string]int{}
	for _, a := range s.Seen() {
		calls[a.Header.Get("X-Job-ID")]++
	}
	for _, id := range all {
		if calls[id] != 1 {
			t.Errorf("job %s was called %d times", id, calls[id])
		}
	}
}
