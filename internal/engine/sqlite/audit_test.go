package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What is old enough goes, however much it is, and a chain goes on behind what went.
func TestOldSealsGo(t *testing.T) {
	b := newBench(t)
	put := func(of tenant.ID) {
		t.Helper()
		if err := b.Record(t.Context(), audit.Entry{Tenant: of, At: b.clock.Now(), Action: "a", Count: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.SealAudit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seals := func(of tenant.ID) []engine.Sealed {
		t.Helper()
		all, err := b.AuditSeals(t.Context(), of, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for range 25 {
		put("busy")
	}
	put("idle")
	b.clock.Advance(engine.AuditLife + time.Hour)
	put("busy")
	for more := true; more; {
		var err error
		if more, err = b.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := seals("busy"); len(got) != 1 || got[0].Number != 26 || len(got[0].Entries) != 1 {
		t.Errorf("busy: %+v", got)
	}
	put("idle")
	got := seals("idle")
	if len(got) != 2 || got[0].Number != 1 || got[1].Number != 2 {
		t.Fatalf("idle: %+v", got)
	}
	if broken := audit.Verify(got[0].Seal, got[1].Seal, got[1].Entries); broken != nil {
		t.Error(broken)
	}
}
