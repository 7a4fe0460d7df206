package enginetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// reaches is about which tenants' callbacks may reach what.
func reaches(t *testing.T, h Harness) {
	f := open(t, h)
	expect := func(want map[tenant.ID]string) {
		t.Helper()
		if got := must(f.Reaches(f.ctx)); len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) {
			t.Errorf("reaches: %v, want %v", got, want)
		}
	}
	expect(nil)
	for id, reach := range map[tenant.ID]string{"a": "10.0.0.0/8,fd00::/8", "b": "", "c": "192.168.1.0/24"} {
		if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: id, Name: string(id), Tier: tenant.Free, CreatedAt: f.now(), Reach: reach}); err != nil {
			t.Fatal(err)
		}
	}
	expect(map[tenant.ID]string{"a": "10.0.0.0/8,fd00::/8", "c": "192.168.1.0/24"})
	if err := f.UpdateTenant(f.ctx, tenant.Tenant{ID: "a", Name: "a", Tier: tenant.Free}); err != nil {
		t.Fatal(err)
	}
	expect(map[tenant.ID]string{"c": "192.168.1.0/24"})
}
