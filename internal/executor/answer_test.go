package executor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/client"
)

func TestJudgement(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		if status >= 200 && status != 204 && status != 304 {
			_, _ = io.WriteString(w, "all is well")
		}
	})
	text := func(s string) *string { return &s }
	e := loopback(t)
	tests := []struct {
		status int
		expect *client.Expect
		kind   string
		retry  bool
		says   string
	}{
		{200, nil, "", false, ""},
		{201, nil, "", false, ""},
		{204, nil, "", false, ""},
		{299, nil, "", false, ""},
		{300, nil, typeHTTP, false, "answered 300 Multiple Choices"},
		{304, nil, typeHTTP, false, "answered 304 Not Modified"},
		{400, nil, typeHTTP, false, "answered 400 Bad Request"},
		{401, nil, typeHTTP, false, "answered 401 Unauthorized"},
		{404, nil, typeHTTP, false, "answered 404 Not Found"},
		{408, nil, typeHTTP, true, "answered 408 Request Timeout"},
		{410, nil, typeHTTP, false, "answered 410 Gone"},
		{429, nil, typeHTTP, true, "answered 429 Too Many Requests"},
		{499, nil, typeHTTP, false, "answered 499"},
		{500, nil, typeHTTP, true, "answered 500 Internal Server Error"},
		{503, nil, typeHTTP, true, "answered 503 Service Unavailable"},
		{599, nil, typeHTTP, true, "answered 599"},
		{600, nil, typeHTTP, false, "answered 600"},
		{999, nil, typeHTTP, false, "answered 999"},
		{404, &client.Expect{Status: []int{200, 404}}, "", false, ""},
		{503, &client.Expect{Status: []int{503}}, "", false, ""},
		{204, &client.Expect{Status: []int{200, 202}}, typeHTTP, false, "answered 204 No Content, which is not one of the expected 200, 202"},
		{500, &client.Expect{Status: []int{200}}, typeHTTP, true, "expected 200"},
		{200, &client.Expect{Status: []int{}}, "", false, ""},
		{200, &client.Expect{BodyContains: text("is well")}, "", false, ""},
		{200, &client.Expect{BodyContains: text("")}, "", false, ""},
		{204, &client.Expect{BodyContains: text("")}, "", false, ""},
		{200, &client.Expect{BodyContains: text("is \"bad\"")}, typeHTTP, true, `does not contain "is \"bad\""`},
		{204, &client.Expect{BodyContains: text("x")}, typeHTTP, true, "does not contain"},
		{404, &client.Expect{BodyContains: text("is well")}, typeHTTP, false, "answered 404 Not Found"},
		{404, &client.Expect{Status: []int{404}, BodyContains: text("nope")}, typeHTTP, true, "does not contain"},
	}
	for _, tt := range tests {
		a := get(fmt.Sprintf("%s/%d?k=s3cret", s.URL, tt.status))
		a.Execution.Expect = tt.expect
		o := e.Execute(t.Context(), a)
		check(t, o, tt.kind, tt.retry, tt.says)
		if o.Response == nil || o.Response.HTTPStatus != tt.status || o.Error != nil && o.Error.HTTPStatus != tt.status {
			t.Errorf("%d: got response %+v, error %+v", tt.status, o.Response, o.Error)
		}
	}
	o := e.Execute(t.Context(), get(s.URL+"/503"))
	if want := fmt.Sprintf("GET %s/503 answered 503 Service Unavailable", s.URL); o.Error.Message != want {
		t.Errorf("got %q, want %q", o.Error.Message, want)
	}
}

func TestSwitchingProtocolsIsNoAnswer(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the executor hangs up
		_ = conn.Close()
	})
	check(t, loopback(t).Execute(t.Context(), get(s.URL)), typeHTTP, false, "101 Switching Protocols")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) string { return date.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		text string
		want time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"7", 7 * time.Second},
		{" 120 ", 2 * time.Minute},
		{"-5", 0},
		{"1.5", 0},
		{"soon", 0},
		{"86399", 24*time.Hour - time.Second},
		{"86401", 24 * time.Hour},
		{"9223372036854775807", 24 * time.Hour},
		{"99999999999999999999999", 24 * time.Hour},
		{in(90 * time.Second), 90 * time.Second},
		{in(-time.Hour), 0},
		{in(1000 * time.Hour), 24 * time.Hour},
	}
	for _, tt := range tests {
		h := http.Header{"Retry-After": {tt.text}, "Date": {date.Format(http.TimeFormat)}}
		if got := retryAfter(h); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.text, got, tt.want)
		}
	}
	if got := retryAfter(http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}); got != 24*time.Hour {
		t.Errorf("without Date: got %s, want 24h", got)
	}
}

func TestRetryAfterIsHonouredWhereItMeansThat(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(status)
	})
	e := loopback(t)
	for status, want := range map[int]int64{429: 30_000, 503: 30_000, 500: 0, 404: 0, 200: 0} {
		if o := e.Execute(t.Context(), get(fmt.Sprintf("%s/%d", s.URL, status))); o.RetryAfterMS != want {
			t.Errorf("%d: got %d ms, want %d", status, o.RetryAfterMS, want)
		}
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("a", previewSize)
	tests := []struct{ name, body, want string }{
		{"empty", "", ""},
		{"text", "line\r\n\tnext\n", "line\r\n\tnext\n"},
		{"exact", full, full},
		{"longer", full + "b", full},
		{"cut in a rune", full[1:] + "é…", full[1:]},
		{"cut after a rune", full[2:] + "é…", full[2:] + "é"},
		{"cut in four bytes", full[3:] + "🔔", full[3:]},
		{"nul", "a\x00b", "a\ufffdb"},
		{"controls", "\x1b[31m\x7f\u0085", "\ufffd[31m\ufffd\ufffd"},
		{"invalid", "a\xff\xfeb", "a\ufffd\ufffdb"},
		{"ends in half a rune", "a\xe2\x82", "a\ufffd\ufffd"},
		{"surrogate", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"grows", strings.Repeat("\x00", previewSize), strings.Repeat("\ufffd", previewSize/3)},
	}
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	})
	e := loopback(t)
	for _, tt := range tests {
		a := attempt(client.Target{Target: "http", Method: "POST", CallbackURL: s.URL})
		a.Payload = []byte(tt.body)
		o := e.Execute(t.Context(), a)
		check(t, o, "", false)
		if o.Response.BodyPreview != tt.want {
			t.Errorf("%s: got %d bytes %.40q, want %d bytes %.40q", tt.name, len(o.Response.BodyPreview), o.Response.BodyPreview, len(tt.want), tt.want)
		}
	}
}

func FuzzPreview(f *testing.F) {
	f.Add([]byte("plain"))
	f.Add([]byte("\x00\xff\u0085é…🔔"))
	f.Add(bytes.Repeat([]byte("é\x01"), previewSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := preview(b[:min(len(b), previewSize)])
		if !utf8.ValidString(got) || len(got) > previewSize || strings.ContainsFunc(got, control) {
			t.Errorf("got %q of %q", got, b)
		}
	})
}

func TestBodyIsSearchedUpToALimit(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		_, _ = io.WriteString(w, strings.Repeat(".", n)+"needle"+strings.Repeat(".", 1000))
	})
	e := loopback(t)
	needle := "needle"
	for at, found := range map[int]bool{0: true, previewSize - 3: true, scanSize - 6: true, scanSize - 5: false} {
		a := get(fmt.Sprintf("%s/%d", s.URL, at))
		a.Execution.Expect = &client.Expect{BodyContains: &needle}
		o := e.Execute(t.Context(), a)
		if got := o.Status == client.Succeeded; got != found {
			t.Errorf("at byte %d: got found %t, want %t", at, got, found)
		}
		if len(o.Response.BodyPreview) > previewSize {
			t.Errorf("at byte %d: the preview has %d bytes", at, len(o.Response.BodyPreview))
		}
	}
}

// A node of a workflow fails by a JSON body that is too large for a result; any other body is no result.
func TestResultsOfAnswers(t *testing.T) {
	e := loopback(t)
	long := `"` + strings.Repeat("x", maxResult) + `"`
	for _, c := range []struct {
		kind, body, want string
		wants            bool
	}{
		{"application/json", `{"n": 1}`, `{"n": 1}`, true}, {"application/json", `{"n": 1}`, ``, false}, {"text/plain", `hello`, ``, true},
		{"application/json", long, typeResult, true}, {"application/problem+json", long, typeResult, true}, {"application/json", long, ``, false}, {"text/plain", long, ``, true},
	} {
		s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Write([]byte(c.body))
		})
		a := get(s.URL)
		a.WantsResult = c.wants
		o := e.Execute(t.Context(), a)
		if c.want == typeResult {
			check(t, o, typeResult, false, "at most 1048576 bytes", "$artifact")
		} else if o.Status != client.Succeeded || string(o.Result) != c.want {
			t.Errorf("%s of %d bytes: %s %.40s; want %s", c.kind, len(c.body), o.Status, o.Result, c.want)
		}
	}
}
