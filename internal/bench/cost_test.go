package bench

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	s, ok := parseStat([]byte("12 (post) gres: x) S 7 12 12 0 -1 4194560 100 0 0 0 150 50 30 20 20 0 1 0\n"))
	if want := (stat{pid: 12, parent: 7, name: "post) gres: x", own: 2e6, ended: 5e5}); !ok || s != want {
		t.Errorf("got %+v, %v; want %+v", s, ok, want)
	}
	for _, bad := range []string{"", "12", "12 (x) S 7", "12 )x( S", "12 (x) S a 12 12 0 -1 4194560 100 0 0 0 150 50 30 20 20 0 1 0"} {
		if s, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: got %+v", bad, s)
		}
	}
}

func TestParentOf(t *testing.T) {
	if got := parentOf(os.Getpid(), "no such name"); got != 0 {
		t.Errorf("a process of another name: got %d", got)
	}
	if got := parentOf(-1, "postgres"); got != 0 {
		t.Errorf("no process: got %d", got)
	}
}

func TestCostIsTold(t *testing.T) {
	for want, c := range map[string]*Cost{
		"": nil, "12 µs of processor a job": {Process: 12.3}, "12 µs of processor a job here, 46 in the database": {Process: 12.3, Database: 45.6},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	var none meter
	if got := none.per(0); got != nil {
		t.Errorf("of no jobs: got %+v", got)
	}
}
