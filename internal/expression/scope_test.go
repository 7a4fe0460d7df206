package expression

import (
	"errors"
	"fmt"
	"slices"
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

// workflows has the limits of core/workflow, whose values have a mebibyte together.
var workflows = &Scope{Names: []string{"run", "nodes", "item", "index"}, MaxLength: 4096, MaxNodes: 800, MaxMade: 1 << 20, MaxSteps: 1_000_000}

// mostInScope limits how many bytes a compilation, or an evaluation over the values of workflows, may allocate.
const mostInScope = 32 << 20

// Whatever is evaluated in a scope, over whatever values: memory is bounded, and nothing but the scope is read.
func FuzzScope(f *testing.F) {
	for _, s := range []string{"nodes.a.result", "run.input.x[0] ?? item", "nodes[run.key]", "len(run.list) > 1 ? 1 : nodes.b", "'a' + `b`"} {
		f.Add(s, `{"x":[1,"a",{"b":2}]}`, uint16(0))
	}
	texts, payloads := greedy()
	for i, text := range texts {
		text = strings.ReplaceAll(text, "payload", "run")
		f.Add(text, payloads[i%7], uint16(1))
		f.Add(text, payloads[(i+1)%7], uint16(300))
		f.Add(strings.Join([]string{text, text, text}, " == "), payloads[21+i%7], uint16(0))
		f.Add(text, payloads[21+i%7], uint16(0))
	}
	f.Fuzz(func(t *testing.T, text, doc string, times uint16) {
		if n := int(times) * len(doc); n < 1<<20 && strings.HasPrefix(doc, "{") && strings.HasSuffix(doc, "}") {
			doc = `{"l": [` + strings.Repeat(doc+",", int(times)) + "0], " + doc[1:]
		}
		v, err := Decode([]byte(doc))
		if err != nil || len(doc) > 1<<20 {
			return
		}
		for _, s := range []*Scope{runs, workflows} {
			inScope(t, s, text, v)
		}
	})
}

func inScope(t *testing.T, s *Scope, text string, v any) {
	var p *Program
	var err error
	var e *Error
	if got := allocated(func() { p, err = s.Compile(text) }); got > mostInScope {
		t.Fatalf("compiling %q allocated %d bytes; want at most %d", text, got, mostInScope)
	}
	if err != nil {
		if !errors.As(err, &e) {
			t.Fatalf("compile: %v", err)
		}
		return
	}
	for _, path := range p.Paths() {
		if len(path) == 0 || !slices.Contains(s.Names, path[0]) {
			t.Fatalf("%q reads %v", text, path)
		}
	}
	if got := allocated(func() { _, err = p.Value(map[string]any{"run": v, "nodes": v}) }); got > mostInScope {
		t.Fatalf("%q allocated %d bytes; want at most %d", text, got, mostInScope)
	}
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("eval: %v", err)
	}
}
