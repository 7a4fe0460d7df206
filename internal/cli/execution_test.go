package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestExecutionLogs(t *testing.T) {
	lines := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf(`{"id": "7.%d", "attempt": 1, "line": %d, "at": "2026-01-31T15:04:05Z", "stream": "%s", "text": "line %d\u001b[31m\u202e"}`, i, i, []string{"stdout", "stderr"}[i%2], i))
		}
		return out
	}
	const e1 = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"
	status := "SUCCEEDED"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.URL.Path == "/api/v1/executions/"+e1:
			fmt.Fprintf(w, `{"execution_id": %q}`, e1)
		case r.URL.Path != "/api/v1/executions/"+e1+"/logs":
			w.WriteHeader(404)
			fmt.Fprint(w, `{"status": 404, "code": "not_found", "detail": "There is no such execution."}`)
		case q.Get("follow") == "true":
			w.Header().Set("Content-Type", "text/event-stream")
			for i, l := range lines(0, 3) {
				fmt.Fprintf(w, "id: 7.%d\nevent: line\ndata: %s\n\n: alive\n\n", i, l)
			}
			fmt.Fprintf(w, "event: end\ndata: {\"status\": %q}\n\n", status)
		case q.Get("after") == "":
			fmt.Fprintf(w, `{"lines": [%s], "pagination": {"limit": 2, "total": 3, "next_cursor": "7.1"}}`, strings.Join(lines(0, 2), ","))
		default:
			fmt.Fprintf(w, `{"lines": [%s], "pagination": {"limit": 2, "total": 3, "next_cursor": null}}`, strings.Join(lines(2, 3), ","))
		}
	}))
	defer server.Close()
	run := func(args ...string) (code int, out, err string) {
		var stdout, stderr strings.Builder
		code = Main(append([]string{"execution", "logs", "--server", server.URL}, args...), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	for _, args := range [][]string{{e1}, {e1, "--follow"}, {e1, "-f", "--attempt", "1"}} {
		if code, out, err := run(args...); code != 0 || out != "line 0\\x1b[31m\\u202e\nline 2\\x1b[31m\\u202e\n" || err != "line 1\\x1b[31m\\u202e\n" {
			t.Errorf("%v: %d\n%s\n%s", args, code, out, err)
		}
	}
	for _, args := range [][]string{{e1, "--streams"}, {e1, "-f", "--streams"}} {
		if code, out, err := run(args...); code != 0 || err != "" || out != "stdout | line 0\\x1b[31m\\u202e\nstderr | line 1\\x1b[31m\\u202e\nstdout | line 2\\x1b[31m\\u202e\n" {
			t.Errorf("%v: %d\n%s\n%s", args, code, out, err)
		}
	}
	if _, out, _ := run(e1, "-t", "--streams"); !strings.HasPrefix(out, "2026-01-31T15:04:05.000000Z stdout | line 0") {
		t.Errorf("with times and streams: %s", out)
	}
	if _, out, _ := run(e1, "-t"); !strings.HasPrefix(out, "2026-01-31T15:04:05.000000Z line 0") {
		t.Errorf("with times: %s", out)
	}
	status = "FAILED"
	if code, _, err := run(e1, "-f"); code != runFailed || !strings.Contains(err, "ended as FAILED") {
		t.Errorf("failed: %d %s", code, err)
	}
	if code, _, err := run("other"); code != notFound || !strings.Contains(err, "no such execution") {
		t.Errorf("unknown: %d %s", code, err)
	}
	for _, args := range [][]string{{}, {"a", "b"}, {e1, "--attempt", "-1"}} {
		if code, _, err := run(args...); code == 0 || err == "" {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestWrongArgumentsAreMisuse(t *testing.T) {
	for _, args := range [][]string{{"execution", "logs"}, {"execution", "logs", "a", "b"}, {"artifact", "push"}, {"worker", "x"}, {"execution", "x"}, {"nonsense"}} {
		var stdout, stderr strings.Builder
		if code := Main(args, &stdout, &stderr); code != misuse || !strings.Contains(stderr.String(), " --help' for usage") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
	}
}
