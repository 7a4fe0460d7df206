package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func traces(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	at := func(of [16]byte, parent string, age time.Duration) engine.Trace {
		return engine.Trace{Tenant: "acme", Of: of, Parent: parent, At: now.Add(-age)}
	}
	keep := func(ts ...engine.Trace) {
		t.Helper()
		if err := f.KeepTraces(f.ctx, ts); err != nil {
			t.Fatal(err)
		}
	}
	find := func(ids ...[16]byte) []engine.Trace {
		t.Helper()
		got := must(f.Traces(f.ctx, ids))
		slices.SortFunc(got, func(a, b engine.Trace) int { return strings.Compare(string(a.Of[:]), string(b.Of[:])) })
		return got
	}
	one, two, old, never := newID(), newID(), newID(), newID()
	const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	keep()
	keep(at(one, second, time.Hour), at(two, second, time.Minute), at(old, first, engine.TracesKept+time.Minute))
	keep(at(one, first, 0), at(one, first, 0)) // replacing what was stored before, and once more
	if d := cmp.Diff([]engine.Trace{at(one, first, 0), at(two, second, time.Minute), at(old, first, engine.TracesKept+time.Minute)}, find(one, two, old, never, one)); d != "" {
		t.Errorf("traces (-want +got):\n%s", d)
	}
	if got := find(); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
	must(f.Tidy(f.ctx))
	if got := find(one, old); len(got) != 1 || got[0].Of != one {
		t.Errorf("after a while: %v", got)
	}
}
