package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// played begins a run whose executions end with these outcomes; nothing has ended yet.
func played(t *testing.T, doc string, ends map[string]string) *player {
	p := newPlayer(t, compiled(t, doc), Run{})
	p.outcomes = map[string]json.RawMessage{}
	for key, end := range ends {
		p.outcomes[key] = json.RawMessage(`"` + end + `"`)
	}
	p.begin()
	return p
}

func expect(t *testing.T, p *player, want string) {
	t.Helper()
	if got := p.statuses(); got != want {
		t.Errorf("got\n%s\nwant\n%s\n%s", got, want, p)
	}
}

const chain = `{"nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"c","depends_on":["b"],"execution":{}},{"key":"z","finally":true,"execution":{}}]}`

func TestConflicts(t *testing.T) {
	p := played(t, chain, nil)
	if _, _, err := (Retry{}).Apply(p.g, p.s); err == nil || err.Error() != "cannot retry a run that is RUNNING; want a run that has ended: cancel it first, or wait" {
		t.Errorf("got %v", err)
	}
	if _, err := Skip(p.g, p.s, 0); err == nil || !strings.HasPrefix(err.Error(), "cannot skip node a, which is PENDING; want a node that has no execution under way") {
		t.Errorf("got %v", err)
	}
	if _, err := Cancel(p.g, p.s, true); err == nil {
		t.Error("force before cancel")
	}
	p.play()
	expect(t, p, "a=SUCCEEDED b=SUCCEEDED c=SUCCEEDED z=SUCCEEDED SUCCEEDED")
	var c *Conflict
	for name, act := range map[string]func() error{
		"pause":   func() error { _, err := Pause(p.g, p.s); return err },
		"unpause": func() error { _, err := Unpause(p.g, p.s); return err },
		"cancel":  func() error { _, err := Cancel(p.g, p.s, false); return err },
		"retry":   func() error { _, _, err := Retry{}.Apply(p.g, p.s); return err },
		"mark":    func() error { _, err := Mark(p.g, p.s, 1); return err },
		"change":  func() error { _, err := Resize(p.g, p.s, 1, nil, nil); return err },
	} {
		if err := act(); !errors.As(err, &c) || c.Act != name || c.Status != Succeeded {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var bad job.Invalids
	if _, _, err := (Retry{Nodes: []string{"q"}}).Apply(p.g, p.s); !errors.As(err, &bad) || bad[0].Field != "nodes[0]" {
		t.Errorf("got %v", err)
	}
	if _, _, err := (Retry{Only: true}).Apply(p.g, p.s); !errors.As(err, &bad) || bad[0].Field != "only" {
		t.Errorf("got %v", err)
	}
}

// A dry run is an act on a clone, and its changes; the run itself is as it was.
func TestDryRun(t *testing.T) {
	p := played(t, chain, map[string]string{"b": "F"})
	p.play()
	expect(t, p, "a=SUCCEEDED b=FAILED c=NOT_RUN z=SUCCEEDED FAILED")
	before := p.s.Clone()
	for name, c := range map[string]struct {
		r    Retry
		want string
	}{
		"from what failed": {Retry{}, "[b: FAILED → PENDING c: NOT_RUN → WAITING z: SUCCEEDED → WAITING]"},
		"from a good one":  {Retry{Nodes: []string{"a"}}, "[a: SUCCEEDED → PENDING b: FAILED → WAITING c: NOT_RUN → WAITING z: SUCCEEDED → WAITING]"},
		"only a good one":  {Retry{Nodes: []string{"a"}, Only: true}, "[a: SUCCEEDED → PENDING z: SUCCEEDED → WAITING]"},
		"the latest": {Retry{Graph: compiled(t, `{"nodes":[{"key":"a","execution":{}},{"key":"fix","depends_on":["a"],"execution":{}},{"key":"b","depends_on":["fix"],"execution":{}},{"key":"z","finally":true,"execution":{}}]}`)},
			"[fix: new, PENDING b: FAILED → WAITING z: SUCCEEDED → WAITING c: NOT_RUN, removed]"},
	} {
		after, _, err := c.r.Apply(p.g, p.s)
		if err != nil {
			t.Fatal(err)
		}
		to := c.r.Graph
		if to == nil {
			to = p.g
		}
		if got := fmt.Sprint(Changes(p.g, p.s, to, after)); got != c.want || after.Attempt != 2 {
			t.Errorf("%s: attempt %d, %s\nwant %s", name, after.Attempt, got, c.want)
		}
	}
	clone := p.s.Clone()
	if _, err := Mark(p.g, clone, 1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Changes(p.g, p.s, p.g, clone)); got != "[b: FAILED → SUCCEEDED c: NOT_RUN → PENDING z: SUCCEEDED → WAITING]" {
		t.Errorf("mark: %s", got)
	}
	if !before.Equal(p.s) {
		t.Error("a dry run changed the run")
	}
}

func TestRetryOfAMap(t *testing.T) {
	p := played(t, `{"nodes":[{"key":"l","execution":{}},{"key":"m","depends_on":["l"],"map":4,"tolerate":1,"execution":{}}]}`, map[string]string{"m[0]": "F", "m[2]": "T"})
	p.play()
	expect(t, p, "l=SUCCEEDED m=FAILED FAILED")
	if got := Explain(p.g, p.s, 1); got != "MAP_FAILED: 2 of 4 items failed, 1 are tolerated" {
		t.Errorf("got %q", got)
	}
	after, d, err := Retry{}.Apply(p.g, p.s)
	if err != nil || fmt.Sprint(d.Items) != "[{1 [0 2]}]" || fmt.Sprint(Changes(p.g, p.s, p.g, after)) != "[m: FAILED → RUNNING (2 items)]" {
		t.Errorf("from what failed: %v, %+v, %v", Changes(p.g, p.s, p.g, after), d, err)
	}
	for _, r := range []Retry{{NewInput: true}, {Nodes: []string{"l"}}} {
		after, d, err := r.Apply(p.g, p.s)
		if err != nil || d.Items != nil || after.maps[1] != nil {
			t.Errorf("%+v: the map keeps its items: %+v, %v", r, d, err)
		}
	}
}

func TestResize(t *testing.T) {
	p := played(t, `{"nodes":[{"key":"m","map":10,"max_parallel":2,"execution":{}}]}`, map[string]string{"m[0]": "F"})
	if len(p.live) != 2 {
		t.Fatalf("live: %v", p.live)
	}
	p.finish("m[0]")
	if len(p.live) != 1 {
		t.Fatalf("after a failure that is not tolerated, live: %v", p.live)
	}
	five := 5
	d, err := Resize(p.g, p.s, 0, &five, &Tolerance{Share: true, Percent: 10})
	if err != nil {
		t.Fatal(err)
	}
	p.obey(d)
	if len(p.live) != 5 {
		t.Errorf("live: %v", p.live)
	}
	p.play()
	expect(t, p, "m=SUCCEEDED SUCCEEDED")
}

func TestAWideMapStartsInSteps(t *testing.T) {
	g := compiled(t, `{"nodes":[{"key":"m","map":5000,"execution":{}}]}`)
	s, _ := Begin(g)
	d := Advance(g, s, Event{Kind: Expanded, Node: 0, Width: 5000})
	if len(d.Items[0].Items) != FanOut || fmt.Sprint(d.More) != "[0]" {
		t.Fatalf("%d items, more: %v", len(d.Items[0].Items), d.More)
	}
	d = Advance(g, s, Event{Kind: MoreItems, Node: 0})
	if len(d.Items[0].Items) != FanOut || d.More != nil {
		t.Errorf("%d items, more: %v; at most 2000 are live", len(d.Items[0].Items), d.More)
	}
	if d := Advance(g, s, Event{Kind: MoreItems, Node: 0}); !d.Ignored {
		t.Errorf("got %+v", d)
	}
	if d := Advance(g, s, Event{Kind: ItemEnded, Node: 0, Item: 7, Status: Succeeded}); fmt.Sprint(d.Items) != "[{0 [2000]}]" {
		t.Errorf("got %+v", d)
	}
	if d := Advance(g, s, Event{Kind: ItemEnded, Node: 0, Item: 4000, Status: Succeeded}); !d.Ignored {
		t.Errorf("an item that has not started ended: %+v", d)
	}
}

func TestTimeouts(t *testing.T) {
	for on, want := range map[string]string{"fail": "w=TIMED_OUT FAILED", "skip": "w=SKIPPED SUCCEEDED", "succeed": "w=SUCCEEDED SUCCEEDED"} {
		p := played(t, `{"nodes":[{"key":"w","wait":{"event":"x"},"timeout":"1h","on_timeout":"`+on+`"}]}`, nil)
		d := Advance(p.g, p.s, Event{Kind: NodeTimedOut, Node: 0})
		expect(t, p, want)
		if fmt.Sprint(d.Closed) != "[0]" {
			t.Errorf("the wait stays: %+v", d)
		}
		if d := Advance(p.g, p.s, Event{Kind: NodeEnded, Node: 0, Status: Succeeded}); !d.Ignored {
			t.Errorf("%s: released after its timeout", on)
		}
	}
	p := played(t, `{"nodes":[{"key":"m","map":3,"max_parallel":2,"timeout":"1h","execution":{}},{"key":"x","timeout":"1h","execution":{}}]}`, nil)
	for n := range 2 {
		p.advance(Event{Kind: NodeTimedOut, Node: n})
	}
	p.play()
	expect(t, p, "m=TIMED_OUT x=TIMED_OUT FAILED")
	if got := Explain(p.g, p.s, 0); got != "TIMEOUT: it took longer than its timeout of 1h0m0s" {
		t.Errorf("got %q", got)
	}
	if got := p.s.Item(0, 2); got != NotRun {
		t.Errorf("item 2 is %s", got)
	}
}

// What a wait releases while the run is paused waits; a cancel of a paused run ends it.
func TestPausedWaits(t *testing.T) {
	doc := `{"nodes":[{"key":"w","wait":{"timer":"1h"}},{"key":"b","depends_on":["w"],"execution":{}},{"key":"z","finally":true,"execution":{}}]}`
	p := played(t, doc, nil)
	p.act("pause", nil)
	p.advance(Event{Kind: NodeEnded, Node: 0, Status: Succeeded})
	expect(t, p, "w=SUCCEEDED b=WAITING z=WAITING PAUSED")
	if got := Explain(p.g, p.s, 1); got != "held: the run is paused" || !p.s.Held(1) {
		t.Errorf("got %q", got)
	}
	p.act("cancel", nil)
	p.play()
	expect(t, p, "w=SUCCEEDED b=NOT_RUN z=SUCCEEDED CANCELLED")

	p = played(t, doc, nil)
	p.act("cancel", nil)
	expect(t, p, "w=CANCELLED b=NOT_RUN z=PENDING CANCELLING")
	p.act("force_cancel", nil)
	p.play()
	expect(t, p, "w=CANCELLED b=NOT_RUN z=CANCELLED CANCELLED")
}

func TestApproval(t *testing.T) {
	g := compiled(t, `{"nodes":[{"key":"ok","wait":{"approval":{"roles":["operator"],"min":2,"schema":{"type":"object","required":["why"]}}}}]}`)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ann := Vote{Approved: true, By: "ann", Who: "key:1", At: at, Data: json.RawMessage(`{"why":"fine"}`)}
	bob := Vote{Approved: true, By: "bob", Who: "key:2", At: at.Add(time.Minute), Data: ann.Data}
	if e, err := CastVote(g, 0, nil, ann); e != nil || err != nil {
		t.Errorf("one of two: %+v, %v", e, err)
	}
	if e, err := CastVote(g, 0, []Vote{ann}, bob); err != nil || e == nil || e.Status != Succeeded {
		t.Errorf("two of two: %+v, %v", e, err)
	}
	if e, err := CastVote(g, 0, []Vote{ann}, Vote{By: "bob"}); err != nil || e == nil || e.Status != Failed || e.Reason != Rejected {
		t.Errorf("rejected: %+v, %v", e, err)
	}
	for want, f := range map[string]func() (*Event, error){
		"you approved this at 2026-01-02T03:04:05Z already; others are still asked": func() (*Event, error) { return CastVote(g, 0, []Vote{ann}, ann) },
		"bob approved this at 2026-01-02T03:05:05Z already":                         func() (*Event, error) { return CastVote(g, 0, []Vote{ann, bob}, Vote{By: "cy"}) },
		"bob rejected this at 2026-01-02T03:04:05Z already":                         func() (*Event, error) { return CastVote(g, 0, []Vote{{By: "bob", At: at}}, ann) },
		"data: {} is not valid; want a value that fits the schema: missing property 'why'": func() (*Event, error) {
			return CastVote(g, 0, nil, Vote{Approved: true, By: "ann", Data: json.RawMessage(`{}`)})
		},
	} {
		if e, err := f(); e != nil || err == nil || err.Error() != want {
			t.Errorf("got %+v, %v; want %s", e, err, want)
		}
	}
	for _, approved := range []bool{true, false} {
		v := Vote{Approved: approved, By: "ann", Data: json.RawMessage(`{"why":"` + strings.Repeat("x", MaxValue/2) + `"}`)}
		if e, err := CastVote(g, 0, nil, v); e != nil || err == nil || !strings.Contains(err.Error(), "at most 524288 bytes") {
			t.Errorf("too much data, approved %t: got %+v, %v", approved, e, err)
		}
	}
	a := g.Node(0).Wait.Approval
	for role, want := range map[tenant.Role]bool{tenant.Viewer: false, tenant.Operator: true, tenant.Admin: true, tenant.Worker: false} {
		if a.MayVote(role) != want || (&Approval{}).MayVote(role) != want {
			t.Errorf("%s may vote: %t", role, !want)
		}
	}
}

// Who approved a run did not approve another input, or another version.
func TestARetryAsksAgain(t *testing.T) {
	const doc = `{"nodes":[{"key":"a","execution":{}},{"key":"gate","depends_on":["a"],"wait":{"approval":{}}},{"key":"b","depends_on":["gate"],"execution":{}},
		{"key":"c","depends_on":["b"],"execution":{}},{"key":"d","depends_on":["b"],"execution":{}},{"key":"other","wait":{"approval":{}}},{"key":"e","depends_on":["other"],"execution":{}}]}`
	stands := func(g *Graph, s *State) string {
		var b strings.Builder
		for n := range g.Len() {
			status, _ := s.Node(n)
			fmt.Fprintf(&b, "%s=%s ", g.Node(n).Key, status)
		}
		return strings.TrimSpace(b.String())
	}
	another := compiled(t, strings.Replace(doc, `"key":"d"`, `"key":"d","if":"true"`, 1))
	asked := compiled(t, strings.Replace(doc, `"key":"a","execution":{}`, `"key":"a","wait":{"approval":{}}`, 1))
	const again = "a=SUCCEEDED gate=RUNNING b=WAITING c=WAITING d=WAITING other=SUCCEEDED e=SUCCEEDED"
	for what, x := range map[string]struct {
		retry Retry
		want  string
	}{
		"the same":                   {Retry{}, "a=SUCCEEDED gate=SUCCEEDED b=SUCCEEDED c=PENDING d=SUCCEEDED other=SUCCEEDED e=SUCCEEDED"},
		"another input":              {Retry{NewInput: true}, again},
		"another version":            {Retry{Graph: another}, again},
		"only one node":              {Retry{NewInput: true, Nodes: []string{"c"}, Only: true}, "a=SUCCEEDED gate=RUNNING b=WAITING c=WAITING d=SUCCEEDED other=SUCCEEDED e=SUCCEEDED"},
		"the gate and a node":        {Retry{Graph: another, Nodes: []string{"gate", "c"}, Only: true}, "a=SUCCEEDED gate=RUNNING b=WAITING c=WAITING d=SUCCEEDED other=SUCCEEDED e=SUCCEEDED"},
		"what no approval is above":  {Retry{NewInput: true, Nodes: []string{"a"}, Only: true}, "a=PENDING gate=SUCCEEDED b=SUCCEEDED c=FAILED d=SUCCEEDED other=SUCCEEDED e=SUCCEEDED"},
		"a job becomes an approval":  {Retry{Graph: asked}, "a=RUNNING gate=WAITING b=WAITING c=WAITING d=WAITING other=SUCCEEDED e=SUCCEEDED"},
		"an approval with good ones": {Retry{NewInput: true, Nodes: []string{"e"}, Only: true}, "a=SUCCEEDED gate=SUCCEEDED b=SUCCEEDED c=FAILED d=SUCCEEDED other=RUNNING e=WAITING"},
	} {
		p := played(t, doc, map[string]string{"c": "F"})
		for _, key := range []string{"other", "gate"} {
			n, _ := p.g.Number(key)
			p.play()
			p.advance(Event{Kind: NodeEnded, Node: n, Status: Succeeded})
		}
		p.play()
		s, _, err := x.retry.Apply(p.g, p.s)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := stands(p.g, s); got != x.want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, x.want)
		}
	}
}

func TestExplain(t *testing.T) {
	p := played(t, `{"on_failure":"stop","nodes":[
		{"key":"a","execution":{}},{"key":"b","execution":{}},{"key":"c","execution":{}},
		{"key":"abc","depends_on":["a","b","c"],"execution":{}},
		{"key":"later","depends_on":["abc"],"execution":{}},
		{"key":"no","depends_on":["b"],"if":"nodes.b.result == 9","execution":{}},
		{"key":"nor","depends_on":["no"],"execution":{}},
		{"key":"y","depends_on":["c"],"execution":{}},
		{"key":"h","depends_on":["b"],"trigger":"one_failed","execution":{}},
		{"key":"w","wait":{"approval":{}}},
		{"key":"z","finally":true,"execution":{}}]}`, map[string]string{"a": "F"})
	say := func(key, want string) {
		t.Helper()
		n, _ := p.g.Number(key)
		if got := Explain(p.g, p.s, n); got != want {
			t.Errorf("%s: got %q; want %q", key, got, want)
		}
	}
	say("abc", "waits for parents a, b, c")
	say("w", "waits for an approval")
	say("z", "finally: waits until the other nodes have ended (open: 10)")
	p.finish("b")
	say("abc", "waits for parents a, c")
	say("no", "skipped because `if` was false: nodes.b.result == 9")
	say("nor", "skipped because parent no was skipped (trigger all_success)")
	say("h", "skipped because its trigger one_failed handles failures, and not enough of its parents failed")
	p.finish("a")
	say("abc", "waits for parent c")
	p.finish("c")
	say("abc", "not run because of a (FAILED) (trigger all_success)")
	say("later", "not run because of a (FAILED) (trigger all_success)")
	say("y", "not run: the failure of a (FAILED) stopped the run (on_failure is stop)")
	p.act("cancel", nil)
	say("w", "CANCELLED: cancelled with the run")
}

// A mark of a finally node runs others once more only if the run continues. A failed one keeps nothing from running then.
func TestFinallyNodesAfterAMark(t *testing.T) {
	doc := `{"on_failure":"continue","nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},
		{"key":"f","finally":true,"on_failure":"stop","execution":{}},{"key":"g","finally":true,"execution":{}}]}`
	p := played(t, doc, map[string]string{"a": "F", "f": "F"})
	p.play()
	expect(t, p, "a=FAILED b=NOT_RUN f=FAILED g=SUCCEEDED FAILED")
	s := p.s.Clone()
	d, err := Mark(p.g, s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := s.Node(2); f != Succeeded || s.Status != Failed || len(d.Start) > 0 {
		t.Errorf("after a mark of f the run is %v, f is %v, and %v start; want FAILED, SUCCEEDED, and none", s.Status, f, d.Start)
	}
	s = p.s.Clone()
	if d, err = Mark(p.g, s, 0); err != nil {
		t.Fatal(err)
	}
	if g, _ := s.Node(3); g != Waiting || len(d.Start) != 1 || d.Start[0] != 1 {
		t.Errorf("after a mark of a, g is %v, and %v start; want WAITING, and b", g, d.Start)
	}
}
