package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// canned is a server whose answers are files, and a clock that stands still.
func canned(t *testing.T) *console {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1"), "/"), "/", "_")
		name = strings.ReplaceAll(name, ":", "_")
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
		{"execution", "list", "--query", "report", "-o", "name"},
		{"execution", "explain", execution1},
		{"audit", "tail", "-o", "wide"},
		{"audit", "verify"},
		{"job", "bulk", "pause", "--tag", "reports", "--dry-run"},
		{"dlq", "list"},
		{"workers", "list"},
		{"queue", "list"},
		{"queue", "list", "-o", "wide"},
		{"forecast"},
		{"top", "--once"},
	} {
		name := strings.NewReplacer(job1, "JOB", execution1, "EXECUTION").Replace(strings.Join(args, " "))
		t.Run(name, func(t *testing.T) {
			c.T = t
			got := c.ok(args...) + "\n"
			got = strings.ReplaceAll(got, strings.TrimPrefix(c.at[1], "http://"), "SERVER")
			golden(t, strings.ReplaceAll(name, " ", "_")+".golden", got)
			if strings.ContainsAny(got, "\x1b\u202e") {
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

func TestRatesAreOverAWhile(t *testing.T) {
	began := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var w watch
	var p picture
	for i := range 30 { // a worker that ends ten a second, and says so every ten seconds
		p = picture{at: began.Add(time.Duration(i) * time.Second), rates: p.rates, workers: []client.Worker{{WorkerID: "a", Completed: int64(i/10) * 100, Failed: int64(i / 10)}, {WorkerID: fmt.Sprint("new", i), Completed: 1000}}}
		w.count(&p)
	}
	last := p.rates[len(p.rates)-1]
	if len(p.rates) != 29 || last.done < 5 || last.done > 14 || last.failed < 0.05 || last.failed > 0.14 {
		t.Errorf("%d rates, the last %+v", len(p.rates), last)
	}
	if len(w.past) > 17 {
		t.Errorf("%d tallies are kept", len(w.past))
	}
	if got := spark([]int64{0, 1, 4, 8}, 3); got != "▁▄█" {
		t.Errorf("%q", got)
	}
}
