package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// final waits for an execution's end.
func (s *scene) final(c *harness.Client, id string) (e client.Execution) {
	s.Helper()
	harness.Eventually(s.T, 30*time.Second, "an end of "+id, func() bool {
		e = harness.Read[client.Execution](c, "/api/v1/executions/"+id)
		return e.FinishedAt != nil
	})
	return e
}

// TestReach has callbacks go where they must not: to the machine itself, its network and the cloud's metadata.
func TestReach(t *testing.T) {
	t.Parallel()
	s := stage(t, "CARILLON_CALLBACKS_ALLOW=")
	c := s.people["victim/operator"]
	port := s.sink.URL[strings.LastIndex(s.sink.URL, ":")+1:]
	own := s.server.Base[strings.LastIndex(s.server.Base, ":")+1:]
	var ids []string
	names := map[string]string{}
	for _, u := range []string{
		"http://127.0.0.1:" + port, "http://localhost:" + port, "http://127.1:" + port, "http://2130706433:" + port, "http://0x7f000001:" + port, "http://0177.0.0.1:" + port, "http://127.0.0.1.:" + port,
		"http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://[::ffff:7f00:1]:" + port, "http://0.0.0.0:" + port, "http://[::]:" + port, "http://0:" + port, "http://127.255.255.254:" + port,
		"http://[::127.0.0.1]:" + port, "http://[64:ff9b::7f00:1]:" + port, "http://[2002:7f00:1::]:" + port, "http://[fe80::1%25lo]:" + port, "http://[fe80::1]:" + port,
		"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://168.63.129.16/", "http://100.100.100.200/", "http://192.0.0.192/", "http://[::ffff:169.254.169.254]/", "http://2852039166/",
		"http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/", "http://100.64.0.1/", "http://198.18.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://240.0.0.1/", "http://[fc00::1]/", "http://[ff02::1]/",
		"http://example.com@127.0.0.1:" + port, "http://127.0.0.1:" + port + "#@example.com", "http://LOCALHOST:" + port, "http://127.0.0.1:" + own + "/api/v1/jobs", "http://localhost:" + own + "/metrics",
		"http://metadata.google.internal/", "http://169.254.169.254.nip.io:" + port,
		"file:///etc/passwd", "gopher://127.0.0.1:" + port, "ftp://127.0.0.1/", "unix:///var/run/docker.sock", "data:text/plain,x", "javascript:alert(1)", "//127.0.0.1:" + port, "http:///x", "http://", "http://:80", "http://[", "http://a b/", "http://127.0.0.1:99999", "http://127.0.0.1:" + port + "/\r\nX: y",
	} {
		what := "callback to " + fmt.Sprintf("%q", u)
		a, err := c.Do("POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "timeout_seconds": 5}, "retry_policy": {"max_retries": 0}}`, u))
		switch {
		case err != nil || a.Code >= 500:
			s.row(false, what, fmt.Sprint(a.Code, " ", err))
		case a.Code != 201:
			s.row(a.Code == 422 || a.Code == 400, what, fmt.Sprintf("%d at creation", a.Code))
		default:
			id := field(a.Body, "execution_id")
			ids, names[id] = append(ids, id), what
		}
	}
	for _, id := range ids {
		e := s.final(c, id)
		kind := ""
		if e.Error != nil {
			kind = e.Error.Type
		}
		// A name that does not resolve if there is no network is out of reach just as well.
		s.row(e.Status == "FAILED" && (kind == "BLOCKED_ADDRESS" || kind == "DNS_RESOLUTION_FAILED"), names[id], e.Status+" "+kind)
	}
	for _, rule := range []string{"http://127.0.0.1:" + port, "http://169.254.169.254/", "file:///etc/passwd"} {
		a, err := s.people["victim/admin"].Do("PUT", "/api/v1/notification-rules/x", fmt.Sprintf(`{"events": ["failed"], "callback_url": %q}`, rule))
		ok := err == nil && (a.Code == 422 || a.Code == 400)
		if err == nil && a.Code == 200 { // it is refused when it is used
			b, err := s.people["victim/admin"].Do("POST", "/api/v1/notification-rules/x/test", "")
			ok = err == nil && b.Code < 500
		}
		s.row(ok, "notification to "+rule, fmt.Sprint(a.Code))
	}
	s.row(len(s.sink.Seen()) == 0, "calls that reached this machine", fmt.Sprint(len(s.sink.Seen())))
	s.alive()
}

// TestReachIsNarrowed calls where a server or a tenant has narrowed callbacks to https and to some ports, by every kind of request that names a URL.
func TestReachIsNarrowed(t *testing.T) {
	t.Parallel()
	tries := func(s *scene, tenant, what, url string) {
		c, admin := s.people[tenant+"/operator"], s.people[tenant+"/admin"]
		call := fmt.Sprintf(`{"name": "x", "key": "x", "schedule": {"type": "MANUAL"}, "execution": {"callback_url": %q}}`, url)
		s.answers(c, []int{422}, what+": a job", "POST", "/api/v1/jobs", call)
		honest := c.Create(`{"name": "x", "schedule": {"type": "MANUAL"}, "execution": {"callback_url": "https://example.com/"}}`)
		s.answers(c, []int{422}, what+": a changed job", "PATCH", "/api/v1/jobs/"+honest.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q}}`, url))
		s.answers(c, []int{422}, what+": a node of a workflow", "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "x", "nodes": [{"key": "a", "execution": {"callback_url": %q}}]}`, url))
		s.answers(admin, []int{422, 403}, what+": a notification rule", "PUT", "/api/v1/notification-rules/x", fmt.Sprintf(`{"events": ["failed"], "callback_url": %q}`, url))
		flow := harness.Want[client.Workflow](c, 201, "POST", "/api/v1/workflows", `{"name": "x", "nodes": [{"key": "a", "execution": {"callback_url": "{{ run.input }}"}, "retry_policy": {"max_retries": 0}}]}`)
		run := harness.Want[client.WorkflowTriggered](c, 202, "POST", "/api/v1/workflows/"+flow.WorkflowID+"/trigger", fmt.Sprintf(`{"input": %q}`, url))
		s.final(c, run.WorkflowRunID)
		kind := ""
		if ran := harness.Read[client.WorkflowRun](c, "/api/v1/workflow-runs/"+run.WorkflowRunID); len(ran.Nodes) == 1 && ran.Nodes[0].ExecutionID != nil {
			if e := harness.Read[client.Execution](c, "/api/v1/executions/"+*ran.Nodes[0].ExecutionID); e.Error != nil {
				kind = e.Error.Type
			}
		}
		// Ports are judged by the address, so without a network a name does not come so far.
		s.row(kind == "BLOCKED_ADDRESS" || kind == "DNS_RESOLUTION_FAILED" && strings.HasPrefix(url, "https"), what+": a run that makes up the URL", kind)
	}
	t.Run("by the server", func(t *testing.T) {
		t.Parallel()
		s := stage(t, "CARILLON_CALLBACKS_HTTPS_ONLY=true", "CARILLON_CALLBACKS_PORTS=443,8443", "CARILLON_CALLBACKS_ALLOW=")
		for _, url := range []string{"http://example.com/", "HTTP://example.com:443/", "https://example.com:9443/", "https://example.com:22/"} {
			tries(s, "victim", url, url)
		}
		s.alive()
	})
	t.Run("by the tenant", func(t *testing.T) {
		t.Parallel()
		s := stage(t)
		harness.Want[client.Tenant](s.system, 200, "PATCH", "/api/v1/tenants/"+s.tenants["victim"], `{"callbacks_https_only": true}`)
		tries(s, "victim", "http at a tenant with https only", s.sink.URL)
		s.answers(s.people["victim/admin"], []int{403}, "the tenant's own admin widens it", "PATCH", "/api/v1/tenants/"+s.tenants["victim"], `{"callbacks_https_only": false}`)
		s.row(len(s.sink.Seen()) == 0, "calls over http that arrived", fmt.Sprint(len(s.sink.Seen())))
		s.alive()
	})
	t.Run("ports of other services", func(t *testing.T) {
		t.Parallel()
		s := stage(t, "CARILLON_CALLBACKS_ALLOW=")
		for _, port := range []int{22, 25, 465, 6667} {
			url := fmt.Sprintf("https://example.com:%d/", port)
			tries(s, "victim", url, url)
		}
		s.alive()
	})
}

// field is a field of a JSON object, as text.
func field(body, name string) string {
	_, rest, _ := strings.Cut(body, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// TestRedirects has a target that may be called send callbacks on to others.
func TestRedirects(t *testing.T) {
	t.Parallel()
	s := stage(t)
	c := s.people["victim/operator"]
	harness.Want[client.Secret](s.people["victim/admin"], 200, "PUT", "/api/v1/secrets/canary", `{"value": "canary-5ae3f1c09d"}`)
	elsewhere := harness.NewSink(t)
	calls := func(what, to string, status int, ok func(e client.Execution, seen []harness.Arrival) bool) {
		t.Helper()
		s.sink.Answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) })
		before := len(elsewhere.Seen())
		j := c.Create(fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "follow_redirects": true, "timeout_seconds": 5, "headers": {"Authorization": "Bearer canary-literal", "X-Secret": "${secret:canary}"},
			"payload": {"p": "${secret:canary}"}}, "retry_policy": {"max_retries": 0}}`, s.sink.URL))
		e := s.final(c, j.ExecutionID)
		seen := elsewhere.Since(before)
		kind := ""
		if e.Error != nil {
			kind = " " + e.Error.Type
		}
		s.row(ok(e, seen), what, fmt.Sprintf("%s%s, %d calls arrived", e.Status, kind, len(seen)))
	}
	clean := func(_ client.Execution, seen []harness.Arrival) bool {
		for _, a := range seen {
			if text := fmt.Sprint(a.Header, a.Body); strings.Contains(text, "canary") || a.Header.Get("Webhook-Signature") != "" || a.Header.Get("Carillon-Callback-Token") != "" || a.Header.Get("Authorization") != "" {
				t.Logf("it arrived: %v", text)
				return false
			}
		}
		return true
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		calls(fmt.Sprintf("%d to another origin carries no secret", status), elsewhere.URL, status, clean)
	}
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[fd00:ec2::254]/"} {
		calls("redirect to "+to, to, 302, func(e client.Execution, _ []harness.Arrival) bool {
			return e.Status == "FAILED" && e.Error != nil && e.Error.Type == "BLOCKED_ADDRESS"
		})
	}
	for _, to := range []string{"file:///etc/passwd", "gopher://127.0.0.1/", "//", "http://user:pw@" + strings.TrimPrefix(elsewhere.URL, "http://")} {
		calls("redirect to "+to, to, 302, func(e client.Execution, seen []harness.Arrival) bool {
			return (e.Status == "FAILED" || len(seen) > 0) && clean(e, seen)
		})
	}
	calls("redirects without end", s.sink.URL, 302, func(e client.Execution, _ []harness.Arrival) bool { return e.Status == "FAILED" })

	// Without being asked it follows none.
	s.sink.Answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, 307) })
	before := len(elsewhere.Seen())
	j := c.Create(fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "timeout_seconds": 5}, "retry_policy": {"max_retries": 0}}`, s.sink.URL))
	e := s.final(c, j.ExecutionID)
	s.row(e.Status == "FAILED" && len(elsewhere.Since(before)) == 0, "a redirect nobody asked to follow", e.Status)

	// A hostile answer: endless, slow, enormous headers. It ends with the timeout and takes nothing else along.
	for what, f := range map[string]func(http.ResponseWriter, *http.Request){
		"an endless answer": func(w http.ResponseWriter, r *http.Request) {
			b := make([]byte, 64<<10)
			for r.Context().Err() == nil {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		},
		"an answer that never comes": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"enormous headers":           func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 4<<20)) },
		"a script as the answer": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, "<script>alert(1)</script>\x1b[2J")
		},
	} {
		s.sink.Answer(f)
		j := c.Create(fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "timeout_seconds": 2}, "retry_policy": {"max_retries": 0}}`, s.sink.URL))
		e := s.final(c, j.ExecutionID)
		size := 0
		if e.CallbackResponse != nil {
			size = len(e.CallbackResponse.BodyPreview)
		}
		s.row(size <= 4<<10+64, what, fmt.Sprintf("%s, %d bytes kept", e.Status, size))
	}
	s.alive()
}
