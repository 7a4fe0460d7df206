package api_test

import (
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestSizes(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open()
		want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		s := want[client.StoreSizes](f, 200, "GET", "/api/v1/admin/sizes", "")
		if s.Bytes <= 0 || len(s.Tables) != len(engine.SizedTables) || s.Tables[0].Name != "jobs" || s.Tables[0].Rows != 1 {
			t.Errorf("%+v", s)
		}
		want[client.Problem](f, 400, "GET", "/api/v1/admin/sizes?x=1", "")
	})
}
