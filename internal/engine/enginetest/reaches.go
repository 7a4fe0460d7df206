package enginetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// reaches is about which tenants' callbacks may reach what, and how.
func reaches(t *testing.T, h Harness) {
	f := open(t, h)
	expect := func(want map[tenant.ID]engine.Reach) {
		t.Helper()
		if got := must(f.Reaches(f.ctx)); len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) {
			t.Errorf("reaches: %v, want %v", got, want)
		}
		for _, x := range must(f.Tenants(f.ctx)) {
			if r := want[x.ID]; x.Reach != r.Allow || x.HTTPSOnly != r.HTTPSOnly {
				t.Errorf("%s: %+v, want %+v", x.ID, x, r)
			}
		}
	}
	expect(nil)
	for id, r := range map[tenant.ID]engine.Reach{"a": {Allow: "10.0.0.0/8,fd00::/8"}, "b": {}, "c": {Allow: "192.168.1.0/24", HTTPSOnly: true}} {
		if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: id, Name: string(id), Tier: tenant.Free, CreatedAt: f.now(), Reach: r.Allow, HTTPSOnly: r.HTTPSOnly}, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect(map[tenant.ID]engine.Reach{"a": {Allow: "10.0.0.0/8,fd00::/8"}, "c": {Allow: "192.168.1.0/24", HTTPSOnly: true}})
	for _, x := range []tenant.Tenant{{ID: "a"}, {ID: "b", HTTPSOnly: true}, {ID: "c", Reach: "192.168.1.0/24"}} {
		x.Name, x.Tier = string(x.ID), tenant.Free
		if err := f.UpdateTenant(f.ctx, x, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect(map[tenant.ID]engine.Reach{"b": {HTTPSOnly: true}, "c": {Allow: "192.168.1.0/24"}})
}
