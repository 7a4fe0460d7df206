package api_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Whatever is sent to whatever route, the answer is never a 5xx, and tells what is wrong: bodies of the worker protocol,
// filters, cursors, tokens of callbacks.
func FuzzRoutes(f *testing.F) {
	c := newCorpus(f)
	paths := make([]string, len(c.table))
	for i, r := range c.table {
		paths[i], _ = c.path(r)
		f.Add(uint8(i), strings.Join(r.Params, "=1&"), r.Sample, "1")
	}
	f.Add(uint8(0), "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&limit=5", "", "x")
	f.Fuzz(func(t *testing.T, route uint8, query, body, header string) {
		i := int(route) % len(c.table)
		r, path := c.table[i], paths[i]
		role := tenant.Admin
		switch r.Needs {
		case tenant.Work:
			role = tenant.Worker
		case tenant.Run, tenant.Scale:
			role = tenant.System
		}
		q := made{route: r, method: r.Method, target: path + "?" + query, body: body, headers: map[string]string{"Authorization": c.keys[mine][role], "X-Worker-Session": c.worker.Session}}
		for _, name := range []string{"If-Match", "Last-Event-ID", "X-Idempotency-Key"} {
			q.headers[name] = header
		}
		if r.Needs == tenant.Callback {
			q.headers["Authorization"] = "Bearer " + header
		}
		w, waited := c.send(q)
		if waited && w.Code == 200 {
			return
		}
		if bad := c.judge(q, w); bad != "" {
			t.Errorf("%s\n%s\n\n%d %v\n%s", bad, q, w.Code, w.Header(), w.Body)
		}
	})
}

// Whatever texts executions hold, an export is a table with one row, in which they stand, and none of which a spreadsheet
// takes for a formula.
func FuzzExport(f *testing.F) {
	f.Add("a job", "=1+1", `{"a": 1}`)
	f.Add("\"quoted\"\r\n", "\x00\xff", "")
	f.Add("-2", "@x", "\t")
	f.Fuzz(func(t *testing.T, name, message, result string) {
		e := client.Execution{ExecutionID: "e", JobID: "j", JobName: name, Status: "FAILED", ScheduledTime: time.Unix(0, 0).UTC(), DueAt: time.Unix(0, 0).UTC(), Error: &client.Error{Type: "HTTP_ERROR", Message: message}}
		if json.Valid([]byte(result)) {
			e.Result = json.RawMessage(result)
		}
		out := func(format string) []byte {
			var b bytes.Buffer
			if err := api.Export(format, &b, []client.Execution{e}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			return b.Bytes()
		}
		rows, err := csv.NewReader(bytes.NewReader(out("csv"))).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("csv: %v, %v", rows, err)
		}
		for i, cell := range rows[1] {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
				t.Errorf("%s begins a formula: %q", rows[0][i], cell)
			}
		}
		if lines := strings.Count(strings.TrimSuffix(string(out("jsonl")), "\n"), "\n"); lines != 0 {
			t.Errorf("jsonl: %d lines more", lines)
		}
		file := out("parquet")
		got, err := parquet.Read[struct {
			JobName      string  `parquet:"job_name"`
			ErrorMessage *string `parquet:"error_message,optional"`
		}](bytes.NewReader(file), int64(len(file)))
		if err != nil || len(got) != 1 || got[0].JobName != name || *got[0].ErrorMessage != message {
			t.Errorf("parquet: %+v, %v", got, err)
		}
	})
}
