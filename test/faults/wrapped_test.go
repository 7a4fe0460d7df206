//go:build unix

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Every store call may happen and be reported as failed: under load of all that users and workers ask for, nothing is
// lost, nothing is done twice, and everything ends (row 15).
func TestCommitsThatAreReportedAsFailed(t *testing.T) {
	t.Parallel()
	shares := []float64{0.05}
	if all {
		shares = []float64{0.01, 0.05, 0.1, 0.25}
	}
	for _, share := range shares {
		t.Run(fmt.Sprintf("%g", share), func(t *testing.T) {
			stores(t, func(t *testing.T, where string) {
				reportedAsFailed(t, where, enginetest.Faults{Seed: 15, After: share})
			})
		})
	}
}

func reportedAsFailed(t *testing.T, where string, f enginetest.Faults) {
	base, faulty := wrapped(t, where, f)
	target := harness.NewSink(t)
	c := &clients{t: t, base: func() string { return base }}
	u := &users{T: t, base: base}

	// What the rest is about is made while the store is sound.
	dead, again, long := make([]string, 8), make([]string, 8), make([]string, 8)
	for i := range 8 {
		dead[i] = u.ended(`{"name": "dies", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`, "FAILED")
		again[i] = u.ended(`{"name": "again", "execution": {"target": "simulate", "work_kind": "noop"}}`, "SUCCEEDED")
		long[i] = u.post(201, "/api/v1/jobs", `{"name": "long", "execution": {"target": "simulate", "work_kind": "hang"}}`).ExecutionID
	}
	base0 := u.post(201, "/api/v1/jobs", `{"name": "by hand", "execution": {"target": "simulate", "work_kind": "noop"}}`).JobID

	faulty.Set(f)
	call := fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 10, "max_delay_ms": 10}}`, target.URL)
	for range 60 {
		c.create(call)
	}
	var triggered, retried, redriven [8]string
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { triggered[i] = u.post(202, "/api/v1/jobs/"+base0+"/trigger", "").ExecutionID })
		wg.Go(func() { retried[i] = u.post(202, "/api/v1/executions/"+again[i]+"/retry", "").ExecutionID })
		wg.Go(func() { redriven[i] = u.post(202, "/api/v1/dead-letters/"+dead[i]+"/redrive", "").ExecutionID })
		wg.Go(func() { u.post(202, "/api/v1/executions/"+long[i]+"/cancel", "") })
	}
	wg.Wait()
	// Calls share commits, and a quick machine needs few: continue until there was something to survive.
	for wave := 0; wave < 200 && sum(faulty.Injected()) < 10 && f.After >= 0.05; wave++ {
		for range 5 {
			c.create(call)
		}
		c.told()
	}
	h := history{creations: c.told()}
	u.settle(triggered[:], "SUCCEEDED")
	faulty.Set(enginetest.Faults{})
	u.settle(retried[:], "SUCCEEDED")
	u.settle(redriven[:], "FAILED")
	u.settle(long, "CANCELLED")
	for _, x := range h.creations {
		harness.Eventually(t, patience, "job "+x.job, func() bool {
			return harness.Read[client.Job](harness.At(t, base), "/api/v1/jobs/"+x.job).Status == "COMPLETED"
		})
	}
	h.arrivals = target.Seen()
	h.look(t, base)
	for _, w := range check(h) {
		t.Error(w)
	}
	u.count("by hand", 1, 9)
	u.count("again", 8, 16)
	u.count("dies", 8, 16)
	u.count("long", 8, 8)
	if got := harness.Read[client.DeadLetters](harness.At(t, base), "/api/v1/dead-letters?limit=100").DeadLetters; len(got) != 8 {
		t.Errorf("%d dead letters, want those of the 8 that died again", len(got))
	}
	total := sum(faulty.Injected())
	if total < 10 && f.After >= 0.05 {
		t.Errorf("only %d faults: %v", total, faulty.Injected())
	}
	t.Logf("%d faults", total)
}

func sum(faults map[string]int) (n int) {
	for _, k := range faults {
		n += k
	}
	return n
}

// wrapped runs a server and a worker of its own in this process, over a store that misbehaves when it is told to.
func wrapped(t *testing.T, where string, f enginetest.Faults) (base string, faulty *enginetest.Faulty) {
	t.Helper()
	base, start := inProcess(t, where, func(s engine.Store) engine.Store {
		faulty = enginetest.NewFaulty(s, enginetest.Faults{Seed: f.Seed})
		return faulty
	})
	start(8)
	return base, faulty
}

// inProcess runs a server in this process, over a store that wrap changes; what it returns starts a worker beside it.
func inProcess(t *testing.T, where string, wrap func(engine.Store) engine.Store) (base string, worker func(capacity int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	var out, logged harness.Output
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(logged.String())
		}
	})
	cfg := config.Default()
	cfg.Listen, cfg.Database, cfg.BootstrapKey, cfg.CallbacksAllow = "127.0.0.1:0", where, harness.Key, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Workers.Lease, cfg.Workers.Drain, cfg.PoisonAfter = lease, time.Second, 20
	o := app.Options{Config: cfg, Out: &out, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Wrap: wrap}
	wg.Go(func() {
		if err := app.Run(ctx, o); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	harness.Eventually(t, 30*time.Second, "a greeting", func() bool { return harness.Address(out.String()) != "" })
	base = harness.Address(out.String())
	return base, func(capacity int) {
		work := o
		work.Out, work.Wrap = io.Discard, nil
		wg.Go(func() {
			if err := app.RunWorker(ctx, app.WorkerOptions{Options: work, Servers: []string{base}, Token: harness.Key, Capacity: capacity}); err != nil {
				t.Errorf("the worker: %v", err)
			}
		})
	}
}

// users ask for what is not the creation of a job that calls the target.
type users struct {
	*testing.T
	base string
	mu   sync.Mutex
	keys int // guarded by mu
}

// post sends a request, under a key of its own, until it is answered.
func (u *users) post(status int, path, body string) (answer struct {
	JobID       string `json:"job_id"`
	ExecutionID string `json:"execution_id"`
},
) {
	u.mu.Lock()
	u.keys++
	once := fmt.Sprintf("%s user %d", u.Name(), u.keys)
	u.mu.Unlock()
	late := time.After(patience)
	for {
		code, data, err := harness.At(u.T, u.base).Ask("POST", path, body, "X-Idempotency-Key", once)
		switch {
		case err == nil && code == status:
			if err := json.Unmarshal([]byte(data), &answer); err != nil {
				u.Errorf("POST %s: %v", path, err)
			}
			return answer
		case err == nil && code < 500:
			u.Errorf("POST %s: %d %s", path, code, data)
			return answer
		}
		select {
		case <-late:
			u.Errorf("POST %s: no answer that tells: %d %s, %v", path, code, data, err)
			return answer
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ended creates a job and waits for its execution.
func (u *users) ended(body, status string) (execution string) {
	u.Helper()
	id := u.post(201, "/api/v1/jobs", body).ExecutionID
	u.settle([]string{id}, status)
	return id
}

func (u *users) settle(executions []string, status string) {
	u.Helper()
	for _, id := range executions {
		harness.Eventually(u.T, patience, "execution "+id+" to be "+status, func() bool {
			return harness.Read[client.Execution](harness.At(u.T, u.base), "/api/v1/executions/"+id).Status == status
		})
	}
}

// count compares how many jobs of a name there are, and how many executions they have.
func (u *users) count(name string, jobs, executions int) {
	u.Helper()
	list := harness.Read[client.Jobs](harness.At(u.T, u.base), "/api/v1/jobs?limit=1000&name="+strings.ReplaceAll(name, " ", "%20")).Jobs
	n := 0
	for _, j := range list {
		n += len(harness.Read[client.Executions](harness.At(u.T, u.base), "/api/v1/jobs/"+j.JobID+"/executions?limit=1000").Executions)
	}
	if len(list) != jobs || n != executions {
		u.Errorf("%q: %d jobs with %d executions, want %d with %d", name, len(list), n, jobs, executions)
	}
}
