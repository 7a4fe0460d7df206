// Package attack sends a running server what an attacker would send, and compares each answer with the one that is
// expected: no credential and forged ones, another tenant's ids, malformed and oversized input, callbacks to addresses
// that are off limits, ways to read a secret back, a compromised worker, a hostile page in the browser, another user
// of the machine, and a command that looks for the keys of the server.
//
// It is a black box: it starts the built binary and uses nothing but its ports and its command line. Everything stays
// on loopback. `make attack` prints one line for each attack; a line whose answer is not the expected one fails.
package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, "")
}

// report collects the rows of one test and prints them when it ends.
type report struct {
	*testing.T
	mu         sync.Mutex
	rows       []string // guarded by mu
	unexpected int      // guarded by mu
}

func newReport(t *testing.T) *report {
	r := &report{T: t}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.rows) == 0 && !t.Skipped() {
			t.Error("no attack was tried")
		}
		if testing.Verbose() {
			fmt.Fprintf(os.Stdout, "%s\n%s: %d attacks, %d unexpected\n", strings.Join(r.rows, "\n"), t.Name(), len(r.rows), r.unexpected)
		}
	})
	return r
}

// row records one attack: what was tried, what came of it and whether that was expected.
func (r *report) row(ok bool, what, got string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := "ok        "
	if !ok {
		mark = "UNEXPECTED"
		r.unexpected++
		r.Errorf("%s: %s", what, got)
	}
	r.rows = append(r.rows, fmt.Sprintf("%s  %s: %s", mark, what, got))
}

// answers records an attack that must be answered with one of the statuses.
func (r *report) answers(c caller, want []int, what, method, path, body string, headers ...string) harness.Answer {
	r.Helper()
	a, err := c.Do(method, path, body, headers...)
	if err != nil {
		r.row(false, what, fmt.Sprintf("no answer, want %v: %v", want, err))
		return a
	}
	ok := slices.Contains(want, a.Code)
	got := fmt.Sprint(a.Code)
	if !ok {
		got = fmt.Sprintf("%d, want %v: %.300s", a.Code, want, a.Body)
	}
	r.row(ok, what, got)
	return a
}

// caller sends a request to the server under attack.
type caller interface {
	Do(method, path, body string, headers ...string) (harness.Answer, error)
}

// stranger has no credential, and comes from another address with each request: a server soon stops answering an address
// that continues guessing. Only Linux has all of 127.0.0.0/8 without being told.
type stranger struct {
	base string
	n    int
}

func (s *stranger) Do(method, path, body string, headers ...string) (harness.Answer, error) {
	s.n++
	from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(s.n>>8), byte(s.n))}
	if runtime.GOOS != "linux" {
		from = nil
	}
	c := &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: from}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		return harness.Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w, err := c.Do(r)
	if err != nil {
		return harness.Answer{}, err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return harness.Answer{Code: w.StatusCode, Header: w.Header, Body: string(b)}, err
}

// denied are the answers to a credential that is not accepted.
func denied() []int {
	if runtime.GOOS != "linux" {
		return []int{401, 429}
	}
	return []int{401}
}

// scene is a server with two tenants and a client for each role.
type scene struct {
	*report
	server  *harness.Process
	system  *harness.Client
	tenants map[string]string          // their ids, by name
	people  map[string]*harness.Client // "victim/admin", "attacker/viewer" and so on
	sink    *harness.Sink
}

const sealKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

var roles = []string{"viewer", "operator", "admin", "worker"}

// stage starts a server with a victim (pro) and an attacker (free) as tenants.
func stage(t *testing.T, env ...string) *scene {
	t.Helper()
	s := &scene{report: newReport(t), tenants: map[string]string{}, people: map[string]*harness.Client{}, sink: harness.NewSink(t)}
	s.server = harness.Start(t, harness.Settings(append([]string{"CARILLON_SECRETS_KEY=" + sealKey}, env...)...), "serve", "--database", "sqlite:"+t.TempDir()+"/c.db")
	s.system = s.server.Client
	for name, tier := range map[string]string{"victim": "pro", "attacker": "free"} {
		made := harness.Want[client.Tenant](s.system, 201, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": %q, "tier": %q}`, name, tier))
		harness.Want[client.Tenant](s.system, 200, "PATCH", "/api/v1/tenants/"+made.TenantID, `{"quotas": {"requests_per_second": -1}}`)
		s.tenants[name] = made.TenantID
		for _, role := range roles {
			s.people[name+"/"+role] = s.as(made.TenantID, role)
		}
	}
	return s
}

// as returns a client with a new key.
func (s *scene) as(tenant, role string) *harness.Client {
	s.Helper()
	k := harness.Want[client.APIKey](s.system, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "k", "role": %q}`, tenant, role))
	c := harness.At(s.T, s.server.Base)
	c.Key = *k.Key
	return c
}

// alive records that the server still answers, as the last row of a test.
func (s *scene) alive() {
	s.Helper()
	s.answers(s.system, []int{200}, "the server is still ready", "GET", "/readyz", "")
	if out := s.server.Out.String(); strings.Contains(out, "panic:") || strings.Contains(out, "goroutine ") {
		s.row(false, "the server's log", "holds a panic")
	}
}
