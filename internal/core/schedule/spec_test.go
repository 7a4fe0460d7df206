package schedule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestCalendarSpec(t *testing.T) {
	c := NewCache(time.LoadLocation)
	whole := CalendarSpec{
		Dates: []string{"2026-12-25"}, Yearly: []string{"02-29", "01-01"}, Weekdays: []string{"SAT", "sun"},
		Windows: []WindowSpec{{"2026-03-02T06:00", "2026-03-02T18:00:30"}, {"2026-04-06", "2026-04-08"}}, Zone: "Europe/Berlin",
	}
	kept, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	cal, err := c.ReadCalendar(kept)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Plan(job.Schedule{Type: job.Cron, Cron: "0 12 * * *", Zone: "Europe/Berlin"}, time.Time{}, cal)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"2026-12-24T12:00:00Z": "2026-12-28T11:00:00Z", // the date and the weekend after it
		"2026-03-01T12:00:00Z": "2026-03-03T11:00:00Z", // a window
		"2026-04-03T12:00:00Z": "2026-04-08T10:00:00Z", // a weekend, and a window of days
		"2027-12-31T12:00:00Z": "2028-01-03T11:00:00Z", // New Year's Day
	} {
		at, _ := time.Parse(time.RFC3339, after)
		if got, ok := p.Next(at); !ok || got.Format(time.RFC3339) != want {
			t.Errorf("after %s: %v, want %s", after, got, want)
		}
	}
	if _, err := c.ReadCalendar([]byte(`{"dates": 1}`)); err == nil {
		t.Error("what cannot be read was read")
	}
}

func TestCalendarSpecRefuses(t *testing.T) {
	c := NewCache(time.LoadLocation)
	for field, s := range map[string]CalendarSpec{
		"dates[0]":        {Dates: []string{"2026-02-30"}},
		"dates[1]":        {Dates: []string{"2026-02-03", "25.12.2026"}},
		"yearly[0]":       {Yearly: []string{"13-01"}},
		"weekdays[0]":     {Weekdays: []string{"SATURDAY"}},
		"windows[0].from": {Windows: []WindowSpec{{"noon", "2026-01-01"}}},
		"windows[0].to":   {Windows: []WindowSpec{{"2026-01-01", "2026-01-01T00:00"}}},
		"timezone":        {Zone: "CEST"},
		"dates":           {Dates: make([]string, maxEntries+1)},
	} {
		_, v := c.Calendar(s)
		if len(v) != 1 || v[0].Field != field || v[0].Want == "" {
			t.Errorf("%s: %+v", field, v)
		}
	}
}
