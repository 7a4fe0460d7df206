package job

import "testing"

func TestEndsWithHistory(t *testing.T) {
	for _, c := range []struct {
		state State
		kind  ScheduleType
		want  bool
	}{
		{Active, Immediate, true}, {Paused, OneTime, true}, {Active, Cron, false}, {Active, Interval, false}, {Active, Manual, false},
		{Deleted, Cron, true}, {Deleted, Manual, true}, {Inline, Immediate, false}, {Inline, Manual, false},
	} {
		if got := EndsWithHistory(c.state, c.kind); got != c.want {
			t.Errorf("%v %v: %v", c.state, c.kind, got)
		}
	}
}
