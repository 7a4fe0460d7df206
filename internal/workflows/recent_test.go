package workflows

import (
	"fmt"
	"testing"
)

// What is in use stays, however much else comes, and only as much goes as has to.
func TestRecent(t *testing.T) {
	r := recent[int, string]{most: 4, budget: 100}
	has := func(want ...int) {
		t.Helper()
		if len(r.at) != len(want) || r.order.Len() != len(want) {
			t.Fatalf("%d values are kept, %d in order; want %v", len(r.at), r.order.Len(), want)
		}
		for _, k := range want {
			if r.at[k] == nil || r.get(k) != fmt.Sprint(k) {
				t.Errorf("%d is not kept; want %v", k, want)
			}
		}
	}
	put := func(cost int, ks ...int) {
		for _, k := range ks {
			r.put(k, fmt.Sprint(k), cost)
		}
	}
	put(10, 1, 2, 3, 4)
	has(2, 3, 4, 1) // 1 was asked for last
	put(10, 5)
	has(3, 4, 1, 5) // one too many
	put(80, 6)
	has(1, 5, 6) // 100 of 100
	put(10, 1)
	has(1, 5, 6) // it is known
	put(1000, 7)
	has(7)
	put(20, 8)
	has(8)
	if r.cost != 20 || r.get(7) != "" {
		t.Errorf("what is kept costs %d; want 20", r.cost)
	}
}
