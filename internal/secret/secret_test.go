package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestExpand(t *testing.T) {
	known := map[string]string{"db": "p\"w\\d\n", "a.b-c_1": "x"}
	value := func(name string) (string, error) { return known[name], nil }
	for in, want := range map[string]string{
		"":                                   "",
		"plain $ {secret:db}":                "plain $ {secret:db}",
		"${secret:db}":                       "p\"w\\d\n",
		"a${secret:a.b-c_1}b":                "axb",
		"${secret:a.b-c_1}${secret:a.b-c_1}": "xx",
		"$${secret:db}":                      "${secret:db}",
		"$$${secret:db}":                     "$${secret:db}",
		"${secret:DB}":                       "${secret:DB}",
		"${secret:db":                        "${secret:db",
		"${secret:${secret:a.b-c_1}":         "${secret:x",
	} {
		if got, err := expand(in, value); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestValues(t *testing.T) {
	expanded := func(doc string) string {
		return string(values([]byte(doc), func(raw string) (string, bool) {
			got, err := expand(raw, func(string) (string, error) { return escape("p\"<\u2028é\n"), nil })
			return got, err == nil
		}))
	}
	for in, want := range map[string]string{
		`{"a" : "${secret:x}", "n": 1.50}`:                 `{"a" : "p\"<\u2028é\n", "n": 1.50}`,
		`{"${secret:x}"  : "\"${secret:x}\\"}`:             `{"${secret:x}"  : "\"p\"<\u2028é\n\\"}`,
		` [ "x", "$${secret:x}", {"a":["${secret:x}"]} ] `: ` [ "x", "${secret:x}", {"a":["p\"<\u2028é\n"]} ] `,
		`"${secret:x}"`: `"p\"<\u2028é\n"`,
		`{"a": 12345678901234567890, "b": "\u0024{secret:x}"}`: `{"a": 12345678901234567890, "b": "\u0024{secret:x}"}`,
	} {
		if got := expanded(in); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add(`{"a": "${secret:x}"}`)
	f.Add(`["$${secret:x}\\", "${secret:`)
	f.Fuzz(func(t *testing.T, doc string) {
		got := values([]byte(doc), func(raw string) (string, bool) {
			out, _ := expand(raw, func(string) (string, error) { return escape("\"\\\n"), nil })
			return out, true
		})
		if json.Valid([]byte(doc)) && !json.Valid(got) {
			t.Errorf("%s became %s", doc, got)
		}
		refs, _ := FindIn("payload", []byte(doc))
		for _, r := range refs {
			if !job.ValidKey(r.Name) {
				t.Errorf("a reference to %q", r.Name)
			}
		}
	})
}

func TestFind(t *testing.T) {
	d := job.Definition{Payload: []byte(`{"a": "${secret:one} ${secret:two}", "b": "${secret:one}", "c": "${secret:No}"}`)}
	d.Target = job.Target{
		URL: "https://example.com/?t=${secret:one}", Command: []string{"run", "${secret:one}"},
		Headers: map[string]string{"X-A": "${secret:three}", "X-B": "${secret:~0190a6c8-7b3e-7cc0-8a1b-0123456789ab/x-b}", "Authorization": "[redacted]"},
		Env:     map[string]string{"E": "a${secret:four}"},
	}
	refs, v := Find(&d, nil)
	want := []Reference{{`execution.headers["X-A"]`, "three"}, {`execution.env["E"]`, "four"}, {"execution.payload", "one"}, {"execution.payload", "two"}}
	if !cmp.Equal(refs, want) {
		t.Error(cmp.Diff(want, refs))
	}
	var fields []string
	for _, x := range v {
		fields = append(fields, x.Field)
	}
	if want := []string{"execution.callback_url", "execution.command[1]", `execution.headers["Authorization"]`, `execution.headers["X-B"]`, "execution.payload"}; !cmp.Equal(fields, want) {
		t.Error(cmp.Diff(want, fields))
	}
	if _, v := Find(&d, &d); slices.ContainsFunc(v, func(x job.Invalid) bool { return strings.Contains(x.Field, "X-B") }) {
		t.Error("what the job has already is refused")
	}
}

func TestCredential(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "proxy-authorization": true, "X-API-Key": true, "Cookie": true, "X-Auth-Token": true, "My-Secret-Thing": true,
		"X-Password": true, "Api-Key": true, "X-Auth-Key": true, "x-functions-key": true, "Ocp-Apim-Subscription-Key": true,
		"X-Custom": false, "Accept": false, "Idempotency-Key": false, "X-Partition-Key": false,
	} {
		if Credential(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestClean(t *testing.T) {
	for _, secret := range []string{"hunter2-and-more", `we"ird\va<l>ue &/+ é`, "/+/+/+", "line1\nline2\nline3"} {
		x := newIndex(secret, "another", "tiny")
		marshalled, _ := json.Marshal(secret)
		b := []byte(secret)
		for what, told := range map[string]string{
			"itself": secret, "json": string(marshalled), "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": strings.ToLower(url.QueryEscape(secret)),
			"base64": base64.StdEncoding.EncodeToString(b), "raw": base64.RawStdEncoding.EncodeToString(b), "url": base64.URLEncoding.EncodeToString(b),
			"rawurl": base64.RawURLEncoding.EncodeToString(b), "hex": hex.EncodeToString(b), "basic": base64.StdEncoding.EncodeToString([]byte("user:" + secret + "!")),
			"shifted": base64.StdEncoding.EncodeToString([]byte("u:" + secret)), "unshifted": base64.URLEncoding.EncodeToString([]byte("usr" + secret + "abc")),
		} {
			if what == "lower" && strings.ToLower(secret) != secret {
				continue
			}
			got := x.clean("before " + told + " after " + told)
			if !strings.HasPrefix(got, "before ") || strings.Count(got, Hidden) != 2 {
				t.Errorf("%s of %q: got %q from %q", what, secret, got, told)
			}
		}
		if got := x.clean("cut off: " + secret[:len(secret)-1]); len(secret) > shortest && got != "cut off: "+Hidden {
			t.Errorf("cut off: %q", got)
		}
	}
	x := newIndex("hunter2-and-more", "hunter2", "abc")
	for in, want := range map[string]string{
		"hunter2-and-more":           Hidden,
		"hunter2-and-less":           Hidden + "-and-less",
		"hunter":                     Hidden, // it may be cut off
		"hunter3":                    "hunter3",
		"abc":                        "abc",
		"":                           "",
		"hunter2hunter2-and-morexyz": Hidden + Hidden + "xyz",
	} {
		if got := x.clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if newIndex("short") != nil {
		t.Error("what is short is looked for")
	}
	var none *index
	if none.clean("text") != "text" {
		t.Error("none")
	}
}

func TestCleanJSON(t *testing.T) {
	id := job.ExecutionID{1}
	g := Guards{id: {known: []*index{newIndex("123456", "topsecret")}}}
	for in, want := range map[string]string{
		`{"a":"topsecret"}`: `{"a":"[redacted]"}`, `{"a":123456}`: `"{\"a\":[redacted]}"`, `{"a": 1}`: `{"a": 1}`, ``: ``,
	} {
		if got := string(g.CleanJSON(id, []byte(in))); got != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

// A secret that a program prints over two lines is found in neither of them alone.
func TestCleanLines(t *testing.T) {
	id := job.ExecutionID{1}
	g := Guards{id: {known: []*index{newIndex("top\nsecret")}}}
	lines := []string{"before", "it is top", "secret, after all", "after"}
	if g.CleanLines(id, lines); lines[0] != "before" || lines[3] != "after" || strings.Contains(lines[1]+lines[2], "top") || strings.Contains(lines[1]+lines[2], "secret") {
		t.Errorf("got %q", lines)
	}
	other := []string{"top", "secret"}
	if g.CleanLines(job.ExecutionID{2}, other); other[0] != "top" || other[1] != "secret" {
		t.Errorf("of an execution without secrets: %q", other)
	}
}

func TestHandler(t *testing.T) {
	var out bytes.Buffer
	v := New(nil, nil)
	log := slog.New(v.Handler(slog.NewTextHandler(&out, nil)))
	log.Info("first", "a", "topsecret")
	if !strings.Contains(out.String(), "topsecret") {
		t.Error("it hides what it does not know")
	}
	out.Reset()
	v.recent.add("topsecret")
	x := []*index{newIndex("other-secret")}
	v.known.Store(&x)
	log.With("bound", "topsecret").WithGroup("g").Info("got topsecret", "a", "xtopsecretx", "e", errText("boom: other-secret"), slog.Group("h", "b", "topsecret", "n", 1), "m", map[string]string{"k": "other-secret"})
	if s := out.String(); strings.Contains(s, "secret") || strings.Count(s, Hidden) != 6 || !strings.Contains(s, "n=1") {
		t.Errorf("logged: %s", s)
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// What an index holds is counted, and what is there twice counts once.
func TestIndexIsCounted(t *testing.T) {
	x := newIndex("hunter2-and-more")
	if x.size < 100 || x.bytes() != x.size {
		t.Errorf("%d bytes", x.size)
	}
	if again := newIndex("hunter2-and-more", "hunter2-and-more"); again.size != x.size {
		t.Error("it is there twice")
	}
	if two := newIndex("hunter2-and-more", "hunter2-and-less"); two.size <= x.size {
		t.Error("another one is not there")
	}
	var none *index
	if none.bytes() != 0 {
		t.Error("none")
	}
}

// What is opened repeatedly pushes nothing out of what logs are looked through for.
func TestRecentCountsValues(t *testing.T) {
	var r recent
	clean := func(s string) string { return redact(s, r.indexes(nil)...) }
	r.add("first-value")
	for range 3 * maxRecent {
		r.add("second-value")
	}
	if got := clean("first-value second-value"); got != Hidden+" "+Hidden || r.before.values != nil {
		t.Errorf("%q", got)
	}
	r.now.size = maxRecentBytes
	r.add("third-value")
	if got := clean("first-value third-value"); got != Hidden+" "+Hidden || r.before.values == nil || r.now.size >= maxRecentBytes {
		t.Errorf("with many bytes: %q", got)
	}
	for n := range 1000 {
		r.add(fmt.Sprintf("value-number-%d", n))
	}
	if n := len(r.indexes(nil)); n > 20 {
		t.Errorf("a line of the log is looked through for %d indexes", n)
	}
	if got := clean("first-value third-value value-number-0, value-number-999"); strings.Contains(got, "value") {
		t.Errorf("of many: %q", got)
	}
}

// A text that was escaped, wrapped within an escape sequence and escaped again is read.
func TestEscapedTwiceAndWrapped(t *testing.T) {
	x := newIndex("=€HKKex/vgt8CLwS=jXSPoéFH")
	if got := x.clean(`"W7\\n=\\u20\nacHKKex/vgt8CLwS=jXSPo\\u00\ne9FH"`); strings.Contains(got, "HKKex") || strings.Contains(got, "FH") {
		t.Errorf("got %s", got)
	}
}
