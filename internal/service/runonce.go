package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// runOnce does something to a run, unless a request with the same idempotency key has done it.
//
// The answer shows the run, which is read after the commit. So the commit claims the key with a draft, the changes; the answer replaces it. If
// whoever did it died in between, the next request with the key makes the answer, and does what was to come after the commit.
type runOnce struct {
	needs tenant.Permission
	run   job.ExecutionID
	dry   bool // changes nothing, and claims no key
	once  Once[RunChanged]
	do    func(workflows.Once) (RunChanged, error)
	then  func(RunChanged) error // after the commit; may be repeated; nil: nothing
}

// onceOf does it, or finds the answer.
func (s *WorkflowRuns) onceOf(ctx context.Context, p tenant.Principal, x runOnce) (out RunChanged, replay []byte, err error) {
	if err := allow(p, x.needs); err != nil {
		return out, nil, err
	}
	if x.dry || x.once.Key == "" {
		if out, err = x.do(nil); err == nil && !x.dry && x.then != nil {
			err = x.then(out)
		}
		return out, nil, err
	}
	claim := engine.Idempotency{Key: x.once.Key, Hash: x.once.Hash, Until: s.now().Add(keyLife)}
	known, err := s.drafted(ctx, p, claim)
	if err != nil {
		return out, nil, err
	}
	if known != nil {
		return s.answer(ctx, p, x, claim, out, known)
	}
	out, err = x.do(func(_ *engine.RunChange, changes []workflow.Change) engine.Idempotency {
		claim.Answer = drafting(changes)
		return claim
	})
	if err == nil {
		return s.answer(ctx, p, x, claim, out, nil)
	}
	// Another may have done it meanwhile, or this one, if only reading the run failed.
	known, again := s.drafted(ctx, p, claim)
	switch {
	case errors.Is(again, ErrKeyReused):
		return out, nil, again
	case known == nil:
		return out, nil, err
	}
	return s.answer(ctx, p, x, claim, out, known)
}

// drafted finds the draft or the answer of an earlier request.
func (s *WorkflowRuns) drafted(ctx context.Context, p tenant.Principal, i engine.Idempotency) ([]byte, error) {
	got, err := s.store.Answered(ctx, p.Tenant, i)
	if err != nil {
		return nil, err
	}
	return outcome(got)
}

// drafting is the draft of an answer.
func drafting(changes []workflow.Change) []byte {
	doc, _ := json.Marshal(changes) // of strings and numbers
	return engine.Draft(doc)
}

// answer answers a request whose act is done: with the known answer or, where that is missing or a draft, with one that it stores.
func (s *WorkflowRuns) answer(ctx context.Context, p tenant.Principal, x runOnce, claim engine.Idempotency, out RunChanged, known []byte) (_ RunChanged, replay []byte, err error) {
	if known != nil {
		doc, is := engine.DraftOf(known)
		if !is {
			return out, known, nil
		}
		claim.Answer = known
		if err := json.Unmarshal(doc, &out.Changes); err != nil {
			return out, nil, fmt.Errorf("read the draft of an answer: %w", err)
		}
		if out.Run, err = s.WorkflowRun(ctx, p, x.run); err != nil {
			return out, nil, err
		}
	}
	if x.then != nil {
		if err := x.then(out); err != nil {
			return out, nil, err
		}
	}
	made := claim
	made.Answer = x.once.Encode(out)
	counts, err := s.store.Answer(ctx, p.Tenant, made, claim.Answer)
	if err != nil {
		return out, nil, err
	}
	if !bytes.Equal(counts, made.Answer) {
		return out, counts, nil
	}
	return out, nil, nil
}
