package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/layout"
)

func after(key string, parents ...string) layout.Node { return layout.Node{Key: key, After: parents} }

var nightly = []layout.Node{
	after("list"), {Key: "load", After: []string{"list"}, Marks: []string{"map"}}, {Key: "ok", After: []string{"load"}, Marks: []string{"if"}, Kind: "approval"},
	after("sum", "load", "ok"), {Key: "clean", Finally: true},
}

func bare(columns int) drawing {
	return drawing{columns: columns, paint: func(text, _ string) string { return text }}
}

// fanOut is one node, many after it, some in two steps, and one after all of them.
func fanOut() []layout.Node {
	out, join := []layout.Node{after("start")}, after("join")
	for i := range 26 {
		key := fmt.Sprintf("part_%d", i)
		out = append(out, after(key, "start"))
		if i%5 == 0 {
			out = append(out, after(key+"_b", key))
			key += "_b"
		}
		join.After = append(join.After, key)
	}
	return append(out, join, after("x", "part_3", "start"), after("y", "part_7", "x"))
}

func TestDrawings(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 18, 2, 0, 0, 0, time.UTC)
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	running := map[string]nodeState{
		"list": {Status: "SUCCEEDED", Start: sec(1), End: sec(6)}, "load": {Status: "SUCCEEDED", Text: "40/40", Start: sec(20), End: sec(50)},
		"ok": {Status: "RUNNING", Start: sec(50)}, "sum": {Status: "WAITING"}, "clean": {Status: "WAITING"},
	}
	ascii := bare(100)
	ascii.ascii = true
	coloured := bare(100)
	coloured.paint = func(text, colour string) string {
		if colour == "" {
			return text
		}
		return "<" + colour + ":" + text + ">"
	}
	crossing := []layout.Node{after("a"), after("b"), after("c", "a", "b"), after("d", "a", "b"), after("e", "c"), after("f", "d", "a")}
	var b bytes.Buffer
	for _, c := range []struct{ title, text string }{
		{"a definition", bare(100).graph(nightly, nil)},
		{"a run", bare(100).graph(nightly, running)},
		{"its colours", coloured.graph(nightly[:2], running)},
		{"60 columns", bare(60).graph(nightly, running)},
		{"24 columns", bare(24).graph(nightly, running)},
		{"ASCII", ascii.graph(crossing, nil)},
		{"ASCII, narrow", drawing{columns: 20, ascii: true, paint: ascii.paint}.graph(crossing, nil)},
		{"many nodes", bare(100).graph(fanOut(), nil)},
		{"without edges", bare(100).graph([]layout.Node{after("a"), after("b")}, nil)},
		{"only finally nodes", bare(100).graph([]layout.Node{{Key: "a", Finally: true}}, nil)},
		{"Gantt", bare(80).gantt(nightly, running, at, sec(100))},
		{"Gantt, narrow, ASCII", drawing{columns: 40, ascii: true, paint: ascii.paint}.gantt(nightly, running, at, sec(100))},
		{"Gantt of nothing", bare(80).gantt(nightly, nil, at, at)},
	} {
		fmt.Fprintf(&b, "%s\n\n%s\n", c.title, c.text)
	}
	file := filepath.Join("testdata", "drawings.txt")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the drawings differ:\n%s", b.String())
	}
}

// Every node is there, no line is too long, and ASCII is ASCII, whatever the graph and the terminal.
func TestDrawingsOfRandomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var nodes []layout.Node
		run := map[string]nodeState{}
		at := time.Date(2026, 11, 18, 2, 0, 0, 0, time.UTC)
		for i := range 1 + r.IntN(40) {
			n := after(fmt.Sprintf("n%d", i))
			if r.IntN(12) == 0 {
				n.Finally = true
			}
			for range r.IntN(4) {
				if p := nodes; len(p) > 0 {
					if q := p[r.IntN(len(p))]; q.Finally == n.Finally && !strings.Contains(" "+strings.Join(n.After, " ")+" ", " "+q.Key+" ") {
						n.After = append(n.After, q.Key)
					}
				}
			}
			nodes = append(nodes, n)
			if r.IntN(2) == 0 {
				start := at.Add(time.Duration(r.IntN(1000)) * time.Second)
				run[n.Key] = nodeState{Status: "SUCCEEDED", Start: start, End: start.Add(time.Duration(r.IntN(1000)) * time.Second)}
			}
		}
		d := bare(20 + r.IntN(120))
		d.ascii = r.IntN(2) == 0
		for name, text := range map[string]string{"graph": d.graph(nodes, run), "gantt": d.gantt(nodes, run, at, at.Add(time.Hour))} {
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				if w := utf8.RuneCountInString(line); w > max(d.columns, 40) {
					t.Errorf("seed %d: a line of a %s has %d characters, want at most %d: %q", seed, name, w, d.columns, line)
				}
				if d.ascii && strings.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }) {
					t.Errorf("seed %d: not ASCII: %q", seed, line)
				}
			}
			for _, n := range nodes {
				if name == "graph" && !strings.Contains(text, n.Key) {
					t.Errorf("seed %d: node %s is missing in\n%s", seed, n.Key, text)
				}
			}
		}
	}
}

func TestLocalesWithoutUnicode(t *testing.T) {
	for locale, want := range map[string]bool{"": true, "C": false, "POSIX": false, "en_US.UTF-8": true, "C.utf8": true, "de_DE.ISO-8859-1": false} {
		t.Setenv("TERM", "xterm")
		t.Setenv("LC_ALL", locale)
		t.Setenv("LC_CTYPE", "")
		t.Setenv("LANG", "")
		if got := knowsUnicode(); got != want {
			t.Errorf("locale %q: %v, want %v", locale, got, want)
		}
	}
	t.Setenv("TERM", "dumb")
	if knowsUnicode() {
		t.Error("a dumb terminal draws boxes")
	}
}
