package yamljson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: [x, 2.50, true, null, \"q\"]\n":       `{"a":1,"b":["x",2.50,true,null,"q"]}`,
		"{\"a\":{\"b\":1e3}}":                           `{"a":{"b":1e3}}`,
		"a: 0x1F\nb: +5\nc: .5\n":                       `{"a":31,"b":5,"c":0.5}`,
		"a: 12345678901234567890123\n":                  `{"a":12345678901234567890123}`,
		"a: |\n  x\n  y\nb: >-\n  x\n  y\n":             `{"a":"x\ny\n","b":"x y"}`,
		"a: &x {b: 1}\nc: *x\n":                         `{"a":{"b":1},"c":{"b":1}}`,
		"x: &x\n  b: 1\n  c: 2\ny:\n  <<: *x\n  c: 3\n": `{"x":{"b":1,"c":2},"y":{"c":3,"b":1}}`,
		"a: !!str 5\n":                                  `{"a":"5"}`,
		"8080: yes\n\"q r\": no\n":                      `{"8080":"yes","q r":"no"}`,
		"a: 2026-01-02\nb: 10:30\n":                     `{"a":"2026-01-02","b":"10:30"}`,
		"- a\n- - b\n":                                  `["a",["b"]]`,
		"# nothing\n":                                   "",
		"---\n---\na: 1\n":                              `{"a":1}`,
		"a: 1\n---\n# only\n---\nb: 2\n...\nc: 3\n":     `{"a":1}{"b":2}{"c":3}`,
		"%YAML 1.2\n--- {a: 1}\n--- # c\n- b\n":         `{"a":1}["b"]`,
		"a: \"1e3\"\nb: 1e3x\n":                         `{"a":"1e3","b":"1e3x"}`,
		"a:\n":                                          `{"a":null}`,
		"a: \"\\u00fc\\n\"\n":                           "{\"a\":\"ü\\n\"}",
	} {
		docs, err := Parse([]byte(text))
		got := ""
		for _, d := range docs {
			got += string(d.JSON)
		}
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestLines(t *testing.T) {
	docs, err := Parse([]byte("# first\njobs:\n  - key: a\n    schedule:\n      type: CRON\n\n  - key: b\n"))
	if err != nil || len(docs) != 1 {
		t.Fatal(docs, err)
	}
	d := docs[0]
	for path, want := range map[string]int{"jobs[0].key": 3, "jobs[0].schedule.type": 5, "jobs[0].schedule.every": 4, "jobs[1].name": 7, "jobs[1].key": 7, "": 2} {
		if got := d.LineOf(path); got != want {
			t.Errorf("%s is in line %d, want %d", path, got, want)
		}
	}
	if got := d.Line(strings.Index(string(d.JSON), `"CRON"`)); got != 5 {
		t.Errorf("the type is in line %d", got)
	}
}

func TestMistakes(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefgh" {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "*" + string(c-1) + "]\n"
	}
	for name, text := range map[string]string{
		"a tab": "a:\n\t- b\n", "twice": "a: 1\nb: 2\na: 3\n", "no anchor": "a: *x\n", "a tag": "a: !!binary eA==\n", "infinite": "a: .inf\n", "a mapping as key": "? {a: 1}\n: 2\n", "a bomb": bomb, "itself": "a: &a [*a, *a]\n",
		"an open bracket": "a: [1, 2\nb: 3\n",
	} {
		_, err := Parse([]byte(text))
		var bad *Error
		if !errors.As(err, &bad) || bad.Want == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var bad *Error
	if _, err := Parse([]byte("x: 1\n---\na: 1\nb: 2\na: 3\n")); !errors.As(err, &bad) || bad.Line != 5 {
		t.Errorf("twice: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1", "{a: [1, {b: &x c}], d: *x}", "<<: *a", "? a\n: b", "- - -", "\"\\ud800\": 1", "a: |+\n x\n", "!!str a: !!int 3", "%YAML 1.2\n---\na", "&a a: *a", "a: &a [*a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := Parse([]byte(text))
		var bad *Error
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("got %T", err)
		}
		for _, d := range docs {
			if !json.Valid(d.JSON) {
				t.Errorf("%q became %q", text, d.JSON)
			}
			d.Line(len(d.JSON) / 2)
			d.LineOf("a.b[3]")
		}
	})
}
