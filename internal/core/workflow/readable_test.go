package workflow

import (
	"encoding/json"
	"testing"
)

func TestWhatANodeMayRead(t *testing.T) {
	t.Parallel()
	var d Definition
	if err := json.Unmarshal([]byte(`{"nodes": [
		{"key": "a", "execution": {"target": "simulate"}}, {"key": "b", "depends_on": ["a"], "execution": {"target": "simulate"}},
		{"key": "c", "depends_on": ["b"], "execution": {"target": "simulate"}}, {"key": "d", "execution": {"target": "simulate"}},
		{"key": "f", "finally": true, "execution": {"target": "simulate"}}, {"key": "g", "finally": true, "depends_on": ["f"], "execution": {"target": "simulate"}}
	]}`), &d); err != nil {
		t.Fatal(err)
	}
	g, err := Compile(d, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	may := map[string]string{"a": "", "b": "a", "c": "ab", "d": "", "f": "abcd", "g": "abcdf"}
	for i := range g.Len() {
		got := ""
		for k := range g.Len() {
			if g.MayRead(i, k) {
				got += g.Node(k).Key
			}
		}
		if key := g.Node(i).Key; got != may[key] {
			t.Errorf("%s may read %q, want %q", key, got, may[key])
		}
	}
}
