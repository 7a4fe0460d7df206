package workflow

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestResolver(t *testing.T) {
	g := compiled(t, `{"nodes":[
		{"key":"a","execution":{"payload":"{{ run.input.x }}"}},
		{"key":"m","depends_on":["a"],"map":"nodes.a.result","max_parallel":2,"tolerate":1,"execution":{"payload":"{{ item.name + '!' }}"}},
		{"key":"sub","depends_on":["a"],"map":2,"job_id":"key:s","payload_override":{"i":"{{ index }}"}},
		{"key":"no","depends_on":["a"],"if":"false","execution":{}},
		{"key":"bad","depends_on":["a"],"if":"nodes.a.result","on_failure":"handle","execution":{}},
		{"key":"h","depends_on":["bad"],"trigger":"one_failed","execution":{}},
		{"key":"w","depends_on":["a"],"wait":{"event":"go","match":"run.input.x"}}]}`)
	s, d := Begin(g)
	v := kept{g: g, results: map[string]string{"a": `[{"name":"p"},{"name":7},{"name":"q"},{"name":"r"}]`}}
	r := &Resolver{Graph: g, State: s, Run: Run{Input: json.RawMessage(`{"x":5}`)}, Values: v}
	tell := func(e Effects) (out string) {
		for _, x := range e.Executions {
			out += fmt.Sprintf("%s[%d] %s%s; ", g.nodes[x.Node].key, x.Item, x.Execution, x.Payload)
		}
		for _, w := range e.Waits {
			out += fmt.Sprintf("%s waits for %s %s; ", g.nodes[w.Node].key, w.Wait.Event, w.Wait.Match)
		}
		for _, f := range e.Failures {
			out += fmt.Sprintf("%s[%d] fails: %s; ", g.nodes[f.Node].key, f.Item, f.Failure.Reason)
		}
		for _, n := range e.Ended {
			out += fmt.Sprintf("%s is %s; ", g.nodes[n].key, s.cells[n].status)
		}
		return out
	}
	if got, want := tell(r.Resolve(d)), `a[-1] {"payload":5}; `; got != want {
		t.Errorf("at first: %s; want %s", got, want)
	}
	e, ignored := r.Advance(Event{Kind: NodeEnded, Node: 0, Status: Succeeded}, Event{Kind: NodeEnded, Node: 0, Status: Failed})
	want := `m[0] {"payload":"p!"}; sub[0] {"i":0}; sub[1] {"i":1}; h[-1] {}; m[2] {"payload":"q!"}; w waits for go 5; bad[-1] fails: EXPRESSION; m[1] fails: EXPRESSION; a is SUCCEEDED; no is SKIPPED; bad is FAILED; `
	if got := tell(e); got != want || ignored != 1 {
		t.Errorf("after a, %d ignored:\n%s\nwant\n%s", ignored, got, want)
	}
	fresh := &Resolver{Graph: g, State: s, Run: r.Run, Values: v} // another server continues
	e, _ = fresh.Advance(Event{Kind: ItemEnded, Node: 1, Item: 0, Status: Succeeded})
	if got, want := tell(e), `m[3] {"payload":"r!"}; `; got != want {
		t.Errorf("after an item: %s; want %s", got, want)
	}
	v.results["a"] = `[]` // which cannot be, and must not end in a panic
	m := s.maps[1]
	m.cursor, m.live = 3, 1
	fresh = &Resolver{Graph: g, State: s, Run: r.Run, Values: v}
	e, _ = fresh.Advance(Event{Kind: ItemEnded, Node: 1, Item: 2, Status: Succeeded})
	if got, want := tell(e), `m[3] fails: EXPRESSION; m is FAILED; `; got != want {
		t.Errorf("after the list changed: %s; want %s", got, want)
	}
}
