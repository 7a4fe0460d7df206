package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// said is a server, or what stands in its place, that answers with anything.
type said struct {
	status int
	header http.Header
	body   string
}

func (s said) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Header: s.header, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

// Whatever answers, the client does not hang or panic; what is no success is a *Problem with its status.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "", `{"job_id": "a"}`)
	f.Add(422, "5", `{"status": 1, "code": "x", "errors": [{"field": "a"}]}`)
	f.Add(503, "-1", "<html>")
	f.Add(301, "99999999999", "null")
	f.Fuzz(func(t *testing.T, status int, retry, body string) {
		if status < 200 || status > 599 {
			return
		}
		c := New([]string{"http://server.example"}, "", WithRetries(Retries{}))
		c.http.Transport = said{status, http.Header{"Retry-After": {retry}, "Location": {retry}}, body}
		_, err := c.Job(t.Context(), "x")
		var p *Problem
		if errors.As(err, &p) && (p.Status != status || p.RetryAfter < 0 || p.Error() == "") {
			t.Errorf("%d %q: %+v", status, body, p)
		}
	})
}

// Whatever comes as a stream of events, each is told once, and the last id is one that stood in it.
func FuzzEvents(f *testing.F) {
	f.Add("event: ready\nid: 1\ndata: {}\n\nevent: changes\nid: 2\ndata: {}\n\n")
	f.Add(": beat\n\ndata\n\ndata: \n\nid: x")
	f.Add("data: a\r\n\r\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		c := New([]string{"http://server.example"}, "")
		c.http.Transport = said{200, http.Header{}, text}
		last, n := "", 0
		end, err := c.stream(context.Background(), "/events/stream", &last, func(e event) (bool, error) {
			if n++; e.data == "" {
				t.Errorf("%q: an event without data", text)
			}
			return false, nil
		})
		if end || n > strings.Count(text, "\n") || !strings.Contains(text, last) {
			t.Errorf("%q: %d events, the last id %q, end %v, %v", text, n, last, end, err)
		}
	})
}
