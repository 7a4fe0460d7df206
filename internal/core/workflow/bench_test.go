package workflow

import (
	"encoding/json"
	"fmt"
	"testing"
)

var wide = Limits{Nodes: 20_000, Edges: 100_000, MapWidth: 100_000}

func node1(key string, after ...string) Node {
	return Node{Key: key, DependsOn: after, Execution: json.RawMessage(`{}`)}
}

// star is one node, so many after it, and one after all of them.
func star(t testing.TB, n int) *Graph {
	d := Definition{Nodes: []Node{node1("first")}}
	last := node1("last")
	for i := range n {
		key := fmt.Sprintf("n%d", i)
		d.Nodes = append(d.Nodes, node1(key, "first"))
		last.DependsOn = append(last.DependsOn, key)
	}
	return must(t, append(d.Nodes, last))
}

func chainOf(t testing.TB, n int) *Graph {
	nodes := []Node{node1("n0")}
	for i := 1; i < n; i++ {
		nodes = append(nodes, node1(fmt.Sprintf("n%d", i), fmt.Sprintf("n%d", i-1)))
	}
	return must(t, nodes)
}

func must(t testing.TB, nodes []Node) *Graph {
	g, err := Compile(Definition{Nodes: nodes}, wide)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// runAll ends node after node, and fails unless the run succeeds.
func runAll(t testing.TB, g *Graph) {
	s, d := Begin(g)
	todo := d.Start
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		d = Advance(g, s, Event{Kind: NodeEnded, Node: n, Status: Succeeded})
		todo = append(todo, d.Start...)
	}
	if d.Run != Succeeded {
		t.Fatalf("the run is %s", s.Status)
	}
}

// The end of a node costs as much in a large graph as in a small one, and so does the end of an item.
func TestAdvanceCostsWhatTheNodeHasChildren(t *testing.T) {
	leaf := func(g *Graph) float64 {
		s, _ := Begin(g)
		Advance(g, s, Event{Kind: NodeEnded, Node: 0, Status: Succeeded})
		n := 1
		return testing.AllocsPerRun(50, func() {
			if d := Advance(g, s, Event{Kind: NodeEnded, Node: n, Status: Succeeded}); d.Ignored {
				t.Fatal("ignored")
			}
			n++
		})
	}
	if small, large := leaf(star(t, 100)), leaf(star(t, 10_000)); large > small || large > 4 {
		t.Errorf("the end of a leaf allocates %v times among 10 000 nodes, %v times among 100", large, small)
	}
	item := func(width int) float64 {
		g := must(t, []Node{{Key: "m", Map: json.RawMessage(fmt.Sprint(width)), MaxParallel: 10, Execution: json.RawMessage(`{}`)}})
		s, _ := Begin(g)
		Advance(g, s, Event{Kind: Expanded, Node: 0, Width: width})
		i := 0
		return testing.AllocsPerRun(50, func() {
			if d := Advance(g, s, Event{Kind: ItemEnded, Node: 0, Item: i, Status: Succeeded}); len(d.Items) != 1 || len(d.Items[0].Items) != 1 {
				t.Fatalf("got %+v", d)
			}
			i++
		})
	}
	if small, large := item(100), item(100_000); large > small || large > 4 {
		t.Errorf("the end of an item allocates %v times among 100 000, %v times among 100", large, small)
	}
}

func BenchmarkStar10000(b *testing.B) {
	g := star(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		runAll(b, g)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(g.Len()), "ns/node")
}

func BenchmarkChain1000(b *testing.B) {
	g := chainOf(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		runAll(b, g)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(g.Len()), "ns/node")
}

func BenchmarkMap100000(b *testing.B) {
	const width = 100_000
	g := must(b, []Node{{Key: "m", Map: json.RawMessage("100000"), MaxParallel: 100, Execution: json.RawMessage(`{}`)}, node1("join", "m")})
	b.ReportAllocs()
	for b.Loop() {
		s, _ := Begin(g)
		Advance(g, s, Event{Kind: Expanded, Node: 0, Width: width})
		var d Decisions
		for i := range width {
			d = Advance(g, s, Event{Kind: ItemEnded, Node: 0, Item: i, Status: Succeeded})
		}
		if fmt.Sprint(d.Start) != "[1]" {
			b.Fatalf("got %+v", d)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/width, "ns/item")
}

func BenchmarkCompile1000(b *testing.B) {
	d, err := Decode([]byte(many(1000)))
	if err != nil {
		b.Fatal(err)
	}
	for i := 1; i < len(d.Nodes); i++ {
		d.Nodes[i].DependsOn = []string{d.Nodes[i-1].Key}
		d.Nodes[i].If = fmt.Sprintf("nodes.%s.result != nil", d.Nodes[i-1].Key)
	}
	for b.Loop() {
		if _, err := Compile(d, DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode1000(b *testing.B) {
	g := chainOf(b, 1000)
	s, _ := Begin(g)
	for b.Loop() {
		if _, err := DecodeState(g, s.Encode()); err != nil {
			b.Fatal(err)
		}
	}
}
