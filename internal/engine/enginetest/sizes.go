package enginetest

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// sizes tests the sizes of the store.
func sizes(t *testing.T, h Harness) {
	f := open(t, h)
	of := func(s engine.Sizes, name string) int64 {
		t.Helper()
		i := slices.IndexFunc(s.Tables, func(x engine.TableSize) bool { return x.Name == name })
		if i < 0 || s.Tables[i].Rows.Estimate || s.Tables[i].Bytes < -1 {
			t.Fatalf("%s: %+v", name, s)
		}
		return s.Tables[i].Rows.Count
	}
	before := must(f.Sizes(f.ctx))
	if before.Bytes <= 0 || before.Free < 0 || before.Free > before.Bytes || len(before.Tables) != len(engine.SizedTables) {
		t.Fatalf("of an empty store: %+v", before)
	}
	for i, name := range engine.SizedTables {
		if before.Tables[i].Name != name || of(before, name) != 0 {
			t.Errorf("%d: %+v, want no rows of %s", i, before.Tables[i], name)
		}
	}
	f.add("a")
	f.add("b")
	after := must(f.Sizes(f.ctx))
	if jobs, live := of(after, "jobs"), of(after, "live"); jobs != 2 || live != 2 {
		t.Errorf("%d jobs and %d live executions, want 2 and 2", jobs, live)
	}
	if after.Bytes < before.Bytes {
		t.Errorf("%d bytes, and before %d", after.Bytes, before.Bytes)
	}
}
