package sim

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// linked is for seeds with jobs that depend on others.
func linked(s script) bool { return s.linked }

// Mutants of jobs that depend on others.
func TestMutantsOfEdgesAreFound(t *testing.T) {
	if raced {
		t.Skip("it takes some hundred seeds, and proves nothing about races")
	}
	for _, m := range []struct {
		name   string
		mutant func(engine.Store) engine.Store
	}{
		{"tokens are not consumed", func(s engine.Store) engine.Store { return &insatiable{s} }},
		{"a complete set is consumed, and nothing is fired", func(s engine.Store) engine.Store { return &silent{Store: s} }},
		{"an end is taken, and what it says is not", func(s engine.Store) engine.Store { return &tokenDropper{Store: s} }},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, Options{Mutant: m.mutant}, linked, "edges")
		})
	}
}

// insatiable leaves tokens where they are when they are consumed.
type insatiable struct{ engine.Store }

func (s *insatiable) FoldTokens(ctx context.Context, c engine.Child, decide engine.FoldTokens) (engine.TokensFolded, error) {
	return s.Store.FoldTokens(ctx, c, func(v engine.TokenView) (engine.TokenChange, error) {
		next, err := decide(v)
		next.Tokens = slices.DeleteFunc(slices.Clone(next.Tokens), func(e engine.Edge) bool { return e.Token.IsZero() })
		return next, err
	})
}

// silent drops every fourth firing.
type silent struct {
	engine.Store
	calls atomic.Int64
}

func (s *silent) FoldTokens(ctx context.Context, c engine.Child, decide engine.FoldTokens) (engine.TokensFolded, error) {
	return s.Store.FoldTokens(ctx, c, func(v engine.TokenView) (engine.TokenChange, error) {
		next, err := decide(v)
		if len(next.Start) > 0 && s.calls.Add(1)%4 == 3 {
			next.Start = nil
		}
		return next, err
	})
}

// tokenDropper drops every tenth mark.
type tokenDropper struct {
	engine.Store
	calls atomic.Int64
}

func (s *tokenDropper) FoldTokens(ctx context.Context, c engine.Child, decide engine.FoldTokens) (engine.TokensFolded, error) {
	return s.Store.FoldTokens(ctx, c, func(v engine.TokenView) (engine.TokenChange, error) {
		v.Marks = slices.DeleteFunc(slices.Clone(v.Marks), func(engine.TokenMark) bool { return s.calls.Add(1)%10 == 3 })
		return decide(v)
	})
}
