//go:build unix

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Very many workers lose their server at once and come back at once. Those that it has no room for yet are told when to come again, all
// have a session in the end, and meanwhile it continues accepting and running what others ask for (row 42).
func TestVeryManyWorkersComeBackAtOnce(t *testing.T) {
	stubs := 700 // the burst of a tenant is 1000, and half of it is used when they come back
	if all {
		stubs = 10_000
	}
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler,worker")
		env := []string{"CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=60", "CARILLON_WORKERS_SESSIONS_PER_TENANT=20000"}
		s := in.serve("", env...)
		f := newStampede(t, stubs, in.base)
		f.registered(stubs)
		if code := s.End(os.Kill); code != -1 {
			t.Fatalf("exit code %d", code)
		}
		f.forget()
		began := time.Now()
		s = in.serve("", env...)
		var slowest time.Duration
		created := 0
		for late := time.Now().Add(4 * time.Minute); f.alive() < stubs && time.Now().Before(late); created++ {
			asked := time.Now()
			if code, body, err := s.Ask("POST", "/api/v1/jobs", in.body("")); err != nil || code != 201 && code != 503 {
				t.Errorf("create: %d %s, %v", code, body, err)
			}
			slowest = max(slowest, time.Since(asked))
			<-time.After(50 * time.Millisecond)
		}
		took := time.Since(began)
		f.registered(stubs)
		harness.Eventually(t, 20*time.Second, "what was created meanwhile to run", func() bool { return len(in.target.Seen()) >= created })
		t.Logf("%d workers were back within %v, %d were told to come again; of %d creations meanwhile the slowest took %v; resident memory at the most: %s",
			stubs, took.Round(100*time.Millisecond), f.refused.Load(), created, slowest.Round(time.Millisecond), peak(s.PID()))
		if slowest > atMost(5*time.Second) {
			t.Errorf("a creation took %v", slowest)
		}
		f.stop()
		if code := s.End(syscall.SIGTERM); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
	})
}

// peak is the most memory that a process had, where the system tells.
func peak(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// stampede is workers that keep to the protocol and have nothing to do.
type stampede struct {
	*testing.T
	base    func() string
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	http    *http.Client
	epoch   atomic.Int64 // grows when the server is lost
	in      atomic.Int64 // how many have a session of this epoch
	refused atomic.Int64
}

func newStampede(t *testing.T, n int, base func() string) *stampede {
	ctx, cancel := context.WithCancel(context.Background())
	f := &stampede{T: t, base: base, cancel: cancel, http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: n}}}
	for i := range n {
		f.wg.Go(func() { f.work(ctx, i) })
	}
	t.Cleanup(f.stop)
	return f
}

func (f *stampede) alive() int { return int(f.in.Load()) }

// registered waits until all have a session.
func (f *stampede) registered(n int) {
	f.Helper()
	harness.Eventually(f.T, time.Minute, fmt.Sprintf("%d sessions", n), func() bool { return f.alive() == n })
}

// forget has all register again, as they do whose server is gone.
func (f *stampede) forget() {
	f.in.Store(0)
	f.epoch.Add(1)
}

func (f *stampede) stop() {
	f.cancel()
	f.wg.Wait()
}

// work registers, beats until the server is lost, and begins again.
func (f *stampede) work(ctx context.Context, i int) {
	for ctx.Err() == nil {
		epoch := f.epoch.Load()
		id := f.register(ctx, i)
		if id == "" {
			return
		}
		if f.epoch.Load() != epoch {
			continue
		}
		f.in.Add(1)
		for f.epoch.Load() == epoch && ctx.Err() == nil {
			for beat := time.Now().Add(15 * time.Second); f.epoch.Load() == epoch && ctx.Err() == nil && time.Now().Before(beat); {
				pauseFor(ctx, 100*time.Millisecond)
			}
			if f.epoch.Load() == epoch {
				_, _, _ = f.post(ctx, "/api/v1/workers/"+id+"/beat", `{}`)
			}
		}
	}
}

// register begins a session, and comes again as it is told to.
func (f *stampede) register(ctx context.Context, i int) string {
	for try := 0; ctx.Err() == nil; try++ {
		code, answer, retry := f.post(ctx, "/api/v1/workers", fmt.Sprintf(`{"host": "stub-%d", "kinds": ["nothing"]}`, i))
		if code == 201 {
			var s client.Session
			if err := json.Unmarshal(answer, &s); err != nil {
				f.Error(err)
				return ""
			}
			return s.WorkerID
		}
		wait := time.Duration(min(1<<min(try, 5), 30)) * 100 * time.Millisecond
		if code == 429 || code == 503 {
			f.refused.Add(1)
			if retry == 0 {
				f.Errorf("%d without Retry-After", code)
			}
			wait = max(wait, retry)
		}
		pauseFor(ctx, wait+time.Duration(rand.Int64N(int64(wait)+1)))
	}
	return ""
}

// post sends a request; 0: it was not answered.
func (f *stampede) post(ctx context.Context, path, body string) (code int, answer []byte, retry time.Duration) {
	r, err := http.NewRequestWithContext(ctx, "POST", f.base()+path, strings.NewReader(body))
	if err != nil {
		f.Error(err)
		return 0, nil, 0
	}
	r.Header.Set("Authorization", "Bearer "+harness.Key)
	r.Header.Set("Content-Type", "application/json")
	w, err := f.http.Do(r)
	if err != nil {
		return 0, nil, 0
	}
	defer w.Body.Close()
	answer, _ = io.ReadAll(w.Body)
	seconds, _ := strconv.Atoi(w.Header.Get("Retry-After"))
	return w.StatusCode, answer, time.Duration(seconds) * time.Second
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
