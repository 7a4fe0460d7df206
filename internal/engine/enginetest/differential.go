package enginetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Differential runs the same random sequences of calls on several engines and on an in-memory model, and requires the
// same answers and the same state from all. What the port leaves open (times, tokens, order within a batch that is
// due at once) is not compared.
func Differential(t *testing.T, engines map[string]Harness) {
	d := differential{T: t, names: slices.Sorted(maps.Keys(engines))}
	for _, name := range d.names {
		d.stores = append(d.stores, open(t, engines[name]).Store)
	}
	for _, s := range d.stores {
		if err := s.CreateTenant(t.Context(), tenant.Tenant{ID: "other", Name: "other", Tier: tenant.Free, CreatedAt: time.Now()}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if f := flag.Lookup("rapid.checks"); testing.Short() && f.Value.String() == f.DefValue {
		_ = f.Value.Set("25")
	}
	failed := 0
	rapid.Check(t, func(r *rapid.T) {
		p := d.play(r)
		defer func() { failed += len(p.faulty[0].Injected()) }()
		defer p.end()
		defer p.same(r)
		r.Repeat(map[string]func(*rapid.T){
			"create": p.create, "trigger": p.trigger, "pause or resume": p.update, "delete": p.delete,
			"register": p.register, "leave": p.leave, "reap": p.reap, "lease": p.lease, "lease again": p.lease,
			"finish": p.finish, "finish more": p.finish, "park": p.park, "release": p.release, "disown": p.disown,
			"cancel": p.cancel, "force": p.force, "rerun": p.rerun, "discard": p.discard,
			"": p.look,
		})
	})
	if failed == 0 && !testing.Short() {
		t.Error("no call has failed")
	}
}

type differential struct {
	*testing.T
	names  []string
	stores []engine.Store
}

// repeatable lists the calls that have the same effect however often they are made. They fail now and then, before or
// after their commit, and are retried, as callers of a store do.
var repeatable = []string{"create", "update", "delete", "leave", "reap", "finish", "park", "release", "disown", "cancel", "force"}

// play is one sequence of calls.
type play struct {
	differential
	ctx     context.Context
	now     time.Time
	jobs    []job.Job
	runs    []job.Execution
	workers []job.WorkerID
	held    [][]job.Attempt     // everything ever leased: of each lease, what each engine answered
	tokens  []map[job.Token]int // of each engine, the leases that issued them, from 1
	leases  int
	steps   int
	model   *model
	said    string    // what all answered last
	faulty  []*Faulty // the stores: they fail alike, since they get the same calls
}

func (d differential) play(r *rapid.T) *play {
	p := &play{differential: d, ctx: r.Context(), now: time.Now().UTC().Truncate(time.Microsecond), model: newModel()}
	seed := rapid.Uint64().Draw(r, "faults")
	p.stores = nil
	for _, s := range d.stores {
		f := NewFaulty(s, Faults{Seed: seed})
		p.faulty, p.stores, p.tokens = append(p.faulty, f), append(p.stores, f), append(p.tokens, map[job.Token]int{})
	}
	p.register(r)
	p.create(r)
	return p
}

// end leaves no session that a later sequence could reap.
func (p *play) end() {
	for _, s := range p.stores {
		for _, w := range p.workers {
			_, _ = s.Leave(context.WithoutCancel(p.ctx), w)
		}
	}
}

// all calls every engine, requires equal answers, and returns them.
func all[T any](r *rapid.T, p *play, what string, call func(i int, s engine.Store) (T, error)) []T {
	out, said := alike(r, p, what, call)
	p.said = said
	r.Logf("%s: %s", what, said)
	return out
}

func alike[T any](r *rapid.T, p *play, what string, call func(i int, s engine.Store) (T, error)) ([]T, string) {
	out := make([]T, len(p.stores))
	said := make([]string, len(p.stores))
	faults := Faults{}
	if slices.Contains(repeatable, what) {
		faults = Faults{Before: 0.05, After: 0.1}
	}
	for i, s := range p.stores {
		p.faulty[i].Set(faults)
		v, err := call(i, s)
		for errors.Is(err, engine.ErrUnavailable) {
			v, err = call(i, s)
		}
		p.faulty[i].Set(Faults{})
		out[i] = v
		if said[i] = p.say(i, v, err); said[i] != said[0] {
			r.Fatalf("%s\n%s answers %s\n%s answers %s", what, p.names[0], said[0], p.names[i], said[i])
		}
	}
	return out, said[0]
}

func (p *play) say(i int, v any, err error) string {
	for _, known := range []error{engine.ErrNotFound, engine.ErrConflict, engine.ErrSession} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "an error that the port does not know: " + err.Error()
	}
	return canonical(v, p.tokens[i])
}

func pickOne[T any](r *rapid.T, what string, of []T) T {
	if len(of) == 0 {
		r.Skip("there is no " + what)
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(r, what)]
}

func (p *play) create(r *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(r, "jobs")
	c := engine.Creation{Tenant: rapid.SampledFrom([]tenant.ID{tenant.Default, tenant.Default, "other"}).Draw(r, "tenant")}
	for range n {
		j := job.Job{ID: newID(), Tenant: c.Tenant, State: job.Active, CreatedAt: p.now, UpdatedAt: p.now, Revision: 1, Definition: job.Definition{
			Name: "a", Schedule: job.Schedule{Type: job.Immediate}, Priority: 5, Queue: job.DefaultQueue,
			Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Minute},
			Retry:  job.RetryPolicy{MaxRetries: rapid.IntRange(0, 2).Draw(r, "retries"), Backoff: job.Fixed},
		}}
		if rapid.IntRange(0, 3).Draw(r, "is unique") == 0 {
			j.UniqueKey = rapid.SampledFrom([]string{"u", "v"}).Draw(r, "key") + p.jobKey()
		}
		e := j.Fire(job.ExecutionID(j.ID), p.now, p.now)
		c.Jobs, c.Executions = append(c.Jobs, j), append(c.Executions, e)
	}
	got := all(r, p, "create", func(_ int, s engine.Store) ([]engine.Created, error) {
		return s.CreateJobs(p.ctx, []engine.Creation{c})
	})
	held := false
	for i, e := range c.Executions {
		held = held || p.model.taken(e.Tenant, e.UniqueKey) || slices.ContainsFunc(c.Executions[:i], func(o job.Execution) bool { return e.UniqueKey != "" && o.UniqueKey == e.UniqueKey })
	}
	if one := got[0][0]; held != (one.Unique != nil) {
		r.Fatalf("a unique key is held: %v, and the answer is %s", held, p.said)
	} else if one.Unique == nil {
		for i, j := range c.Jobs {
			p.model.jobs[j.ID], p.model.retries[j.ID] = job.Active, j.Retry.MaxRetries
			p.model.add(c.Executions[i])
		}
		p.jobs, p.runs = append(p.jobs, c.Jobs...), append(p.runs, c.Executions...)
	}
}

// jobKey makes unique keys unique to this sequence.
func (p *play) jobKey() string { return fmt.Sprint(p.now.UnixNano()) }

func (p *play) trigger(r *rapid.T) {
	j := pickOne(r, "job", p.jobs)
	e := j.Fire(newID(), p.now, p.now)
	e.Trigger = job.ByHand
	got := all(r, p, "trigger", func(_ int, s engine.Store) (engine.Created, error) {
		return s.Trigger(p.ctx, j.Tenant, e, engine.Idempotency{}, nil)
	})
	switch {
	case p.model.jobs[j.ID] == job.Deleted:
		if p.said != engine.ErrNotFound.Error() {
			r.Fatalf("a deleted job was triggered: %s", p.said)
		}
	case p.model.taken(e.Tenant, e.UniqueKey) != (got[0].Unique != nil):
		r.Fatalf("a unique key is held: %v, and the answer is %s", p.model.taken(e.Tenant, e.UniqueKey), p.said)
	case got[0].Unique == nil:
		p.runs = append(p.runs, e)
		p.model.add(e)
	}
}

func (p *play) update(r *rapid.T) {
	j := pickOne(r, "job", p.jobs)
	j.State = rapid.SampledFrom([]job.State{job.Active, job.Paused}).Draw(r, "state")
	all(r, p, "update", func(_ int, s engine.Store) (job.Job, error) {
		return s.UpdateJob(p.ctx, j.Tenant, engine.Update{Job: j, AsOf: p.now})
	})
	if deleted := p.model.jobs[j.ID] == job.Deleted; deleted != (p.said == engine.ErrNotFound.Error()) {
		r.Fatalf("an update of a job that is %s is answered %s", p.model.jobs[j.ID], p.said)
	} else if !deleted {
		p.model.jobs[j.ID] = j.State
	}
}

func (p *play) delete(r *rapid.T) {
	j := pickOne(r, "job", p.jobs)
	all(r, p, "delete", func(_ int, s engine.Store) (engine.Deleted, error) {
		return s.DeleteJob(p.ctx, j.Tenant, engine.Deletion{Job: j.ID, AsOf: p.now})
	})
	p.model.deleted(j.ID)
}

func (p *play) register(r *rapid.T) {
	w := job.Worker{ID: newID(), Host: "h", Version: "v", Capacity: 9, StartedAt: p.now}
	all(r, p, "register", func(_ int, s engine.Store) (struct{}, error) { return struct{}{}, s.Register(p.ctx, w, time.Hour) })
	p.workers = append(p.workers, w.ID)
}

func (p *play) leave(r *rapid.T) {
	w := pickOne(r, "worker", p.workers)
	all(r, p, "leave", func(_ int, s engine.Store) (engine.Requeued, error) { return ordered(s.Leave(p.ctx, w)) })
	if !p.model.ended[w] {
		p.model.released(w, func(job.ExecutionID, int) bool { return true })
		p.model.ended[w] = true
		delete(p.model.expired, w)
	}
}

// reap lets a session expire first.
func (p *play) reap(r *rapid.T) {
	w := pickOne(r, "worker", p.workers)
	all(r, p, "expire", func(_ int, s engine.Store) (engine.Orders, error) {
		return s.Renew(p.ctx, []engine.Renewal{{Worker: w}}, -time.Second)
	})
	if !p.model.ended[w] {
		p.model.expired[w] = true
	}
	all(r, p, "reap", func(_ int, s engine.Store) (engine.Reaped, error) {
		x, err := s.Reap(p.ctx, 1000, 3)
		slices.SortFunc(x.Ready, byID)
		slices.SortFunc(x.Ended, byExecution)
		x.Leases = 0 // one commit may have issued several
		return x, err
	})
	p.model.reaped(3)
}

func ordered(got engine.Requeued, err error) (engine.Requeued, error) {
	slices.SortFunc(got.Ready, byID)
	slices.SortFunc(got.Ended, byExecution)
	return got, err
}

func byID(a, b job.Ready) int { return slices.Compare(a.ID[:], b.ID[:]) }

func byExecution(a, b engine.Ended) int { return slices.Compare(a.Execution[:], b.Execution[:]) }

func (p *play) lease(r *rapid.T) {
	w := pickOne(r, "worker", p.workers)
	var ids []job.ExecutionID
	for range rapid.IntRange(1, 3).Draw(r, "executions") {
		if e := pickOne(r, "execution", p.runs); !slices.Contains(ids, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	begun := p.leases + 1
	got := all(r, p, "lease", func(i int, s engine.Store) ([]job.Attempt, error) {
		as, err := s.Lease(p.ctx, []engine.Grant{{Worker: w, Executions: ids}}, engine.Fence{})
		for k := range as {
			if p.tokens[i][as[k].Token] == 0 { // an engine may give several one token, or each its own
				p.tokens[i][as[k].Token] = begun
			}
		}
		return as, err
	})
	p.leases = begun
	p.model.leased(r, w, ids, begun, got[0], p.said)
	for k := range got[0] {
		one := make([]job.Attempt, len(got))
		for i := range got {
			one[i] = got[i][k]
		}
		p.held = append(p.held, one)
	}
}

// finish reports results: for leases that hold and that do not, by their holders and by others, once and repeatedly.
func (p *play) finish(r *rapid.T) {
	type report struct {
		of     []job.Attempt
		status job.OutcomeStatus
		retry  bool
		by     job.WorkerID
		expel  bool
	}
	var rs []report
	for range rapid.IntRange(1, 2).Draw(r, "results") {
		x := report{of: pickOne(r, "lease", p.held)}
		x.status = rapid.SampledFrom([]job.OutcomeStatus{job.OutcomeSucceeded, job.OutcomeFailed, job.OutcomeFailed, job.OutcomeCancelled, job.OutcomeSnoozed, job.OutcomeSkipped}).Draw(r, "status")
		x.retry = rapid.Bool().Draw(r, "retryable")
		if rapid.Bool().Draw(r, "is named") {
			x.by = pickOne(r, "worker", p.workers)
		}
		x.expel = rapid.IntRange(0, 5).Draw(r, "expels") == 0
		if slices.ContainsFunc(rs, func(o report) bool { return o.of[0].Execution == x.of[0].Execution }) {
			continue
		}
		rs = append(rs, x)
	}
	// Like the dispatcher: what is held decides what follows.
	var last []job.Finish
	vs := all(r, p, "finish", func(i int, s engine.Store) ([]job.Verdict, error) {
		fs := make([]job.Finish, len(rs))
		for k, x := range rs {
			o := job.Outcome{Lease: x.of[i].Lease, Status: x.status, Retryable: x.retry}
			switch x.status {
			case job.OutcomeFailed:
				o.Error = &job.Error{Type: job.HTTPError, Message: "answered 503", HTTPStatus: 503}
			case job.OutcomeSucceeded:
				o.Result = []byte(`{"n":1}`)
			case job.OutcomeSnoozed:
				o.RetryAfter = time.Hour
			}
			hs, err := s.Held(p.ctx, []job.Lease{o.Lease})
			if err != nil {
				return nil, err
			}
			var h job.Held
			if len(hs) > 0 {
				h = hs[0]
			}
			fs[k] = job.Finish{Outcome: o, Then: job.Decide(h, o, p.now), Worker: x.by, Expel: x.expel}
		}
		if last == nil {
			last = fs
		}
		return s.Finish(p.ctx, fs)
	})
	for k, f := range last {
		p.model.finished(r, f, p.tokens[0][f.Outcome.Token], vs[0][k], p.now)
	}
}

func (p *play) park(r *rapid.T) {
	of := pickOne(r, "lease", p.held)
	by := pickOne(r, "worker", p.workers)
	vs := all(r, p, "park", func(i int, s engine.Store) ([]job.Verdict, error) {
		return s.Park(p.ctx, []engine.Parking{{Outcome: job.Outcome{Lease: of[i].Lease, Status: job.OutcomeParked}, Worker: by, Until: p.now.Add(time.Hour)}})
	})
	p.model.parks(r, of[0].Execution, by, p.tokens[0][of[0].Token], vs[0][0])
}

func (p *play) release(r *rapid.T) {
	of := pickOne(r, "lease", p.held)
	by := pickOne(r, "worker", p.workers)
	all(r, p, "release", func(i int, s engine.Store) (engine.Requeued, error) {
		return ordered(s.Release(p.ctx, by, []job.Lease{of[i].Lease}))
	})
	p.model.released(by, func(id job.ExecutionID, lease int) bool {
		return id == of[0].Execution && lease == p.tokens[0][of[0].Token]
	})
}

func (p *play) disown(r *rapid.T) {
	by := pickOne(r, "worker", p.workers)
	keep := rapid.Bool().Draw(r, "keeps one")
	var of []job.Attempt
	if keep {
		of = pickOne(r, "lease", p.held)
	}
	all(r, p, "disown", func(i int, s engine.Store) (engine.Requeued, error) {
		var tokens []job.Token
		if keep {
			for t, n := range p.tokens[i] { // a lease may have given several tokens
				if n == p.tokens[i][of[i].Token] {
					tokens = append(tokens, t)
				}
			}
			slices.Sort(tokens)
		}
		return ordered(s.Disown(p.ctx, by, tokens, time.Time{}))
	})
	p.model.released(by, func(_ job.ExecutionID, lease int) bool { return !keep || lease != p.tokens[0][of[0].Token] })
}

func (p *play) cancel(r *rapid.T) {
	e := pickOne(r, "execution", p.runs)
	of := rapid.SampledFrom([]tenant.ID{tenant.Default, "other"}).Draw(r, "tenant")
	got := all(r, p, "cancel", func(_ int, s engine.Store) (engine.Cancelled, error) { return s.Cancel(p.ctx, of, e.ID, "no", nil) })
	p.model.cancelled(r, of, e.ID, got[0].Status, p.said)
}

func (p *play) force(r *rapid.T) {
	all(r, p, "force", func(_ int, s engine.Store) ([]engine.Ended, error) {
		es, err := s.Force(p.ctx, -time.Minute, 1000)
		slices.SortFunc(es, byExecution)
		return es, err
	})
	p.model.forced()
}

func (p *play) rerun(r *rapid.T) {
	e := pickOne(r, "execution", p.runs)
	i := slices.IndexFunc(p.jobs, func(j job.Job) bool { return j.ID == e.Job })
	again := p.jobs[i].Rerun(e, newID(), job.ByRetry, nil, p.now)
	dead := rapid.Bool().Draw(r, "dead only")
	got := all(r, p, "rerun", func(_ int, s engine.Store) (engine.Rerunning, error) {
		return s.Rerun(p.ctx, e.Tenant, engine.Rerun{Executions: []job.Execution{again}, DeadOnly: dead})
	})
	p.model.reran(r, e, again, dead, len(got[0].Added) > 0)
	if len(got[0].Added) > 0 {
		p.runs = append(p.runs, again)
	}
}

func (p *play) discard(r *rapid.T) {
	e := pickOne(r, "execution", p.runs)
	got := all(r, p, "discard", func(_ int, s engine.Store) (int, error) {
		n, _, err := s.Discard(p.ctx, e.Tenant, []job.ExecutionID{e.ID}, engine.Idempotency{}, nil, nil)
		return n, err
	})
	x := p.model.runs[e.ID]
	if x.dead != (got[0] == 1) {
		r.Fatalf("%d dead letters were discarded of an execution that is %s", got[0], x.status)
	}
	x.dead = false
}

// look compares the state now and then: it takes more calls than everything else.
func (p *play) look(r *rapid.T) {
	if p.steps++; p.steps%lookEvery == 0 {
		p.same(r)
	}
}

const lookEvery = 8

// same compares the publicly visible state.
func (p *play) same(r *rapid.T) {
	p.model.same(r, p, p.faulty[0].Store) // bypassing the faults, which all stores should have alike
	for _, e := range p.runs {
		alike(r, p, "execution", func(_ int, s engine.Store) (job.Execution, error) { return s.Execution(p.ctx, e.Tenant, e.ID) })
		alike(r, p, "attempts", func(_ int, s engine.Store) ([]job.PastAttempt, error) { return s.Attempts(p.ctx, e.Tenant, e.ID) })
		alike(r, p, "events", func(_ int, s engine.Store) ([]job.Event, error) {
			es, err := s.Events(p.ctx, e.Tenant, e.ID)
			slices.SortStableFunc(es, func(a, b job.Event) int { // those of one commit have one time
				return cmp.Or(strings.Compare(fmt.Sprint(a.Kind), fmt.Sprint(b.Kind)), cmp.Compare(a.Attempt, b.Attempt))
			})
			return es, err
		})
		alike(r, p, "dead letter", func(_ int, s engine.Store) (engine.DeadLetterPage, error) {
			return s.DeadLetters(p.ctx, engine.DeadLetterFilter{Tenant: e.Tenant, Execution: e.ID}, engine.Page{Limit: 5})
		})
	}
	for _, j := range p.jobs {
		alike(r, p, "job", func(_ int, s engine.Store) (job.Job, error) { return s.Job(p.ctx, j.Tenant, engine.Ref{ID: j.ID}) })
		alike(r, p, "stats", func(_ int, s engine.Store) ([]job.Stats, error) { return s.Stats(p.ctx, j.Tenant, []job.ID{j.ID}) })
	}
	for _, w := range p.workers {
		alike(r, p, "worker", func(_ int, s engine.Store) (bool, error) {
			x, err := s.Worker(p.ctx, w)
			return x.Ended, err
		})
	}
}
