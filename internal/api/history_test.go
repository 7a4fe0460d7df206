package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

type newFaces = func(...func(*api.Config, engine.Store)) face

// evil is a name that a spreadsheet would take for a formula.
const evil = `=HYPERLINK("http://x")`

// ran makes a job of each kind: one that failed, one that was cancelled and one that waits.
func ran(f face) (failed, cancelled, waits client.Job) {
	f.Helper()
	failed = want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": %q, "tags": ["mail"], "execution": {"target": "simulate", "work_kind": "noop"}}`, evil))
	f.fails(failed.ExecutionID)
	cancelled = want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	want[client.Execution](f, 202, "POST", "/api/v1/executions/"+cancelled.ExecutionID+"/cancel", `{"reason": "+1, not needed"}`)
	waits = want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "waits", "key": "w", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	return failed, cancelled, waits
}

func TestSearchExecutionsOverHTTP(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		failed, cancelled, waits := ran(f)
		triggered := want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+waits.JobID+"/trigger", "")
		all := []string{triggered.ExecutionID, waits.ExecutionID, cancelled.ExecutionID, failed.ExecutionID}
		for query, expected := range map[string][]string{
			"":                           all,
			"status=failed":              {failed.ExecutionID},
			"status=Failed,cancelled":    {cancelled.ExecutionID, failed.ExecutionID},
			"status=pending":             {triggered.ExecutionID, waits.ExecutionID},
			"trigger=manual":             {triggered.ExecutionID},
			"job_id=" + waits.JobID:      {triggered.ExecutionID, waits.ExecutionID},
			"job_id=key:w":               {triggered.ExecutionID, waits.ExecutionID},
			"job_id=" + uuid.NewString(): nil,
			"job_name=waits":             {triggered.ExecutionID, waits.ExecutionID},
			"tag=mail":                   {failed.ExecutionID},
			"q=answered+500":             {failed.ExecutionID},
			"q=WAIT":                     {triggered.ExecutionID, waits.ExecutionID},
			"q=" + triggered.ExecutionID: {triggered.ExecutionID},
			"q=" + waits.JobID:           {triggered.ExecutionID, waits.ExecutionID},
			"q=" + waits.JobID + "&job_id=" + failed.JobID: nil,
			"q=" + uuid.NewString():                        nil,
			"worker_id=" + uuid.NewString():                nil,
			"start_date=2000-01-01":                        all,
			"end_date=2000-01-01":                          nil,
			"start_date=2200-01-01T00:00:00Z":              nil,
		} {
			got := want[client.Executions](f, 200, "GET", "/api/v1/executions?"+query, "")
			if !same(got.Executions, expected) || got.Pagination.Total != int64(len(expected)) || got.Pagination.NextCursor != nil || got.Pagination.Partial {
				t.Errorf("%s: got %+v, want %v", query, got, expected)
			}
		}
		var paged []client.Execution
		cursor := ""
		for {
			page := want[client.Executions](f, 200, "GET", "/api/v1/executions?limit=1&cursor="+cursor, "")
			paged = append(paged, page.Executions...)
			if page.Pagination.NextCursor == nil {
				break
			}
			cursor = *page.Pagination.NextCursor
		}
		if !same(paged, all) {
			t.Errorf("page by page: %+v", paged)
		}
		for query, field := range map[string]string{
			"status=nope": "status", "trigger=cron": "trigger", "job_id=7": "job_id", "worker_id=x": "worker_id", "limit=0": "limit", "limit=1001": "limit",
			"start_date=yesterday": "start_date", "end_date=1": "end_date", "stauts=failed": "stauts", "q=%00": "q", "q=" + strings.Repeat("x", 501): "q",
			"job_name=%ff": "job_name", "tag=a&tag=b": "tag", "cursor=x": "cursor", "cursor=%00": "cursor",
		} {
			p := want[client.Problem](f, 400, "GET", "/api/v1/executions?"+query, "")
			if len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", query, p)
			}
		}
		want[client.Problem](f, 404, "GET", "/api/v1/executions?job_id=key:nobody", "")
	})
}

func same(got []client.Execution, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i].ExecutionID != want[i] {
			return false
		}
	}
	return true
}

func TestExportExecutions(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		failed, cancelled, waits := ran(f)
		get := func(query, kind, ext string) []byte {
			t.Helper()
			w := f.ask("GET", "/api/v1/executions:export?"+query, "")
			h := w.Header()
			if w.Code != 200 || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Disposition"), `attachment; filename="executions-`) || !strings.HasSuffix(h.Get("Content-Disposition"), ext+`"`) {
				t.Fatalf("%s: %d %v %s", query, w.Code, h, w.Body)
			}
			return w.Body.Bytes()
		}
		var lines []client.Execution
		for d := json.NewDecoder(bytes.NewReader(get("", "application/x-ndjson", ".jsonl"))); d.More(); {
			var e client.Execution
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, e)
		}
		if !same(lines, []string{waits.ExecutionID, cancelled.ExecutionID, failed.ExecutionID}) || lines[2].JobName != evil {
			t.Errorf("JSON lines: %+v", lines)
		}
		if got := get("format=JSONL&status=skipped", "application/x-ndjson", ".jsonl"); len(got) != 0 {
			t.Errorf("nothing: %q", got)
		}
		rows, err := csv.NewReader(bytes.NewReader(get("format=csv", "text/csv; charset=utf-8; header=present", ".csv"))).ReadAll()
		if err != nil || len(rows) != 4 || rows[0][0] != "execution_id" || rows[3][2] != "'"+evil || rows[2][19] != "'+1, not needed" || rows[3][19] != "answered 500" || rows[3][17] != "500" {
			t.Errorf("CSV: %v, %q", err, rows)
		}
		if got := get("format=csv&q=nothing", "text/csv; charset=utf-8; header=present", ".csv"); strings.Count(string(got), "\n") != 1 {
			t.Errorf("CSV of nothing: %q", got)
		}
		file := get("format=parquet&status=failed,cancelled", "application/vnd.apache.parquet", ".parquet")
		type row struct {
			ExecutionID   string     `parquet:"execution_id"`
			ScheduledTime time.Time  `parquet:"scheduled_time,timestamp(microsecond)"`
			FinishedAt    *time.Time `parquet:"finished_at,optional,timestamp(microsecond)"`
			ErrorMessage  *string    `parquet:"error_message,optional"`
		}
		got, err := parquet.Read[row](bytes.NewReader(file), int64(len(file)))
		if err != nil || len(got) != 2 || got[1].ExecutionID != failed.ExecutionID || got[1].ErrorMessage == nil || *got[1].ErrorMessage != "answered 500" || got[1].FinishedAt == nil || time.Since(got[1].ScheduledTime) > time.Hour {
			t.Errorf("Parquet: %v, %+v", err, got)
		}
		empty := get("format=parquet&q=nothing", "application/vnd.apache.parquet", ".parquet")
		if got, err := parquet.Read[row](bytes.NewReader(empty), int64(len(empty))); err != nil || len(got) != 0 {
			t.Errorf("Parquet of nothing: %v, %v", err, got)
		}
		for query, field := range map[string]string{"format=xls": "format", "format=csv&limit=5": "limit", "cursor=x": "cursor", "status=x": "status"} {
			if p := want[client.Problem](f, 400, "GET", "/api/v1/executions:export?"+query, ""); len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", query, p)
			}
		}
	})
}

// breaking is a store that fails after some pages.
type breaking struct {
	engine.Store
	pages int
}

func (b *breaking) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	if b.pages--; b.pages < 0 {
		return engine.ExecutionPage{}, engine.ErrUnavailable
	}
	return b.Store.FindExecutions(ctx, f, p)
}

// What cannot be completed is broken off, so that nobody takes a part for the whole; what cannot begin is a problem.
func TestExportThatFailsIsBrokenOff(t *testing.T) {
	for _, format := range []string{"csv", "jsonl", "parquet"} {
		b := &breaking{}
		f := newFace(t, func(c *api.Config, store engine.Store) {
			b.Store = store
			c.Service = serviceOver(b, c)
		})
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		id, _ := core.ParseID(j.JobID)
		var many []core.Execution
		now := time.Now().Truncate(time.Second)
		for i := range 1100 { // more than a page
			e := core.Job{ID: id, Tenant: "default", Definition: core.Definition{Name: "hello", Target: core.Target{Kind: core.Simulate}, Priority: 5}}.
				Fire(core.ExecutionID(uuid.Must(uuid.NewV7())), now.Add(-time.Duration(i)*time.Second), now)
			e.Trigger = core.ByBackfill
			many = append(many, e)
		}
		if _, err := f.store.Backfill(t.Context(), "default", id, many); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(f.http)
		b.pages = 1
		resp, err := http.Get(server.URL + "/api/v1/executions:export?format=" + format)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if format == "parquet" && resp.StatusCode == 503 { // it had sent nothing yet
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				t.Errorf("%s: %d, %d bytes, and no error", format, resp.StatusCode, len(body))
			}
		}
		b.pages = 0
		want[client.Problem](f, 503, "GET", "/api/v1/executions:export?format="+format, "")
		server.Close()
	}
}

func TestExplainOverHTTP(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		alone := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		if x := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+alone.ExecutionID+"/explain", ""); x.Code != "NO_WORKERS" {
			t.Errorf("got %+v", x)
		}
		failed, cancelled, waits := ran(f)
		ask := func(id string) client.Explanation {
			t.Helper()
			return want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+id+"/explain", "")
		}
		expect := func(id, code, says string) client.Explanation {
			t.Helper()
			x := ask(id)
			if x.Code != code || !strings.Contains(x.Summary, says) || x.ExecutionID != id {
				t.Errorf("got %+v, want %s: %s", x, code, says)
			}
			return x
		}
		if x := expect(failed.ExecutionID, "NOT_RETRYABLE", "answered 500"); x.Details.Error == nil || x.Details.Error.HTTPStatus != 500 || x.EstimatedStart != nil {
			t.Errorf("failed: %+v", x)
		}
		expect(cancelled.ExecutionID, "CANCELLED", "+1, not needed")
		s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 1}`)
		if x := expect(waits.ExecutionID, "NO_MATCHING_WORKER", `the target "simulate"`); len(x.Details.Lacks) != 1 || *x.Details.Workers != 2 || *x.Details.Matching != 0 || x.Details.Needs.Target != "simulate" {
			t.Errorf("%+v", x.Details)
		}
		mail := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
		expect(mail.ExecutionID, "READY", "1 of 1 slot")
		got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 5}`, "X-Worker-Session", s.Session)
		if len(got.Attempts) != 1 {
			t.Fatalf("claimed %+v", got)
		}
		expect(mail.ExecutionID, "RUNNING", "Attempt 1 of")
		want[client.Orders](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/beat", fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d}]}`, mail.ExecutionID, got.Attempts[0].FencingToken), "X-Worker-Session", s.Session)
		second := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
		third := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
		if x := ask(third.ExecutionID); x.Details.Ahead == nil || *x.Details.Ahead != 1 {
			t.Errorf("behind one other: %+v", x)
		}
		want[client.Limit](f, 200, "PUT", "/api/v1/limits/queues/default", `{"max_concurrent": 1}`)
		if x := expect(second.ExecutionID, "CONCURRENCY_LIMIT", `its queue "default" is 1, and 1 run`); x.Details.Limit == nil || x.Details.Limit.Scope != "queue" || *x.Details.Limit.Current != 1 || x.EstimatedStart != nil {
			t.Errorf("%+v", x.Details.Limit)
		}
		due := time.Now().Add(4 * time.Second)
		later := want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "later", "schedule": {"type": "ONE_TIME", "scheduled_time": %q}, "execution": {"target": "simulate", "work_kind": "noop"}}`, due.Format(time.RFC3339Nano)))
		if later.ExecutionID == "" { // found by its job, whose id it has
			later.ExecutionID = want[client.Executions](f, 200, "GET", "/api/v1/executions?q="+later.JobID, "").Executions[0].ExecutionID
		}
		if x := ask(later.ExecutionID); time.Now().Before(due) && (x.Code != "NOT_DUE" || !strings.Contains(x.Summary, "not due until") || x.EstimatedStart == nil || x.Details.Until == nil) {
			t.Errorf("not due: %+v", x) // a machine that was busy until then has nothing to say
		}
		want[client.Problem](f, 404, "GET", "/api/v1/executions/"+uuid.NewString()+"/explain", "")
		want[client.Problem](f, 404, "GET", "/api/v1/executions/nonsense/explain", "")
		want[client.Problem](f, 400, "GET", "/api/v1/executions/"+mail.ExecutionID+"/explain?verbose=1", "")
	})
}

func TestQueueStatus(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 7}`)
		for range 3 {
			want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
		}
		var got client.Claimed
		for len(got.Attempts) < 2 {
			more := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 5}`, "X-Worker-Session", s.Session)
			got.Attempts = append(got.Attempts, more.Attempts...)
		}
		outcome := func(i int, rest string) string {
			return fmt.Sprintf(`{"execution_id": %q, "fencing_token": %d, %s}`, got.Attempts[i].ExecutionID, got.Attempts[i].FencingToken, rest)
		}
		want[client.Verdicts](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/complete",
			`{"outcomes": [`+outcome(0, `"status": "SUCCEEDED"`)+`, `+outcome(1, `"status": "FAILED", "retryable": false, "error": {"type": "HANDLER_ERROR", "message": "no"}`)+`]}`, "X-Worker-Session", s.Session)
		if _, err := f.counter.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := want[client.QueueStatus](f, 200, "GET", "/api/v1/admin/queue/status?minutes=10", "")
		if st.Pending != 1 || st.InProgress != 0 || st.Completed24h != 1 || st.Failed24h != 1 || st.ActiveWorkers != 1 || st.Slots != 7 || st.DeadLetters != 1 || st.OverdueJobs != 0 || st.OldestPendingSeconds == nil {
			t.Errorf("got %+v", st)
		}
		if len(st.Queues) != 1 || st.Queues[0].Queue != "default" || st.Queues[0].Pending != 1 {
			t.Errorf("queues %+v", st.Queues)
		}
		if n := len(st.Minutes); n < 1 || n > 2 || st.Minutes[0].Started+st.Minutes[n-1].Started < 2 {
			t.Errorf("minutes %+v", st.Minutes)
		}
		if st := want[client.QueueStatus](f, 200, "GET", "/api/v1/admin/queue/status", ""); st.Minutes != nil {
			t.Errorf("minutes %+v", st.Minutes)
		}
		for _, bad := range []string{"minutes=-1", "minutes=1441", "minutes=x", "hours=1"} {
			want[client.Problem](f, 400, "GET", "/api/v1/admin/queue/status?"+bad, "")
		}
	})
}

// stream reads events.
type stream struct {
	t    *testing.T
	body io.ReadCloser
	scan *bufio.Scanner
}

type event struct{ id, name, data string }

func listen(t *testing.T, server *httptest.Server, last string, headers ...string) *stream {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/events/stream?last_event_id="+url.QueryEscape(last), nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d, %v", resp.StatusCode, resp.Header)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &stream{t, resp.Body, bufio.NewScanner(resp.Body)}
}

// next is the next event but for beats; none at the end.
func (s *stream) next() (e event, ok bool) {
	s.t.Helper()
	for s.scan.Scan() {
		name, value, _ := strings.Cut(s.scan.Text(), ": ")
		switch {
		case s.scan.Text() == "" && e.name == "beat":
			e = event{}
		case s.scan.Text() == "" && e.name != "":
			return e, true
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		}
	}
	return e, false
}

// changes reads until there are so many, and answers with their types and the last id.
func (s *stream) changes(n int) (types []string, id string) {
	s.t.Helper()
	for len(types) < n {
		e, ok := s.next()
		if !ok || e.name != "changes" {
			s.t.Fatalf("got %+v, %v after %v", e, ok, types)
		}
		var batch client.Changes
		if err := json.Unmarshal([]byte(e.data), &batch); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range batch.Changes {
			types = append(types, c.Type+" "+c.Status)
		}
		id = e.id
	}
	return types, id
}

func TestEventStream(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		server := httptest.NewServer(f.http)
		t.Cleanup(server.Close)
		s := listen(t, server, "")
		if e, _ := s.next(); e.name != "ready" || e.id == "" {
			t.Fatalf("got %+v", e)
		}
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		f.fails(j.ExecutionID)
		want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "")
		types, id := s.changes(6)
		if fmt.Sprint(types) != "[job.created ACTIVE execution.created PENDING worker.joined  execution.started RUNNING execution.finished FAILED job.deleted DELETED]" {
			t.Errorf("got %q", types)
		}
		s.body.Close()
		want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		back := listen(t, server, id)
		if e, _ := back.next(); e.name != "ready" {
			t.Errorf("come back: %+v", e)
		}
		if types, _ := back.changes(2); fmt.Sprint(types) != "[job.created ACTIVE execution.created PENDING]" {
			t.Errorf("come back: %q", types)
		}
		late := listen(t, server, "00000000-7")
		if e, _ := late.next(); e.name != "reset" || e.id == "" {
			t.Errorf("from elsewhere: %+v", e)
		}
		for _, bad := range []string{"x", "-1", "12345678-", "12345678--1"} {
			want[client.Problem](f, 400, "GET", "/api/v1/events/stream?last_event_id="+url.QueryEscape(bad), "")
		}
	})
}

// One tenant hears nothing of another, and who may no longer read is cut off.
func TestEventStreamIsTheTenantsOwn(t *testing.T) {
	m := newMatrix(t)
	server := httptest.NewServer(m.http)
	t.Cleanup(server.Close)
	spare := want[client.APIKey](m.face, 201, "POST", "/api/v1/api-keys", `{"name": "s", "role": "viewer"}`, "Authorization", m.keys[mine]["admin"])
	s := listen(t, server, "", "Authorization", "Bearer "+*spare.Key)
	if e, _ := s.next(); e.name != "ready" {
		t.Fatalf("got %+v", e)
	}
	theirs := want[client.Job](m.face, 201, "POST", "/api/v1/jobs", noop, "Authorization", m.keys[other]["operator"])
	own := want[client.Job](m.face, 201, "POST", "/api/v1/jobs", noop, "Authorization", m.keys[mine]["operator"])
	e, _ := s.next()
	if strings.Contains(e.data, theirs.JobID) || !strings.Contains(e.data, own.JobID) {
		t.Errorf("got %+v", e)
	}
	begun := time.Now()
	want[client.APIKey](m.face, 200, "DELETE", "/api/v1/api-keys/"+spare.KeyID, "", "Authorization", m.keys[mine]["admin"])
	for {
		if _, ok := s.next(); !ok {
			break
		}
	}
	if took := time.Since(begun); took > 20*time.Second { // it is looked every five; the machine may be busy
		t.Errorf("cut off after %v", took)
	}
}

// Who follows a log and may no longer read it is cut off.
func TestFollowerIsCutOff(t *testing.T) {
	m := newMatrix(t)
	server := httptest.NewServer(m.http)
	t.Cleanup(server.Close)
	spare := want[client.APIKey](m.face, 201, "POST", "/api/v1/api-keys", `{"name": "s", "role": "viewer"}`, "Authorization", m.keys[mine]["admin"])
	j := want[client.Job](m.face, 201, "POST", "/api/v1/jobs", noop, "Authorization", m.keys[mine]["operator"])
	r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/executions/"+j.ExecutionID+"/logs?follow=true", nil)
	r.Header.Set("Authorization", "Bearer "+*spare.Key)
	resp, err := server.Client().Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	want[client.APIKey](m.face, 200, "DELETE", "/api/v1/api-keys/"+spare.KeyID, "", "Authorization", m.keys[mine]["admin"])
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		ended <- err
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it is still told")
	}
}

// serviceOver is the service over another store.
func serviceOver(store service.Store, c *api.Config) *service.Service {
	return service.New(store, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Secrets: c.Secrets})
}

func TestGoldenHistory(t *testing.T) {
	f := newFace(t)
	failed, _, waits := ran(f)
	want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 7}`)
	status := f.ask("GET", "/api/v1/admin/queue/status", "").Body.String()
	goldens(t, map[string]string{
		"executions_found.json":    f.ask("GET", "/api/v1/executions?status=failed,pending&limit=1", "").Body.String(),
		"explanation_failed.json":  f.ask("GET", "/api/v1/executions/"+failed.ExecutionID+"/explain", "").Body.String(),
		"explanation_waiting.json": f.ask("GET", "/api/v1/executions/"+waits.ExecutionID+"/explain", "").Body.String(),
		"queue_status.json":        regexp.MustCompile(`"oldest_pending_seconds":[0-9.e-]+`).ReplaceAllString(status, `"oldest_pending_seconds":0.5`),
		"problem_export.json":      f.ask("GET", "/api/v1/executions:export?format=xls&limit=5", "", "X-Request-ID", "r1").Body.String(),
	})
}
