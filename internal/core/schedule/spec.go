package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// CalendarSpec is a calendar as written. It is stored as JSON.
type CalendarSpec struct {
	Dates    []string     `json:"dates,omitempty"`    // 2026-12-25
	Yearly   []string     `json:"yearly,omitempty"`   // 12-25
	Weekdays []string     `json:"weekdays,omitempty"` // SAT
	Windows  []WindowSpec `json:"windows,omitempty"`
	Zone     string       `json:"timezone,omitempty"` // empty: the schedule's
}

// WindowSpec is a range of local time as written.
type WindowSpec struct {
	From string `json:"from"` // 2026-12-24T18:00, or a date
	To   string `json:"to"`
}

// maxEntries limits the number of entries of each kind in a calendar.
const maxEntries = 1000

// Calendar compiles a calendar, or returns everything that is wrong with it.
func (c *Cache) Calendar(s CalendarSpec) (*Calendar, job.Invalids) {
	var v job.Invalids
	var x Exclusions
	for field, n := range map[string]int{"dates": len(s.Dates), "yearly": len(s.Yearly), "weekdays": len(s.Weekdays), "windows": len(s.Windows)} {
		if n > maxEntries {
			v.Add(field, fmt.Sprintf("%d entries", n), fmt.Sprintf("at most %d", maxEntries))
		}
	}
	if len(v) > 0 {
		return nil, v
	}
	for i, text := range s.Dates {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			v.Add(fmt.Sprintf("dates[%d]", i), text, "a date that exists, such as 2026-12-25")
			continue
		}
		x.Dates = append(x.Dates, Date{t.Year(), t.Month(), t.Day()})
	}
	for i, text := range s.Yearly {
		t, err := time.Parse(time.DateOnly, "2000-"+text) // which has a 29 February
		if err != nil {
			v.Add(fmt.Sprintf("yearly[%d]", i), text, "a month and a day that exist, such as 12-25")
			continue
		}
		x.Yearly = append(x.Yearly, Date{Month: t.Month(), Day: t.Day()})
	}
	for i, text := range s.Weekdays {
		d, ok := weekdayNamed(text)
		if !ok {
			v.Add(fmt.Sprintf("weekdays[%d]", i), text, "one of MON, TUE, WED, THU, FRI, SAT, SUN")
			continue
		}
		x.Weekdays = append(x.Weekdays, d)
	}
	for i, w := range s.Windows {
		from, to := local(w.From), local(w.To)
		const want = "a local time without a zone, such as 2026-12-24T18:00, or a date"
		switch {
		case from.IsZero():
			v.Add(fmt.Sprintf("windows[%d].from", i), w.From, want)
		case to.IsZero():
			v.Add(fmt.Sprintf("windows[%d].to", i), w.To, want)
		case !to.After(from):
			v.Add(fmt.Sprintf("windows[%d].to", i), w.To, "an end after its start, "+w.From)
		default:
			x.Windows = append(x.Windows, Window{from, to})
		}
	}
	if s.Zone != "" {
		z, err := c.Zone(s.Zone)
		var bad *Error
		if errors.As(err, &bad) {
			v.Add("timezone", bad.Value, bad.Want)
		}
		x.Zone = z
	}
	if len(v) > 0 {
		return nil, v
	}
	cal, err := NewCalendar(x)
	var bad *Error
	if errors.As(err, &bad) {
		v.Add(bad.Field, bad.Value, bad.Want)
	}
	return cal, v
}

// ReadCalendar compiles a calendar from its stored form.
func (c *Cache) ReadCalendar(kept []byte) (*Calendar, error) {
	var s CalendarSpec
	if err := json.Unmarshal(kept, &s); err != nil {
		return nil, fmt.Errorf("read a calendar: %w", err)
	}
	cal, v := c.Calendar(s)
	return cal, v.Err()
}

func weekdayNamed(text string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(text, d.String()[:3]) {
			return d, true
		}
	}
	return 0, false
}

// local parses a wall-clock time; zero if it is invalid.
func local(text string) time.Time {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}
