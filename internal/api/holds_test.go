package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

func TestHolds(t *testing.T) {
	m := newMatrix(t)
	by := func(of tenant.ID, role tenant.Role) []string { return []string{"Authorization", m.keys[of][role]} }
	system := []string{"Authorization", m.system}
	j := want[client.Job](m.face, 201, "POST", "/api/v1/jobs", noop, by(mine, tenant.Admin)...)
	body := fmt.Sprintf(`{"job_id": %q, "reason": "Case 1"}`, j.JobID)
	h := want[client.Hold](m.face, 200, "PUT", "/api/v1/holds", body, by(mine, tenant.Admin)...)
	if h.JobID == nil || *h.JobID != j.JobID || h.TenantID != string(mine) || h.Reason != "Case 1" || h.By == "" {
		t.Errorf("%+v", h)
	}
	if again := want[client.Hold](m.face, 200, "PUT", "/api/v1/holds", body, by(mine, tenant.Admin)...); again.HoldID != h.HoldID {
		t.Errorf("the same hold again is %+v", again)
	}
	p := want[client.Problem](m.face, 409, "DELETE", "/api/v1/jobs/"+j.JobID, "", by(mine, tenant.Admin)...)
	if p.Code != "held" || !strings.Contains(p.Detail, h.HoldID) || !strings.Contains(p.Detail, "Case 1") {
		t.Errorf("deleting the job: %+v", p)
	}

	whole := fmt.Sprintf(`{"tenant_id": %q, "reason": "Case 2"}`, mine)
	want[client.Problem](m.face, 403, "PUT", "/api/v1/holds", whole, by(mine, tenant.Admin)...)
	want[client.Problem](m.face, 403, "PUT", "/api/v1/holds", body, by(mine, tenant.Operator)...)
	all := want[client.Hold](m.face, 200, "PUT", "/api/v1/holds", whole, system...)
	if all.JobID != nil || all.TenantID != string(mine) {
		t.Errorf("%+v", all)
	}
	if got := want[client.Holds](m.face, 200, "GET", "/api/v1/holds", "", by(mine, tenant.Viewer)...); got.Pagination.Total != 3 { // and that of the matrix
		t.Errorf("listed: %+v", got)
	}
	want[client.Problem](m.face, 403, "DELETE", "/api/v1/holds/"+all.HoldID, "", by(mine, tenant.Admin)...)
	want[client.Hold](m.face, 200, "DELETE", "/api/v1/holds/"+all.HoldID, "", append(system, "X-Tenant-ID", string(mine))...)

	// Another tenant neither holds, sees nor ends anything here.
	want[client.Problem](m.face, 422, "PUT", "/api/v1/holds", body, by(other, tenant.Admin)...)
	want[client.Problem](m.face, 404, "DELETE", "/api/v1/holds/"+h.HoldID, "", by(other, tenant.Admin)...)
	if got := want[client.Holds](m.face, 200, "GET", "/api/v1/holds", "", by(other, tenant.Admin)...); len(got.Holds) != 0 {
		t.Errorf("another tenant sees %+v", got)
	}
	for wrong, field := range map[string]string{
		`{"reason": "x"}`: "job_id", `{"job_id": "key:nothing", "reason": "x"}`: "job_id", `{"tenant_id": "nobody", "reason": "x"}`: "tenant_id",
		fmt.Sprintf(`{"job_id": %q, "tenant_id": "mine", "reason": "x"}`, j.JobID): "job_id", fmt.Sprintf(`{"job_id": %q, "reason": " "}`, j.JobID): "reason",
	} {
		if p := want[client.Problem](m.face, 422, "PUT", "/api/v1/holds", wrong, append(system, "X-Tenant-ID", string(mine))...); len(p.Errors) == 0 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", wrong, p)
		}
	}
	want[client.Hold](m.face, 200, "DELETE", "/api/v1/holds/"+h.HoldID, "", by(mine, tenant.Admin)...)
	want[client.Job](m.face, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "", by(mine, tenant.Admin)...)
}
