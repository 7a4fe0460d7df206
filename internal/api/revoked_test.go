package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// revokedWithin bounds how long a revoked credential works.
const revokedWithin = 5 * time.Second

// authenticated makes a server ask for credentials.
func authenticated(c *api.Config, store engine.Store) {
	a := access.New(store, clock.System{}, nil)
	c.Authenticate, c.SignIns = a.Authenticate, a
}

// onServers runs a test over one server, and over two that share a PostgreSQL: here is where it works, there where it is managed.
func onServers(t *testing.T, test func(t *testing.T, here, there signed)) {
	first := func(f face) signed {
		key, err := access.Bootstrap(t.Context(), f.store, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return signed{face: f, system: []string{"Authorization", "Bearer " + key}, tenant: string(tenant.Default)}
	}
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		s := first(newFace(t, authenticated))
		test(t, s, s)
	})
	if os.Getenv("CARILLON_TEST_POSTGRES") == "" {
		return
	}
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		url := storetest.PostgresURL(t)
		open := func() face {
			store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return faceOver(t, store, authenticated)
		}
		here := first(open())
		there := here
		there.face = open()
		test(t, here, there)
	})
}

// worker registers a worker with a key, and answers with the headers that it speaks with, and its path.
func (s signed) worker(key []string) (headers []string, path string) {
	s.Helper()
	x := want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{"host": "box", "kinds": ["send-email"], "capacity": 5}`, key...)
	return append([]string{"X-Worker-Session", x.Session}, key...), "/api/v1/workers/" + x.WorkerID
}

// later answers a request in the background.
func (f face) later(method, path, body string, headers ...string) <-chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() { out <- f.ask(method, path, body, headers...) }()
	return out
}

func TestARevokedKeyEndsItsOpenClaim(t *testing.T) {
	onServers(t, func(t *testing.T, here, there signed) {
		want[client.Secret](there.face, 200, "PUT", "/api/v1/secrets/canary", `{"value": "the-canary-value"}`, there.system...)
		for name, end := range map[string]func(k client.APIKey){
			"revoked": func(k client.APIKey) {
				want[client.APIKey](there.face, 200, "DELETE", "/api/v1/api-keys/"+k.KeyID, "", there.system...)
			},
			"rotated": func(k client.APIKey) {
				want[client.APIKey](there.face, 201, "POST", "/api/v1/api-keys/"+k.KeyID+"/rotate", `{"overlap_seconds": 0}`, there.system...)
			},
		} {
			k := want[client.APIKey](there.face, 201, "POST", "/api/v1/api-keys", `{"name": "w", "role": "worker"}`, there.system...)
			headers, path := here.worker([]string{"Authorization", "Bearer " + *k.Key})
			poll := here.later("POST", path+"/claim", `{"max": 5, "wait_seconds": 30}`, headers...)
			select {
			case a := <-poll:
				t.Fatalf("%s: the claim did not wait: %d, %s", name, a.Code, a.Body)
			case <-time.After(300 * time.Millisecond):
			}
			end(k)
			began := time.Now()
			var a *httptest.ResponseRecorder
			select {
			case a = <-poll:
			case <-time.After(revokedWithin):
			}
			j := want[client.Job](there.face, 201, "POST", "/api/v1/jobs", strings.Replace(emailJob, `"ann"`, `"${secret:canary}"`, 1), there.system...)
			if a == nil {
				t.Errorf("%s: the claim is still open after %s", name, revokedWithin)
				a = <-poll
			}
			if a.Code != 401 || strings.Contains(a.Body.String(), "canary") {
				t.Errorf("%s: after %s the claim was answered with %d, %s", name, time.Since(began), a.Code, a.Body)
			}
			if e := want[client.Execution](there.face, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "", there.system...); e.Status != "PENDING" || e.WorkerID != nil {
				t.Errorf("%s: the execution is %s", name, e.Status)
			}
			want[client.Problem](here.face, 401, "POST", path+"/claim", `{"max": 5, "wait_seconds": 0}`, headers...)
			want[client.Execution](there.face, 202, "POST", "/api/v1/executions/"+j.ExecutionID+"/cancel", "", there.system...)
		}
	})
}

func TestAnExpiredKeyEndsItsOpenClaim(t *testing.T) {
	onServers(t, func(t *testing.T, here, there signed) {
		ends := time.Now().Add(2 * time.Second).UTC()
		k := want[client.APIKey](there.face, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"name": "w", "role": "worker", "expires_at": %q}`, ends.Format(time.RFC3339Nano)), there.system...)
		headers, path := here.worker([]string{"Authorization", "Bearer " + *k.Key})
		a := here.ask("POST", path+"/claim", `{"max": 5, "wait_seconds": 30}`, headers...)
		if late := time.Since(ends); a.Code != 401 || late > revokedWithin {
			t.Errorf("%s after the key expired the claim was answered with %d, %s", late, a.Code, a.Body)
		}
	})
}

// What is leased at the moment in which the key stops working is not handed out, and is given back at once.
func TestWhatWasLeasedForARevokedKeyIsGivenBack(t *testing.T) {
	for name, now := range map[string]struct {
		is     tenant.Principal
		err    error
		status int
	}{
		"revoked":           {err: access.ErrUnknownKey, status: 401},
		"demoted":           {is: tenant.Principal{Tenant: tenant.Default, Role: tenant.Viewer}, status: 403},
		"of another tenant": {is: tenant.Principal{Tenant: "other", Role: tenant.Worker}, status: 403},
		"cannot be told":    {err: context.DeadlineExceeded, status: 503},
	} {
		var over atomic.Bool
		f := newFace(t, func(c *api.Config, _ engine.Store) {
			c.Authenticate = func(_ context.Context, header, _ string) (tenant.Principal, error) {
				switch {
				case header == "bad" && over.Load():
					return now.is, now.err
				case header == "":
					return tenant.Principal{Tenant: tenant.Default, Role: tenant.System}, nil
				}
				return tenant.Principal{Tenant: tenant.Default, Role: tenant.Worker, Key: header}, nil
			}
		})
		s := signed{face: f}
		headers, path := s.worker([]string{"Authorization", "bad"})
		poll := f.later("POST", path+"/claim", `{"max": 5, "wait_seconds": 30}`, headers...)
		<-time.After(100 * time.Millisecond) // it waits
		over.Store(true)
		e := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob).ExecutionID
		a := <-poll
		if a.Code != now.status {
			t.Errorf("%s: the claim was answered with %d, %s", name, a.Code, a.Body)
		}
		others, path := s.worker([]string{"Authorization", "good"})
		got := want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 5}`, others...)
		if len(got.Attempts) != 1 || got.Attempts[0].ExecutionID != e || got.Attempts[0].AttemptNumber != 1 {
			t.Errorf("%s: another worker was given %+v", name, got)
		}
	}
}

// A stream tells nothing more, and ends, also of a log that is longer than its reader is fast.
func TestARevokedKeyEndsItsStreams(t *testing.T) {
	onServers(t, func(t *testing.T, here, there signed) {
		worker, path := here.worker(here.system)
		j := want[client.Job](there.face, 201, "POST", "/api/v1/jobs", emailJob, there.system...)
		claimed := want[client.Claimed](here.face, 200, "POST", path+"/claim", `{"wait_seconds": 10}`, worker...)
		if len(claimed.Attempts) != 1 {
			t.Fatal("nothing was claimed")
		}
		a := claimed.Attempts[0]
		lines := make([]client.LogLine, 1000)
		for i := range lines {
			lines[i].Text = strings.Repeat("x", 100)
		}
		for range 5 {
			r := client.LogRequest{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Lines: lines}
			body, _ := json.Marshal(r)
			want[client.LogAnswer](here.face, 200, "POST", path+"/logs", string(body), worker...)
		}
		k := want[client.APIKey](there.face, 201, "POST", "/api/v1/api-keys", `{"name": "v", "role": "viewer"}`, there.system...)
		viewer := []string{"Authorization", "Bearer " + *k.Key}
		type stream struct {
			name string
			*slowReader
			done chan struct{}
		}
		var all []stream
		want[client.CreatedJobs](here.face, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(noop+",", 999)+noop+"]", here.system...)
		for name, at := range map[string]string{
			"events": "/api/v1/events/stream", "log": "/api/v1/executions/" + j.ExecutionID + "/logs?follow=true",
			"export": "/api/v1/executions:export",
		} {
			s := stream{name, &slowReader{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})}
			switch name {
			case "log":
				s.each = 5 * time.Millisecond
			case "export": // of which there are pieces for longer than a key may be good
				s.each = time.Second
			}
			r := httptest.NewRequest("GET", "http://localhost:8080"+at, nil)
			r.Header.Set(viewer[0], viewer[1])
			go func() {
				defer close(s.done)
				defer func() { // which breaks the connection of an answer that has begun
					if v := recover(); v != nil && v != http.ErrAbortHandler {
						panic(v)
					}
				}()
				here.http.ServeHTTP(s.slowReader, r)
			}()
			all = append(all, s)
		}
		<-time.After(500 * time.Millisecond)
		want[client.APIKey](there.face, 200, "DELETE", "/api/v1/api-keys/"+k.KeyID, "", there.system...)
		began := time.Now()
		for _, s := range all {
			select {
			case <-s.done:
			case <-time.After(time.Until(began.Add(revokedWithin))):
				t.Errorf("%s: the stream is still open after %s", s.name, revokedWithin)
				<-s.done
			}
			if last := time.Unix(0, s.last.Load()); last.Sub(began) > revokedWithin {
				t.Errorf("%s: the stream was told something %s after the key was revoked", s.name, last.Sub(began))
			}
		}
	})
}

// slowReader takes its time for each part of an answer.
type slowReader struct {
	*httptest.ResponseRecorder
	each time.Duration
	last atomic.Int64
}

func (s *slowReader) Write(p []byte) (int, error) {
	if s.each > 0 {
		<-time.After(s.each)
	}
	s.last.Store(time.Now().UnixNano())
	return s.ResponseRecorder.Write(p)
}
