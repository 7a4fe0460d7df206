package expression

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var runs = &Scope{Names: []string{"run", "nodes", "item"}, MaxLength: 100, MaxNodes: 50, MaxMade: 64, MaxSteps: 20}

func TestScope(t *testing.T) {
	list, err := Decode([]byte(`{"list":[1,2.5,"x",12345678901234567890],"o":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"run": list, "item": 7}
	for text, want := range map[string]string{
		"run.list": `[1,2.5,"x",12345678901234567890]`, "run.o": `{"a":1}`, "item + 1": `8`, "nodes.a.result": `null`, "len(run.list) == 4": `true`,
		"run.list[0] + item": `8`, "7 in run.list": `false`, `"<" + run.list[2]`: `"<x"`, "run.o == run.o": `true`,
	} {
		p, err := runs.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v, err := p.Value(values)
		doc, bad := Encode(v)
		if err != nil || bad != nil || string(doc) != want || p.String() != text {
			t.Errorf("%s: %s, %v, %v; want %s", text, doc, err, bad, want)
		}
	}
}

func TestPathsOfAScope(t *testing.T) {
	for text, want := range map[string]string{
		"nodes.a.result":                "[[nodes a result]]",
		"nodes.a.result.x[0] ?? item":   "[[nodes a result x] [item]]",
		`nodes["a"]["result"] == 1`:     "[[nodes a result]]",
		"nodes[run.key].result":         "[[nodes] [run key]]",
		"len(nodes.a.items) > run.n":    "[[nodes a items] [run n]]",
		"run.ok ? upper(nodes.b.x) : 1": "[[run ok] [nodes b x]]",
		"1 == 1":                        "[]",
	} {
		p, err := runs.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fmt.Sprint(p.Paths()); got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

func TestScopeRefuses(t *testing.T) {
	long := strings.Repeat("x", 40)
	values := map[string]any{"run": map[string]any{"text": long, "n": 1, "list": make([]any, 30)}, "nodes": map[string]any{"list": make([]any, 30)}}
	for text, says := range map[string]string{
		"payload.a":                 "payload",
		"$env":                      "want run, nodes, item",
		"[1]":                       "only members of run, nodes, item",
		strings.Repeat("1+", 60):    "100 are allowed",
		"run.text + run.text":       "more than 64 bytes of text",
		"run.list == nodes.list":    "compares more than 20 elements",
		"9 in run.list":             "compares more than 20 elements",
		"upper(run.n)":              "upper takes a string, not a number",
		"now()":                     `"now"`,
		"run.text()":                "methods",
		"map(run.list, #)":          "",
		"string(run.text.toString)": "",
	} {
		p, err := runs.Compile(text)
		if err == nil {
			_, err = p.Value(values)
		}
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v; want %q", text, err, says)
		}
	}
}

func FuzzScope(f *testing.F) {
	for _, s := range []string{"nodes.a.result", "run.input.x[0] ?? item", "nodes[run.key]", "len(run.list) > 1 ? 1 : nodes.b", "'a' + `b`"} {
		f.Add(s, `{"x":[1,"a",{"b":2}]}`)
	}
	f.Fuzz(func(t *testing.T, text, doc string) {
		p, err := runs.Compile(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) {
				t.Fatalf("compile: %v", err)
			}
			return
		}
		for _, path := range p.Paths() {
			if len(path) == 0 || path[0] != "run" && path[0] != "nodes" && path[0] != "item" {
				t.Fatalf("%q reads %v", text, path)
			}
		}
		v, err := Decode([]byte(doc))
		if err != nil {
			return
		}
		if _, err := p.Value(map[string]any{"run": v, "nodes": v}); err != nil && !errors.As(err, &e) {
			t.Fatalf("eval: %v", err)
		}
	})
}
