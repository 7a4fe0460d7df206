package secret

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// elsewhere is a backend.
type elsewhere struct {
	values map[string]string
	err    error
	reads  int
}

func (e *elsewhere) Read(_ context.Context, t tenant.ID, p Path) (string, error) {
	e.reads++
	if e.err != nil {
		return "", e.err
	}
	value, ok := e.values[string(t)+"/"+strings.Join(p.Segments, "/")+"#"+p.Field]
	if !ok {
		return "", ErrMissing
	}
	return value, nil
}

func TestBackends(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	far := &elsewhere{values: map[string]string{"default/db#": "backend-canary", "default/db#user": "scott-the-user", "other/db#": "others"}}
	v.Attach(map[string]Backend{"vault": far}, DefaultCache, b.store)
	b.put(v, "near", "stored-value")
	if got, err := b.hand(v, "${secret:vault/db#user}:${secret:vault/db} ${secret:near}"); err != nil || got != "scott-the-user:backend-canary stored-value" {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := b.hand(v, "${secret:vault/db}"); err != nil || got != "backend-canary" || far.reads != 2 {
		t.Errorf("again: %q, %v, read %d times", got, err, far.reads)
	}
	far.values["default/db#"] = "rotated-canary"
	b.now = b.now.Add(DefaultCache + time.Second)
	if got, _ := b.hand(v, "${secret:vault/db}"); got != "rotated-canary" {
		t.Errorf("after a while: %q", got)
	}
	var no *delivery.Refusal
	_, err := b.hand(v, "${secret:vault/none}")
	if !errors.As(err, &no) || no.Retryable || no.Cause.Message != `the secret "vault/none", which the job names, does not exist; it may have been deleted` {
		t.Errorf("missing: %v", err)
	}
	if _, err := b.hand(v, "${secret:aws/db}"); !errors.As(err, &no) || !no.Retryable || !strings.Contains(err.Error(), `backend "aws"`) {
		t.Errorf("no such backend: %v", err)
	}
	far.err = &Away{errors.New("the secret backend vault (https://vault:8200) could not be reached: refused")}
	b.now = b.now.Add(DefaultCache + time.Second)
	before := far.reads
	for range 5 { // one claim may have many attempts: it does not wait for each
		if _, err := b.hand(v, "${secret:vault/db}"); !errors.As(err, &no) || !no.Retryable || !strings.Contains(err.Error(), "https://vault:8200") || strings.Contains(err.Error(), "canary") {
			t.Errorf("away: %v", err)
		}
	}
	if far.reads != before+1 {
		t.Errorf("one that is away was asked %d times", far.reads-before)
	}
	far.err = nil
	b.now = b.now.Add(brokenFor)
	if got, err := b.hand(v, "${secret:vault/db}"); err != nil || got != "rotated-canary" {
		t.Errorf("back: %q, %v", got, err)
	}
	for r, field := range map[string]string{"vault/none": "execution.env", "aws/db": "payload", "vault/db": ""} {
		wrong, lacks := v.Lacks(t.Context(), tenant.Default, Reference{"execution.env", r})
		if lacks != (field != "") || lacks && wrong.Value != "${secret:"+r+"}" {
			t.Errorf("%s: %+v, %v", r, wrong, lacks)
		}
	}
	if _, lacks := (*Vault)(nil).Lacks(t.Context(), tenant.Default, Reference{"x", "vault/db"}); lacks {
		t.Error("a process that only writes jobs judges backends")
	}
}

// TestOneTenantBreaksNoBackend has a tenant name what cannot be read, after which the backend still answers everybody else.
func TestOneTenantBreaksNoBackend(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	far := &elsewhere{values: map[string]string{"acme/long#": strings.Repeat("x", MaxValue+1), "other/db#": "others", "acme/db#": "own"}}
	v.Attach(map[string]Backend{"vault": far}, DefaultCache, b.store)
	for name, err := range map[string]error{"vault/long": nil, "vault/forbidden": errors.New("answered 403 Forbidden")} {
		far.err = err
		before := far.reads
		for range 3 {
			if _, err := v.fetch(t.Context(), "acme", name); err == nil || errors.Is(err, ErrMissing) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if far.reads != before+1 {
			t.Errorf("%s was asked for %d times", name, far.reads-before)
		}
		far.err = nil
		for of, want := range map[tenant.ID]string{"other": "others", "acme": "own"} {
			if k, err := v.fetch(t.Context(), of, "vault/db"); err != nil || k.text != want {
				t.Errorf("after %s: %s has %q, %v", name, of, k.text, err)
			}
		}
		b.now = b.now.Add(DefaultCache + time.Second) // what was read is read again
	}
	far.values["acme/long#"] = "short"
	if k, err := v.fetch(t.Context(), "acme", "vault/long"); err != nil || k.text != "short" {
		t.Errorf("corrected: %q, %v", k.text, err)
	}
}

// Values out of backends are redacted by every server, also by one that has handed out nothing.
func TestBackendValuesAreRedacted(t *testing.T) {
	b := newBed(t)
	here, there := b.vault('k'), b.vault('k')
	for _, v := range []*Vault{here, there} {
		v.Attach(map[string]Backend{"files": &elsewhere{values: map[string]string{"default/a#": "header-canary", "default/b#": "line-one-of-it\nline-two-of-it"}}}, DefaultCache, b.store)
	}
	j := job.Job{ID: job.ID(uuid.New()), Tenant: tenant.Default, State: job.Active, CreatedAt: b.now, UpdatedAt: b.now, Revision: 1}
	j.Name, j.Schedule.Type, j.Queue, j.Payload = "x", job.Immediate, job.DefaultQueue, []byte(`{"v":"${secret:files/b}"}`)
	j.Target = job.Target{Kind: job.HTTP, URL: "https://example.com/", Method: "GET", Timeout: time.Minute, Headers: map[string]string{"X-A": "${secret:files/a}"}}
	e := j.Fire(job.ExecutionID(j.ID), b.now, b.now)
	if _, err := b.store.CreateJobs(t.Context(), []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: []job.Execution{e}}}); err != nil {
		t.Fatal(err)
	}
	out := client.Attempt{Execution: client.Target{Headers: j.Target.Headers}, Payload: j.Payload}
	if err := here.Step(t.Context(), job.Attempt{Tenant: tenant.Default, Job: j.ID, Lease: job.Lease{Execution: e.ID}, Target: j.Target}, &out); err != nil {
		t.Fatal(err)
	}
	if out.Execution.Headers["X-A"] != "header-canary" || string(out.Payload) != `{"v":"line-one-of-it\nline-two-of-it"}` {
		t.Errorf("given %v, %s", out.Execution.Headers, out.Payload)
	}
	for name, v := range map[string]*Vault{"here": here, "there": there} {
		g, err := v.Guards(t.Context(), []job.ExecutionID{e.ID}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Clean(e.ID, "header-canary; line-two-of-it"); got != Hidden+"; "+Hidden {
			t.Errorf("%s: %q", name, got)
		}
		if got := redact("logged header-canary", v.logged()...); got != "logged "+Hidden {
			t.Errorf("%s, in the log: %q", name, got)
		}
	}
}

// A backend that fails, or does not answer, keeps no result from being accepted: what is known is redacted, and a text that
// cannot be checked is removed.
func TestResultsDoNotWaitForABackend(t *testing.T) {
	b := newBed(t)
	j := job.Job{ID: job.ID(uuid.New()), Tenant: tenant.Default, State: job.Active, CreatedAt: b.now, UpdatedAt: b.now, Revision: 1}
	j.Name, j.Schedule.Type, j.Queue = "x", job.Immediate, job.DefaultQueue
	j.Target = job.Target{Kind: job.HTTP, URL: "https://example.com/", Method: "GET", Timeout: time.Minute, Headers: map[string]string{"X-A": "${secret:files/a}"}}
	e := j.Fire(job.ExecutionID(j.ID), b.now, b.now)
	if _, err := b.store.CreateJobs(t.Context(), []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: []job.Execution{e}}}); err != nil {
		t.Fatal(err)
	}
	const removed = `[removed: the secret "files/a" could not be read, so this text could not be checked for it]`
	said := func() job.Outcome {
		return job.Outcome{
			Lease: job.Lease{Execution: e.ID}, Result: []byte(`{"v":"the-canary"}`), Error: &job.Error{Type: "the-canary", Message: "it is the-canary"},
			Response: &job.Response{HTTPStatus: 500, BodyPreview: "the-canary"},
		}
	}
	never := make(chan struct{})
	defer close(never)
	for name, far := range map[string]Backend{
		"away": &elsewhere{err: &Away{errors.New("connection refused")}}, "forbids it": &elsewhere{err: errors.New("permission denied")}, "hangs": stuck(never),
	} {
		v := b.vault('k')
		v.Attach(map[string]Backend{"files": far}, DefaultCache, b.store)
		for range 2 {
			began := time.Now()
			g, err := v.Guards(t.Context(), []job.ExecutionID{e.ID}, true)
			if err != nil {
				t.Fatalf("%s: the result is refused: %v", name, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
			o := said()
			g.CleanOutcome(&o)
			if o.Error.Type != job.HandlerError || o.Error.Message != removed || o.Response.BodyPreview != removed || o.Response.HTTPStatus != 500 || string(o.Result) != strconv.Quote(removed) {
				t.Errorf("%s: %+v, %+v, %s", name, o.Error, o.Response, o.Result)
			}
			lines := []string{"the-canary", "", "x"}
			if g.CleanLines(e.ID, lines); lines[0] != removed || lines[1] != "" || lines[2] != removed {
				t.Errorf("%s: %q", name, lines)
			}
			timeout := job.Outcome{Lease: job.Lease{Execution: e.ID}, Error: &job.Error{Type: job.TimeoutError, Message: "x"}}
			if g.CleanOutcome(&timeout); timeout.Error.Type != job.TimeoutError {
				t.Errorf("%s: the type is %q", name, timeout.Error.Type)
			}
		}
	}

	v := b.vault('k')
	far := &elsewhere{values: map[string]string{"default/a#": "the-canary"}}
	v.Attach(map[string]Backend{"files": far}, DefaultCache, b.store)
	now := time.Now()
	v.now = func() time.Time { return now }
	for _, then := range []error{nil, &Away{errors.New("connection refused")}, ErrMissing} {
		far.err = then
		g, err := v.Guards(t.Context(), []job.ExecutionID{e.ID}, true)
		if err != nil {
			t.Fatal(err)
		}
		o := said()
		if g.CleanOutcome(&o); o.Error.Message != "it is "+Hidden || string(o.Result) != `{"v":"`+Hidden+`"}` {
			t.Errorf("known, then %v: %+v, %s", then, o.Error, o.Result)
		}
		now = now.Add(time.Minute)
	}
}

// stuck is a backend that answers nobody, whatever its context says.
type stuck chan struct{}

func (s stuck) Read(context.Context, tenant.ID, Path) (string, error) {
	<-s
	return "", ErrMissing
}

// A caller who leaves says nothing about a backend: the results of others are redacted by what it tells.
func TestACallerWhoLeavesDoesNotMakeABackendSlow(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	never := make(chan struct{})
	v.Attach(map[string]Backend{"files": stuck(never)}, DefaultCache, b.store)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := v.fetchWithin(gone, patience{}, tenant.Default, "files/a"); err == nil {
		t.Fatal("it was answered")
	}
	close(never)
	v.outside.mu.Lock()
	defer v.outside.mu.Unlock()
	if until, ok := v.outside.slow["files"]; ok {
		t.Errorf("the backend counts as slow until %v", until)
	}
}
