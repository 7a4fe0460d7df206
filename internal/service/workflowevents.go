package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxMatch bounds what an event carries to be compared, in bytes of JSON.
const maxMatch = 4096

// eventRuns bounds the runs that a dry run of an event lists.
const eventRuns = 10_000

// releasedAtOnce bounds the runs that continue before an event is answered; the others continue right after.
const releasedAtOnce = 100

// sendTime bounds how long one request wakes runs that wait for an event; the sweep wakes the others.
const sendTime = 30 * time.Second

// EventSent tells what came of an event.
type EventSent struct {
	ID   [16]byte          // zero: of a dry run
	Runs []job.ExecutionID // that waited for it
}

// SendEvent sends an event to the runs that wait for it, and to those that begin to wait within a day.
func (s *WorkflowRuns) SendEvent(ctx context.Context, p tenant.Principal, name string, match, payload []byte, dry bool, once Once[EventSent]) (out EventSent, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return out, nil, err
	}
	var v job.Invalids
	if !workflow.ValidEvent(name) {
		v.Add("event", name, workflow.WantEvent)
	}
	told, err := workflow.EventMatch(match)
	if err != nil || len(told) > maxMatch {
		v.Add("match", string(match), fmt.Sprintf("a JSON value of at most %d bytes", maxMatch))
	}
	if f := workflow.CheckResult(payload); f != nil {
		v.Add("payload", fmt.Sprintf("%d bytes", len(payload)), fmt.Sprintf("at most %d bytes", workflow.MaxValue))
	}
	if len(v) > 0 {
		return out, nil, v
	}
	if err := s.valueFits(ctx, p, "payload", payload); err != nil {
		return out, nil, err
	}
	if dry {
		out.Runs, err = s.store.EventWaits(ctx, p.Tenant, name, told, eventRuns)
		return out, nil, err
	}
	if err := s.jobs.beginOne(ctx, p); err != nil {
		return out, nil, err
	}
	leave, err := s.enter()
	if err != nil {
		return out, nil, err
	}
	defer leave()
	detail := detail{After: fields{"match": digest(told), "payload": digest(payload)}}
	ev := engine.RunEvent{ID: newID(), Tenant: p.Tenant, Name: name, Match: told, Payload: payload, At: s.now()}
	// Whoever sends the event may leave, but the runs that wait for it are woken at once, not when the sweep finds it.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	sent, err := s.store.SendEvent(whole, ev, engine.EventOnce{
		Idempotency: engine.Idempotency{Key: once.Key, Hash: once.Hash, Until: ev.At.Add(keyLife)},
		Make:        func(id [16]byte, runs []job.ExecutionID) []byte { return once.Encode(EventSent{id, runs}) },
	}, s.audited(p, "event.send", name, detail))
	if err != nil {
		return out, nil, err
	}
	if replay, err := outcome(sent.Created); replay != nil || err != nil {
		return out, replay, err
	}
	out = EventSent{sent.ID, sent.Runs}
	for i, run := range out.Runs {
		if i >= releasedAtOnce || s.runner.Settle(ctx, p.Tenant, run) != nil {
			s.runner.Advance(run)
		}
	}
	return out, nil, nil
}

// OpenApproval is a decision that a run waits for.
type OpenApproval struct {
	engine.OpenApproval
	Name     string // of the workflow
	Key      string // of the node
	Approval workflow.Approval
	Approved int // how many have approved
}

// approvalsAtOnce bounds the approvals of a tenant that are looked through for those that somebody may decide.
const approvalsAtOnce = 5000

// FindApprovals lists the decisions that runs wait for and that the caller may make, the oldest first.
func (s *WorkflowRuns) FindApprovals(ctx context.Context, p tenant.Principal) (out []OpenApproval, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	waits, err := s.store.Approvals(ctx, p.Tenant, approvalsAtOnce)
	if err != nil {
		return nil, err
	}
	var ids []job.ID
	for _, w := range waits {
		var asked workflow.Asked
		if err := json.Unmarshal(w.Asks, &asked); err != nil {
			return nil, fmt.Errorf("read who is asked to decide in run %v: %w", w.Run, err)
		}
		x := OpenApproval{OpenApproval: w, Key: asked.Key, Approval: workflow.Approval{Roles: asked.Roles, Min: asked.Min, Schema: w.Schema}}
		if !x.Approval.MayVote(p.Role) {
			continue
		}
		if len(w.Voters) > 0 {
			var voters []string
			if err := json.Unmarshal(w.Voters, &voters); err != nil {
				return nil, fmt.Errorf("read who has voted in run %v: %w", w.Run, err)
			}
			if slices.Contains(voters, p.Who()) {
				continue // others are asked
			}
			x.Approved = len(voters)
		}
		out, ids = append(out, x), append(ids, w.Workflow)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	names, err := s.store.Names(ctx, p.Tenant, slices.Compact(ids))
	for i := range out {
		out[i].Name = names[out[i].Workflow]
	}
	return out, err
}
