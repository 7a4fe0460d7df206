package postgres

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What is old enough goes, however much it is, and a chain goes on behind what went.
func TestOldSealsGo(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	put := func(of tenant.ID) {
		t.Helper()
		if err := s.Record(t.Context(), audit.Entry{Tenant: of, At: time.Now(), Action: "a", Count: 1}); err != nil {
			t.Fatal(err)
		}
		for left := int64(1); left > 0; {
			var err error
			if _, err = s.SealAudit(t.Context()); err == nil {
				left, err = s.Unsealed(t.Context(), of)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	seals := func(of tenant.ID) []engine.Sealed {
		t.Helper()
		all, err := s.AuditSeals(t.Context(), of, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for range 2*engine.TidiedSeals + 5 {
		put("busy")
	}
	put("idle")
	exec(t, direct(t, s), "UPDATE audit_seals SET sealed_at = sealed_at - interval '366 days'")
	put("busy")
	for more := true; more; {
		var err error
		if more, err = s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := seals("busy"); len(got) != 1 || got[0].Number != 2*engine.TidiedSeals+6 || len(got[0].Entries) != 1 {
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
