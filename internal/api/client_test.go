package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
)

// TestTheClientHasEveryRoute calls every method of the Go client and fails where a route was not asked for.
func TestTheClientHasEveryRoute(t *testing.T) {
	var routes []string
	for _, r := range newFace(t).http.(*api.Server).Table() {
		routes = append(routes, r.Method+" "+r.Path)
	}
	mux := http.NewServeMux()
	asked := map[string]bool{}
	for _, r := range routes {
		mux.HandleFunc(r, func(w http.ResponseWriter, req *http.Request) {
			asked[r] = true
			if req.Header.Get("Accept") == "text/event-stream" {
				io.WriteString(w, "event: end\ndata: {\"status\": \"SUCCEEDED\"}\n\n")
				return
			}
			io.WriteString(w, `{"status": "SUCCEEDED", "attempts": [{}]}`) // enough for who waits for an end
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	c := reflect.ValueOf(client.New([]string{server.URL}, "k", client.WithRetries(client.Retries{})))
	for i := range c.NumMethod() {
		m := c.Method(i)
		var in []reflect.Value
		for k := range m.Type().NumIn() {
			if m.Type().IsVariadic() && k == m.Type().NumIn()-1 {
				break
			}
			in = append(in, argument(t, m.Type().In(k)))
		}
		if c.Type().Method(i).Name == "FollowChanges" { // which continues until it is told to stop
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			in[0] = reflect.ValueOf(ctx)
		}
		for _, out := range m.Call(in) {
			if out.Kind() == reflect.Func { // an iterator
				for range out.Seq2() {
					break
				}
			}
		}
	}
	twice := []string{"PATCH /api/v1/jobs/{id}/pause", "PATCH /api/v1/jobs/{id}/resume"} // the client uses POST, which may be sent again
	for _, r := range routes {
		if strings.Contains(r, "/api/v1/") || strings.HasSuffix(r, "z") {
			if !asked[r] && !slices.Contains(twice, r) {
				t.Errorf("no method of client.Client asks for %s", r)
			}
		}
	}
}

// argument makes up something to call a method with.
func argument(t *testing.T, typ reflect.Type) reflect.Value {
	switch typ {
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(t.Context())
	case reflect.TypeFor[io.Reader]():
		return reflect.ValueOf(strings.NewReader("x"))
	case reflect.TypeFor[client.Session]():
		return reflect.ValueOf(client.Session{WorkerID: "w", Session: "s"})
	case reflect.TypeFor[client.Held]():
		return reflect.ValueOf(client.Held{ExecutionID: "x", FencingToken: 1})
	case reflect.TypeFor[string]():
		return reflect.ValueOf("x")
	case reflect.TypeFor[int64]():
		return reflect.ValueOf(int64(1))
	case reflect.TypeFor[func(client.LoggedLine) error]():
		return reflect.ValueOf(func(client.LoggedLine) error { return nil })
	}
	return reflect.Zero(typ)
}

// TestTheClientAgainstTheServer does a little of everything over HTTP.
func TestTheClientAgainstTheServer(t *testing.T) {
	f := newFace(t)
	server := httptest.NewServer(f.http)
	defer server.Close()
	c := client.New([]string{server.URL}, "")
	ctx := t.Context()
	for i := range 5 {
		must(c.CreateJob(ctx, client.JobRequest{Name: fmt.Sprint("job ", i), Key: new(fmt.Sprint("k", i)), Execution: client.Target{Target: "simulate", WorkKind: "noop"}}))
	}
	var names []string
	for j, err := range c.Jobs(ctx, client.JobFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, j.Name)
	}
	if want := []string{"job 4", "job 3", "job 2", "job 1", "job 0"}; !slices.Equal(names, want) {
		t.Errorf("jobs %q", names)
	}
	j := must(c.Job(ctx, "key:k1"))
	j = must(c.ChangeJob(ctx, "key:k1", client.JobChange{Fields: map[string]any{"priority": 2}, Revision: j.Revision}))
	if j.Priority != 2 {
		t.Errorf("changed: %+v", j)
	}
	if _, err := c.ChangeJob(ctx, "key:k1", client.JobChange{Revision: j.Revision - 1}); err == nil || !strings.Contains(err.Error(), "412 revision_mismatch") {
		t.Errorf("of an old revision: %v", err)
	}
	var revisions []int
	for r, err := range c.Revisions(ctx, "key:k1") {
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, r.Revision)
	}
	if !slices.Equal(revisions, []int{j.Revision, j.Revision - 1}) {
		t.Errorf("revisions %v", revisions)
	}
	if _, err := c.RestoreJob(ctx, "key:k1", j.Revision-1, j.Revision-1); !errors.Is(err, client.ErrConflict) {
		t.Errorf("restored over an old revision: %v", err)
	}
	for _, is := range []int{j.Revision, 0} {
		if back := must(c.RestoreJob(ctx, "key:k1", j.Revision-1, is)); back.Priority != 5 || back.Revision != j.Revision+1 {
			t.Errorf("restored: %+v", back)
		}
	}
	run := must(c.TriggerJob(client.WithIdempotencyKey(ctx, "once"), "key:k1", client.TriggerRequest{}))
	if again := must(c.TriggerJob(client.WithIdempotencyKey(ctx, "once"), "key:k1", client.TriggerRequest{})); again.ExecutionID != run.ExecutionID {
		t.Errorf("the same key ran it twice: %+v, %+v", run, again)
	}
	e := must(c.CancelExecution(ctx, run.ExecutionID, client.CancelRequest{Reason: "enough"}))
	if e.Status != "CANCELLED" {
		t.Errorf("cancelled: %+v", e)
	}
	if d := must(c.DiscardDeadLetters(ctx, client.DeadLetterRequest{IDs: []string{run.ExecutionID}})); d.Discarded != 0 {
		t.Errorf("discarded: %+v", d)
	}
	if d := must(c.DiscardDeadLetters(ctx, client.DeadLetterRequest{Filter: &client.DeadLetterFilter{}})); d.OperationID == "" {
		t.Errorf("discarded by a filter: %+v", d)
	}
	if h := must(c.Health(ctx)); h.Status != "ok" || h.Version != "test" || h.At.IsZero() {
		t.Errorf("health: %+v", h)
	}
	if p := must(c.Preview(ctx, client.PreviewRequest{Every: new("90s")})); len(p.Next) != 10 {
		t.Errorf("preview: %+v", p)
	}
}
