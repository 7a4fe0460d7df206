package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// layers is a store of workflows in layers: each workflow of a layer uses all of the next one.
type layers struct {
	Store
	width, depth int
}

func layerID(layer, i int) (id job.ID) {
	binary.BigEndian.PutUint32(id[:], uint32(layer+1))
	binary.BigEndian.PutUint32(id[4:], uint32(i+1))
	return id
}

func (l *layers) of(id job.ID) int { return int(binary.BigEndian.Uint32(id[:])) - 1 }

func (l *layers) layer(n int) (ids []job.ID) {
	for i := range l.width {
		if n >= 0 && n < l.depth {
			ids = append(ids, layerID(n, i))
		}
	}
	return ids
}

func (l *layers) Job(_ context.Context, _ tenant.ID, r engine.Ref) (j job.Job, err error) {
	j.ID, j.Name, j.Target.Kind = r.ID, "w", job.Workflow
	return j, nil
}

func (l *layers) WorkflowVersion(_ context.Context, _ tenant.ID, id job.ID, _ int) (v engine.WorkflowVersion, err error) {
	v.Jobs = l.layer(l.of(id) + 1)
	return v, nil
}

func (l *layers) WorkflowUsers(_ context.Context, _ tenant.ID, id job.ID) (by []engine.WorkflowUser, err error) {
	for _, id := range l.layer(l.of(id) - 1) {
		by = append(by, engine.WorkflowUser{ID: id})
	}
	return by, nil
}

// stepped counts how often somebody asks whether to go on; after so many times the answer is no.
type stepped struct {
	context.Context
	steps, most int
}

func (c *stepped) Err() error {
	if c.steps++; c.most > 0 && c.steps > c.most {
		return context.Canceled
	}
	return nil
}

func checkLayers(t *testing.T, l *layers, at int, ctx context.Context) error {
	t.Helper()
	u := &uses{s: &shared{store: l}, ctx: ctx, seen: map[job.ID]*used{}, of: map[string]*used{}}
	j, _ := l.Job(ctx, "", engine.Ref{ID: layerID(at, 0)})
	self := u.keep(j, l.layer(at+1))
	self.known = true
	return u.check(self)
}

// Each edge between workflows that use each other is followed a few times at most, however many workflows are above.
func TestUsesAreFollowedOnce(t *testing.T) {
	const width, depth = 30, 6
	ctx := &stepped{Context: t.Context()}
	if err := checkLayers(t, &layers{width: width, depth: depth}, 3, ctx); err != nil {
		t.Fatal(err)
	}
	if edges := depth * width * width; ctx.steps == 0 || ctx.steps > 2*edges {
		t.Errorf("%d steps for %d edges", ctx.steps, edges)
	}
	for _, most := range []int{1, 100, 900} {
		if err := checkLayers(t, &layers{width: width, depth: depth}, 3, &stepped{Context: t.Context(), most: most}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d steps: %v", most, err)
		}
	}
}

func TestUsesAreBounded(t *testing.T) {
	for _, at := range []int{0, 3} { // of those below, and of those above
		err := checkLayers(t, &layers{width: 101, depth: 4}, at, t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more than %d uses", engine.MaxAbove)) {
			t.Errorf("from layer %d: %v", at, err)
		}
	}
	for _, at := range []int{0, 4, workflow.MaxNesting} {
		err := checkLayers(t, &layers{width: 3, depth: workflow.MaxNesting + 1}, at, t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("nested %d deep", workflow.MaxNesting+1)) {
			t.Errorf("from layer %d: %v", at, err)
		}
		if err := checkLayers(t, &layers{width: 3, depth: workflow.MaxNesting}, min(at, workflow.MaxNesting-1), t.Context()); err != nil {
			t.Errorf("from layer %d: %v", at, err)
		}
	}
}
