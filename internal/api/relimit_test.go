package api_test

import (
	"context"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A request may change the limits of a job with waiting executions.
func TestLimitsOfAJobThatWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(func(c *api.Config, _ engine.Store) {
			c.Authenticate = func(context.Context, string, string) (tenant.Principal, error) {
				return tenant.Principal{Tenant: tenant.Default, Role: tenant.Operator}, nil // who stands in front of the second wall
			}
		})
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "a", "max_concurrent": 1, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		path := "/api/v1/jobs/" + j.JobID
		want[client.Triggered](f, 202, "POST", path+"/trigger", "")
		if got := want[client.Job](f, 200, "PATCH", path, `{"max_concurrent": 3}`); got.MaxConcurrent == nil || *got.MaxConcurrent != 3 {
			t.Errorf("max_concurrent is %v", got.MaxConcurrent)
		}
		want[client.Job](f, 200, "POST", path+"/pause", "")
		want[client.Job](f, 200, "POST", path+"/resume", "")
	})
}
