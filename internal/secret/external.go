package secret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Backend reads secrets that are stored elsewhere. It keeps tenants apart: what it reads for one contains nothing of
// another's.
type Backend interface {
	// Read returns the value at a path, which Locate has checked. It fails with ErrMissing if there is none, and with
	// *Away if the backend answers nobody; any other error concerns this path only. No error contains a value.
	Read(ctx context.Context, t tenant.ID, p Path) (string, error)
}

// Path is a place in a backend.
type Path struct {
	Backend  string
	Segments []string
	Field    string // empty: the whole, or the field value
}

// ErrMissing means that a backend has no such secret.
var ErrMissing = errors.New("no such secret")

// Away means that a backend cannot be reached, does not answer in time, fails or is overloaded, whatever the request.
// A failure that one tenant alone can cause is never Away: after that the backend is not asked for anybody for a
// moment.
type Away struct{ Err error }

func (e *Away) Error() string { return e.Err.Error() }

func (e *Away) Unwrap() error { return e.Err }

// Limits of what is read from backends.
const (
	maxPathName   = 512
	maxExternal   = 1000     // values in memory
	maxExternalMB = 16 << 20 // bytes of them and of their forms
	MaxValue      = 64 << 10 // of a value, the same as for stored ones
	DefaultCache  = 15 * time.Second
	redactWait    = 2 * time.Second // how long the results of a report wait for backends
	brokenFor     = 2 * time.Second // how long a backend that is down, or a secret that failed, is not requested again
)

// Segment reports whether a text may be a part of a path: it names something in a folder, and never the folder above.
func Segment(s string) bool {
	if s == "" || len(s) > 128 || s == "." || strings.HasPrefix(s, "..") {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	})
}

// Locate parses the name of a secret in a backend, such as vault/shop/db#password.
func Locate(name string) (p Path, ok bool) {
	place, field, has := strings.Cut(name, "#")
	parts := strings.Split(place, "/")
	if len(name) > maxPathName || len(parts) < 2 || has && !Segment(field) || slices.ContainsFunc(parts, func(s string) bool { return !Segment(s) }) {
		return Path{}, false
	}
	return Path{parts[0], parts[1:], field}, true
}

// isExternal reports whether a name refers to a secret in a backend.
func isExternal(name string) bool {
	_, ok := Locate(name)
	return ok
}

// Definitions finds the definitions of executions.
type Definitions interface {
	Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error)
	Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error)
}

// external holds the state of backends.
type external struct {
	backends map[string]Backend
	cache    time.Duration
	defs     Definitions

	mu     sync.Mutex
	values map[managedKey]*fetched // guarded by mu
	broken map[string]failure      // guarded by mu, by backend
	slow   map[string]time.Time    // guarded by mu: until when a backend is not waited for to redact a result
	size   int                     // guarded by mu
}

// fetched is a value from a backend; callers that need it while it is being read wait.
type fetched struct {
	mu sync.Mutex
	kept
	failed failure               // of this secret alone
	last   atomic.Pointer[index] // of the value that was read last, even if it is outdated
}

type failure struct {
	err   error
	until time.Time
}

// Attach adds backends to a vault by the names that references begin with. cache is how long a value is cached.
func (v *Vault) Attach(backends map[string]Backend, cache time.Duration, defs Definitions) {
	v.outside = external{backends: backends, cache: cache, defs: defs, values: map[managedKey]*fetched{}, broken: map[string]failure{}, slow: map[string]time.Time{}}
}

// fetch returns a value from a backend.
func (v *Vault) fetch(ctx context.Context, t tenant.ID, name string) (kept, error) {
	p, ok := Locate(name)
	x := &v.outside
	b := x.backends[p.Backend]
	if !ok || b == nil {
		return kept{}, &noBackend{p.Backend}
	}
	key := managedKey{t, name}
	x.mu.Lock()
	f := x.values[key]
	if f == nil {
		if len(x.values) >= maxExternal || x.size >= maxExternalMB {
			x.values, x.size = map[managedKey]*fetched{}, 0
		}
		f = &fetched{}
		x.values[key] = f
	}
	broken := x.broken[p.Backend]
	x.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := v.now()
	if clock.Fresh(now, f.until, x.cache) {
		return f.kept, nil
	}
	for _, was := range []failure{f.failed, broken} {
		if now.Before(was.until) {
			return kept{}, was.err // others wait for the same, and a claim has many attempts
		}
	}
	text, err := b.Read(ctx, t, p)
	if err == nil && len(text) > MaxValue {
		err = fmt.Errorf("the value has more than %d bytes", MaxValue)
	}
	if err != nil {
		var away *Away
		switch {
		case errors.Is(err, ErrMissing) || ctx.Err() != nil:
		case errors.As(err, &away):
			x.mu.Lock()
			x.broken[p.Backend] = failure{err, now.Add(brokenFor)}
			x.mu.Unlock()
		default:
			f.failed = failure{err, now.Add(brokenFor)}
		}
		return kept{}, err
	}
	was := f.bytes()
	if f.index == nil || f.text != text {
		f.kept = kept{text: text, index: newIndex(text)}
	}
	f.until = now.Add(x.cache)
	f.last.Store(f.index)
	x.mu.Lock()
	x.size += f.bytes() - was
	x.mu.Unlock()
	v.recent.add(text)
	return f.kept, nil
}

// noBackend is the error that a reference names a backend which this server does not have.
type noBackend struct{ name string }

func (e *noBackend) Error() string {
	return fmt.Sprintf("this server has no secret backend %q: set secrets.files or secrets.vault_address", e.name)
}

// external resolves a reference to a backend.
func (r *resolving) external(name string) (opened, error) {
	k, err := r.v.fetch(r.ctx, r.a.Tenant, name)
	switch {
	case errors.Is(err, ErrMissing):
		return opened{}, missing(name)
	case err != nil && r.ctx.Err() != nil:
		return opened{}, err
	case err != nil:
		return opened{}, &delivery.Refusal{Cause: job.Error{Type: job.InternalError, Message: fmt.Sprintf("the secret %q cannot be read: %v", name, err)}, Retryable: true}
	}
	if k.index != nil {
		r.own = append(r.own, k.index)
	}
	return opened{text: k.text}, nil
}

// missing is the failure of an attempt whose job names a secret that does not exist.
func missing(name string) error {
	return refusal(fmt.Sprintf("the secret %q, which the job names, does not exist; it may have been deleted", name))
}

// Lacks returns what is wrong with references to backends. If a backend cannot be asked now, the secret is assumed to
// exist: it is read when an attempt starts.
func (v *Vault) Lacks(ctx context.Context, t tenant.ID, r Reference) (job.Invalid, bool) {
	if v == nil || v.outside.backends == nil {
		return job.Invalid{}, false // this process writes jobs and runs none
	}
	_, err := v.fetch(ctx, t, r.Name)
	var none *noBackend
	switch {
	case errors.Is(err, ErrMissing):
		return job.Invalid{Field: r.Field, Value: opening + r.Name + "}", Want: "the name of a secret that the backend has for the tenant " + string(t)}, true
	case errors.As(err, &none):
		return job.Invalid{Field: r.Field, Value: opening + r.Name + "}", Want: "a secret of a backend that is configured; " + none.Error()}, true
	}
	return job.Invalid{}, false
}

// External reports whether a reference is to a backend.
func (r Reference) External() bool { return isExternal(r.Name) }

// outsiders adds to a guard the values from backends that an execution was given by another server. It waits for a
// backend as long as within allows, since redacting the result must not be delayed by it: then the last known value
// counts, and if there is none, the guard says so.
func (v *Vault) outsiders(ctx context.Context, within patience, t tenant.ID, id job.ExecutionID, g *guard) error {
	x := &v.outside
	if len(x.backends) == 0 || x.defs == nil {
		return nil
	}
	e, err := x.defs.Execution(ctx, t, id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	j, err := x.defs.Job(ctx, t, engine.Ref{ID: e.Job})
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	refs, _ := Find(&j.Definition, &j.Definition)
	more, _ := FindIn("", e.Payload)
	seen := map[string]bool{}
	for _, r := range append(refs, more...) {
		if !r.External() || seen[r.Name] {
			continue
		}
		seen[r.Name] = true
		k, err := v.fetchWithin(ctx, within, t, r.Name)
		last := x.last(managedKey{t, r.Name})
		switch {
		case err == nil:
			g.known = append(g.known, k.index)
		case last != nil:
			g.known = append(g.known, last)
		case !errors.Is(err, ErrMissing):
			g.unread = append(g.unread, r.Name)
		}
	}
	return nil
}

// patience is until when each backend is waited for, from its first request: a slow one leaves the others their time.
type patience map[string]time.Time

// fetchWithin is fetch for callers that can only wait briefly for a backend, or for another reader. A backend that
// was too slow is not asked again for a moment, but its latest answer counts.
func (v *Vault) fetchWithin(ctx context.Context, within patience, t tenant.ID, name string) (kept, error) {
	p, _ := Locate(name)
	x := &v.outside
	now := v.now()
	x.mu.Lock()
	f, slow := x.values[managedKey{t, name}], now.Before(x.slow[p.Backend])
	x.mu.Unlock()
	if f != nil && f.mu.TryLock() {
		k, fresh := f.kept, clock.Fresh(now, f.until, x.cache)
		f.mu.Unlock()
		if fresh {
			return k, nil
		}
	}
	if slow {
		return kept{}, context.DeadlineExceeded
	}
	if _, ok := within[p.Backend]; !ok {
		within[p.Backend] = time.Now().Add(redactWait)
	}
	caller := ctx
	ctx, cancel := context.WithDeadline(ctx, within[p.Backend])
	defer cancel()
	type answer struct {
		kept
		err error
	}
	got := make(chan answer, 1)
	go func() {
		k, err := v.fetch(ctx, t, name)
		got <- answer{k, err}
	}()
	select {
	case a := <-got:
		return a.kept, a.err
	case <-ctx.Done():
		if caller.Err() == nil { // otherwise it is the caller who has left
			x.mu.Lock()
			defer x.mu.Unlock()
			x.slow[p.Backend] = now.Add(brokenFor)
		}
		return kept{}, ctx.Err()
	}
}

// last returns the value that was read last, if any.
func (x *external) last(key managedKey) *index {
	x.mu.Lock()
	f := x.values[key]
	x.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.last.Load()
}
