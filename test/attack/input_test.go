package attack

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// TestInput sends what parsers choke on. Every answer says what is wrong; none is a 5xx, a hang or a 2xx.
func TestInput(t *testing.T) {
	t.Parallel()
	s := stage(t)
	c := s.people["victim/operator"]
	job := func(more string) string {
		return `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop"}` + more + `}`
	}
	cron := func(e string) string {
		return job(fmt.Sprintf(`, "schedule": {"type": "CRON", "cron_expression": %q}`, e))
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 64<<20))
	_ = z.Close()

	bad, large, meaning := []int{400}, []int{413}, []int{400, 422}
	for _, x := range []struct {
		what string
		want []int
		body string
	}{
		{"nothing", bad, ""}, {"not JSON", bad, "{"}, {"two values", bad, job("") + job("")}, {"a list", bad, "[]"}, {"null", meaning, "null"},
		{"a byte order mark", bad, "\ufeff" + job("")}, {"a comment", bad, "/* */" + job("")}, {"a trailing comma", bad, `{"name": "x",}`},
		{"a field twice", bad, `{"name": "x", "name": "y", "execution": {"target": "simulate", "work_kind": "noop"}}`},
		{"a field twice in the payload", bad, `{"name": "x", "execution": {"target": "worker", "kind": "k", "payload": {"a": 1, "a": 2}}}`},
		{"an unknown field", bad, job(`, "nmae": 1`)}, {"a field in capitals", bad, job(`, "Priority": 1`)}, {"__proto__", bad, job(`, "__proto__": {}`)},
		{"broken UTF-8", bad, "{\"name\": \"\xff\xfe\"}"}, {"a lone surrogate", meaning, `{"name": "\ud800", "execution": {"target": "simulate", "work_kind": "noop"}}`},
		{"65 levels", meaning, `{"name": "x", "execution": {"target": "worker", "kind": "k", "payload": ` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}`},
		{"100 000 levels", meaning, strings.Repeat("[", 100_000)}, {"2 MiB", large, job(`, "description": "` + strings.Repeat("x", 2<<20) + `"`)},
		{"a number for a name", bad, `{"name": 1}`}, {"an endless number", meaning, job(`, "priority": 1e999999999`)}, {"a fraction", meaning, job(`, "priority": 5.5`)},
		{"a name of spaces", meaning, `{"name": "", "execution": {"target": "simulate", "work_kind": "noop"}}`},
		{"a null byte", meaning, `{"name": "a\u0000b", "execution": {"target": "simulate", "work_kind": "noop"}}`}, {"an escape sequence", meaning, `{"name": "\u001b[2J", "execution": {"target": "simulate", "work_kind": "noop"}}`},
		{"a key that climbs", meaning, job(`, "key": "../../etc/passwd"`)}, {"a queue that climbs", meaning, job(`, "queue": "../x"`)}, {"300 tags", meaning, job(`, "tags": [` + strings.Repeat(`"t",`, 300) + `"t"]`)},
		{"a day that never comes", meaning, cron("0 0 30 2 *")}, {"a step of 0", meaning, cron("*/0 * * * *")}, {"a huge step", []int{201, 422}, cron("*/99999999999999999999 * * * *")},
		{"100 000 fields", meaning, cron(strings.Repeat("* ", 100_000))}, {"a long list", meaning, cron(strings.Repeat("1,", 50_000) + "1 * * * *")}, {"a range backwards", []int{201, 422}, cron("59-1 * * * *")},
		{"a zone that is a path", meaning, job(`, "schedule": {"type": "CRON", "cron_expression": "* * * * *", "timezone": "../../../etc/passwd"}`)},
		{"an interval of 0", meaning, job(`, "schedule": {"type": "INTERVAL", "every": "0s"}`)}, {"a negative interval", meaning, job(`, "schedule": {"type": "INTERVAL", "every": "-1h"}`)},
		{"an interval of ages", meaning, job(`, "schedule": {"type": "INTERVAL", "every": "99999999999h"}`)}, {"the year 99999", meaning, job(`, "schedule": {"type": "ONE_TIME", "scheduled_time": "99999-01-01T00:00:00Z"}`)},
		{"a target that is not there", meaning, `{"name": "x", "execution": {"target": "shell", "command": ["id"]}}`}, {"a command where none may run", []int{403, 422}, `{"name": "x", "execution": {"target": "command", "command": ["id"]}}`},
		{"a header with a line break", meaning, `{"name": "x", "execution": {"callback_url": "https://example.com", "headers": {"X-A": "a\r\nHost: evil"}}}`},
		{"a header that is ours", meaning, `{"name": "x", "execution": {"callback_url": "https://example.com", "headers": {"webhook-signature": "v1,x"}}}`},
		{"a header named Host", meaning, `{"name": "x", "execution": {"callback_url": "https://example.com", "headers": {"Host": "evil"}}}`},
		{"a method that is not one", meaning, `{"name": "x", "execution": {"callback_url": "https://example.com", "method": "GET / HTTP/1.1\r\nX: y"}}`},
		{"CONNECT", meaning, `{"name": "x", "execution": {"callback_url": "https://example.com", "method": "CONNECT"}}`},
		{"a secret that is not there", meaning, `{"name": "x", "execution": {"target": "worker", "kind": "k", "payload": "${secret:none}"}}`},
		{"a timeout of ages", meaning, `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop", "timeout_seconds": 999999999999}}`},
	} {
		s.answers(c, x.want, "body: "+x.what, "POST", "/api/v1/jobs", x.body)
	}
	s.answers(c, []int{400, 413, 415}, "a gzip bomb", "POST", "/api/v1/jobs", bomb.String(), "Content-Encoding", "gzip")
	s.answers(c, []int{400, 415}, "a form", "POST", "/api/v1/jobs", "name=x", "Content-Type", "application/x-www-form-urlencoded")
	s.answers(c, []int{400, 415}, "XML", "POST", "/api/v1/jobs", `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>`, "Content-Type", "application/xml")
	s.answers(c, []int{413, 422}, "10 001 jobs", "POST", "/api/v1/jobs:batch", "["+strings.Repeat(job("")+",", 10_000)+job("")+"]")

	for _, id := range []string{"..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%00", "'", "%27%20OR%201=1--", "key:", "key:../x", "key:%00", strings.Repeat("a", 4000), "0190a6c8-7b3e-7cc0-8a1b-0123456789ab%2f..", "%F0%9F%94%94", "{id}", "..%5c..%5c"} {
		s.answers(c, []int{301, 307, 308, 400, 404, 414}, "id "+short(id), "GET", "/api/v1/jobs/"+id, "")
		s.answers(c, []int{301, 307, 308, 400, 404, 405, 414}, "artifact "+short(id), "GET", "/api/v1/artifacts/"+id, "")
	}
	for _, q := range []string{
		"limit=0", "limit=-1", "limit=1001", "limit=1e9", "limit=x", "cursor=x", "cursor=" + strings.Repeat("A", 5000), "status=%27", "sort=name;drop", "unknown=1", "limit=1&limit=2",
		"created_after=yesterday", "tag=" + url.QueryEscape("' OR '1'='1"), "q=" + url.QueryEscape(strings.Repeat("%", 2000)), "q=" + url.QueryEscape("%_\\"), "q=%00", "name=" + url.QueryEscape("'; DROP TABLE jobs; --"),
	} {
		s.answers(c, []int{200, 400, 422}, "query "+short(q), "GET", "/api/v1/jobs?"+q, "")
	}
	s.answers(c, []int{400, 431}, "64 KiB of headers", "GET", "/api/v1/jobs", "", "X-Large", strings.Repeat("x", 64<<10))
	for _, method := range []string{"TRACE", "PROPFIND", "TRACK", "DEBUG", "get"} {
		s.answers(c, []int{400, 404, 405, 501}, "method "+method, method, "/api/v1/jobs", "")
	}
	a := s.answers(c, []int{200}, "names come back as data", "GET", "/api/v1/jobs", "")
	s.row(strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") && a.Header.Get("X-Content-Type-Options") == "nosniff", "JSON that no browser takes for a page", a.Header.Get("Content-Type"))
	s.alive()
}

func short(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%.50s… (%d bytes)", s, len(s))
	}
	return s
}

// memory returns a process's peak memory in MiB; -1 if unknown.
func memory(p *harness.Process) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10
		}
	}
	return -1
}

// TestExpressions sends expressions that would fill the memory of a server, as the free tenant's viewer.
func TestExpressions(t *testing.T) {
	t.Parallel()
	s := stage(t)
	before := memory(s.server)
	big := strings.Repeat("x", 900)
	doubled := "payload.a"
	for range 24 {
		doubled = "(" + doubled + "+" + doubled + ")"
		if len(doubled) > 2000 {
			break
		}
	}
	for what, e := range map[string]string{
		"doubling a string": doubled, "let and doubling": `let a = payload.a; let b = a+a+a+a+a+a+a+a; let c = b+b+b+b+b+b+b+b; let d = c+c+c+c+c+c+c+c; let e = d+d+d+d+d+d+d+d; let f = e+e+e+e+e+e+e+e; f+f+f+f+f+f+f+f`,
		"repeat": `repeat(payload.a, 100000000)`, "a range": `1..100000000`, "a map over a range": `map(1..1000000, {payload.a})`, "a nested map": `map(1..10000, {map(1..10000, {#})})`, "join": `join(map(1..900000, {payload.a}), "")`,
		"a sum over a range": `sum(1..900000)`, "replace": `replace(payload.a, "x", payload.a)`, "split": `split(repeat(payload.a, 1000), "")`, "toJSON": `toJSON(map(1..900000, {payload}))`, "a long key": `payload.a`,
		"concat": `concat(1..900000, 1..900000, 1..900000)`, "a regular expression": `payload.a matches "(x+x+)+y"`, "the environment": `$env`, "a function of the host": `os.Getenv("PATH")`,
	} {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				body := fmt.Sprintf(`{"jobs": [{"job": {"key": "a", "name": "a", "max_concurrent": 1, "concurrency_key": %q, "execution": {"target": "worker", "kind": "k", "payload": {"a": %q}}}}]}`, e, big)
				s.answers(s.people["attacker/viewer"], []int{200, 400, 403, 413, 422, 429, 503}, "expression: "+what, "POST", "/api/v1/jobs:plan", body)
			})
		}
		wg.Wait()
	}
	// The quota on payloads comes before anything is computed from them.
	sum := strings.TrimSuffix(strings.Repeat("payload.a+", 60), "+")
	large := fmt.Sprintf(`{"jobs": [{"job": {"key": "a", "name": "a", "max_concurrent": 1, "concurrency_key": %q, "execution": {"target": "worker", "kind": "k", "payload": {"a": %q}}}}]}`, sum, strings.Repeat("x", 900<<10))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			s.answers(s.people["attacker/viewer"], []int{200, 403, 413, 422, 429, 503}, "a large payload, 60 times over", "POST", "/api/v1/jobs:plan", large)
		})
	}
	wg.Wait()
	a := s.answers(s.people["attacker/viewer"], []int{200, 403, 413, 422}, "a payload past the quota", "POST", "/api/v1/jobs:plan", large)
	s.row(strings.Contains(a.Body, "payload") && (a.Code != 200 || strings.Contains(a.Body, "1 KB") || strings.Contains(a.Body, "1024") || strings.Contains(a.Body, "quota")), "it is told of the quota", short(a.Body))
	if before >= 0 {
		after := memory(s.server)
		s.row(after-before < 150, "memory at its peak", fmt.Sprintf("%d MiB more than before", after-before))
	}
	s.alive()
}

// TestAbuse asks too often and holds connections open.
func TestAbuse(t *testing.T) {
	t.Parallel()
	s := stage(t)
	guesser := harness.At(t, s.server.Base)
	guesser.Key = "car_live_wrong_" + strings.Repeat("a", 40)
	for range 100 {
		if _, err := guesser.Do("GET", "/api/v1/jobs", ""); err != nil {
			t.Fatal(err)
		}
	}
	s.answers(s.people["victim/viewer"], []int{200}, "the victim behind an address that goes on with one wrong key", "GET", "/api/v1/session", "")
	limited := false
	for i := range 200 {
		guesser.Key = fmt.Sprintf("car_live_guess_%040d", i)
		a, err := guesser.Do("GET", "/api/v1/jobs", "")
		if err != nil {
			t.Fatal(err)
		}
		if limited = a.Code == 429 && a.Header.Get("Retry-After") != ""; limited {
			break
		}
	}
	s.row(limited, "guessing keys is slowed down", fmt.Sprint(limited))
	for _, path := range []string{"/healthz", "/health", "/readyz"} {
		s.answers(guesser, []int{200}, "a probe of "+path+" beside it", "GET", path, "")
	}
	s.answers(s.people["victim/viewer"], []int{200, 429}, "the victim behind the same address", "GET", "/api/v1/session", "")
	harness.Want[client.Tenant](s.system, 200, "PATCH", "/api/v1/tenants/attacker", `{"quotas": {"requests_per_second": 2}}`)
	limited = false
	harness.Within(10e9, func() bool {
		a, err := s.people["attacker/viewer"].Do("GET", "/api/v1/jobs", "")
		limited = err == nil && a.Code == 429
		return limited
	})
	s.row(limited, "a tenant past its rate", fmt.Sprint(limited))
	refused := 0
	for range 2000 {
		a, err := s.people["victim/worker"].Do("POST", "/api/v1/workers", `{"capacity": 1}`)
		if err != nil {
			t.Fatal(err)
		}
		if a.Code == 429 {
			refused++
			break
		}
	}
	s.row(refused > 0, "registering workers without end", fmt.Sprint(refused > 0))
	s.alive()
}
