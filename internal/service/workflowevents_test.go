package service

import (
	"context"
	"testing"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// sending is a store that sends events as the test says.
type sending struct {
	keeping
	send func(ctx context.Context) error
}

func (s sending) SendEvent(ctx context.Context, ev engine.RunEvent, _ engine.EventOnce, _ *audit.Entry) (engine.SentEvent, error) {
	return engine.SentEvent{ID: ev.ID}, s.send(ctx)
}

// asking is a store with approvals that runs wait for, and without the definitions of workflows.
type asking struct {
	keeping
	open []engine.OpenApproval
}

func (a asking) Approvals(context.Context, tenant.ID, int) ([]engine.OpenApproval, error) {
	return a.open, nil
}

func (a asking) Names(context.Context, tenant.ID, []job.ID) (map[job.ID]string, error) {
	return map[job.ID]string{{1}: "w"}, nil
}

// A list of approvals needs no graph: what it shows is stored with the waits.
func TestApprovalsNeedNoGraph(t *testing.T) {
	p := tenant.Local()
	of := func(asks, voters string) engine.OpenApproval {
		return engine.OpenApproval{RunWait: engine.RunWait{Asks: []byte(asks), Schema: []byte("{}"), Voters: []byte(voters)}, Workflow: job.ID{1}, Version: 1}
	}
	s := New(asking{open: []engine.OpenApproval{
		of(`{"key":"mine","roles":["operator"],"min":3}`, `["ann","bob"]`), of(`{"key":"voted","min":2}`, `["`+p.Who()+`"]`), of(`{"key":"other"}`, ""),
	}}, clock.System{}, Config{})
	got, err := s.FindApprovals(t.Context(), p)
	if err != nil || len(got) != 2 || got[1].Key != "other" {
		t.Fatalf("approvals: %+v, %v", got, err)
	}
	if a := got[0]; a.Key != "mine" || a.Name != "w" || a.Approved != 2 || a.Approval.Min != 3 || string(a.Approval.Schema) != "{}" || len(a.Approval.Roles) != 1 {
		t.Errorf("the first: %+v", a)
	}
	p.Role = tenant.Viewer
	if got, err := s.FindApprovals(t.Context(), p); err != nil || len(got) != 0 {
		t.Errorf("what a viewer may decide: %+v, %v", got, err)
	}
}

// An event wakes all runs that wait for it also if whoever sent it does not wait for the answer.
func TestAnEventOutlivesItsRequest(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	s := New(sending{send: func(ctx context.Context) error {
		leave()
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("it may take for ever")
		}
		return ctx.Err()
	}}, clock.System{}, Config{})
	if _, _, err := s.SendEvent(ctx, tenant.Local(), "paid", nil, nil, false, Once[EventSent]{}); err != nil {
		t.Errorf("its client left: %v", err)
	}
}
