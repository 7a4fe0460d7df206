package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// One decision starts a bounded number of items of all maps together; MoreItems starts the rest, each item once.
func TestMapsShareTheItemsOfADecision(t *testing.T) {
	var nodes []string
	for i := range 5 {
		nodes = append(nodes, fmt.Sprintf(`{"key":"m%d","map":700,"execution":{"payload":"{{ index }}"}}`, i))
	}
	started, rounds := startAll(t, `{"nodes":[`+strings.Join(nodes, ",")+`]}`, nil)
	if len(started) != 5*700 || rounds != 4 {
		t.Errorf("%d items started in %d rounds; want %d in 4", len(started), rounds, 5*700)
	}
}

// One decision renders a bounded number of bytes, of maps and of other nodes.
func TestADecisionRendersBoundedBytes(t *testing.T) {
	input := json.RawMessage(`{"x":"` + strings.Repeat("x", 900_000) + `"}`)
	for name, execution := range map[string]string{"rendered": `{"payload":"{{ run.input.x }}"}`, "passed on": `{}`} {
		t.Run(name, func(t *testing.T) {
			started, rounds := startAll(t, `{"nodes":[{"key":"m","map":30,"execution":`+execution+`},{"key":"n","map":30,"execution":`+execution+`}]}`, input)
			if len(started) != 60 || rounds != 4 {
				t.Errorf("%d items started in %d rounds; want 60 in 4", len(started), rounds)
			}
			var nodes []string
			for i := range 40 {
				nodes = append(nodes, fmt.Sprintf(`{"key":"a%d","execution":%s}`, i, execution))
			}
			started, rounds = startAll(t, `{"nodes":[`+strings.Join(nodes, ",")+`]}`, input)
			if len(started) != 40 || rounds != 3 {
				t.Errorf("%d nodes started in %d rounds; want 40 in 3", len(started), rounds)
			}
		})
	}
}

// Items that fail before they start count, too.
func TestItemsThatFailAtOnceCount(t *testing.T) {
	started, rounds := startAll(t, `{"nodes":[{"key":"m","map":3500,"tolerate":"100%","execution":{"payload":"{{ item.name }}"}}]}`, nil)
	if len(started) != 3500 || rounds != 4 {
		t.Errorf("%d items failed in %d rounds; want 3500 in 4", len(started), rounds)
	}
}

// A map that fails for its items that cannot start, while others of it are put off, ends, and its run with it.
func TestAMapThatIsLostWhileItemsArePutOffEnds(t *testing.T) {
	for _, room := range []int{0, 10_000} {
		g := compiled(t, `{"nodes":[{"key":"m","map":5000,"tolerate":"1%","execution":{"payload":"{{ item.name }}"}}]}`)
		s, d := BeginWith(g, false, room)
		e := (&Resolver{Graph: g, State: s, Values: kept{g: g}}).Resolve(d)
		for rounds := 0; len(e.More) > 0 && rounds < 20; rounds++ {
			e, _ = (&Resolver{Graph: g, State: s, Values: kept{g: g}}).Advance(Event{Kind: MoreItems, Node: e.More[0]})
		}
		if s.Status != Failed {
			counts, _ := s.Map(0)
			t.Errorf("room %d: the run is %v, its map %+v", room, s.Status, counts)
		}
	}
}

// A run that is cancelled while nodes are put off ends.
func TestCancelWhileNodesArePutOff(t *testing.T) {
	var nodes []string
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf(`{"key":"a%d","execution":{}}`, i))
	}
	g := compiled(t, `{"nodes":[`+strings.Join(nodes, ",")+`]}`)
	s, d := Begin(g)
	r := &Resolver{Graph: g, State: s, Run: Run{Input: json.RawMessage(`"` + strings.Repeat("x", 1_000_000) + `"`)}, Values: kept{g: g}}
	e := r.Resolve(d)
	if _, err := Cancel(g, s, false); err != nil {
		t.Fatal(err)
	}
	for _, n := range e.More {
		if d := Advance(g, s, Event{Kind: MoreItems, Node: n}); !d.Ignored {
			t.Errorf("node %d goes on: %+v", n, d)
		}
	}
	for _, x := range e.Executions {
		Advance(g, s, Event{Kind: NodeEnded, Node: x.Node, Status: Cancelled})
	}
	if s.Status != Cancelled || len(e.More) == 0 {
		t.Errorf("the run is %v; %d nodes were put off", s.Status, len(e.More))
	}
}

// startAll starts what a workflow starts at first, and checks that no round goes beyond what one may.
func startAll(t *testing.T, definition string, input json.RawMessage) (started map[string]bool, rounds int) {
	t.Helper()
	g := compiled(t, definition)
	s, d := Begin(g)
	values := kept{g: g}
	r := &Resolver{Graph: g, State: s, Run: Run{Input: input}, Values: values}
	started = map[string]bool{}
	e := r.Resolve(d)
	for {
		rounds++
		items, rendered := 0, 0
		begin := func(node, item int) {
			key := fmt.Sprint(node, "/", item)
			if started[key] {
				t.Fatalf("%s starts twice", key)
			}
			if started[key] = true; item >= 0 {
				items++
			}
		}
		for _, x := range e.Executions {
			begin(x.Node, x.Item)
			if rendered += len(x.Execution); g.nodes[x.Node].hasInput {
				rendered += len(input)
			}
		}
		for _, f := range e.Failures {
			begin(f.Node, f.Item)
		}
		if items > FanOut || rendered > MaxRendered+MaxValue {
			t.Fatalf("a round starts %d items of %d bytes", items, rendered)
		}
		if len(e.More) == 0 || rounds > 100 {
			return started, rounds
		}
		doc := s.Encode()
		var err error
		if s, err = DecodeState(g, doc); err != nil { // another server goes on
			t.Fatal(err)
		}
		var events []Event
		seen := map[int]bool{}
		for _, n := range e.More {
			if !seen[n] {
				seen[n] = true
				events = append(events, Event{Kind: MoreItems, Node: n})
			}
		}
		r = &Resolver{Graph: g, State: s, Run: r.Run, Values: values}
		e, _ = r.Advance(events...)
	}
}
