package secret

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// bed is a store and servers over it, whose clock stands still until it is moved.
type bed struct {
	*testing.T
	store engine.Store
	now   time.Time
}

func newBed(t *testing.T) *bed {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "c.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &bed{t, store, time.Now().UTC().Truncate(time.Microsecond)}
}

func (b *bed) vault(keys ...byte) *Vault {
	b.Helper()
	var ring *seal.Ring
	for _, k := range keys[:min(1, len(keys))] {
		all := [][]byte{[]byte(strings.Repeat(string(k), seal.KeySize))}
		for _, k := range keys[1:] {
			all = append(all, []byte(strings.Repeat(string(k), seal.KeySize)))
		}
		var err error
		if ring, err = seal.NewRing(all...); err != nil {
			b.Fatal(err)
		}
	}
	v := New(b.store, ring)
	v.now = func() time.Time { return b.now }
	return v
}

func (b *bed) put(v *Vault, name, value string) {
	b.Helper()
	s, err := v.Seal(tenant.Default, name, value, b.now)
	if err == nil {
		_, err = b.store.PutSecret(b.Context(), s, 1000, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// hand hands out an attempt with a header.
func (b *bed) hand(v *Vault, value string) (string, error) {
	a := job.Attempt{Tenant: tenant.Default, Lease: job.Lease{Execution: job.ExecutionID(uuid.New())}}
	out := client.Attempt{Execution: client.Target{Headers: map[string]string{"X-A": value}}}
	was := out.Execution.Headers
	err := v.Step(b.Context(), a, &out)
	if was["X-A"] != value {
		b.Error("the attempt as it is stored was changed")
	}
	return out.Execution.Headers["X-A"], err
}

func TestStep(t *testing.T) {
	b := newBed(t)
	v, other := b.vault('k'), b.vault('k')
	if got, err := b.hand(v, "plain"); err != nil || got != "plain" {
		t.Errorf("nothing named: %q, %v", got, err)
	}
	b.put(v, "a", "value one")
	if got, err := b.hand(v, "x ${secret:a}"); err != nil || got != "x value one" {
		t.Errorf("one that is new: %q, %v", got, err)
	}
	b.put(other, "a", "value two")
	if got, _ := b.hand(v, "${secret:a}"); got != "value one" {
		t.Errorf("held open: %q", got)
	}
	b.now = b.now.Add(4 * time.Second)
	if got, _ := b.hand(v, "${secret:a}"); got != "value two" {
		t.Errorf("four seconds later: %q", got)
	}
	var no *delivery.Refusal
	if _, err := b.hand(v, "${secret:none}"); !errors.As(err, &no) || no.Retryable || !strings.Contains(no.Cause.Message, `"none"`) {
		t.Errorf("one that does not exist: %v", err)
	}
	b.put(v, "lines", "value\r\nX-Evil: 1")
	if _, err := b.hand(v, "${secret:lines}"); !errors.As(err, &no) || no.Retryable || strings.Contains(err.Error(), "Evil") {
		t.Errorf("line breaks: %v", err)
	}
	b.put(v, "long", strings.Repeat("x", 60_000))
	if _, err := b.hand(v, strings.Repeat("${secret:long}", 30)); !errors.As(err, &no) || no.Retryable {
		t.Errorf("too long: %v", err)
	}
	for _, blind := range []*Vault{b.vault(), b.vault('o')} {
		if _, err := b.hand(blind, "${secret:a}"); !errors.As(err, &no) || !no.Retryable {
			t.Errorf("without the key: %v", err)
		}
		if err := blind.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "secrets.key_file") {
			t.Errorf("checked without the key: %v", err)
		}
	}
	if err := b.vault('o', 'k').Check(t.Context()); err != nil {
		t.Errorf("checked with both keys: %v", err)
	}
}

// A hidden credential is opened in the headers and variables of its own job, whatever a definition that got past all checks says.
func TestAHiddenCredentialIsOpenedForItsJobOnly(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	made := func() (j job.Job) {
		j = job.Job{ID: job.ID(uuid.New()), Tenant: tenant.Default, State: job.Active, CreatedAt: b.now, UpdatedAt: b.now, Revision: 1}
		j.Name, j.Schedule.Type, j.Queue = "x", job.Manual, job.DefaultQueue
		j.Target = job.Target{Kind: job.HTTP, URL: "https://example.com/", Method: "POST", Timeout: time.Minute, Headers: map[string]string{"Authorization": "literal-value"}}
		sealed, _, err := v.Hide(&j, nil, b.now)
		if err == nil {
			_, err = b.store.CreateJobs(t.Context(), []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{j}, Secrets: sealed}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	owner, thief := made(), made()
	ref := owner.Target.Headers["Authorization"]
	step := func(of job.Job, out client.Attempt) (string, error) {
		err := v.Step(t.Context(), job.Attempt{Tenant: tenant.Default, Job: of.ID, Lease: job.Lease{Execution: job.ExecutionID(uuid.New())}, Target: of.Target}, &out)
		return fmt.Sprint(out.Execution.Headers, out.Execution.Env, string(out.Payload)), err
	}
	if got, err := step(owner, client.Attempt{Execution: client.Target{Headers: owner.Target.Headers}}); err != nil || !strings.Contains(got, "literal-value") {
		t.Errorf("its own header: %s, %v", got, err)
	}
	for what, c := range map[string]struct {
		of  job.Job
		out client.Attempt
	}{
		"another job's header":   {thief, client.Attempt{Execution: client.Target{Headers: map[string]string{"X-A": ref}}}},
		"another job's variable": {thief, client.Attempt{Execution: client.Target{Env: map[string]string{"A": ref}}}},
		"another job's payload":  {thief, client.Attempt{Payload: []byte(`{"a":"` + ref + `"}`)}},
		"its own payload":        {owner, client.Attempt{Payload: []byte(`{"a":"` + ref + `"}`)}},
	} {
		var no *delivery.Refusal
		if got, err := step(c.of, c.out); !errors.As(err, &no) || no.Retryable || strings.Contains(got+err.Error(), "literal-value") {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
}

// TestGuardsElsewhere reports to another server than the one that handed out.
func TestGuardsElsewhere(t *testing.T) {
	b := newBed(t)
	here, there := b.vault('k'), b.vault('k')
	j := job.Job{ID: job.ID(uuid.New()), Tenant: tenant.Default, State: job.Active, CreatedAt: b.now, UpdatedAt: b.now, Revision: 1}
	j.Name, j.Schedule.Type, j.Queue = "x", job.Immediate, job.DefaultQueue
	j.Target = job.Target{Kind: job.HTTP, URL: "https://example.com/", Method: "GET", Timeout: time.Minute, Headers: map[string]string{"Authorization": "literal-value", "X-A": "${secret:a}"}}
	sealed, _, err := here.Hide(&j, nil, b.now)
	if err != nil || len(sealed) != 1 || strings.Contains(j.Target.Headers["Authorization"], "literal") {
		t.Fatalf("hidden: %v, %v, %v", j.Target.Headers, sealed, err)
	}
	e := j.Fire(job.ExecutionID(j.ID), b.now, b.now)
	if _, err := b.store.CreateJobs(t.Context(), []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: []job.Execution{e}, Secrets: sealed}}); err != nil {
		t.Fatal(err)
	}
	if _, err := there.snapshot(t.Context(), tenant.Default, fresh); err != nil {
		t.Fatal(err)
	}
	b.put(here, "a", "named-value") // the other server has just seen that there is none
	out := client.Attempt{Execution: client.Target{Headers: j.Target.Headers}}
	if err := here.Step(t.Context(), job.Attempt{Tenant: tenant.Default, Job: j.ID, Lease: job.Lease{Execution: e.ID}, Target: j.Target}, &out); err != nil {
		t.Fatal(err)
	}
	if h := out.Execution.Headers; h["Authorization"] != "literal-value" || h["X-A"] != "named-value" {
		t.Errorf("given: %v", h)
	}
	for name, v := range map[string]*Vault{"here": here, "there": there} {
		g, err := v.Guards(t.Context(), []job.ExecutionID{e.ID, {9}}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Clean(e.ID, "literal-value and named-value"); got != Hidden+" and "+Hidden {
			t.Errorf("%s: %q", name, got)
		}
		if got := g.Clean(job.ExecutionID{9}, "named-value"); got != "named-value" {
			t.Errorf("%s: one that is unknown: %q", name, got)
		}
	}
	if g, err := there.Guards(t.Context(), []job.ExecutionID{e.ID}, false); err != nil || g != nil {
		t.Errorf("what was not handed out here and is reported here: %v, %v", g, err)
	}
	// Changed and deleted, it is still what the attempt was given, to every server.
	b.put(here, "a", "another-value")
	if err := b.store.DeleteSecret(t.Context(), tenant.Default, "a", nil); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Minute)
	for name, v := range map[string]*Vault{"here": here, "there": there, "a third": b.vault('k')} {
		g, err := v.Guards(t.Context(), []job.ExecutionID{e.ID}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Clean(e.ID, "named-value, another-value"); got != Hidden+", "+Hidden {
			t.Errorf("%s, after a change: %q", name, got)
		}
	}
	here.Ended([]job.ExecutionID{e.ID})
	if g, _ := here.Guards(t.Context(), []job.ExecutionID{e.ID}, false); g == nil {
		t.Error("its last lines come in vain")
	}
}

func TestRekey(t *testing.T) {
	b := newBed(t)
	old := b.vault('a')
	for _, name := range []string{"x", "y", "z"} {
		b.put(old, name, "value of "+name)
	}
	both := b.vault('b', 'a')
	b.put(both, "new", "n")
	told := 0
	if n, err := both.Rekey(t.Context(), func(done int) { told = done }); err != nil || n != 3 || told != 3 {
		t.Errorf("sealed anew: %d, %d, %v", n, told, err)
	}
	only := b.vault('b')
	if err := only.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := b.hand(only, "${secret:y}"); err != nil || got != "value of y" {
		t.Errorf("opened with the new key: %q, %v", got, err)
	}
	if n, err := both.Rekey(t.Context(), func(int) {}); err != nil || n != 0 {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, err := b.vault().Rekey(t.Context(), nil); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestSweep(t *testing.T) {
	l := ledger{entries: map[job.ExecutionID]*entry{}}
	now := time.Now()
	for i := range 10 {
		e := &entry{}
		if i%2 == 0 {
			e.ended = now.Add(-2 * lateness)
		}
		l.entries[job.ExecutionID{byte(i)}] = e
	}
	if l.sweep(now); len(l.entries) != 5 || l.forgot {
		t.Errorf("%d are left, %v", len(l.entries), l.forgot)
	}
}

func BenchmarkStepWithoutSecrets(b *testing.B) {
	store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "c.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	v := New(store, nil)
	a := job.Attempt{Tenant: tenant.Default, LeasedAt: time.Now(), Payload: []byte(`{"a": "text"}`)}
	out := client.Attempt{Payload: a.Payload}
	for b.Loop() {
		if err := v.Step(b.Context(), a, &out); err != nil {
			b.Fatal(err)
		}
	}
}

// What is held open is counted with all its forms, and what is read makes room for itself.
func TestViewsAreBounded(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	for n := range 3 {
		b.put(v, fmt.Sprintf("s%d", n), strings.Repeat(string(rune(0x61+n)), 60_000))
	}
	s, err := v.snapshot(t.Context(), tenant.Default, 0)
	if err != nil || s.size < 5*3*60_000 {
		t.Fatalf("counted %d bytes, %v", s.size, err)
	}
	other := &view{}
	other.snap.Store(&snapshot{size: maxOpen, given: &given{}})
	v.mu.Lock()
	v.views["other"] = other
	v.mu.Unlock()
	b.put(v, "more", "another-value")
	if _, err := v.snapshot(t.Context(), tenant.Default, 0); err != nil {
		t.Fatal(err)
	}
	if _, there := v.views["other"]; there || v.views[tenant.Default] == nil {
		t.Error("there are too many, and nothing went")
	}
}

// A value that came and went between two looks is known, though all is as it was.
func TestWhatCameAndWentIsKnown(t *testing.T) {
	b := newBed(t)
	here, there := b.vault('k'), b.vault('k')
	b.put(here, "b", "value-of-b")
	if _, err := there.snapshot(t.Context(), tenant.Default, 0); err != nil {
		t.Fatal(err)
	}
	at := b.now
	b.now = b.now.Add(-time.Hour) // the clock of another server
	b.put(here, "a", "value-of-a")
	b.now = at
	if err := b.store.DeleteSecret(t.Context(), tenant.Default, "a", nil); err != nil {
		t.Fatal(err)
	}
	s, err := there.snapshot(t.Context(), tenant.Default, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.index.clean("value-of-a"); got != Hidden {
		t.Errorf("it is %q", got)
	}
}

// What a job's headers were is opened once, and is not what logs are looked through for.
func TestPastManaged(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	s, err := v.seal(engine.Secret{Tenant: tenant.Default, Name: "~x/authorization"}, "what-it-was")
	if err != nil {
		t.Fatal(err)
	}
	first, err := v.openManaged(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v.openManaged(s)
	if err != nil || again.index != first.index || first.text != "what-it-was" {
		t.Errorf("opened anew: %v", err)
	}
	if !v.recent.empty() {
		t.Error("logs are looked through for it")
	}
	s.Name = "~y/authorization"
	if _, err := v.openManaged(s); err == nil {
		t.Error("opened in another's place")
	}
}

// An attempt that runs on while secrets change holds on to a few of what they were, and the store knows the rest.
func TestWhatWasGivenIsBounded(t *testing.T) {
	b := newBed(t)
	v := b.vault('k')
	var entries []*entry
	for n := range 3 * maxGiven {
		b.put(v, fmt.Sprintf("s%d", n/15), fmt.Sprintf("value-number-%d", n))
		b.now = b.now.Add(4 * time.Second)
		if _, err := b.hand(v, fmt.Sprintf("${secret:s%d}", n/15)); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range v.handed.entries {
		entries = append(entries, e)
	}
	held := map[*index]bool{}
	for _, e := range entries {
		if x := e.given.index.Load(); x != nil {
			held[x] = true
		}
	}
	if len(entries) != 3*maxGiven || len(held) != maxGiven+1 {
		t.Errorf("%d attempts hold on to %d", len(entries), len(held))
	}
	for id := range v.handed.entries {
		g, err := v.Guards(t.Context(), []job.ExecutionID{id}, false)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 * maxGiven {
			if got := g.Clean(id, fmt.Sprintf("value-number-%d.", n)); strings.Contains(got, "value") {
				t.Fatalf("%d is told", n)
			}
		}
		break
	}
	v.views[tenant.Default].forget()
	for _, e := range entries {
		if e.given.index.Load() != nil {
			t.Fatal("it is held on to for ever")
		}
	}
}
