package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// actsOnce is about acts on runs that are asked for with an idempotency key: the change and the answer are stored together, or neither is.
func actsOnce(t *testing.T, h Harness) {
	b := open(t, h).begin(0)
	until := b.now().Add(time.Hour)
	once := engine.Idempotency{Key: "k", Hash: [32]byte{1}, Answer: []byte(`{"n":1}`), Until: until}
	ask := func(of tenant.ID, i engine.Idempotency) engine.Created {
		t.Helper()
		return must(b.Answered(b.ctx, of, i))
	}
	none := engine.Created{}
	if got := ask(tenant.Default, once); !cmp.Equal(got, none) {
		t.Errorf("before the act: %+v", got)
	}
	act := func(state string, i engine.Idempotency) error {
		_, err := b.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, func(engine.RunView) (*engine.RunChange, error) {
			next := b.same()
			next.State, next.Once = []byte(state), i
			return &next, nil
		})
		return err
	}
	stands := func(want string) {
		t.Helper()
		if run := must(b.WorkflowRun(b.ctx, tenant.Default, b.run.ID)); string(run.State) != want {
			t.Errorf("the run is in the state %q; want %q", run.State, want)
		}
	}
	if err := act("first", once); err != nil {
		t.Fatal(err)
	}
	stands("first")
	other := once
	other.Hash = [32]byte{2}
	for name, x := range map[string]struct {
		of   tenant.ID
		once engine.Idempotency
		want engine.Created
	}{
		"the same request":        {tenant.Default, once, engine.Created{Replay: []byte(`{"n":1}`)}},
		"another request":         {tenant.Default, other, engine.Created{Reused: true}},
		"another tenant's":        {"other", once, none},
		"another key":             {tenant.Default, engine.Idempotency{Key: "l", Hash: once.Hash}, none},
		"a request without a key": {tenant.Default, engine.Idempotency{Hash: once.Hash}, none},
	} {
		if got := ask(x.of, x.once); !cmp.Equal(got, x.want) {
			t.Errorf("%s: %+v; want %+v", name, got, x.want)
		}
	}
	for _, i := range []engine.Idempotency{once, other} {
		if err := act("second", i); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("the key is known, and the act: %v; want a conflict", err)
		}
		stands("first")
	}
	if err := act("third", engine.Idempotency{}); err != nil {
		t.Fatal(err)
	}
	stands("third")
}
