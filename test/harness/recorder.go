package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/check"
)

// Recorder writes a history of the requests and responses of workers and clients. It is outside of all processes that
// fail: workers reach their server through a front, which records each request before it forwards it, and each
// response before the worker has it.
type Recorder struct {
	History *check.History
	Add     func(check.Event) // keeps an event
	began   time.Time
	calls   atomic.Int64
}

// NewRecorder begins a history.
func NewRecorder() *Recorder {
	h := check.NewHistory()
	return &Recorder{History: h, Add: h.Add, began: time.Now()}
}

// Aside returns a recorder of the same age that keeps what it records in another history. What passes through the
// fronts of r stays with r.
func (r *Recorder) Aside(h *check.History) *Recorder {
	return &Recorder{History: h, Add: h.Add, began: r.began}
}

// Now returns the age of the history.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// When returns how old the history was at an instant of this machine's clock, such as a store records.
func (r *Recorder) When(at time.Time) time.Duration { return at.Sub(r.began.Round(0)) }

// Call returns the number of a new request.
func (r *Recorder) Call() int { return int(r.calls.Add(1)) }

// note adds an event as of now.
func (r *Recorder) note(e check.Event) { e.At = r.Now(); r.Add(e) }

// Began returns when the history started, by this machine's clock.
func (r *Recorder) Began() time.Time { return r.began }

// Front returns the address, until the test ends, of a recording proxy. to returns the base of the server's URLs for
// each request. seen, if given, is called with the ids of workers that use it.
func (r *Recorder) Front(t *testing.T, to func() string, seen ...func(worker string)) string {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		for _, f := range seen {
			if id, _, ok := worker(q); ok {
				f(id)
			}
		}
		r.pass(transport, to(), w, q)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); transport.CloseIdleConnections() })
	return s.URL
}

// pass forwards one request. If there is no response, the connection ends without one.
func (r *Recorder) pass(transport http.RoundTripper, to string, w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the worker is gone before it has asked
	}
	out, err := http.NewRequestWithContext(q.Context(), q.Method, to+q.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = q.Header.Clone()
	told := r.asks(q, body)
	answer, err := transport.RoundTrip(out)
	if err != nil {
		told(0, nil)
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		told(0, nil)
		panic(http.ErrAbortHandler)
	}
	told(answer.StatusCode, b)
	for name, vs := range answer.Header {
		w.Header()[name] = vs
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(b)
}

// worker returns which registered worker sends a request, if any.
func worker(q *http.Request) (id, verb string, ok bool) {
	rest, ok := strings.CutPrefix(q.URL.Path, "/api/v1/workers/")
	if !ok || q.Method != "POST" {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// asks records a request of a worker, and returns a function that records the response, which has the status 0 if
// there is none.
func (r *Recorder) asks(q *http.Request, body []byte) (told func(status int, answer []byte)) {
	id, verb, ok := worker(q)
	if !ok {
		return func(int, []byte) {}
	}
	e := check.Event{Proc: id, Call: r.Call()}
	var each []check.Event
	switch verb {
	case "claim":
		e.Op = check.Claim
		each = []check.Event{e}
	case "beat", "release":
		e.Op = map[string]check.Op{"beat": check.Beat, "release": check.Release}[verb]
		var held client.ReleaseRequest
		_ = json.Unmarshal(body, &held) // invalid JSON is refused, and names nothing
		for _, h := range held.Executions {
			e.Execution, e.Token = h.ExecutionID, h.FencingToken
			each = append(each, e)
		}
	case "complete":
		e.Op = check.Complete
		var done client.CompleteRequest
		_ = json.Unmarshal(body, &done)
		for _, o := range done.Outcomes {
			e.Execution, e.Token, e.Result = o.ExecutionID, o.FencingToken, o.Status
			each = append(each, e)
		}
	default:
		return func(int, []byte) {}
	}
	for _, x := range each {
		x.Kind = check.Invoke
		r.note(x)
	}
	return func(status int, answer []byte) { r.told(each, status, answer) }
}

// told records the response to a request, which may be about very many executions: it is decoded once.
func (r *Recorder) told(each []check.Event, status int, answer []byte) {
	if len(each) == 0 {
		return
	}
	var got client.Claimed
	var orders client.Orders
	var vs client.Verdicts
	answered := status == 200 || status == 204
	if answered {
		_ = json.Unmarshal(answer, map[check.Op]any{check.Claim: &got, check.Beat: &orders, check.Complete: &vs}[each[0].Op])
	}
	lost := map[string]bool{}
	for _, id := range orders.Lost {
		lost[id] = true
	}
	for i, x := range each {
		x.Kind, x.Result = check.OK, ""
		switch {
		case status >= 400 && status < 500:
			x.Kind = check.Fail
		case !answered:
			x.Kind = check.Unknown
		case x.Op == check.Claim:
			for _, a := range got.Attempts {
				x.Execution, x.Job, x.Token, x.Attempt = a.ExecutionID, a.JobID, a.FencingToken, a.AttemptNumber
				r.note(x)
			}
			continue
		case x.Op == check.Beat:
			if x.Result = "kept"; lost[x.Execution] {
				x.Result = "lost"
			}
		case x.Op == check.Complete:
			if x.Kind = check.Unknown; i < len(vs.Verdicts) {
				x.Kind, x.Result = check.OK, vs.Verdicts[i].Verdict
			}
		}
		r.note(x)
	}
}

// Arrived records a call that reached a target.
func (r *Recorder) Arrived(as []Arrival) {
	for _, a := range as {
		r.Add(check.Event{At: a.At.Sub(r.began), Proc: "target", Kind: check.Arrive, Op: check.Execute, Job: a.Job, Execution: a.Execution, Attempt: a.Attempt, Token: a.Token})
	}
}

// Ended records the API's final account of an execution: its status and all its events.
func (r *Recorder) Ended(e client.Execution, told []client.Event) {
	x := check.Event{Proc: "record", Kind: check.Final, Job: e.JobID, Execution: e.ExecutionID}
	over := map[int64]bool{}
	for _, t := range told {
		if t.FencingToken == nil || *t.FencingToken == 0 {
			continue
		}
		x.At, x.Token = r.When(t.At), *t.FencingToken
		ended := map[string]string{"attempt_failed": "FAILED", "attempt_lost": "LOST", "released": "RELEASED", "snoozed": "SNOOZED"}[t.Type]
		switch {
		case t.Type == "started":
			x.Op, x.Result = check.Leased, ""
			r.Add(x)
			continue
		case t.Type == "finished" && !over[x.Token] && (e.Status == "SUCCEEDED" || e.Status == "CANCELLED"):
			ended = e.Status
		}
		if ended != "" {
			over[x.Token] = true
			x.Op, x.Result = check.Ended, ended
			r.Add(x)
		}
	}
	x.Op, x.Token, x.Result = check.Execution, 0, e.Status
	r.note(x)
}
