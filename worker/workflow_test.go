package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/client/workflow"
	"github.com/carillon-jobs/carillon/internal/app/apptest"
	"github.com/carillon-jobs/carillon/worker"
)

type files struct {
	Files []string `json:"files"`
}

// Handlers read results of ancestors, and the items that they run for, from a real server.
func TestHandlersReadTheirWorkflow(t *testing.T) {
	url, stop, err := apptest.Dev()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := client.New([]string{url}, "")
	w := worker.Serve(c, worker.Options{})
	worker.HandleResult(w, "list", func(context.Context, struct{}) (files, error) { return files{[]string{"a", "b", "c"}}, nil })
	worker.HandleResult(w, "load", func(ctx context.Context, _ struct{}) (string, error) {
		file, index, err := worker.ItemOf[string](ctx)
		if err != nil {
			return "", err
		}
		all, err := worker.ResultOf[files](ctx, "list")
		if err != nil || all.Files[index] != file {
			return "", worker.Never(fmt.Errorf("item %d is %q of %v: %w", index, file, all, err))
		}
		return strings.ToUpper(file), nil
	})
	worker.HandleResult(w, "sum", func(ctx context.Context, _ struct{}) (any, error) {
		n, err := worker.NodeOf(ctx)
		if err != nil || n.Node != "sum" || n.Index != nil {
			return nil, worker.Never(fmt.Errorf("the node is %+v: %w", n, err))
		}
		if _, _, err := worker.ItemOf[string](ctx); !errors.Is(err, worker.ErrNoNode) {
			return nil, worker.Never(fmt.Errorf("an item of a node without map: %w", err))
		}
		if _, err := worker.ResultOf[string](ctx, "skipped"); !errors.Is(err, worker.ErrNoResult) {
			return nil, worker.Never(fmt.Errorf("a result of a node that was skipped: %w", err))
		}
		if _, err := worker.ResultOf[string](ctx, "list"); err == nil || worker.Outcome(err).Retryable {
			return nil, worker.Never(fmt.Errorf("an object as a string: %w", err))
		}
		for _, other := range []string{"beside", "clean", "sum", "lost"} {
			if _, err := worker.ResultOf[any](ctx, other); !errors.Is(err, client.ErrInvalid) || worker.Outcome(err).Retryable {
				return nil, worker.Never(fmt.Errorf("the result of %s, which is no ancestor: %w", other, err))
			}
		}
		return worker.ResultOf[[]string](ctx, "load")
	})
	worker.HandleResult(w, "clean", func(ctx context.Context, _ struct{}) (any, error) { return worker.ResultOf[any](ctx, "beside") })
	alone := make(chan error, 1)
	worker.Handle(w, "alone", func(ctx context.Context, _ struct{}) error {
		_, err := worker.ResultOf[any](ctx, "list")
		alone <- err
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	f := workflow.New(client.WorkflowRequest{Name: "reads"})
	none := struct{}{}
	list := f.Node("list", workflow.Handler("list", none))
	load := f.Node("load", workflow.Handler("load", none)).After(list).Map(list.Result("files"))
	skipped := f.Node("skipped", workflow.Handler("list", none)).After(list).If("false")
	f.Node("beside", workflow.Handler("list", none))
	sum := f.Node("sum", workflow.Handler("sum", none)).After(load, skipped).When(workflow.NoneFailed)
	f.Finally("clean", workflow.Handler("clean", none)) // which fails the run if it cannot read what is beside it
	f.Output(sum.Result())
	r, err := f.Request()
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateWorkflow(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := c.TriggerWorkflow(t.Context(), made.WorkflowID, client.WorkflowTrigger{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.WaitForWorkflowRun(t.Context(), begun.WorkflowRunID, nil)
	if want := `["A","B","C"]`; err != nil || run.Status != "SUCCEEDED" || string(run.Output) != want {
		t.Errorf("the run is %s: %s, want %s; %v %+v", run.Status, run.Output, want, err, run.Nodes)
		for _, n := range run.Nodes {
			if n.ExecutionID != nil {
				e, _ := c.Execution(t.Context(), *n.ExecutionID)
				t.Logf("%s: %s %+v", n.Key, n.Status, e.Error)
			}
		}
	}
	if _, err := c.CreateJob(t.Context(), client.JobRequest{Name: "alone", Execution: client.Target{Target: "worker", Kind: "alone"}}); err != nil {
		t.Fatal(err)
	}
	if err := <-alone; !errors.Is(err, worker.ErrNoNode) {
		t.Errorf("in a job that is no node: %v", err)
	}
}

// Only who holds the lease may ask, and learns what a wrong question lacks.
func TestAskingForAWorkflowNeedsTheLease(t *testing.T) {
	url, stop, err := apptest.Dev()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := client.New([]string{url}, "")
	f := workflow.New(client.WorkflowRequest{Name: "asks"})
	first := f.Node("first", workflow.Run(client.Target{Target: "simulate", WorkKind: "noop"}, nil))
	f.Node("second", workflow.Handler("asks", nil)).After(first)
	r, err := f.Request()
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateWorkflow(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TriggerWorkflow(t.Context(), made.WorkflowID, client.WorkflowTrigger{}); err != nil {
		t.Fatal(err)
	}
	register := func() client.Session {
		s, err := c.Register(t.Context(), client.Registration{Kinds: []string{"asks"}, Capacity: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine := register()
	as, err := c.Claim(t.Context(), mine, 1)
	if err != nil || len(as) != 1 {
		t.Fatalf("claimed %d: %v", len(as), err)
	}
	other := register()
	a := as[0]
	ask := client.NodeResultRequest{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Node: "first"}
	if got, err := c.NodeResult(t.Context(), mine, ask); err != nil || got.Status != "SUCCEEDED" || got.Node != "first" || got.Error != nil {
		t.Errorf("the result: %+v, %v", got, err)
	}
	stale, wrong := ask, ask
	stale.FencingToken--
	wrong.ExecutionID = "x"
	for name, x := range map[string]struct {
		s    client.Session
		r    client.NodeResultRequest
		code string
	}{"another worker": {other, ask, "stale_token"}, "an old token": {mine, stale, "stale_token"}, "no id": {mine, wrong, "invalid"}, "no session": {client.Session{WorkerID: mine.WorkerID, Session: "x"}, ask, "not_found"}} {
		var p *client.Problem
		if _, err := c.NodeResult(t.Context(), x.s, x.r); !errors.As(err, &p) || p.Code != x.code {
			t.Errorf("the result for %s: %v, want %s", name, err, x.code)
		}
		if _, err := c.AttemptNode(t.Context(), x.s, client.Held{ExecutionID: x.r.ExecutionID, FencingToken: x.r.FencingToken}); !errors.As(err, &p) || p.Code != x.code {
			t.Errorf("the node for %s: %v, want %s", name, err, x.code)
		}
	}
	if _, err := c.Report(t.Context(), mine, []client.Outcome{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Succeeded}}); err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if _, err := c.NodeResult(t.Context(), mine, ask); !errors.As(err, &p) || p.Code != "stale_token" {
		t.Errorf("after the report: %v", err)
	}
}

// A handler is tested without a server.
func TestAHandlerIsTestedInAWorkflow(t *testing.T) {
	t.Parallel()
	w := worker.Serve(nil, worker.Options{})
	worker.HandleResult(w, "load", func(ctx context.Context, _ any) (string, error) {
		item, index, err := worker.ItemOf[string](ctx)
		if err != nil {
			return "", err
		}
		names, err := worker.ResultOf[[]string](ctx, "names")
		if err != nil {
			return "", err
		}
		if _, err := worker.ResultOf[any](ctx, "other"); !errors.Is(err, worker.ErrNoResult) {
			return "", fmt.Errorf("a result that was not given: %w", err)
		}
		return item + names[index], nil
	})
	a := client.Attempt{ExecutionID: "e", Kind: "load"}
	ctx := worker.InWorkflow(t.Context(), a, client.AttemptNode{Node: "load", Index: new(1), Item: []byte(`"of "`)}, map[string]any{"names": []string{"Ann", "Bob"}})
	if out := w.Execute(ctx, a); out.Status != client.Succeeded || !slices.Equal(out.Result, []byte(`"of Bob"`)) {
		t.Errorf("the outcome is %+v", out)
	}
	if out := w.Execute(t.Context(), a); out.Error == nil || !strings.Contains(out.Error.Message, worker.ErrNoNode.Error()) {
		t.Errorf("out of a workflow: %+v", out)
	}
}
