package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestAJobTravelsFromTheAPIIntoHistory(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		s.set(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "thanks") })
		p := serve(t, where)
		j := p.create(s.call(""))
		e := p.ends(j.ExecutionID, "SUCCEEDED")
		if e.AttemptNumber != 1 || e.StartedAt == nil || e.FinishedAt == nil || e.DurationMS == nil || e.WorkerID == nil ||
			e.CallbackResponse == nil || e.CallbackResponse.HTTPStatus != 200 || e.CallbackResponse.BodyPreview != "thanks" {
			t.Errorf("execution: %+v", e)
		}
		got := s.seen()
		if len(got) != 1 {
			t.Fatalf("%d arrivals", len(got))
		}
		for name, value := range map[string]string{
			"X-Job-ID": j.JobID, "X-Execution-ID": j.ExecutionID, "X-Attempt-Number": "1", "X-Idempotency-Key": e.IdempotencyKey, "Content-Type": "application/json",
		} {
			if got[0].header.Get(name) != value {
				t.Errorf("%s: got %q, want %q", name, got[0].header.Get(name), value)
			}
		}
		if got[0].body != `{"n": 1}` {
			t.Errorf("body %s", got[0].body)
		}
		job := want[client.Job](p, 200, "GET", "/api/v1/jobs/"+j.JobID, "")
		if job.Status != "COMPLETED" || job.Stats.TotalRuns != 1 || job.Stats.SuccessRate != 1 || job.Stats.LastStatus == nil || job.Schedule.LastRunAt == nil {
			t.Errorf("job: %s, %+v", job.Status, job.Stats)
		}
		tr := want[client.Triggered](p, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", `{"payload_override": {"n": 2}}`)
		p.ends(tr.ExecutionID, "SUCCEEDED")
		if got := s.seen(); len(got) != 2 || got[1].body != `{"n": 2}` {
			t.Errorf("triggered: %+v", got)
		}
		list := want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions?status=SUCCEEDED", "")
		if len(list.Executions) != 2 || list.Pagination.Total != 2 {
			t.Errorf("history: %+v", list)
		}
		if code := p.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestOutcomes(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
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
			j := p.create(`{"name": "outcome", "execution": ` + c.execution + policy)
			e := p.ends(j.ExecutionID, c.status)
			if e.AttemptNumber != c.attempts || c.failure != "" && (e.Error == nil || e.Error.Type != c.failure) || c.failure == "" && e.Error != nil {
				t.Errorf("%s: %d attempts, error %+v", c.execution, e.AttemptNumber, e.Error)
			}
		}
	})
}

func TestOneTimeIsNeverEarly(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		p := start(t, append(settings, "CARILLON_SCHEDULER_LOOK_AHEAD_SECONDS=1"), "serve", "--database", where)
		at := time.Now().Add(2500 * time.Millisecond).UTC()
		j := p.create(s.call(fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, at.Format(time.RFC3339Nano))))
		if j.ExecutionID != "" || j.Schedule.NextRunAt == nil {
			t.Errorf("it fired at once: %+v", j.Schedule)
		}
		var list client.Executions
		eventually(t, 20*time.Second, "the job to run", func() bool {
			list = want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions", "")
			return len(list.Executions) == 1 && list.Executions[0].Status == "SUCCEEDED"
		})
		if got := s.seen(); len(got) != 1 || got[0].at.Before(at) || got[0].header.Get("X-Scheduled-Time") == "" {
			t.Errorf("%d arrivals, the first %v after the instant", len(got), got[0].at.Sub(at))
		}
		e := list.Executions[0]
		if !e.ScheduledTime.Equal(at.Truncate(time.Microsecond)) || e.StartedAt.Before(e.DueAt) {
			t.Errorf("scheduled %v, due %v, started %v", e.ScheduledTime, e.DueAt, e.StartedAt)
		}
		if job := want[client.Job](p, 200, "GET", "/api/v1/jobs/"+j.JobID, ""); job.Status != "COMPLETED" || job.Schedule.NextRunAt != nil {
			t.Errorf("the job is %s", job.Status)
		}
	})
}

func TestKill9InTheMiddleOfARun(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		block := make(chan struct{})
		s.set(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		p := serve(t, where)
		j := p.create(s.call(""))
		eventually(t, 20*time.Second, "the first attempt", func() bool { return len(s.seen()) == 1 })
		if got := p.execution(j.ExecutionID); got.Status != "RUNNING" {
			t.Errorf("it is %s", got.Status)
		}
		p.signal(syscall.SIGKILL)
		close(block)
		p = serve(t, where)
		e := p.ends(j.ExecutionID, "SUCCEEDED")
		if e.AttemptNumber != 2 || e.LostAttempts != 1 {
			t.Errorf("%d attempts, %d lost", e.AttemptNumber, e.LostAttempts)
		}
		got := s.seen()
		if len(got) != 2 {
			t.Fatalf("%d arrivals", len(got))
		}
		first, second := got[0].header, got[1].header
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
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		var mu sync.Mutex
		var acked []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					code, body, err := p.ask("POST", "/api/v1/jobs", `{"name": "survivor", "execution": {"target": "simulate", "work_kind": "noop"}}`)
					if err != nil || code != 201 {
						return // it was killed
					}
					_, rest, _ := strings.Cut(body, `"execution_id":"`)
					mu.Lock()
					acked = append(acked, rest[:36])
					mu.Unlock()
				}
			})
		}
		eventually(t, 20*time.Second, "200 jobs", func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) >= 200 })
		p.signal(syscall.SIGKILL)
		wg.Wait()
		p = serve(t, where)
		for _, id := range acked {
			p.ends(id, "SUCCEEDED")
		}
	})
}

func TestCancel(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		gone := make(chan struct{}, 1)
		s.set(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the caller hangs up
			gone <- struct{}{}
		})
		p := serve(t, where)
		j := p.create(s.call(""))
		eventually(t, 20*time.Second, "the run", func() bool { return len(s.seen()) == 1 })
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if code, body, err := p.ask("POST", "/api/v1/executions/"+j.ExecutionID+"/cancel", `{"reason": "enough"}`); err != nil || code != 202 {
					t.Errorf("cancel: %d, %v: %s", code, err, body)
				}
			})
		}
		wg.Wait()
		e := p.ends(j.ExecutionID, "CANCELLED")
		if e.AttemptNumber != 1 || e.Error == nil || e.Error.Type != "CANCELLED" {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			t.Error("the callback was not stopped")
		}
		if got := want[client.Workers](p, 200, "GET", "/api/v1/workers", ""); len(got.Workers) != 1 || got.Workers[0].Status == "DEAD" {
			t.Errorf("workers: %+v", got.Workers)
		}
	})
}

func TestDeadLetters(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		s.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		p := serve(t, where)
		j := p.create(s.call(`, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1, "max_delay_ms": 1}`))
		p.ends(j.ExecutionID, "FAILED")
		dead := want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters
		if len(dead) != 1 || dead[0].ExecutionID != j.ExecutionID || dead[0].Reason != "ATTEMPTS_EXHAUSTED" || len(dead[0].Errors) != 2 {
			t.Fatalf("got %+v", dead)
		}
		s.set(nil)
		tr := want[client.Triggered](p, 202, "POST", "/api/v1/dead-letters/"+j.ExecutionID+"/redrive", "")
		e := p.ends(tr.ExecutionID, "SUCCEEDED")
		if e.RetryOf == nil || *e.RetryOf != j.ExecutionID || e.Trigger != "redrive" {
			t.Errorf("got %+v", e)
		}
		if dead := want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters; len(dead) != 0 {
			t.Errorf("%d are left", len(dead))
		}
	})
}

// What kills its worker three times within an hour is not given to a fourth.
func TestPoison(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		j := ""
		for n := 1; n <= 3; n++ {
			p := serve(t, where)
			if j == "" {
				j = p.create(`{"name": "deadly", "execution": {"target": "simulate", "work_kind": "hang"}}`).ExecutionID
			}
			eventually(t, 30*time.Second, fmt.Sprintf("attempt %d", n), func() bool {
				e := p.execution(j)
				return e.Status == "RUNNING" && e.AttemptNumber == n
			})
			p.signal(syscall.SIGKILL)
		}
		p := serve(t, where)
		e := p.ends(j, "FAILED")
		if e.Error == nil || e.Error.Type != "POISON" || e.LostAttempts != 3 {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
	})
}

// A process that stands still past its lease, in the middle of a backlog, loses nothing: what it held is run again, by
// itself or by another, and its late results are refused.
func TestAPausePastTheLease(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		one := `{"name": "short", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 1}}`
		made := want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(one+",", 1999)+one+"]")
		for range 2 {
			p.cmd.Process.Signal(syscall.SIGSTOP)
			<-time.After(4 * time.Second) // longer than the lease of 3
			p.cmd.Process.Signal(syscall.SIGCONT)
			<-time.After(100 * time.Millisecond)
		}
		for _, j := range made.Jobs {
			p.ends(j.ExecutionID, "SUCCEEDED")
		}
	})
}

// Workers are separate processes on either store; one that is killed loses what it ran to another.
func TestWorkerProcesses(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		block := make(chan struct{})
		s.set(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		server := serve(t, where, "--roles", "api,scheduler")
		env := append(settings, "CARILLON_TOKEN="+key)
		plain := start(t, env, "worker", "--server", server.base, "--capacity", "4")
		j := server.create(s.call(""))
		eventually(t, 20*time.Second, "the first attempt", func() bool { return len(s.seen()) == 1 })
		gpu := server.create(`{"name": "needs a gpu", "labels": ["gpu"], "execution": {"target": "simulate", "work_kind": "noop"}}`)
		plain.signal(syscall.SIGKILL)
		close(block)
		strong := start(t, env, "worker", "--server", server.base, "--labels", "gpu,eu")
		if e := server.ends(gpu.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 1 {
			t.Errorf("attempt %d", e.AttemptNumber)
		}
		if e := server.ends(j.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 2 || e.LostAttempts != 1 {
			t.Errorf("attempt %d, lost %d", e.AttemptNumber, e.LostAttempts)
		}
		ws := want[client.Workers](server, 200, "GET", "/api/v1/workers", "").Workers
		if len(ws) != 2 || ws[0].Status == "DEAD" || ws[1].Status != "DEAD" || len(ws[0].Labels) != 2 {
			t.Errorf("workers: %+v", ws)
		}
		if code := strong.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// Workers outlive the server: they finish what they hold and report when it is back. (On SQLite a new server
// process ends the sessions of the one before, so there the execution is run again.)
func TestTheServerDiesAndComesBack(t *testing.T) {
	t.Parallel()
	where := postgrestest.URL(t)
	s := newSink(t)
	block := make(chan struct{})
	s.set(func(http.ResponseWriter, *http.Request) { <-block })
	listen := []string{"serve", "--database", where, "--roles", "api,scheduler"}
	env := append(settings, "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=30", "CARILLON_TOKEN="+key)
	server := start(t, env, listen...)
	start(t, env, "worker", "--server", server.base)
	j := server.create(s.call(""))
	eventually(t, 20*time.Second, "the run", func() bool { return len(s.seen()) == 1 })
	server.signal(syscall.SIGKILL)
	close(block) // it ends while there is no server
	back := launch(t, env, append(listen, "--listen", strings.TrimPrefix(server.base, "http://"))...)
	back.base = server.base
	eventually(t, 20*time.Second, "the server", func() bool { code, _, err := back.ask("GET", "/readyz", ""); return err == nil && code == 200 })
	if e := back.ends(j.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 1 || e.LostAttempts != 0 || len(s.seen()) != 1 {
		t.Errorf("attempt %d, lost %d, %d arrivals", e.AttemptNumber, e.LostAttempts, len(s.seen()))
	}
}

func TestSIGTERMDrains(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		release := make(chan struct{})
		s.set(func(_ http.ResponseWriter, r *http.Request) { <-release })
		p := serve(t, where)
		j := p.create(s.call(""))
		eventually(t, 20*time.Second, "the run", func() bool { return len(s.seen()) == 1 })
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "it to be no longer ready", func() bool {
			code, _, err := p.ask("GET", "/readyz", "")
			return err != nil || code == 503
		})
		close(release)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = serve(t, where)
		if e := p.execution(j.ExecutionID); e.Status != "SUCCEEDED" || e.AttemptNumber != 1 {
			t.Errorf("it is %s after %d attempts", e.Status, e.AttemptNumber)
		}
	})
}

func TestWhatDoesNotEndInTimeIsHandedBackAtOnce(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		env := append(settings, "CARILLON_WORKERS_DRAIN_TIMEOUT_SECONDS=1", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=300")
		p := start(t, env, "serve", "--database", where)
		j := p.create(`{"name": "long", "execution": {"target": "simulate", "work_kind": "hang"}}`)
		p.ends(j.ExecutionID, "RUNNING")
		if code := p.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = start(t, env, "serve", "--database", where, "--roles", "api")
		if e := p.execution(j.ExecutionID); e.Status != "PENDING" || e.AttemptNumber != 0 || e.LostAttempts != 0 {
			t.Errorf("it is %s, attempt %d, lost %d", e.Status, e.AttemptNumber, e.LostAttempts)
		}
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.signal(syscall.SIGTERM)
	})
}

func TestTheStoreGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	where := postgrestest.URL(t)
	p := serve(t, where)
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
		code, body, err := p.ask("POST", "/api/v1/jobs", `{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`, "X-Idempotency-Key", fmt.Sprint(len(ids)))
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
		p.ends(id, "SUCCEEDED")
	}
	if code, _, err := p.ask("GET", "/readyz", ""); err != nil || code != 200 {
		t.Errorf("not ready: %d, %v", code, err)
	}
}

func TestSeveralServersOverOnePostgreSQL(t *testing.T) {
	t.Parallel()
	where := postgrestest.URL(t)
	s := newSink(t)
	var servers []*process
	for range 3 {
		servers = append(servers, serve(t, where))
	}
	at := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	var all []string
	for i := range 60 {
		more := ""
		if i%2 == 0 {
			more = fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, at)
		}
		all = append(all, servers[i%3].create(s.call(more)).JobID)
	}
	for _, id := range all {
		eventually(t, 40*time.Second, "job "+id, func() bool {
			return want[client.Job](servers[0], 200, "GET", "/api/v1/jobs/"+id, "").Status == "COMPLETED"
		})
	}
	calls := map[string]int{}
	for _, a := range s.seen() {
		calls[a.header.Get("X-Job-ID")]++
	}
	for _, id := range all {
		if calls[id] != 1 {
			t.Errorf("job %s was called %d times", id, calls[id])
		}
	}
}
