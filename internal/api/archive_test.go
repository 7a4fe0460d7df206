package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The archive answers operators; without one, or with bad input, it says so.
func TestArchive(t *testing.T) {
	f := newFace(t)
	if a := want[client.Archive](f, 200, "GET", "/api/v1/admin/archive", ""); a.Place != "file:/srv/carillon/history" || a.HotDays != 7 || a.Days == nil || a.Error != nil {
		t.Errorf("%+v", a)
	}
	want[client.Archive](f, 202, "POST", "/api/v1/admin/archive/run", "")
	if v := want[client.ArchiveCheck](f, 200, "POST", "/api/v1/admin/archive/verify", `{"after": "executions/x"}`); v.Next != "" || v.Files != 0 || v.Problems == nil {
		t.Errorf("%+v", v)
	}
	if w := f.ask("POST", "/api/v1/admin/archive/verify", `{"after": "../x"}`); w.Code != 422 || !strings.Contains(w.Body.String(), "earlier answer") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	none := newFace(t, func(c *api.Config, _ engine.Store) { c.Archive = nil })
	for _, r := range [][2]string{{"GET", ""}, {"POST", "/run"}, {"POST", "/verify"}} {
		if w := none.ask(r[0], "/api/v1/admin/archive"+r[1], ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "archive.url") {
			t.Errorf("%v: %d: %s", r, w.Code, w.Body)
		}
	}
	idle := newFace(t, func(c *api.Config, _ engine.Store) { c.Archive.Wake = nil })
	if w := idle.ask("POST", "/api/v1/admin/archive/run", ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "scheduler") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
