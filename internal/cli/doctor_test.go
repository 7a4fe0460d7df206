package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// The doctor repeats what the overview found about schedules and delays, and leaves the rest to its own checks.
func TestTheDoctorRepeatsTheOverview(t *testing.T) {
	found := []client.Finding{{About: "schedules", Health: "ok", Text: "all 5 schedules on time"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/overview" {
			_ = json.NewEncoder(w).Encode(client.Overview{Findings: found})
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	doctor := func() string {
		var out, err strings.Builder
		Main([]string{"doctor", "--server", server.URL, "--data", t.TempDir()}, &out, &err)
		return out.String()
	}
	if got := doctor(); !strings.Contains(got, "ok       schedules: all 5 schedules on time") {
		t.Errorf("on time:\n%s", got)
	}
	found = []client.Finding{
		{About: "schedules", Health: "warning", Text: "2 of 5 schedules late"}, {About: "delays", Health: "critical", Text: "p99 delay 40 s"}, {About: "delays", Health: "ok", Text: "p50"}, {About: "failures", Health: "warning", Text: "3 jobs failing"},
	}
	got := doctor()
	for text, want := range map[string]bool{"warning  schedules: 2 of 5 schedules late": true, "warning  delays: p99 delay 40 s": true, "job list --late": true, "3 jobs failing": false, "p50": false} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q: want %v in\n%s", text, want, got)
		}
	}
}
