package executor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

var refused = &client.Error{Type: typeRefused, Message: "connection refused"}

func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	b := newBreaker(Breaker{Failures: 3, Pause: time.Second, MaxPause: 3 * time.Second})
	k, other := circuitKey{"t", "http://a:80"}, circuitKey{"u", "http://a:80"}
	now := time.Unix(1000, 0)
	enter := func(k circuitKey) bool { wait, _ := b.enter(k, now); return wait == 0 }
	for i := range 3 {
		if !enter(k) {
			t.Fatalf("call %d was put off", i)
		}
		b.leave(k, now, broken, refused)
	}
	wait, why := b.enter(k, now)
	if wait < time.Second || wait > 3*time.Second || why.Type != typeRefused || !strings.Contains(why.Message, "http://a:80 is taken to be down after 3 failures in a row") {
		t.Errorf("open: %v, %+v", wait, why)
	}
	if !enter(other) || b.open != 1 {
		t.Errorf("another tenant is put off; %d are open", b.open)
	}
	// Each probe that fails doubles the pause, up to a limit; one goes at a time.
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		now = now.Add(pause - time.Millisecond)
		if enter(k) {
			t.Fatalf("let through before the pause of %v was over", pause)
		}
		now = now.Add(time.Millisecond)
		if !enter(k) || enter(k) {
			t.Fatalf("after %v, not exactly one went through", pause)
		}
		b.leave(k, now, broken, refused)
	}
	now = now.Add(3 * time.Second)
	if !enter(k) {
		t.Fatal("no probe")
	}
	b.leave(k, now, says, nil) // it was cancelled: another one may try
	if !enter(k) {
		t.Fatal("no probe after one that came to nothing")
	}
	b.leave(k, now, healthy, nil)
	for range 2 {
		if !enter(k) || b.open != 0 {
			t.Errorf("it is not closed; %d are open", b.open)
		}
	}
	b.leave(k, now, broken, refused) // counting starts over
	b.leave(k, now, broken, refused)
	if !enter(k) {
		t.Error("open after two failures")
	}
}

func TestBreakerOpensOnAHighShareOfFailures(t *testing.T) {
	t.Parallel()
	b := newBreaker(Breaker{Failures: 5})
	k := circuitKey{"t", "x"}
	now := time.Unix(1000, 0)
	for i := range 40 { // two of three fail, never five in a row
		v := broken
		if i%3 == 0 {
			v = healthy
		}
		b.leave(k, now, v, refused)
		if b.open == 1 {
			if i < lately-1 {
				t.Errorf("open after %d calls", i+1)
			}
			return
		}
	}
	t.Error("it never opened")
}

func TestBreakerForgetsWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	b := newBreaker(Breaker{Failures: 1, Hosts: 10})
	now := time.Unix(1000, 0)
	for i := range 1000 {
		b.leave(circuitKey{"t", fmt.Sprint(i)}, now, broken, refused)
		b.leave(circuitKey{"t", fmt.Sprint("well ", i)}, now, healthy, nil)
		b.enter(circuitKey{"t", "0"}, now) // in use
	}
	if len(b.hosts) != 10 || b.used.Len() != 10 || b.open != 10 {
		t.Errorf("%d hosts, %d open", len(b.hosts), b.open)
	}
	if wait, _ := b.enter(circuitKey{"t", "0"}, now); wait == 0 {
		t.Error("the one in use was forgotten")
	}
}

func TestWhatSaysSomethingOfAHost(t *testing.T) {
	t.Parallel()
	http := func(status int) client.Outcome {
		return client.Outcome{Status: client.Failed, Error: &client.Error{Type: typeHTTP, HTTPStatus: status}}
	}
	for _, c := range []struct {
		o    client.Outcome
		want verdict
	}{
		{client.Outcome{Status: client.Succeeded}, healthy},
		{client.Outcome{Status: client.Parked}, healthy},
		{client.Outcome{}, says},
		{http(404), healthy},
		{http(429), healthy},
		{http(500), broken},
		{http(503), broken},
		{failed(typeTimeout, true, ""), broken},
		{failed(typeRefused, true, ""), broken},
		{failed(typeReset, true, ""), broken},
		{failed(typeDNS, true, ""), broken},
		{failed(typeTLS, true, ""), broken},
		{failed(typeBlocked, false, ""), says},
		{failed(typeLeaseLost, true, ""), says},
		{failed(typeInternal, false, ""), says},
		{cancelled(""), says},
	} {
		if got := judged(c.o); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.o.Status, c.o.Error, got, c.want)
		}
	}
}

// A dead host costs a few calls; the others continue.
func TestADeadHostIsLeftAlone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	dead, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	well, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	e := newExecutor(t, Config{AllowLoopback: true, Breaker: Breaker{Failures: 5, Pause: time.Hour}})
	for i := range 50 {
		o := e.Execute(t.Context(), get(dead.URL+"/?s3cret"))
		if i < 5 {
			check(t, o, typeHTTP, true, "503")
		} else if o.Status != client.Snoozed || o.RetryAfterMS < 3_600_000 || o.Error == nil || !strings.Contains(o.Error.Message, dead.URL) || strings.Contains(o.Error.Message, "s3cret") || o.ExecutionID != "exec-1" {
			t.Fatalf("call %d: %+v, %+v", i, o, o.Error)
		}
		check(t, e.Execute(t.Context(), get(well.URL)), "", false)
	}
	if calls.Load() != 5 || e.OpenBreakers() != 1 {
		t.Errorf("%d calls, %d open", calls.Load(), e.OpenBreakers())
	}
}

func TestHeadersOfTheServer(t *testing.T) {
	t.Parallel()
	h, got := recorder(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/see-other" {
			http.Redirect(w, r, "/done", http.StatusSeeOther)
		}
	})
	s, _ := server(t, h)
	stranger, gotStrange := recorder(nil)
	other, _ := server(t, stranger)
	h2, gotHome := recorder(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	home, _ := server(t, h2)
	call := func(url string) {
		t.Helper()
		a := attempt(client.Target{Target: "http", Method: "POST", CallbackURL: url, FollowRedirects: true, Headers: map[string]string{"Webhook-Id": "mine"}})
		a.Payload = json.RawMessage(`{}`)
		a.CallbackHeaders = map[string]string{"webhook-id": "exec-1", "webhook-timestamp": "7", "webhook-signature": "v1,s", "Carillon-Callback-Token": "cct_x", "traceparent": "00-a-b-01"}
		check(t, loopback(t).Execute(t.Context(), a), "", false)
	}
	names := []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Carillon-Callback-Token", "Traceparent"}
	has := func(r seen) (out []string) {
		for _, n := range names {
			if r.header.Get(n) != "" {
				out = append(out, n)
			}
		}
		return out
	}
	call(s.URL)
	if r := <-got; len(has(r)) != len(names) || r.header.Get("Webhook-Id") != "exec-1" || r.header.Get("X-Fencing-Token") != "77" {
		t.Errorf("got %v", r.header)
	}
	call(s.URL + "/see-other")
	<-got
	if r := <-got; fmt.Sprint(has(r)) != "[Webhook-Id Webhook-Timestamp Carillon-Callback-Token Traceparent]" || r.body != "" {
		t.Errorf("after 303: %v, body %q", has(r), r.body)
	}
	call(home.URL)
	<-gotHome
	if r := <-gotStrange; fmt.Sprint(has(r)) != "[Traceparent]" {
		t.Errorf("a stranger got %v", has(r))
	}
}

func TestAsynchronousAnswers(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if v := q.Get("async"); v != "" {
			w.Header().Set("Carillon-Async", v)
		}
		status := http.StatusAccepted
		if q.Get("status") == "200" {
			status = http.StatusOK
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("queued as 7"))
	})
	e := loopback(t)
	call := func(query string, change func(*client.Attempt)) client.Outcome {
		a := get(s.URL + "?" + query)
		a.CallbackHeaders = map[string]string{"Carillon-Callback-Token": "cct_x"}
		if change != nil {
			change(&a)
		}
		return e.Execute(t.Context(), a)
	}
	if o := call("async=true", nil); o.Status != client.Parked || o.Error != nil || o.Response.HTTPStatus != 202 || o.FencingToken != 77 {
		t.Errorf("got %+v", o)
	}
	check(t, call("async=true&status=200", nil), "", false)
	check(t, call("", nil), "", false)
	check(t, call("async=false", nil), "", false)
	check(t, call("async=true", func(a *client.Attempt) { a.CallbackHeaders = nil }), "", false) // it could not be completed
	check(t, call("async=true", func(a *client.Attempt) { a.Execution.Expect = &client.Expect{Status: []int{200}} }), typeHTTP, false, "202")
	text := "done"
	check(t, call("async=true", func(a *client.Attempt) { a.Execution.Expect = &client.Expect{BodyContains: &text} }), typeHTTP, true, "does not contain")
}
