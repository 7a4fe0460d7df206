package job

import (
	"testing"
	"time"
)

// An attempt that was handed back has no start that anyone kept, so its end says which it was.
func TestTimelineTellsOfWhatWasHandedBack(t *testing.T) {
	e := Execution{ID: ExecutionID{6: 0x70}, Status: Running, LeasedAt: at.Add(time.Minute), StartedAt: at, Attempt: 1, Token: 2}
	kept := []Event{{At: at, Kind: EventReleased, Attempt: 1, Token: 1}, {At: at.Add(time.Second), Kind: EventReleased, Attempt: 1, Token: 3, Note: "its own"}}
	got := Timeline(e, nil, kept)
	if len(got) != 4 || got[1].Note != "attempt 1 was handed back" || got[2].Note != "its own" || got[3].Kind != EventStarted {
		t.Errorf("got %+v", got)
	}
	if kept[0].Note != "" {
		t.Error("what was kept has changed")
	}
}
