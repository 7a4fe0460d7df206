package sim

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// flowStore is the store of a server's runner. Its reads during a decision do not fail: a slow one would block the
// store's only writer, and so the simulated time.
type flowStore struct {
	engine.Runs
	engine.Edges
	sound engine.Store
}

func (s flowStore) Job(ctx context.Context, t tenant.ID, r engine.Ref) (job.Job, error) {
	return s.sound.Job(ctx, t, r)
}

func (s flowStore) WorkflowVersion(ctx context.Context, t tenant.ID, w job.ID, version int) (engine.WorkflowVersion, error) {
	return s.sound.WorkflowVersion(ctx, t, w, version)
}

// lossyHints decides which hints get lost.
type lossyHints struct {
	w   *world
	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

func (l *lossyHints) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(4) == 0 && l.w.broken.Load()
}

// runner makes the runner of workflows in a server, and its service's actions on runs.
func (w *world) runner(s *server, clk clock.Clock) *workflows.Runner {
	return workflows.New(flowStore{s.store, s.store, w.store.Store}, clk, workflows.Config{Settled: s.disp.Settled, Refuse: service.RefusePayload, Log: w.log, Graphs: w.pages, Hint: func(rs []job.Ready) {
		if !s.hints.lost() {
			s.disp.Offer(rs)
		}
	}})
}

// flow runs workflows in a server.
func (w *world) flow(s *server) {
	w.wg.Go(func() { s.flows.Run(s.ctx) })
	w.wg.Go(func() { s.flows.Begin(s.ctx, s.disp, s.name+"f", "sim") })
}

// makeFlow makes a workflow.
func (c *caller) makeFlow(x wish) {
	f := x.flow
	e := check.Event{Op: check.Create, Job: f.Name, Tag: f.Name, Many: true}
	if recurs(f.Name) {
		f.Schedule.End = c.w.now().Add(x.last).UTC().Truncate(time.Microsecond)
	}
	m := made{job: f.Name}
	key := once(f.Name, func(f service.Flow) []byte {
		b, _ := json.Marshal(f.Job.ID) // bytes always encode
		return b
	})
	c.ask(x, e, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		got, replay, err := s.CreateWorkflow(ctx, c.as, f, key)
		id := job.ID{}
		switch {
		case err == nil && replay != nil:
			err = json.Unmarshal(replay, &id)
		case err == nil:
			id = got.Job.ID
		}
		if err == nil {
			m.id = id
		}
		return err
	})
	c.jobs, c.executions = append(c.jobs, m), append(c.executions, made{job: f.Name})
}

// act applies an action to a run.
func (c *caller) act(x wish, m made, tag string) {
	if m.execution.IsZero() {
		return
	}
	key := strings.Join(x.nodes, ",")
	do := map[string]func(*workflows.Turn) error{
		"pause": workflows.Pause, "unpause": workflows.Unpause, "cancel": workflows.Cancel(false, "as the script says"), "force": workflows.Cancel(true, "as the script says"),
		"retry": workflows.Again{Retry: workflow.Retry{Nodes: x.nodes}}.Do, "retry only": workflows.Again{Retry: workflow.Retry{Nodes: x.nodes, Only: true}}.Do,
		"skip": workflows.Skip(key), "mark": workflows.Mark(key, json.RawMessage(`{"by":"hand"}`)),
		"approve": workflows.Vote(key, workflow.Vote{Approved: true, By: tag, Who: tag}), "reject": workflows.Vote(key, workflow.Vote{By: tag, Who: tag}),
	}[x.act]
	e := check.Event{Op: check.Act, Run: c.w.store.name(m.execution), Tag: x.act, Node: key}
	c.askServer(x, e, func(ctx context.Context, s *server, _ *check.Event) error {
		_, err := s.flows.Do(ctx, workflows.Act{Tenant: c.as.Tenant, Run: m.execution, Do: do})
		var first *workflow.Decided
		if errors.As(err, &first) && first.Vote.By == tag {
			return nil // by an earlier try that was not answered
		}
		return err
	})
}

// send sends an event.
func (c *caller) send(x wish) {
	e := check.Event{Op: check.EventSent, Tag: x.event}
	ev := engine.RunEvent{ID: uuid.Must(uuid.NewV7()), Tenant: c.as.Tenant, Name: x.event, Payload: []byte("1"), At: c.w.now().UTC().Truncate(time.Microsecond)}
	got := c.askServer(x, e, func(ctx context.Context, s *server, _ *check.Event) error {
		sent, err := s.store.SendEvent(ctx, ev, engine.EventOnce{}, nil)
		if err == nil && !s.hints.lost() {
			s.flows.Advance(sent.Runs...)
		}
		return err
	})
	if got == check.OK {
		c.w.store.sent(c.as.Tenant, x.event)
	}
}

// tend completes what waits for people, after the last fault. Events that were sent are not sent again: their waits
// must have received them.
func (w *world) tend() {
	for i, x := range w.store.waiting() {
		c := &caller{w: w, name: "nemesis", rng: stream(w.seed, "nemesis"), as: local(x.tenant)}
		t := wish{gap: time.Second, try: 20, flowWish: flowWish{act: "unpause"}}
		switch {
		case x.event != "":
			t.event = x.event
			c.send(t)
			continue
		case x.node != "":
			t.act, t.nodes = "approve", []string{x.node}
		}
		c.act(t, made{execution: x.run}, "nemesis"+string(rune('a'+i%26)))
	}
}
