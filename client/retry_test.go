package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a transport of a function.
type wire func(*http.Request) (*http.Response, error)

func (f wire) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) (*http.Response, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
}

var refused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func over(f wire, servers ...string) *Client {
	return New(append(servers, "http://a"), "car_live_topsecret", WithHTTPClient(&http.Client{Transport: f}), WithTenant("acme"), WithUserAgent("test/1"))
}

func TestCallsAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		call  func(context.Context, *Client) error
		fail  func() (*http.Response, error)
		tries int
	}{
		"GET, no connection":   {readJob, func() (*http.Response, error) { return nil, refused }, 6},
		"GET, broken":          {readJob, func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 6},
		"GET, 503":             {readJob, func() (*http.Response, error) { return answer(503, "{}") }, 6},
		"GET, 429":             {readJob, func() (*http.Response, error) { return answer(429, "{}") }, 6},
		"GET, 500":             {readJob, func() (*http.Response, error) { return answer(500, "{}") }, 1},
		"GET, 404":             {readJob, func() (*http.Response, error) { return answer(404, "{}") }, 1},
		"POST, broken":         {makeJob, func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 6},
		"POST, 503":            {makeJob, func() (*http.Response, error) { return answer(503, "{}") }, 6},
		"DELETE, broken":       {dropJob, func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 1},
		"DELETE, 503":          {dropJob, func() (*http.Response, error) { return answer(503, "{}") }, 1},
		"DELETE, no way":       {dropJob, func() (*http.Response, error) { return nil, refused }, 6},
		"DELETE, 429":          {dropJob, func() (*http.Response, error) { return answer(429, "{}") }, 6},
		"too long to wait for": {readJob, func() (*http.Response, error) { return answer(503, "{}", "Retry-After", "3600") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var keys, agents []string
				err := c.call(t.Context(), over(func(r *http.Request) (*http.Response, error) {
					keys, agents = append(keys, r.Header.Get("X-Idempotency-Key")), append(agents, r.UserAgent()+r.Header.Get("X-Tenant-ID"))
					return c.fail()
				}))
				if err == nil || len(keys) != c.tries {
					t.Fatalf("%d tries, want %d: %v", len(keys), c.tries, err)
				}
				if strings.Contains(err.Error(), "topsecret") {
					t.Errorf("the error tells the key: %v", err)
				}
				if post := strings.HasPrefix(name, "POST"); (keys[0] != "") != post || len(slices.Compact(keys)) != 1 || agents[0] != "test/1acme" {
					t.Errorf("keys %q, agents %q", keys, agents)
				}
			})
		})
	}
}

func readJob(ctx context.Context, c *Client) error { _, err := c.Job(ctx, "j"); return err }
func dropJob(ctx context.Context, c *Client) error { _, err := c.DeleteJob(ctx, "j"); return err }
func makeJob(ctx context.Context, c *Client) error {
	_, err := c.CreateJob(ctx, JobRequest{Name: "n"})
	return err
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		j, err := over(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return answer(503, "{}", "Retry-After", "7")
			}
			return answer(200, `{"name": "x"}`)
		}).Job(t.Context(), "j")
		if took := time.Since(began); err != nil || j.Name != "x" || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("%v, %v after %v", j.Name, err, took)
		}
	})
}

func TestAContextEndsTheTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := over(func(*http.Request) (*http.Response, error) { return nil, refused }).Job(ctx, "j")
		if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took > time.Second {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := over(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() }).Job(ctx, "j"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestTheNextServerIsAsked(t *testing.T) {
	var asked []string
	c := over(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Host)
		if r.URL.Host == "down" {
			return nil, refused
		}
		return answer(200, "{}")
	}, "http://down")
	for range 2 {
		if _, err := c.Job(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"down", "a", "a"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q: it stays with the one that answered", asked, want)
	}
	if _, err := New(nil, "").Job(t.Context(), "j"); !errors.Is(err, ErrNoServer) {
		t.Errorf("without a server: %v", err)
	}
}

func TestProblemsAreErrors(t *testing.T) {
	for status, want := range map[int]error{
		400: ErrInvalid, 401: ErrUnauthorized, 403: ErrForbidden, 404: ErrNotFound, 409: ErrConflict, 412: ErrConflict, 413: ErrInvalid, 422: ErrInvalid, 429: ErrLimited, 502: ErrUnavailable, 503: ErrUnavailable,
	} {
		c := New([]string{"http://a"}, "k", WithRetries(Retries{}), WithHTTPClient(&http.Client{Transport: wire(func(*http.Request) (*http.Response, error) {
			return answer(status, `{"code": "c", "detail": "d", "errors": [{"field": "f", "value": "v", "want": "w"}], "request_id": "r1"}`, "Retry-After", "3")
		})}))
		_, err := c.Job(t.Context(), "j")
		var p *Problem
		if !errors.Is(err, want) || !errors.As(err, &p) || p.Status != status || p.Code != "c" || p.RequestID != "r1" || p.RetryAfter != 3*time.Second || len(p.Errors) != 1 {
			t.Errorf("%d: %v", status, err)
		}
		if got, want := err.Error(), fmt.Sprintf("%d c: d (request r1)", status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnswersThatAreNotCarillons(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header []string
		body   string
		want   string
	}{
		"a page":     {200, []string{"Content-Type", "text/html"}, "<html>", "not what a Carillon server sends (text/html)"},
		"a redirect": {301, []string{"Location", "https://b/api/v1/jobs/j"}, "", "use that one: https://b/api/v1/jobs/j"},
		"a proxy":    {502, []string{"Content-Type", "text/html"}, "<html>", "502 : Bad Gateway"},
	} {
		cl := New([]string{"http://a"}, "k", WithRetries(Retries{}))
		cl.http.Transport = wire(func(*http.Request) (*http.Response, error) { return answer(c.status, c.body, c.header...) })
		if _, err := cl.Job(t.Context(), "j"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestIteratorsGoPageByPage(t *testing.T) {
	var asked []string
	c := over(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.RawQuery)
		switch r.URL.Query().Get("cursor") {
		case "":
			return answer(200, `{"jobs": [{"name": "a"}, {"name": "b"}], "pagination": {"next_cursor": "2"}}`)
		case "2":
			return answer(200, `{"jobs": [{"name": "c"}], "pagination": {"next_cursor": "3"}}`)
		}
		return answer(404, `{"code": "not_found"}`)
	})
	var names []string
	var last error
	for j, err := range c.Jobs(t.Context(), JobFilter{Tag: "x"}) {
		if last = err; err == nil {
			names = append(names, j.Name)
		}
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || !errors.Is(last, ErrNotFound) {
		t.Errorf("%q, %v", names, last)
	}
	if want := []string{"limit=1000&tag=x", "cursor=2&limit=1000&tag=x", "cursor=3&limit=1000&tag=x"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	asked = nil
	for range c.Jobs(t.Context(), JobFilter{}) {
		break
	}
	if len(asked) != 1 {
		t.Errorf("who stops early asks %d times", len(asked))
	}
}

func TestAKeyOfTheCallersOwn(t *testing.T) {
	var key string
	c := over(func(r *http.Request) (*http.Response, error) {
		key = r.Header.Get("X-Idempotency-Key")
		return answer(201, "{}")
	})
	if _, err := c.CreateJob(WithIdempotencyKey(t.Context(), "order-17"), JobRequest{}); err != nil || key != "order-17" {
		t.Errorf("sent %q: %v", key, err)
	}
}
