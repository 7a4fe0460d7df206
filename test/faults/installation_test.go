//go:build unix

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/client"
	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/test/harness"
)

// installation is a server, perhaps workers, the clients and the target of one test.
type installation struct {
	*testing.T
	where  string
	roles  string
	target *harness.Sink
	bulk   bool // jobs are created by one call, and workers take many
	rec    *harness.Recorder
	front  string // where workers reach the server: what they ask and are told is recorded there
	clients

	struck time.Time // when a worker was made to fail, by this machine's clock; zero: none was

	mu     sync.Mutex
	server *harness.Process // guarded by mu: the one that answers now
}

// recovery is how long after its lease expired what a dead worker held is queued again, at the most, as docs/operations/faults.md says.
const recovery = 10 * time.Second

func install(t *testing.T, where, roles string) *installation {
	in := &installation{T: t, where: where, roles: roles, target: harness.NewSink(t), rec: harness.NewRecorder()}
	in.clients = clients{t: t, base: in.base}
	in.front = in.rec.Front(t, in.base)
	return in
}

func (in *installation) base() string { return in.now().Base }

func (in *installation) now() *harness.Process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.server
}

// serve starts a server, at the address of the one before if there was one.
func (in *installation) serve(failpoints string, env ...string) *harness.Process {
	in.Helper()
	listen := "127.0.0.1:0"
	if s := in.now(); s != nil && s.Base != "" {
		listen = strings.TrimPrefix(s.Base, "http://")
	}
	p := harness.Launch(in.T, settings(failpoints, env...), "serve", "--database", in.where, "--roles", in.roles, "--listen", listen).Greeted()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.server = p
	return p
}

// work starts a worker process.
func (in *installation) work(failpoints string) *harness.Process {
	in.Helper()
	capacity := "4"
	if in.bulk {
		capacity = "40"
	}
	return launch(in.T, failpoints, "worker", "--server", in.front, "--capacity", capacity, "--listen", "127.0.0.1:0").Greeted()
}

// body is a job that calls the target, with more fields.
func (in *installation) body(more string) string {
	return fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 10, "max_delay_ms": 10}%s}`, in.target.URL, more)
}

// load begins to create n jobs: every other one for a little later, so that it goes through the scheduler; in bulk, more of them, all for now.
func (in *installation) load(n int) {
	if in.bulk {
		in.createMany(in.body(""), 64+n)
		return
	}
	for i := range n {
		more := ""
		if i%2 == 1 {
			more = fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, time.Now().Add(1500*time.Millisecond).UTC().Format(time.RFC3339Nano))
		}
		in.create(in.body(more))
	}
}

// settle waits until all that was created has ended, and compares everything.
func (in *installation) settle(h history) {
	in.Helper()
	h.creations = in.told()
	base := in.base()
	late := time.After(patience)
	for _, c := range h.creations {
		for c.job != "" && harness.Read[client.Job](harness.At(in.T, base), "/api/v1/jobs/"+c.job).Status != "COMPLETED" {
			in.watch(c.job)
			select {
			case <-late:
				in.Errorf("I12: job %s has not ended %v after the last fault", c.job, patience)
				c.job = ""
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	h.arrivals = in.target.Seen()
	h.look(in.T, base)
	for _, w := range check(h) {
		in.Error(w)
	}
	in.inTime(h.ended)
	in.linear(h.ended)
	in.countRows(len(h.creations))
}

// inTime holds recovery to its promise: what a worker held that was made to fail was taken from it in time, as the server recorded it.
func (in *installation) inTime(all []ended) {
	in.Helper()
	if in.struck.IsZero() {
		return
	}
	lost := 0
	for _, e := range all {
		for _, a := range e.past {
			if a.Status != "LOST" || a.FinishedAt == nil {
				continue
			}
			lost++
			if took := a.FinishedAt.Sub(in.struck); took > lease+recovery {
				in.Errorf("%s was lost %v after its worker failed, with a lease of %v; want it within %v more", e.id, took, lease, recovery)
			}
		}
	}
	if lost == 0 {
		in.Error("no attempt was lost, although a worker failed")
	}
}

// watch notes how the executions of a job stand.
func (in *installation) watch(job string) {
	in.Helper()
	asked, call := in.rec.Now(), in.rec.Call()
	for _, e := range harness.Read[client.Executions](harness.At(in.T, in.base()), "/api/v1/jobs/"+job+"/executions?limit=10").Executions {
		x := judge.Event{At: asked, Proc: "user", Kind: judge.Invoke, Op: judge.Look, Call: call, Execution: e.ExecutionID}
		in.rec.Add(x)
		x.At, x.Kind, x.Result = in.rec.Now(), judge.OK, e.Status
		in.rec.Add(x)
	}
}

// linear holds what workers and users were told of each execution against a register that is changed by one call at a time.
func (in *installation) linear(all []ended) {
	in.Helper()
	in.rec.Arrived(in.target.Seen())
	for _, e := range all {
		told := harness.Read[client.Events](harness.At(in.T, in.base()), "/api/v1/executions/"+e.id+"/events?limit=1000").Events
		in.rec.Ended(client.Execution{ExecutionID: e.id, JobID: e.job, Status: e.status}, told)
	}
	for _, v := range judge.Linear(in.rec.History) {
		in.Error(v)
	}
	if !strings.Contains(in.roles, "worker") && !slices.ContainsFunc(in.rec.History.Events(), func(e judge.Event) bool { return e.Op == judge.Complete && e.Result == "accepted" }) {
		in.Error("no completion was recorded")
	}
}

// look reads what there is in the end, of the jobs that call the target.
func (h *history) look(t *testing.T, base string) {
	t.Helper()
	for _, j := range harness.Read[client.Jobs](harness.At(t, base), "/api/v1/jobs?name=call&limit=1000").Jobs {
		h.jobs = append(h.jobs, j.JobID)
		for _, e := range harness.Read[client.Executions](harness.At(t, base), "/api/v1/jobs/"+j.JobID+"/executions?limit=1000").Executions {
			past := harness.Read[client.ExecutionAttempts](harness.At(t, base), "/api/v1/executions/"+e.ExecutionID+"/attempts").Attempts
			h.ended = append(h.ended, ended{e.ExecutionID, j.JobID, e.Status, past})
		}
	}
}

// countRows stops the server and counts in the tables what the API counted.
func (in *installation) countRows(want int) {
	in.Helper()
	s := in.now()
	s.Signal(syscall.SIGTERM)
	if code := s.Exit(); code != 0 {
		in.Errorf("the server ended with exit code %d", code)
	}
	live := "SELECT count(*) FROM live"
	if !strings.HasPrefix(in.where, "sqlite:") {
		live = "SELECT (SELECT count(*) FROM live) + (SELECT count(*) FROM bundles)"
	}
	for _, q := range []struct {
		sql  string
		want int
	}{
		{"SELECT count(*) FROM jobs", want},
		{live, 0},
		{"SELECT count(*) FROM executions", want},
		{"SELECT count(DISTINCT id) FROM executions", want},
	} {
		if got := in.count(q.sql); got != q.want {
			in.Errorf("%s: %d, want %d", q.sql, got, q.want)
		}
	}
}

func (in *installation) count(sql string) (n int) {
	in.Helper()
	if path, ok := strings.CutPrefix(in.where, "sqlite:"); ok {
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			in.Fatal(err)
		}
		defer c.Close()
		err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt(0); return nil }})
		if err != nil {
			in.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, in.where)
	if err != nil {
		in.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, sql).Scan(&n); err != nil {
		in.Fatal(err)
	}
	return n
}

// once wants that every execution was called once, so that no lease was lost.
func (in *installation) once() {
	in.Helper()
	calls := map[string]int{}
	for _, a := range in.target.Seen() {
		if calls[a.Execution]++; calls[a.Execution] == 2 {
			in.Errorf("execution %s was called again", a.Execution)
		}
	}
}
