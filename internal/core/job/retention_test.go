package job

import "testing"

func TestEndsWithHistory(t *testing.T) {
	for _, c := range []struct {
		state State
		kind  ScheduleType
		keyed bool
		want  bool
	}{
		{Active, Immediate, false, true}, {Paused, OneTime, false, true}, {Active, Cron, false, false}, {Active, Interval, false, false}, {Active, Manual, false, false},
		{Active, Immediate, true, false}, {Active, OneTime, true, false}, {Deleted, Immediate, true, true},
		{Deleted, Cron, false, true}, {Deleted, Manual, false, true}, {Inline, Immediate, false, false}, {Inline, Manual, false, false},
	} {
		if got := EndsWithHistory(c.state, c.kind, c.keyed); got != c.want {
			t.Errorf("%v %v, with a key %v: %v", c.state, c.kind, c.keyed, got)
		}
	}
}
