package cli

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

func TestSpreads(t *testing.T) {
	noon := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	f := client.Forecast{
		Minutes: []client.ForecastMinute{{At: noon, Count: 400}, {At: noon.Add(time.Minute), Count: 15}, {At: noon.Add(2 * time.Minute), Count: 25}, {At: noon.Add(time.Hour), Count: 100_000}},
		Herds: []client.Herd{
			{At: noon, Count: 400, Jobs: []client.HerdJob{{JobID: "a", Name: "A", Count: 300}, {JobID: "b", Name: "B", Count: 50}}},
			{At: noon.Add(time.Hour), Count: 100_000, Jobs: []client.HerdJob{{JobID: "b", Name: "B", Count: 99_000}}},
		},
	}
	got := spreads(f)
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if b := got[0]; b.JobID != "b" || b.length != time.Hour || b.Herd != 100_000 || b.After != 1667 {
		t.Errorf("the greatest: %+v", b)
	}
	if a := got[1]; a.JobID != "a" || a.length != 20*time.Minute || a.After != 20 { // as many a minute as usual
		t.Errorf("the other: %+v", a)
	}
	if got := spreads(client.Forecast{}); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}
