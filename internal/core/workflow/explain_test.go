package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func says(t *testing.T, p *player, key, want string) {
	t.Helper()
	n, _ := p.g.Number(key)
	if got := Explain(p.g, p.s, n); got != want {
		t.Errorf("%s: got %q; want %q", key, got, want)
	}
}

func TestExplainFailures(t *testing.T) {
	for reason, want := range map[Reason]string{
		Rejected: "REJECTED: the approval was rejected", BadExpression: "EXPRESSION: an expression had no value", MapTooWide: "MAP_TOO_WIDE: map gave too many items",
		ResultTooLarge: "RESULT_TOO_LARGE: its result has more than 1048576 bytes", InputTooLarge: "INPUT_TOO_LARGE: what it reads has more than 1048576 bytes together",
		MapNotAList: "MAP_NOT_A_LIST: map: `run.input` gave no list", NoReason: "",
	} {
		p := newPlayer(t, compiled(t, `{"nodes":[{"key":"a","map":"run.input","execution":{}}]}`), Run{})
		p.s, _ = Begin(p.g)
		p.advance(Event{Kind: NodeEnded, Node: 0, Status: Failed, Reason: reason})
		says(t, p, "a", want)
	}
}

func TestExplainWhatRuns(t *testing.T) {
	p := played(t, `{"nodes":[
		{"key":"at","wait":{"timer":"2030-01-02T15:04:05Z"}},{"key":"in","wait":{"timer":"2h"}},{"key":"ev","wait":{"event":"order.paid"},"timeout":"1h","on_timeout":"skip"},
		{"key":"sure","wait":{"event":"x"},"timeout":"1h","on_timeout":"succeed"},
		{"key":"m","map":3,"max_parallel":1,"execution":{}},{"key":"x","execution":{}},{"key":"y","execution":{}},
		{"key":"one","depends_on":["in","ev"],"trigger":"one_success","execution":{}},
		{"key":"join","depends_on":["at","in","ev","sure","m","x"],"execution":{}},{"key":"z","finally":true,"execution":{}}]}`, map[string]string{"m[0]": "F", "y": "K"})
	says(t, p, "at", "waits until 2030-01-02T15:04:05Z")
	says(t, p, "in", "waits for 2h from its start")
	says(t, p, "ev", `waits for the event "order.paid"`)
	says(t, p, "x", "")
	says(t, p, "m", "0 of 3 items ended, 1 running")
	says(t, p, "one", "waits for parents in, ev (trigger one_success: one of them is enough)")
	says(t, p, "join", "waits for parents at, in, ev, sure, m and 1 more")
	p.finish("y")
	says(t, p, "y", "skipped: what ran said so")
	p.advance(Event{Kind: NodeTimedOut, Node: 2})
	says(t, p, "ev", "skipped because nothing released the wait in time, and on_timeout is skip")
	p.advance(Event{Kind: NodeTimedOut, Node: 3})
	says(t, p, "sure", "succeeded because nothing released the wait in time, and on_timeout is succeed")
	p.act("pause", nil)
	says(t, p, "m", "0 of 3 items ended, 1 running; no further item starts: the run is paused")
	p.act("unpause", nil)
	p.act("skip", []string{"at"})
	says(t, p, "at", "skipped by hand")
	p.act("mark", []string{"in"})
	says(t, p, "in", "marked as succeeded by hand")
	p.act("run_timeout", nil)
	says(t, p, "join", "not run: the run took too long")
	says(t, p, "x", "cancelled because the run took too long")
	p.play()
	if p.s.Status != TimedOut {
		t.Errorf("the run is %s", p.s.Status)
	}

	p = played(t, `{"nodes":[{"key":"m","map":3,"max_parallel":2,"execution":{}},{"key":"a","execution":{}},{"key":"b","execution":{}},{"key":"j","depends_on":["a","b"],"execution":{}}]}`, map[string]string{"m[0]": "F", "a": "K", "b": "K"})
	p.finish("m[0]")
	says(t, p, "m", "1 of 3 items ended, 1 running; no further item starts: 1 failed, 0 are tolerated")
	for i, want := range []Status{Failed, Pending, NotRun, 0} {
		if got := p.s.Item(0, i); got != want {
			t.Errorf("item %d is %s; want %s", i, got, want)
		}
	}
	p.finish("a")
	p.finish("b")
	says(t, p, "j", "skipped because parents a, b were skipped (trigger all_success)")
	p.act("cancel", nil)
	p.play()
	says(t, p, "m", "CANCELLED: cancelled with the run")
}

func TestCriticalPath(t *testing.T) {
	g := compiled(t, `{"nodes":[{"key":"a","execution":{}},{"key":"b","execution":{}},{"key":"c","depends_on":["a","b"],"execution":{}},{"key":"d","depends_on":["a"],"execution":{}},{"key":"z","finally":true,"execution":{}},{"key":"no","execution":{}}]}`)
	at := func(from, to int) Span {
		zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		return Span{zero.Add(time.Duration(from) * time.Second), zero.Add(time.Duration(to) * time.Second)}
	}
	if got := CriticalPath(g, []Span{at(0, 3), at(0, 5), at(5, 9), at(3, 6), at(9, 10), {}}); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("got %v", got)
	}
	if got := CriticalPath(g, make([]Span, 6)); got != nil {
		t.Errorf("got %v", got)
	}
}

// The edges of what stands in definitions and states.
func TestEdges(t *testing.T) {
	for text, want := range map[string]int{`3`: 3, `"3"`: 3, `"1%"`: 1, `"2.5%"`: 2, `"0.99%"`: 0, `"7%"`: 7, `null`: 0, `"100%"`: 100} {
		if got, ok := ParseTolerance([]byte(text)); !ok || got.Of(100) != want {
			t.Errorf("%s tolerates %d of 100, %t; want %d", text, got.Of(100), ok, want)
		}
	}
	for _, text := range []string{`"x%"`, `"-1"`, `"NaN%"`, `{}`, `1.5`, `""`} {
		if _, ok := ParseTolerance([]byte(text)); ok {
			t.Errorf("%s is a tolerance", text)
		}
	}
	if _, err := Compile(Definition{Nodes: make([]Node, 1)}, Limits{Nodes: 70_000}); err == nil || !strings.Contains(err.Error(), "65535") {
		t.Errorf("got %v", err)
	}
	if _, err := Compile(Definition{Nodes: []Node{{}, {DependsOn: []string{"a", "b"}}}}, Limits{Nodes: 2, Edges: 1}); err == nil || !strings.Contains(err.Error(), "2 edges is not valid; want at most 1") {
		t.Errorf("got %v", err)
	}
	g := compiled(t, chain)
	if err := g.CheckInput([]byte("anything")); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(Status(99), Reason(99)) != "Status(99) Reason(99)" {
		t.Error(Status(99), Reason(99))
	}
	if _, err := Skip(g, &State{}, 99); err == nil {
		t.Error("a node that is not there was skipped")
	}
	s, _ := Begin(g)
	for _, e := range []Event{{Kind: NodeEnded, Node: -1}, {Kind: NodeEnded, Node: 99}, {Kind: 99}, {Kind: NodeEnded, Status: Running}, {Kind: NodeEnded, Status: NotRun}, {Kind: Expanded, Width: 1}, {Kind: NodeTimedOut, Node: 1}} {
		if d := Advance(g, s, e); !d.Ignored {
			t.Errorf("%+v: %+v", e, d)
		}
	}
	doc := s.Encode()
	for i := range doc {
		if _, err := DecodeState(g, doc[:i]); err == nil {
			t.Errorf("%d of %d bytes were read as a state", i, len(doc))
		}
	}
	if _, err := DecodeState(g, append(doc, 0)); err == nil {
		t.Error("a state with a byte too many was read")
	}
	if _, err := DecodeState(compiled(t, many(2)), doc); err == nil {
		t.Error("a state was read for another graph")
	}
	m := compiled(t, `{"nodes":[{"key":"m","map":"run.input","execution":{"payload":"{{ item.x }}"}}]}`)
	s, _ = Begin(m)
	if d := Advance(m, s, Event{Kind: Expanded, Width: 100_001}); d.Run != Failed {
		t.Errorf("too wide: %+v", d)
	}
	s, _ = Begin(m)
	l, f := PrepareItems(m, s, 0, Run{Input: []byte(`["a"]`)}, kept{g: m})
	if f != nil || l.Len() != 1 {
		t.Fatalf("%v, %v", l, f)
	}
	if _, f := l.Prepare(0); f == nil || f.Reason != BadExpression || !strings.Contains(f.Text, "execution of item 0") {
		t.Errorf("got %v", f)
	}
}

func FuzzDecodeState(f *testing.F) {
	g := compiled(f, `{"nodes":[{"key":"m","map":9,"execution":{}},{"key":"b","depends_on":["m"],"execution":{}}]}`)
	s, _ := Begin(g)
	f.Add(s.Encode())
	Advance(g, s, Event{Kind: Expanded, Width: 9})
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, doc []byte) {
		s, err := DecodeState(g, doc)
		if err != nil {
			return
		}
		again, err := DecodeState(g, s.Encode())
		if err != nil || !again.Equal(s) && fmt.Sprint(again) == fmt.Sprint(s) {
			t.Fatalf("%v: %+v; want %+v", err, again, s)
		}
	})
}
