package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// finisher notes what it finishes.
type finisher struct {
	Store
	got []job.ExecutionID
}

func (s *finisher) Finish(_ context.Context, fs []job.Finish) (vs []job.Verdict, err error) {
	for _, f := range fs {
		s.got = append(s.got, f.Outcome.Execution)
		vs = append(vs, job.Verdict{Execution: f.Outcome.Execution, Accepted: true})
	}
	return vs, nil
}

// Nodes of workflows are ended by those who decide what follows; their results are stored also where these cannot.
func TestNodesEndWithWhatFollows(t *testing.T) {
	t.Parallel()
	node := func(n byte) job.ExecutionID { return job.NodeExecutionID([16]byte{15: n}) }
	plain := func(n byte) job.ExecutionID { return job.ExecutionID{6: 0x70, 15: n} }
	all := []job.ExecutionID{plain(1), node(2), plain(3), node(4)}
	var fs []job.Finish
	for _, id := range all {
		fs = append(fs, job.Finish{Outcome: job.Outcome{Lease: job.Lease{Execution: id}}})
	}
	for name, c := range map[string]struct {
		err  error
		want []job.ExecutionID // that the store finishes alone
		fail bool
	}{
		"at once":                {nil, []job.ExecutionID{all[0], all[2]}, false},
		"a run is at fault":      {errors.New("no"), []job.ExecutionID{all[1], all[3], all[0], all[2]}, false},
		"the store is not there": {engine.ErrUnavailable, nil, true},
	} {
		s, decider := &finisher{}, &finisher{}
		d := New(s, clock.System{}, slog.New(slog.DiscardHandler), Config{Nodes: func(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
			if c.err != nil {
				return nil, c.err
			}
			return decider.Finish(ctx, fs)
		}})
		vs, err := d.apply(t.Context(), fs)
		if (err != nil) != c.fail || !slices.Equal(s.got, c.want) {
			t.Errorf("%s: the store finishes %v, want %v; %v", name, s.got, c.want, err)
		}
		for i := range vs {
			if vs[i].Execution != all[i] {
				t.Errorf("%s: the verdict %d is of %v, want %v", name, i, vs[i].Execution, all[i])
			}
		}
		if len(vs) != len(all) && !c.fail {
			t.Errorf("%s: %d verdicts, want %d", name, len(vs), len(all))
		}
	}
}
