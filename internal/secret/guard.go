package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// What is remembered of attempts that were handed out with, or beside, secrets.
const (
	sweepAt  = 10_000
	maxNoted = 200_000
	lateness = time.Minute // how long an attempt is remembered after its end: its last log lines may come late
)

// entry holds the secrets of an attempt.
type entry struct {
	tenant tenant.ID
	given  *given // when it was handed out; nil: nothing
	own    []*index
	ended  time.Time // zero: it runs
}

// ledger remembers what this process handed out.
type ledger struct {
	mu      sync.Mutex
	entries map[job.ExecutionID]*entry // guarded by mu
	forgot  bool                       // guarded by mu: something running had to be left out
	sweepAt int                        // guarded by mu: the size at which it is swept
}

func (l *ledger) note(id job.ExecutionID, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= max(l.sweepAt, sweepAt) {
		l.sweep(time.Now())
	}
	l.entries[id] = e
}

// sweep drops what has ended. The caller holds mu.
func (l *ledger) sweep(now time.Time) {
	for id, e := range l.entries {
		if !e.ended.IsZero() && now.Sub(e.ended) > lateness {
			delete(l.entries, id)
		}
	}
	for id := range l.entries {
		if len(l.entries) < maxNoted {
			break
		}
		delete(l.entries, id)
		l.forgot = true
	}
	l.sweepAt = 2 * len(l.entries)
}

// Guards remove secrets from what workers report about executions.
type Guards map[job.ExecutionID]guard

// guard holds the secrets that an execution must not reveal.
type guard struct {
	known  []*index
	unread []string // secrets that it was given and whose values could not be read: its reports cannot be checked for them
}

func (g guard) empty() bool { return len(g.known) == 0 && len(g.unread) == 0 }

// removed replaces a text that could not be checked.
func (g guard) removed() string {
	return fmt.Sprintf("[removed: the secret %q could not be read, so this text could not be checked for it]", g.unread[0])
}

// Guards returns the guards of executions. elsewhere means that another server may have handed them out; then the
// store is asked for those that this one did not hand out.
func (v *Vault) Guards(ctx context.Context, ids []job.ExecutionID, elsewhere bool) (Guards, error) {
	if v == nil || len(ids) == 0 {
		return nil, nil
	}
	var out Guards
	var unknown []job.ExecutionID
	var known map[job.ExecutionID]*entry
	v.handed.mu.Lock()
	for _, id := range ids {
		if e, ok := v.handed.entries[id]; ok {
			if known == nil {
				known = map[job.ExecutionID]*entry{}
			}
			known[id] = e
		} else if elsewhere || v.handed.forgot {
			unknown = append(unknown, id)
		}
	}
	v.handed.mu.Unlock()
	set := func(id job.ExecutionID, g guard) {
		if out == nil {
			out = Guards{}
		}
		out[id] = g
	}
	for id, e := range known {
		now, err := v.quick(ctx, e.tenant)
		if err != nil {
			return nil, err
		}
		g := guard{known: []*index{now.index}}
		if e.given != nil && e.given != now.given {
			if was := e.given.index.Load(); was != nil {
				g.known = append(g.known, was)
			}
		}
		g.known = append(g.known, e.own...)
		set(id, g)
	}
	if len(unknown) == 0 {
		return out, nil
	}
	uses, err := v.store.SecretsOf(ctx, unknown)
	if err != nil {
		return nil, err
	}
	now := map[tenant.ID]*snapshot{}
	within := patience{}
	for _, u := range uses {
		s, ok := now[u.Tenant]
		if !ok {
			if s, err = v.snapshot(ctx, u.Tenant, 0); err != nil { // it may name one that is new
				return nil, err
			}
			now[u.Tenant] = s
		}
		g := guard{known: []*index{s.index}}
		for _, m := range u.Managed {
			k, err := v.openManaged(m)
			if err != nil {
				continue // a process that could not open it has not handed it out
			}
			g.known = append(g.known, k.index)
		}
		if err := v.outsiders(ctx, within, u.Tenant, u.Execution, &g); err != nil {
			return nil, err
		}
		set(u.Execution, g)
	}
	return out, nil
}

// Ended records that executions have ended, so that they need not be remembered for long.
func (v *Vault) Ended(ids []job.ExecutionID) {
	if v == nil {
		return
	}
	v.handed.mu.Lock()
	defer v.handed.mu.Unlock()
	if len(v.handed.entries) == 0 {
		return
	}
	for _, id := range ids {
		if e, ok := v.handed.entries[id]; ok {
			e.ended = time.Now()
		}
	}
}

// Clean removes secrets from a worker's text about an execution.
func (g Guards) Clean(id job.ExecutionID, s string) string {
	switch of := g[id]; {
	case s == "":
		return s
	case len(of.unread) > 0:
		return of.removed()
	default:
		return redact(s, of.known...)
	}
}

// CleanLines removes secrets from consecutive lines that an execution wrote.
func (g Guards) CleanLines(id job.ExecutionID, lines []string) {
	of := g[id]
	if len(of.unread) == 0 {
		redactLines(lines, of.known...)
		return
	}
	for i, line := range lines {
		lines[i] = g.Clean(id, line)
	}
}

// CleanJSON removes secrets from a worker's JSON document about an execution, which stays valid JSON.
func (g Guards) CleanJSON(id job.ExecutionID, doc []byte) []byte {
	if len(doc) == 0 || g[id].empty() {
		return doc
	}
	text := g.Clean(id, string(doc))
	if text == string(doc) {
		return doc
	}
	if out := []byte(text); json.Valid(out) {
		return out
	}
	out, _ := json.Marshal(text) // a number was one
	return out
}

// CleanOutcome removes secrets from an outcome.
func (g Guards) CleanOutcome(o *job.Outcome) {
	of := g[o.Execution]
	if of.empty() {
		return
	}
	o.Result = g.CleanJSON(o.Execution, o.Result)
	if o.Error != nil {
		e := *o.Error
		e.Message = g.Clean(o.Execution, e.Message)
		if !e.Type.Known() && g.Clean(o.Execution, string(e.Type)) != string(e.Type) {
			e.Type = job.HandlerError
		}
		o.Error = &e
	}
	if o.Response != nil {
		r := *o.Response
		r.BodyPreview = g.Clean(o.Execution, r.BodyPreview)
		o.Response = &r
	}
}
