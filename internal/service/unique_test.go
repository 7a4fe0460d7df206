package service

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Others take unique keys while a batch is on its way: it gives way, one after the other, and ends.
func TestABatchGivesWay(t *testing.T) {
	holder := func(n byte) engine.Incumbent {
		return engine.Incumbent{Key: fmt.Sprint(n), Job: job.ID{n}, Execution: job.ExecutionID{n}}
	}
	rounds := byte(0)
	var stored []job.Job
	kept := ""
	store := fakeStore{create: func(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
		rounds++
		if rounds < maxRounds {
			return []engine.Created{{Unique: []engine.Incumbent{holder(rounds)}}}, nil
		}
		stored, kept = cs[0].Jobs, string(cs[0].Idempotency.Answer)
		return make([]engine.Created, 1), nil
	}}
	hinted := 0
	s := New(store, clock.System{}, Config{Hint: func(rs []job.Ready) { hinted += len(rs) }})
	var defs []job.Definition
	for n := range 6 {
		d := noop()
		d.UniqueKey = fmt.Sprint(n + 1)
		defs = append(defs, d)
	}
	once := Once[[]NewJob]{Key: "k", Encode: func(made []NewJob) []byte { return fmt.Appendf(nil, "%v", made[0].Execution) }}
	made, _, err := s.CreateJobs(t.Context(), tenant.Local(), defs, once)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range made {
		if gave := i < maxRounds-1; m.Instead != gave || gave && (m.Job.ID != job.ID{byte(i + 1)} || m.Execution != job.ExecutionID{byte(i + 1)}) {
			t.Errorf("%d: %+v", i, m)
		}
	}
	if len(stored) != 2 || hinted != 2 || stored[0].ID != made[4].Job.ID || kept != made[0].Execution.String() {
		t.Errorf("%d stored, %d hinted, kept %s", len(stored), hinted, kept)
	}
	rounds = 0
	store.create = func(context.Context, []engine.Creation) ([]engine.Created, error) {
		rounds++
		return []engine.Created{{Unique: []engine.Incumbent{holder(rounds)}}}, nil
	}
	s = New(store, clock.System{}, Config{})
	if _, _, err := s.CreateJobs(t.Context(), tenant.Local(), defs, Once[[]NewJob]{}); !errors.Is(err, engine.ErrConflict) || rounds != maxRounds {
		t.Errorf("without an end: %v after %d rounds", err, rounds)
	}
}
