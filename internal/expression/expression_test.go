package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

const sample = `{"customer": {"id": 42, "name": "Ann", "vip": true, "tags": ["a", "b"], "none": null}, "n": 1.0, "x": 1.5, "text": "null", "big": 12345678901234567890, "big2": 12345678901234567891, "dash-ed": 7}`

func TestEval(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"payload.customer.id", "42"},
		{"payload.customer.name", `"Ann"`},
		{"payload.customer.vip", "true"},
		{"payload.customer.none", "null"},
		{"payload.customer.nothing", "null"},
		{"payload.nobody.at.all.here", "null"},
		{"payload?.nobody?.id", "null"},
		{"payload.text", `"null"`}, // not null itself
		{"payload.n", "1"},
		{"payload.x", "1.5"},
		{"payload.big", "12345678901234567890"},
		{"payload.big2", "12345678901234567891"},
		{`payload["dash-ed"]`, "7"},
		{"payload.customer.tags[1]", `"b"`},
		{`payload.customer.name + "/" + string(payload.customer.id)`, `"Ann/42"`},
		{"lower(payload.customer.name)", `"ann"`},
		{"len(payload.customer.tags)", "2"},
		{"payload.customer.id % 10", "2"},
		{"payload.customer.id / 4", "10.5"},
		{`payload.customer.vip ? "vip" : "all"`, `"vip"`},
		{`payload.region ?? "eu"`, `"eu"`},
		{`"a" in payload.customer.tags`, "true"},
		{`payload.customer.name startsWith "A" and not (payload.n > 3)`, "true"},
		{`"x"`, `"x"`},
	} {
		e, err := Compile(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := e.Eval([]byte(sample)); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.text, got, err, c.want)
		}
	}
	for _, payload := range []string{"", "null", "{}"} {
		e, _ := Compile("payload.a.b")
		if got, err := e.Eval([]byte(payload)); err != nil || got != "null" {
			t.Errorf("payload %q: got %s, %v", payload, got, err)
		}
	}
	e, _ := Compile("payload")
	if got, err := e.Eval([]byte(`"all of it"`)); err != nil || got != `"all of it"` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct {
		text string
		at   int
		says string
	}{
		{"", 0, "empty"},
		{"  ", 0, "empty"},
		{strings.Repeat("x", 513), 0, "512"},
		{"payload.\na", 0, "line breaks"},
		{"payload.\xff", 0, "UTF-8"},
		{"payload.a +", 11, ""},
		{"payload.(", 9, ""},
		{"customer", 1, "customer"},
		{"payload.a .. payload.b", 11, `".."`},
		{"payload.a ** 9", 11, `"**"`},
		{`payload.a matches "(a+)+"`, 11, "matches"},
		{"now()", 1, `"now"`},
		{`repeat("x", 100000)`, 1, `"repeat"`},
		{"payload.a()", 9, "methods"},
		{"map(payload.a, #)", 0, ""},
		{"count(payload.a, count(payload.a, # == 1) > 1)", 0, ""},
		{"[1, 2]", 1, "no lists"},
		{"{a: 1}", 1, "objects"},
		{"payload.a[1:2]", 10, "slices"},
		{"let x = payload.a; x", 5, "variables"},
		{strings.Repeat("1+", 120) + "1", 0, "nodes"},
	} {
		_, err := Compile(c.text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.40q: got %v", c.text, err)
			continue
		}
		if c.at != 0 && e.Position != c.at || !strings.Contains(e.Error(), c.says) || strings.ContainsAny(e.Error(), "\n\r") {
			t.Errorf("%.40q: got %q at %d, want %q at %d", c.text, e, e.Position, c.says, c.at)
		}
	}
}

func TestEvalRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"payload.customer", "an object"},
		{"payload.customer.tags", "a list"},
		{"payload.customer.name.first", "string"},
		{"payload.customer.tags[9]", "out of range"},
		{"payload.customer.id + payload.customer.name", "string"},
		{"1 / 0", "no number"},
		{"payload.customer.id % 0", "divide"},
		{"upper(payload.customer.id)", ""},
		{"len(payload.nothing)", ""},
	} {
		e, err := Compile(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		_, err = e.Eval([]byte(sample))
		var x *Error
		if !errors.As(err, &x) || !strings.Contains(x.Error(), c.says) || strings.ContainsAny(x.Error(), "\n\r") {
			t.Errorf("%s: got %v, want %q", c.text, err, c.says)
		}
	}
	e, _ := Compile("payload.a")
	if _, err := e.Eval([]byte("{")); err == nil {
		t.Error("a broken payload")
	}
}

func TestTheCacheIsBoundedAndShared(t *testing.T) {
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 2 * maxCached {
				e, err := Compile(fmt.Sprintf("payload.a == %d", (i+n)%(maxCached+100)))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := e.Eval([]byte(`{"a": -1}`)); err != nil || got != "false" {
					t.Errorf("got %s, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
	if len(cached.known) > maxCached {
		t.Errorf("%d are kept", len(cached.known))
	}
}

// Whatever is written, there is a value or an error of ours, soon.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{"payload.a", "payload?.a[0] ?? 1", `lower(payload.b) + "x"`, "1..9", "map(payload, #)", "now()", "((((", "payload.a ? 1 : 2"} {
		f.Add(s, `{"a": 1, "b": "X"}`)
	}
	f.Fuzz(func(t *testing.T, text, payload string) {
		e, err := Compile(text)
		var x *Error
		if err != nil && !errors.As(err, &x) {
			t.Fatalf("compile: %v", err)
		}
		if err != nil {
			return
		}
		if _, err := e.Eval([]byte(payload)); err != nil && !errors.As(err, &x) {
			t.Fatalf("eval: %v", err)
		}
	})
}
