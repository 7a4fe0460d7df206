package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/explain"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Explained is an execution and why it is where it is.
type Explained struct {
	Execution job.Execution
	Why       explain.Why
}

// Explain says why an execution waits, what it does, or how it ended. All that it says is from the store, so that it is the
// same whichever server is asked.
func (s *Executions) Explain(ctx context.Context, p tenant.Principal, id job.ExecutionID) (Explained, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return Explained{}, err
	}
	x := explain.Situation{Execution: e, Attempts: past, Events: kept, Now: s.clock.Now().UTC()}
	if x.Job, err = s.store.Job(ctx, p.Tenant, engine.Ref{ID: e.Job}); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return Explained{}, err
	}
	if explain.Waits(e, x.Now) {
		if err := s.queued(ctx, &x); err != nil {
			return Explained{}, err
		}
	}
	return Explained{e, explain.Of(x)}, nil
}

// queued reads what may keep an execution that is due from starting.
func (s *Executions) queued(ctx context.Context, x *explain.Situation) (err error) {
	e := &x.Execution
	if x.Workers, err = s.store.Workers(ctx, e.Tenant); err != nil {
		return err
	}
	if x.Limits, err = s.limitsOf(ctx, x); err != nil {
		return err
	}
	if x.Ahead, x.More, err = s.ahead(ctx, e); err != nil {
		return err
	}
	stats, err := s.store.Stats(ctx, e.Tenant, []job.ID{e.Job})
	if err == nil {
		x.Average = stats[0].AvgDuration
	}
	return err
}

// limitsOf lists the limits that an execution is under, and how far they are used; it notes the pause of its queue.
func (s *Executions) limitsOf(ctx context.Context, of *explain.Situation) ([]explain.Limit, error) {
	e, j := &of.Execution, &of.Job
	all, err := s.store.Limits(ctx, e.Tenant)
	if err != nil {
		return nil, err
	}
	q, err := s.Quota(ctx, tenant.Principal{Tenant: e.Tenant})
	if err != nil {
		return nil, err
	}
	queue := e.Class.Needs().Queue
	var out []explain.Limit
	var draws []engine.Draw
	atOnce := false
	for _, l := range job.Both(all, job.QuotaLimits(e.Tenant, q)) {
		if l.Queue != "" && l.Queue != queue {
			continue
		}
		if l.Queue != "" {
			of.Pause = l.Pause
		}
		if l.IsZero() {
			continue
		}
		x := explain.Limit{Scope: "tenant", Queue: l.Queue, Max: l.Max, Rate: l.Rate}
		if l.Queue != "" {
			x.Scope = "queue"
		}
		out, draws = append(out, x), append(draws, engine.Draw{Bucket: pick.ScopeBucket(e.Tenant, l.Queue), Rate: l.Rate})
		atOnce = atOnce || l.Max > 0
	}
	if g := e.Group; g.Key != 0 {
		x := explain.Limit{Scope: "job", Max: g.Max, Rate: g.Rate}
		if j.ConcurrencyKey != "" && j.GroupOf("").Key != 0 && g.Key != overlapKey(*j, e) {
			x.Scope, x.Key = "key", j.ConcurrencyKey
		}
		out, draws = append(out, x), append(draws, engine.Draw{Bucket: pick.GroupBucket(g.Key, g.Rate), Rate: g.Rate})
	}
	if err := s.used(ctx, e, queue, out, atOnce); err != nil {
		return nil, err
	}
	return out, s.drawn(ctx, out, draws)
}

// overlapKey is the group of what the job's overlap policy has wait.
func overlapKey(j job.Job, e *job.Execution) job.GroupKey {
	x := *e
	x.Group = job.Group{}
	x.Queue(j)
	return x.Group.Key
}

// used counts what runs under limits on what runs at once.
func (s *Executions) used(ctx context.Context, e *job.Execution, queue string, ls []explain.Limit, wide bool) error {
	if len(ls) == 0 || !wide && e.Group.Max == 0 {
		return nil
	}
	var ps []job.Partition
	if !wide { // a group is all in one
		ps = []job.Partition{e.Partition}
	}
	running, err := s.store.Running(ctx, ps)
	if err != nil {
		return err
	}
	lent, err := s.lent(ctx, e)
	if err != nil {
		return err
	}
	for _, r := range running {
		if r.Tenant != e.Tenant {
			continue
		}
		lent.run(&r)
		for i := range ls {
			switch l := &ls[i]; {
			case l.Scope == "tenant", l.Scope == "queue" && r.Class.Needs().Queue == queue, (l.Scope == "job" || l.Scope == "key") && r.Group.Key == e.Group.Key:
				l.Running++
			}
		}
	}
	for i := range ls {
		lent.hold(&ls[i])
	}
	return nil
}

// lending describes servers' parts of a tenant's limits, seen from a waiting execution.
type lending struct {
	all   []engine.Lending
	own   map[job.Partition]bool // partitions of the server that owns its partition; empty: none has a share
	here  map[string]int         // what runs in these, by queue
	total int
}

// lent reads what servers have of the limits over an execution; nothing where they share none.
func (s *Executions) lent(ctx context.Context, e *job.Execution) (*lending, error) {
	x := &lending{own: map[job.Partition]bool{}, here: map[string]int{}}
	if s.cfg.Lent == nil {
		return x, nil
	}
	var err error
	x.all, err = s.cfg.Lent(ctx, e.Tenant)
	for _, l := range x.all {
		if slices.Contains(l.Parts, e.Partition) {
			for _, p := range l.Parts {
				x.own[p] = true
			}
		}
	}
	return x, err
}

// run counts what runs in the partitions of the server that would start the execution.
func (x *lending) run(r *engine.Running) {
	if x.own[r.Partition] {
		x.here[r.Class.Needs().Queue]++
		x.total++
	}
}

// hold notes who has shares of a limit, where they leave none for the server that would start the execution.
func (x *lending) hold(l *explain.Limit) {
	if l.Max == 0 || l.Scope != "tenant" && l.Scope != "queue" {
		return
	}
	left, used := l.Max, x.total
	if l.Scope == "queue" {
		used = x.here[l.Queue]
	}
	var held []explain.Held
	for _, y := range x.all {
		if y.Queue == l.Queue && !slices.ContainsFunc(y.Parts, func(p job.Partition) bool { return x.own[p] }) {
			left -= y.Share
			held = append(held, explain.Held{Server: y.Host, Shares: y.Share})
		}
	}
	if left <= used {
		l.Held = held
	}
}

// drawn asks rates when they let one more start.
func (s *Executions) drawn(ctx context.Context, ls []explain.Limit, draws []engine.Draw) error {
	var asked []engine.Draw
	var of []int
	for i, d := range draws {
		if !d.Rate.IsZero() {
			asked, of = append(asked, d), append(of, i)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	got, err := s.store.Draw(ctx, asked)
	if err != nil {
		return err
	}
	for i, g := range got {
		ls[of[i]].Wait = g.Wait
	}
	return nil
}

const (
	priorities   = 10   // from 1, the highest
	aheadAtOnce  = 80   // lanes that are looked at together
	aheadPerLane = 1000 // executions that are looked at of each
	aheadMost    = 10_000
	aheadAlways  = 1000 // that are counted, however long it takes
	aheadTime    = 100 * time.Millisecond
)

// ahead counts the executions of the tenant that are to start before one, of those that need the same of a worker; more
// says that there are more, or may be. The lanes they are in follow from that, so that no other tenant's are looked at.
func (s *Executions) ahead(ctx context.Context, e *job.Execution) (n int, more bool, err error) {
	me := e.Ready()
	begun := time.Now()
	for some := range slices.Chunk(aheadLanes(me.Lane()), aheadAtOnce) {
		if n >= aheadMost || n > aheadAlways && time.Since(begun) > aheadTime {
			return n, true, nil
		}
		rs, err := s.store.Ready(ctx, some, aheadPerLane)
		if err != nil {
			return n, true, err
		}
		full := map[job.Lane]int{}
		for _, r := range rs {
			if !r.Before(me) {
				continue
			}
			full[r.Lane()]++
			if r.Group.Key == 0 || r.Group.Key == me.Group.Key { // another group's may be listed among what is in none
				n++
			}
		}
		for _, k := range full {
			more = more || k >= aheadPerLane
		}
	}
	return n, more, nil
}

// aheadLanes are the lanes of the same class: those of its own group, which are all in its partition, and those of none.
func aheadLanes(of job.Lane) (out []engine.LaneCursor) {
	add := func(p job.Partition, g job.GroupKey) {
		for priority := 1; priority <= priorities; priority++ {
			out = append(out, engine.LaneCursor{Lane: job.Lane{Partition: p, Tenant: of.Tenant, Class: of.Class, Group: g, Priority: priority}})
		}
	}
	if of.Group != 0 {
		add(of.Partition, of.Group)
	}
	for p := range job.Partition(job.Partitions) {
		add(p, 0)
	}
	return out
}
