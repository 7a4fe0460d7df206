package job

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestClass(t *testing.T) {
	for _, c := range []struct {
		n    Needs
		want Class
	}{
		{Needs{Target: HTTP, Queue: DefaultQueue}, "http"},
		{Needs{Target: Handler, Kind: "send-email", Queue: DefaultQueue}, "worker\x1fsend-email"},
		{Needs{Target: HTTP, Queue: "slow"}, "http\x1f\x1fslow"},
		{Needs{Target: HTTP, Queue: DefaultQueue, Labels: []string{"gpu", "eu", "gpu"}}, "http\x1f\x1f\x1feu,gpu"},
	} {
		if got := c.n.Class(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.n, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,3}`)
		n := Needs{Target: rapid.SampledFrom([]TargetKind{HTTP, Handler, Simulate}).Draw(t, "target"), Queue: word.Draw(t, "queue"), Labels: rapid.SliceOfN(word, 0, 3).Draw(t, "labels")}
		if n.Target == Handler {
			n.Kind = word.Draw(t, "kind")
		}
		back := n.Class().Needs()
		if back.Class() != n.Class() || back.Target != n.Target || back.Kind != n.Kind || back.Queue != n.Queue {
			t.Fatalf("%+v came back as %+v", n, back)
		}
		for _, l := range n.Labels {
			if !slices.Contains(back.Labels, l) {
				t.Fatalf("label %q is lost", l)
			}
		}
	})
}

func TestServes(t *testing.T) {
	w := Worker{Targets: []string{"http", "worker"}, Kinds: []string{"a"}, Queues: []string{"default", "slow"}, Labels: []string{"gpu", "eu"}}
	for _, c := range []struct {
		n    Needs
		want bool
	}{
		{Needs{Target: HTTP, Queue: "default"}, true},
		{Needs{Target: HTTP, Queue: "slow", Labels: []string{"eu"}}, true},
		{Needs{Target: HTTP, Queue: "other"}, false},
		{Needs{Target: HTTP, Queue: "default", Labels: []string{"eu", "arm"}}, false},
		{Needs{Target: Handler, Kind: "a", Queue: "default"}, true},
		{Needs{Target: Handler, Kind: "b", Queue: "default"}, false},
		{Needs{Target: Simulate, Queue: "default"}, false},
	} {
		if got := w.Serves("t", c.n.Class()); got != c.want {
			t.Errorf("%+v: %v", c.n, got)
		}
	}
	every := Worker{Targets: []string{"http"}}
	whose := every
	whose.Tenant = "t"
	if c := (Needs{Target: HTTP, Queue: "any"}).Class(); !whose.Serves("t", c) || whose.Serves("other", c) {
		t.Error("a worker of a tenant serves that one")
	}
	if !every.Serves("t", Needs{Target: HTTP, Queue: "any"}.Class()) {
		t.Error("a worker that names no queue does not serve every queue")
	}
}

func TestNoWorkerServesWorkflows(t *testing.T) {
	d := Definition{Target: Target{Kind: Workflow, Version: 2}, Queue: "slow", Labels: []string{"gpu"}}
	if got := d.Class(); got != Class(Workflow) {
		t.Errorf("class %q", got)
	}
}

func TestNodeIDs(t *testing.T) {
	fresh := ID{1, 2, 3, 4, 5, 6, 0x7a, 1, 0x80, 9}
	if id := NodeID(fresh); !id.OfNode() || fresh.OfNode() || id.At() != fresh.At() || id == fresh || PartitionOf(id) != PartitionOf(fresh) {
		t.Errorf("%s of %s", id, fresh)
	}
}
