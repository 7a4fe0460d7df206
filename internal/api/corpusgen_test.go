package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// maker makes requests up. All that it chooses follows from its seed, but for the ids of what there is.
type maker struct {
	*rand.Rand
	table []api.Route
	ids   func(r *rand.Rand, kind string) string // of something that there is, or was
	wild  int                                    // one in so many values is wrong; 0: none
}

// made is a request that was made up.
type made struct {
	route   api.Route
	method  string
	target  string // path and query, as they would be sent
	headers map[string]string
	body    string
}

func (m made) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q\n", m.method, m.target)
	for _, name := range slices.Sorted(maps.Keys(m.headers)) {
		fmt.Fprintf(&b, "%s: %q\n", name, m.headers[name])
	}
	body := m.body
	if len(body) > 2000 {
		body = body[:2000] + "…"
	}
	return b.String() + strconv.Quote(body)
}

func oneOf[T any](r *rand.Rand, some ...T) T { return some[r.IntN(len(some))] }

// chance is true once in n times.
func (m *maker) chance(n int) bool { return m.IntN(n) == 0 }

// request makes one up: as it should be, nearly so, or nonsense.
func (m *maker) request() made {
	rt := m.table[m.IntN(len(m.table))]
	for rt.Needs == tenant.Open && !m.chance(10) { // those do not much
		rt = m.table[m.IntN(len(m.table))]
	}
	m.wild = oneOf(m.Rand, 0, 0, 80, 30, 8)
	q := made{route: rt, method: rt.Method, headers: map[string]string{}}
	q.target = m.path(rt) + m.query(rt)
	switch {
	case rt.Bytes && rt.Method == "PUT":
		q.body = m.bytes(m.IntN(2000))
	case rt.Body != nil:
		q.body = m.bodyOf(rt)
	case m.chance(10):
		q.body = m.junk()
	}
	m.dress(&q)
	return q
}

// bodyOf is a body for a route.
func (m *maker) bodyOf(rt api.Route) string {
	var body string
	switch n := m.IntN(20); {
	case n < 3:
		body = rt.Sample
	case n < 10:
		body = m.graft(rt)
	case n < 16:
		body = m.encode(m.value("", rt.Body, 0), 0)
	case n < 18:
		body = m.encode(m.anything(0), 0)
	case n < 19:
		return m.junk()
	default:
		return oneOf(m.Rand, "", "null", "[]", "{}", `""`, "0", "true", " ", "{", "[", `{"":""}`, "\xef\xbb\xbf{}", strings.Repeat("[", 100), strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100))
	}
	if m.wild > 0 && m.chance(4) {
		body = m.bruise(body)
	}
	return body
}

// graft is the sample of a route with a few of its fields made up.
func (m *maker) graft(rt api.Route) string {
	var base map[string]any
	if json.Unmarshal([]byte(rt.Sample), &base) != nil || rt.Body.Kind() != reflect.Struct {
		return rt.Sample
	}
	out := asFields(base)
	for _, f := range m.object(rt.Body, 0) {
		if !m.chance(6) {
			continue
		}
		i := slices.IndexFunc(out, func(x field) bool { return x.name == f.name })
		if i < 0 {
			out = append(out, f)
			continue
		}
		inner, ok := out[i].value.(fields)
		more, also := f.value.(fields)
		if !ok || !also || len(more) == 0 {
			out[i].value = f.value
			continue
		}
		one := more[m.IntN(len(more))]
		inner = slices.DeleteFunc(inner, func(x field) bool { return x.name == one.name })
		out[i].value = append(inner, one)
	}
	return m.encode(out, 0)
}

func asFields(from map[string]any) (out fields) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		value := from[name]
		if inner, ok := value.(map[string]any); ok {
			value = asFields(inner)
		}
		out = append(out, field{name, value})
	}
	return out
}

// path is a route's path, with something in place of what is in braces.
func (m *maker) path(rt api.Route) string {
	path := strings.TrimSuffix(rt.Path, "{$}")
	if before, rest, ok := strings.Cut(path, "{"); ok {
		_, after, _ := strings.Cut(rest, "}")
		path = before + m.id(before) + after
		if before, rest, ok := strings.Cut(path, "{"); ok {
			_, after, _ := strings.Cut(rest, "}")
			path = before + oneOf(m.Rand, "1", "1", "1", "2", m.id("")) + after
		}
	}
	if m.chance(40) {
		path = oneOf(m.Rand, path+"/", "/"+path, path+"/..", path+"/../..", strings.ToUpper(path), path+"%00", path+"%2e%2e", path+"x", "/api/v1"+path, path+":cancel", strings.ReplaceAll(path, "/", "//"),
			"/"+strings.ReplaceAll(path, "/", "%2f"), path+"/"+strings.Repeat("a", 3000), "/api/v1/", "/api/v1", "/", "/api/v2/jobs", "/favicon.ico", path+";x=1", path+"/%ff")
	}
	return path
}

// id stands in for what a path or a field names.
func (m *maker) id(kind string) string {
	switch n := m.IntN(20); {
	case n < 13:
		return m.ids(m.Rand, kind)
	case n < 15:
		return m.uuid()
	case n < 16:
		return "key:" + oneOf(m.Rand, "k1", "nightly", "", "A", "..", "a b", strings.Repeat("k", 129))
	case n < 17:
		return url.PathEscape(m.text())
	}
	return oneOf(m.Rand, "0", "-1", "null", "undefined", "..", ".", "%2e%2e%2f", "%00", "%ff%fe", "*", "a%2fb", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"0190a6c8-7b3e-7cc0-8a1b-0123456789a", "%7B0190a6c8-7b3e-7cc0-8a1b-0123456789ab%7D", "0190A6C8-7B3E-7CC0-8A1B-0123456789AB", "0190a6c87b3e7cc08a1b0123456789ab", "'%20OR%201=1--", "$%7Bsecret:x%7D",
		strings.Repeat("a", 64), strings.Repeat("9", 400), "😀", "things", "default", "mine")
}

func (m *maker) uuid() string {
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", m.Uint32(), m.IntN(1<<16), m.IntN(1<<12), m.IntN(1<<12), m.Int64N(1<<48))
}

// query returns the query string, without the ?.
func (m *maker) query(rt api.Route) string {
	if len(rt.Params) == 0 && !m.chance(15) || m.chance(3) {
		return ""
	}
	var parts []string
	for range 1 + m.IntN(3) {
		name := "x"
		if len(rt.Params) > 0 && !m.chance(15) {
			name = oneOf(m.Rand, rt.Params...)
		}
		parts = append(parts, name+"="+m.parameter(name))
	}
	q := "?" + strings.Join(parts, oneOf(m.Rand, "&", "&", "&", "&", "&", ";", "&&"))
	if m.chance(20) {
		q += oneOf(m.Rand, "%", "%zz", "&=", "&%00=1", "#", "&a=%ff", "&"+strings.Repeat("a", 9000), "&limit=1&limit=2", "=", "&__proto__=1")
	}
	return q
}

// parameter is a value for a parameter.
func (m *maker) parameter(name string) string {
	if m.chance(6) {
		return url.QueryEscape(m.text())
	}
	switch name {
	case "limit", "n", "hours", "minutes", "attempt":
		return oneOf(m.Rand, "1", "2", "10", "1000", "0", "-1", "1001", "1e3", "9999999999999999999", "+5", "5.0", " 5", "0x10", "", "NaN", "721")
	case "cursor", "after", "last_event_id":
		return url.QueryEscape(m.cursor())
	case "start_date", "end_date", "finished_after", "from", "to", "at":
		return url.QueryEscape(m.instant())
	case "status":
		return oneOf(m.Rand, "ACTIVE", "paused", "PENDING", "SUCCEEDED,FAILED", "RUNNING,", ",", "DELETED", "x", "SUCCEEDED,SUCCEEDED", "EXPIRED", "")
	case "trigger":
		return oneOf(m.Rand, "schedule", "manual,retry", "MANUAL", "x", "", "workflow")
	case "schedule_type":
		return oneOf(m.Rand, "CRON", "interval", "x", "IMMEDIATE", "")
	case "format":
		return oneOf(m.Rand, "csv", "jsonl", "parquet", "CSV", "x", "", "xml")
	case "follow", "force", "dry_run":
		return oneOf(m.Rand, "true", "false", "TRUE", "1", "", "yes")
	case "ids":
		return m.id("/api/v1/jobs/") + oneOf(m.Rand, "", ","+m.id("/api/v1/jobs/"))
	case "job_id", "execution_id", "worker_id":
		return m.id("/api/v1/" + strings.TrimSuffix(name, "_id") + "s/")
	}
	return url.QueryEscape(m.text())
}

// cursor returns a cursor that a list may have returned, or not.
func (m *maker) cursor() string {
	c := m.ids(m.Rand, "cursor")
	switch m.IntN(6) {
	case 0:
		return c
	case 1:
		return m.bruise(c)
	case 2:
		return c[:len(c)/2]
	case 3:
		return c + c
	}
	return oneOf(m.Rand, "x", "-1", "0", "1", "99999999999999999999", "AAAA", "====", "eyJ9", "MTIz", "1.1", "1-1", m.uuid(), strings.Repeat("A", 2000), "\x00", "é", m.text())
}

// dress adds headers, and now and then another method.
func (m *maker) dress(q *made) {
	if q.body != "" && !m.chance(4) {
		q.headers["Content-Type"] = "application/json"
		if m.chance(12) {
			q.headers["Content-Type"] = oneOf(m.Rand, "text/plain", "application/xml", "application/json; charset=latin1", "application/json;", "multipart/form-data", ";", "application/x-www-form-urlencoded", "\x7f", "a/b/c", "")
		}
	}
	odd := func(n int, name string, some ...string) {
		if m.chance(n) {
			q.headers[name] = oneOf(m.Rand, some...)
		}
	}
	odd(12, "X-Idempotency-Key", "a", "b", strings.Repeat("k", 256), "é", "with space", "\x01", "a"+strconv.Itoa(m.IntN(500)))
	odd(60, "Idempotency-Key", "a", "other", "")
	odd(40, "X-Tenant-ID", "mine", "other", "default", "nobody", "", "*", "../x", strings.Repeat("t", 300))
	odd(40, "X-Request-ID", "r1", strings.Repeat("r", 200), "a\tb", "é")
	odd(40, "Accept", "text/event-stream", "text/html", "*/*", "x", "")
	odd(40, "Last-Event-ID", "1", "x", m.cursor(), "")
	odd(80, "Accept-Encoding", "gzip", "br", "x")
	odd(80, "Range", "bytes=0-1", "bytes=-5", "x")
	odd(80, "Origin", "http://localhost:8080", "https://evil.example", "null", "://")
	odd(200, "Expect", "100-continue", "x")
	odd(200, "Host", "evil.example")
	if q.method == "PATCH" || m.chance(60) {
		odd(3, "If-Match", "1", "2", "0", "-1", "x", `"1"`, "*", "99999999999999999999", "")
	}
	if m.chance(50) {
		q.method = oneOf(m.Rand, "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PURGE", "get", "CONNECT", "PROPFIND", "POST ")
	}
}

// value makes up something of a wire type; which texts go where the field's name says.
func (m *maker) value(name string, t reflect.Type, depth int) any {
	if m.wild > 0 && m.chance(m.wild) {
		return m.wrong(depth)
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return m.instant()
	case reflect.TypeFor[json.RawMessage]():
		return m.anything(depth)
	}
	switch t.Kind() {
	case reflect.Pointer:
		if m.chance(8) {
			return nil
		}
		return m.value(name, t.Elem(), depth)
	case reflect.Bool:
		return m.chance(2)
	case reflect.Int, reflect.Int64:
		return oneOf[any](m.Rand, 0, 1, 2, 5, 10, 60, 100, 1000, -1, m.IntN(100), json.Number("9223372036854775807"), json.Number("-9223372036854775808"), m.odd(json.Number("9223372036854775808")), m.odd(3.5), m.odd(json.Number("1e400")))
	case reflect.Float64:
		return oneOf[any](m.Rand, 0, 0.5, 1, -1, 100, json.Number("1e308"), json.Number("1e309"), json.Number("1e-400"))
	case reflect.String:
		return m.textFor(name)
	case reflect.Slice:
		out := make([]any, oneOf(m.Rand, 0, 1, 1, 2, 3))
		for i := range out {
			out[i] = m.value(strings.TrimSuffix(name, "s"), t.Elem(), depth+1)
		}
		return out
	case reflect.Map:
		out := fields{}
		for range m.IntN(3) {
			out = append(out, field{oneOf(m.Rand, "X-Env", "Authorization", "PATH", "a", "", "A b", "x\ny", m.text()), m.value("header", t.Elem(), depth+1)})
		}
		return out
	case reflect.Struct:
		return m.object(t, depth)
	}
	return nil
}

// fields are those of an object, in order, so that one may be there twice.
type fields []field

type field struct {
	name  string
	value any
}

func (m *maker) object(t reflect.Type, depth int) fields {
	var out fields
	keep := 2 + m.IntN(6) // of eight
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" || strings.Contains(options, "omitempty") && m.IntN(8) >= keep {
			continue
		}
		if enum := f.Tag.Get("enum"); enum != "" && !m.chance(12) {
			one := oneOf(m.Rand, strings.Split(enum, ",")...)
			out = append(out, field{name, oneOf(m.Rand, one, one, one, strings.ToLower(one))})
			continue
		}
		out = append(out, field{name, m.value(name, f.Type, depth+1)})
	}
	if m.chance(30) && len(out) > 0 {
		switch f := out[m.IntN(len(out))]; m.IntN(4) {
		case 0:
			out = append(out, f)
		case 1:
			out = append(out, field{strings.ToUpper(f.name), f.value})
		case 2:
			out = append(out, field{m.text(), m.anything(depth)})
		default:
			out = slices.DeleteFunc(out, func(x field) bool { return x.name == f.name })
		}
	}
	return out
}

// wrong is something that seldom fits.
func (m *maker) wrong(depth int) any {
	return oneOf[any](m.Rand, nil, true, "", "x", 0, -1, 1.5, json.Number("1e999"), json.Number("123456789012345678901234567890"), []any{}, fields{}, []any{nil}, fields{{"a", 1}}, m.anything(depth+1))
}

// odd is something that does not fit, if that is wanted; else 3.
func (m *maker) odd(v any) any {
	if m.wild == 0 {
		return 3
	}
	return v
}

// anything is any JSON.
func (m *maker) anything(depth int) any {
	if depth > 6 || m.chance(3) {
		return oneOf[any](m.Rand, nil, true, false, m.IntN(1000), -1, 0.1, m.text(), json.Number("12345678901234567890"), json.Number("1E+2"), json.Number("-0"))
	}
	n := m.IntN(4)
	if m.chance(300) { // deep
		var v any = 1
		for range oneOf(m.Rand, 60, 64, 65, 200) {
			v = []any{v}
		}
		return v
	}
	if m.chance(2) {
		out := make([]any, n)
		for i := range out {
			out[i] = m.anything(depth + 1)
		}
		return out
	}
	out := fields{}
	for range n {
		out = append(out, field{m.text(), m.anything(depth + 1)})
	}
	return out
}

// textFor is a text for a field: mostly one that fits there.
func (m *maker) textFor(name string) string {
	if m.wild > 0 && m.chance(m.wild) {
		return m.text()
	}
	one := func(some ...string) string { return oneOf(m.Rand, some...) }
	switch name {
	case "name", "job_name":
		return one("hello", "job "+strconv.Itoa(m.IntN(1_000_000)), "n", strings.Repeat("n", 255), strings.Repeat("n", 256), "ü", "a\tb")
	case "key", "queue", "kind", "label", "tag", "work_kind", "entrypoint", "handler":
		return one("noop", "sleep", "random", "flaky", "k"+strconv.Itoa(m.IntN(300)), "default", "things", "", "A", "a b", strings.Repeat("k", 129))
	case "target":
		return one("simulate", "http", "command", "worker", "HTTP", "x")
	case "callback_url", "url", "runbook":
		return one("https://example.com/x", "http://example.com:8080/a?b=c", "ftp://x", "http://", "https://u:p@example.com", "http://[::1]/", "http://127.0.0.1/", "//x", "http://exa mple.com", "https://example.com/"+strings.Repeat("a", 3000), "http://0x7f.1/", "https://example.com/\x00")
	case "method":
		return one("GET", "post", "PUT", "TRACE", "", "P\nT", "CONNECT")
	case "cron_expression":
		return one("* * * * *", "0 10 * * *", "*/5 * * * *", "0 0 30 2 *", "@daily", "H H * * *", "0 0 L * *", "0 0 * * 5#3", "60 * * * *", "* * *", "", "0 0 29 2 *", "*/0 * * * *", "1-0 * * * *", "0 0 1 1 * 2099", strings.Repeat("1,", 500)+"1 * * * *")
	case "timezone":
		return one("UTC", "Europe/Berlin", "America/New_York", "Mars/Olympus", "", "../../etc/passwd", "Local", "europe/berlin")
	case "every", "expires_after", "auto_redrive_after", "per":
		return one("90s", "1h", "1ms", "0s", "-5s", "9999999h", "1d", "", "5", "1h1h", "1e9s")
	case "day":
		return one("vixie", "and", "or", "x", "")
	case "concurrency_key", "unique_key", "condition":
		return one("payload.customer_id", "payload", "1", "payload[", "payload.a.b.c", "a" /* no such variable */, "payload.x + 1", "len(payload)", strings.Repeat("(", 200), "", strings.Repeat("payload.a+", 200)+"1")
	case "status", "verdict":
		return one("SUCCEEDED", "FAILED", "CANCELLED", "SNOOZED", "PARKED", "succeeded", "x")
	case "action":
		return one("pause", "resume", "delete", "trigger", "tag", "untag", "x")
	case "execution_id", "job_id", "operation_id", "worker_id", "artifact_id", "id", "tenant_id":
		return m.id("/api/v1/" + strings.TrimSuffix(name, "_id") + "s/")
	case "role":
		return one("viewer", "operator", "worker", "admin", "x", "")
	case "tier":
		return one("free", "pro", "enterprise", "x")
	case "header", "value", "command", "env", "text", "message", "reason":
		return one("x", "${secret:things}", "${secret:nobody}", "${secret:", "a\r\nb: c", "", strings.Repeat("v", 9000))
	case "date", "yearly", "weekday":
		return one("2026-12-28", "12-25", "SAT", "mon", "2026-02-30", "02-29", "13-01", "x", "")
	case "event":
		return one("failed", "dead_lettered", "late", "missing", "recovered", "x")
	case "credential":
		return one("car_live_abcdefgh_x", "eyJhbGciOiJub25lIn0.e30.", "x", strings.Repeat("x", 9000))
	}
	return m.text()
}

// instant is a point in time as text, or not quite.
func (m *maker) instant() string {
	now := time.Now().UTC()
	return oneOf(m.Rand, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339Nano), now.Add(-100*time.Hour).Format(time.RFC3339), "2026-01-31T15:04:05+02:00", "2026-01-31", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z",
		"10000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-31T15:04:05", "0001-01-01T00:00:00Z", "now", "", "-1", "2026-01-31T25:00:00Z", "2026-01-31T15:04:05.123456789123Z", "2026-01-31t15:04:05z", "1768000000")
}

// text is a text that may be anything.
func (m *maker) text() string {
	switch m.IntN(14) {
	case 0:
		return m.bytes(m.IntN(30))
	case 1:
		return strings.Repeat(oneOf(m.Rand, "a", "é", "😀", "<", "%"), m.IntN(700))
	}
	return oneOf(m.Rand, "", "x", "hello", " ", "\x00", "a\x00b", "\x1b[31m", "\r\n", "<script>alert(1)</script>", "' OR 1=1 --", "%", "_", "\\", `"`, "\u202e", "\ufeff", "\ufffd", "é", "İ", "ß", "𝕳", "\xff", "\xed\xa0\x80",
		"../../etc/passwd", "${secret:things}", "{{.}}", "null", "-1", "0", "1e9", "true", "[]", "key:k1", "%s%n", strings.Repeat("x", 501))
}

// bytes are n of any kind.
func (m *maker) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return string(b)
}

// junk is no JSON, or hardly.
func (m *maker) junk() string {
	if m.chance(40) {
		return `{"name": "` + strings.Repeat("x", 1<<20) + `"}`
	}
	return m.bytes(m.IntN(200))
}

// bruise changes a text a little.
func (m *maker) bruise(s string) string {
	b := []byte(s)
	if len(b) == 0 {
		return m.bytes(3)
	}
	i := m.IntN(len(b))
	switch m.IntN(6) {
	case 0:
		return string(b[:i])
	case 1:
		b[i] = byte(m.Uint32())
		return string(b)
	case 2:
		return string(b[:i]) + oneOf(m.Rand, "\x00", "\xff", "\\ud800", "\\u0000", ",", "}", "]", `"`, "1e999", "/*", "\n", "\u2028", "0") + string(b[i:])
	case 3:
		return string(b[i:])
	case 4:
		return string(b[:i]) + string(b[:i]) + string(b[i:])
	}
	j := m.IntN(len(b))
	b[i], b[j] = b[j], b[i]
	return string(b)
}

// encode writes JSON, also such as no encoder would: names twice, bytes that are no UTF-8.
func (m *maker) encode(v any, depth int) string {
	switch v := v.(type) {
	case fields:
		parts := make([]string, len(v))
		for i, f := range v {
			parts[i] = m.quote(f.name) + ":" + m.encode(f.value, depth+1)
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = m.encode(x, depth+1)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		return m.quote(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(b)
}

func (m *maker) quote(s string) string {
	if m.chance(50) {
		return `"` + s + `"`
	}
	b, _ := json.Marshal(s) // which makes valid UTF-8 of what is not
	return string(b)
}
