package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Client calls a server like its users.
type Client struct {
	*testing.T
	Base string // http://host:port
	Key  string // "": it does not sign in
}

// At returns a client of the server at a base URL, with Key.
func At(t *testing.T, base string) *Client { return &Client{T: t, Base: base, Key: Key} }

// Asker is a client or a process.
type Asker interface {
	testing.TB
	Ask(method, path, body string, headers ...string) (int, string, error)
}

// Answer is a server's answer.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
}

// caller gives up on a response after a while, like real callers.
var caller = &http.Client{Timeout: Slack * 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// Do sends a request, with headers given as names and values; an error if there is no answer.
func (c *Client) Do(method, path, body string, headers ...string) (Answer, error) {
	r, err := http.NewRequest(method, c.Base+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.Key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := caller.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return Answer{w.StatusCode, w.Header, string(b)}, err
}

// Ask is Do for callers that need no header of the response.
func (c *Client) Ask(method, path, body string, headers ...string) (int, string, error) {
	a, err := c.Do(method, path, body, headers...)
	return a.Code, a.Body, err
}

// Ready reports whether the server is ready.
func (c *Client) Ready() bool {
	code, _, err := c.Ask("GET", "/readyz", "")
	return err == nil && code == 200
}

// Want requests a response with a status and a type: once, except that it retries when a busy server asks for that.
func Want[T any](c Asker, status int, method, path, body string) T {
	c.Helper()
	var code int
	var text string
	var err error
	Within(30*time.Second, func() bool {
		code, text, err = c.Ask(method, path, body)
		return method != "GET" || code != 503 || status == 503
	})
	if err != nil || code != status {
		c.Fatalf("%s %s: got %d, %v, want %d: %s", method, path, code, err, status, text)
	}
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	return v
}

// Read repeats a request until the response has status 200, like a caller that is told to retry.
func Read[T any](c Asker, path string) (v T) {
	c.Helper()
	var code int
	var text string
	var err error
	if !Within(30*time.Second, func() bool { code, text, err = c.Ask("GET", path, ""); return err == nil && code < 500 }) || code != 200 {
		c.Fatalf("GET %s: got %d, %v: %s", path, code, err, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		c.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// Create creates a job.
func (c *Client) Create(body string) client.Job {
	c.Helper()
	return Want[client.Job](c, 201, "POST", "/api/v1/jobs", body)
}

// Execution reads an execution.
func (c *Client) Execution(id string) client.Execution {
	c.Helper()
	return Want[client.Execution](c, 200, "GET", "/api/v1/executions/"+id, "")
}

// Ended waits until an execution has finished, whatever its outcome.
func (c *Client) Ended(id string) (e client.Execution) {
	c.Helper()
	Eventually(c.T, 40*time.Second, "execution "+id+" to end", func() bool {
		e = Read[client.Execution](c, "/api/v1/executions/"+id)
		return e.FinishedAt != nil
	})
	return e
}

// Ends waits until an execution is in the state.
func (c *Client) Ends(id, status string) (e client.Execution) {
	c.Helper()
	Eventually(c.T, 40*time.Second, "execution "+id+" to be "+status, func() bool {
		e = Read[client.Execution](c, "/api/v1/executions/"+id)
		return e.Status == status
	})
	return e
}
