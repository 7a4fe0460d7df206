package service

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// What is written without a detour is what the detour writes.
func TestMadeIsBrief(t *testing.T) {
	for _, name := range []string{"plain", `a "quoted" \\ name`, "ünïcode ✓", "tab\t", "<b>&", ""} {
		for _, s := range []job.Schedule{{Type: job.Immediate}, {Type: job.Cron, Cron: "0 3 * * *"}, {Type: job.Interval, Every: time.Hour}} {
			j := &job.Job{Definition: job.Definition{Name: name, Schedule: s, Target: job.Target{Kind: job.HTTP}}}
			var d detail
			if err := json.Unmarshal(brieflyMade(j), &d); err != nil || !maps.Equal(d.After, brief(j)) {
				t.Errorf("%s: %v, %v", brieflyMade(j), d, err)
			}
		}
	}
}

func TestDiffering(t *testing.T) {
	a := &job.Job{Definition: job.Definition{Name: "a", Priority: 5, Payload: []byte("1")}}
	b := *a
	b.Priority, b.Payload, b.Tags = 3, []byte("2"), []string{"x"}
	d := differing(described(a), described(&b))
	if len(d.Before) != 3 || d.Before["priority"] != "5" || d.After["priority"] != "3" || d.After["tags"] != "x" || d.Before["payload"] == d.After["payload"] {
		t.Errorf("%+v", d)
	}
	if d := differing(described(a), described(a)); len(d.Before)+len(d.After) != 0 {
		t.Errorf("%+v", d)
	}
}
