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
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Explained is an execution with its explanation.
type Explained struct {
	Execution job.Execution
	Why       explain.Why
}

// Explain returns why an execution waits, what it is doing, or how it ended. It uses only the store, so that every
// server gives the same answer.
func (s *Executions) Explain(ctx context.Context, p tenant.Principal, id job.ExecutionID) (Explained, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return Explained{}, err
	}
	x := explain.Situation{Execution: e, Attempts: past, Events: kept, Now: s.clock.Now().UTC()}
	if x.Job, err = s.store.Job(ctx, p.Tenant, engine.Ref{ID: e.Job}); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return Explained{}, err
	}
	if err := s.inRun(ctx, &x); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return Explained{}, err
	}
	if e.Status == job.Waiting && len(x.Job.DependsOn) > 0 {
		d, err := s.parents(ctx, x.Job)
		if err != nil {
			return Explained{}, err
		}
		x.Condition = d.Condition
		for _, of := range d.Parents {
			if of.Token.IsZero() {
				x.Missing = append(x.Missing, explain.Parent{Key: of.Key, Name: of.Name})
			}
		}
	}
	if explain.Waits(e, x.Now) {
		if err := s.queued(ctx, &x); err != nil {
			return Explained{}, err
		}
	}
	return Explained{e, explain.Of(x)}, nil
}

// inRun reads the state of the run that an execution is, or is a node of.
func (s *Executions) inRun(ctx context.Context, x *explain.Situation) error {
	e := &x.Execution
	runs := x.Job.Target.Kind == job.Workflow
	if !runs && e.Trigger != job.ByWorkflow {
		return nil
	}
	if e.Trigger == job.ByWorkflow {
		if err := s.inNode(ctx, x); err != nil && !errors.Is(err, engine.ErrNotFound) { // none: the parents of its job fired it
			return err
		}
	}
	if !runs {
		return nil
	}
	run, g, err := s.runOf(ctx, e.Tenant, e.ID)
	if err != nil || run.Execution != e.ID { // an earlier attempt, whose state is not stored
		return err
	}
	state, err := workflow.DecodeState(g, run.State)
	if err != nil {
		return err
	}
	waits, err := s.store.RunWaits(ctx, e.Tenant, run.ID)
	if err != nil {
		return err
	}
	x.Run = &explain.Run{ID: run.ID, Graph: g, State: state, Left: map[int]*job.Error{}}
	q := engine.ErrorQuery{Tenant: e.Tenant, Run: run.ID, Attempt: run.Attempt, Since: run.BegunAt}
	for n := range g.Len() {
		if status, _ := state.Node(n); status.Failed() {
			q.Places = append(q.Places, engine.PlaceOf(n, -1))
		}
	}
	left, err := s.store.RunErrors(ctx, q)
	if err != nil {
		return err
	}
	for _, l := range left {
		x.Run.Left[l.Place.Node()] = l.Error
	}
	for _, w := range waits {
		if w.Kind == engine.WaitTimer || w.Kind == engine.WaitApproval || w.Kind == engine.WaitEvent {
			y := explain.NodeWait{Node: w.Node, Begun: w.BegunAt, Until: w.Until}
			if w.Kind == engine.WaitTimer {
				y.Until = w.WakeAt
			}
			x.Run.Waits = append(x.Run.Waits, y)
		}
	}
	return nil
}

// inNode reads of which node of a run an execution is.
func (s *Executions) inNode(ctx context.Context, x *explain.Situation) error {
	m, err := s.store.MemberOf(ctx, x.Execution.Tenant, x.Execution.ID)
	if err != nil {
		return err
	}
	run, g, err := s.runOf(ctx, x.Execution.Tenant, m.Run)
	if err != nil {
		return err
	}
	if n := m.Place.Node(); n < g.Len() {
		x.Node = &explain.Node{Run: run.ID, Key: g.Node(n).Key, Item: m.Place.Item()}
	}
	return nil
}

// runOf finds a run, and the graph of its version.
func (s *Executions) runOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (engine.WorkflowRun, *workflow.Graph, error) {
	run, err := s.store.WorkflowRun(ctx, t, id)
	if err != nil {
		return run, nil, err
	}
	g, err := s.runner.Graph(ctx, t, run.Workflow, run.Version)
	return run, g, err
}

// queued reads what may keep a due execution from starting.
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

// limitsOf lists the limits that apply to an execution, and their usage; it also sets the pause of its queue.
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

// overlapKey returns the group in which the job's overlap policy makes executions wait.
func overlapKey(j job.Job, e *job.Execution) job.GroupKey {
	x := *e
	x.Group = job.Group{}
	x.Queue(j)
	return x.Group.Key
}

// used counts the usage of concurrency limits.
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

// lending holds servers' shares of a tenant's limits, seen from a waiting execution.
type lending struct {
	all   []engine.Lending
	own   map[job.Partition]bool // partitions of the server that owns its partition; empty: none has a share
	here  map[string]int         // what runs in these, by queue
	total int
}

// lent reads the servers' shares of the limits on an execution; nothing if they share none.
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

// hold records who has shares of a limit, if they leave none for the server that would start the execution.
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

// drawn asks when rates let one more start.
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
	aheadAtOnce  = 80   // lanes examined together
	aheadPerLane = 1000 // executions examined in each
	aheadMost    = 10_000
	aheadAlways  = 1000 // counted, however long it takes
	aheadTime    = 100 * time.Millisecond
)

// ahead counts the executions of the tenant that should start before one, of those with the same requirements; more
// means that there are, or may be, more. Their lanes follow from that, so that no other tenant's are read.
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
			if r.Group.Key == 0 || r.Group.Key == me.Group.Key { // another group's may be listed with those in none
				n++
			}
		}
		for _, k := range full {
			more = more || k >= aheadPerLane
		}
	}
	return n, more, nil
}

// aheadLanes returns the lanes of the same class: those of its own group, which are all in its partition, and those
// of none.
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
