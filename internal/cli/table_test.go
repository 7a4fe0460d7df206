package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canned is a server whose answers are files, and a clock that stands still.
func canned(t *testing.T) *console {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1"), "/"), "/", "_")
		data, err := os.ReadFile(filepath.Join("testdata", "api", name+".json"))
		if err != nil {
			w.WriteHeader(404)
			io.WriteString(w, `{"status": 404, "code": "not_found", "detail": "There is no such thing.", "request_id": "r-1"}`)
			return
		}
		w.Header().Set("Date", "Sat, 31 Jan 2026 12:00:00 GMT")
		w.Write(data)
	}))
	t.Cleanup(s.Close)
	c := at(t, "--server", s.URL)
	c.now = func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }
	return c
}

const (
	job1       = "0190a6c8-7b3e-7cc0-8a1b-000000000001"
	execution1 = "0190a6c8-7b3e-7cc0-8a1b-0000000000e1"
)

func TestTables(t *testing.T) {
	c := canned(t)
	for _, args := range [][]string{
		{"job", "list"},
		{"job", "list", "-o", "wide"},
		{"job", "list", "-o", "name"},
		{"job", "list", "-o", "jsonl"},
		{"job", "get", job1},
		{"job", "get", job1, "-o", "yaml"},
		{"job", "get", job1, "-o", "json"},
		{"execution", "list", "--job", job1},
		{"execution", "list", "--job", job1, "-o", "wide"},
		{"execution", "get", execution1},
		{"execution", "timeline", execution1, "-o", "wide"},
		{"dlq", "list"},
		{"workers", "list"},
		{"queue", "list"},
		{"forecast"},
		{"top", "--once"},
	} {
		name := strings.NewReplacer(job1, "JOB", execution1, "EXECUTION").Replace(strings.Join(args, " "))
		t.Run(name, func(t *testing.T) {
			c.T = t
			got := c.ok(args...) + "\n"
			got = strings.ReplaceAll(got, strings.TrimPrefix(c.at[1], "http://"), "SERVER")
			golden(t, strings.ReplaceAll(name, " ", "_")+".golden", got)
			if strings.ContainsAny(got, "\x1b\u202e") && !strings.Contains(name, "json") {
				t.Errorf("control characters reach the terminal:\n%q", got)
			}
		})
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	if got := canned(t).ok("job", "list"); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
