package schedule

import (
	"strings"
	"testing"
	"time"
)

// TestClockChanges lists firings in local time, one change of the clocks a row. An "=" marks the second pass of an overlap.
func TestClockChanges(t *testing.T) {
	for _, x := range []struct{ zone, expr, from, want string }{
		// One hour forward, at 02:00.
		{"America/New_York", "30 * * * *", "2026-03-08T01:00:00-05:00", "8 01:30, 8 03:30"},
		{"America/New_York", "*/5 * * * *", "2026-03-08T01:50:00-05:00", "8 01:55, 8 03:00, 8 03:05"},
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00-05:00", "8 03:00, 9 02:30"},
		{"America/New_York", "0,30 2 * * *", "2026-03-07T12:00:00-05:00", "8 03:00, 9 02:00, 9 02:30"},
		{"America/New_York", "30 2-5 * * *", "2026-03-07T12:00:00-05:00", "8 03:00, 8 03:30, 8 04:30, 8 05:30, 9 02:30"},
		{"America/New_York", "*/10 2 * * *", "2026-03-07T12:00:00-05:00", "8 03:00, 9 02:00, 9 02:10"},
		{"America/New_York", "0 2,3 * * *", "2026-03-07T12:00:00-05:00", "8 03:00, 9 02:00"},
		{"America/New_York", "30 2 * * 0", "2026-03-07T12:00:00-05:00", "8 03:00, 15 02:30"},
		{"America/New_York", "30 2 * * 1-6", "2026-03-07T12:00:00-05:00", "9 02:30"},
		{"America/New_York", "30 2 * * *", "2026-03-08T01:59:59-05:00", "8 03:00"},
		{"America/New_York", "30 2 * * *", "2026-03-08T03:00:00-04:00", "9 02:30"},
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00+01:00", "29 03:00, 30 02:30"},
		{"Europe/Berlin", "* * 2 * * *", "2026-03-28T12:00:00+01:00", "29 03:00, 30 02:00:00, 30 02:00:01"},
		// One hour back, at 02:00.
		{"America/New_York", "*/30 * * * *", "2026-11-01T00:30:00-04:00", "1 01:00, 1 01:30, =1 01:00, =1 01:30, 1 02:00"},
		{"America/New_York", "*/30 1 * * *", "2026-11-01T00:30:00-04:00", "1 01:00, 1 01:30, =1 01:00, =1 01:30, 2 01:00"},
		{"America/New_York", "30 1 * * *", "2026-11-01T00:30:00-04:00", "1 01:30, 2 01:30"},
		{"America/New_York", "30 1 * * *", "2026-11-01T01:10:00-05:00", "2 01:30"},
		{"America/New_York", "0 30 1 * * *", "2026-11-01T00:30:00-04:00", "1 01:30, 2 01:30"},
		{"America/New_York", "0-30 1 * * *", "2026-11-01T01:30:00-04:00", "2 01:00"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T00:00:00+02:00", "25 02:30, 26 02:30"},
		{"Europe/Berlin", "0 0-23 * * *", "2026-10-25T01:30:00+02:00", "25 02:00, =25 02:00, 25 03:00"},
		// Half an hour.
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30", "4 02:30, 5 02:15"},
		{"Australia/Lord_Howe", "0 * * * *", "2026-10-04T00:30:00+10:30", "4 01:00, 4 03:00"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00:00+11:00", "5 01:45, 6 01:45"},
		{"Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:30:00+11:00", "5 01:45, =5 01:30, =5 01:45, 5 02:00"},
		// Midnight does not exist.
		{"America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00-03:00", "4 01:00, 5 00:00"},
		{"America/Sao_Paulo", "0 0 * * 0", "2018-11-03T12:00:00-03:00", "4 01:00, 11 00:00"},
		{"America/Sao_Paulo", "0 0 4 11 *", "2018-11-03T12:00:00-03:00", "4 01:00"},
		{"America/Sao_Paulo", "0 0 * * *", "2017-10-14T12:00:00-03:00", "15 01:00, 16 00:00"},
		{"America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00:00-02:00", "17 23:30, 18 23:30"},
		{"America/Sao_Paulo", "0 0 * * *", "2026-11-03T12:00:00-03:00", "4 00:00, 5 00:00"}, // no summer time since 2019
		{"Africa/Cairo", "0 0 * * *", "2026-04-23T12:00:00+02:00", "24 01:00, 25 00:00"},
		{"Asia/Beirut", "0 0 * * *", "2026-03-28T12:00:00+02:00", "29 01:00, 30 00:00"},
		{"America/Santiago", "0 0 * * *", "2026-09-05T12:00:00-04:00", "6 01:00, 7 00:00"},
		// The hour before midnight comes twice.
		{"Africa/Cairo", "30 23 * * *", "2026-10-29T12:00:00+03:00", "29 23:30, 30 23:30"},
		{"Africa/Cairo", "30 * * * *", "2026-10-29T22:45:00+03:00", "29 23:30, =29 23:30, 30 00:30"},
		{"Africa/Cairo", "0 0 * * *", "2026-10-29T12:00:00+03:00", "30 00:00, 31 00:00"},
		// Two hours, and a whole day.
		{"Antarctica/Troll", "30 1,2 * * *", "2026-03-28T12:00:00+00:00", "29 03:00, 30 01:30, 30 02:30"},
		{"Antarctica/Troll", "30 1 * * *", "2026-10-25T00:00:00+02:00", "25 01:30, 26 01:30"},
		{"Pacific/Apia", "0 12 * * *", "2011-12-29T00:00:00-10:00", "29 12:00, 31 00:00, 31 12:00"},
		{"Pacific/Apia", "0 12 30 12 *", "2011-12-29T00:00:00-10:00", "31 00:00"},
		{"Pacific/Apia", "0 * * * *", "2011-12-29T22:00:00-10:00", "29 23:00, 31 00:00"},
		// A quarter past the half hour, and no changes: Kathmandu moved once, in 1986.
		{"Asia/Kathmandu", "0 6 * * *", "2026-03-07T12:00:00+05:45", "8 06:00, 9 06:00"},
		{"Asia/Kathmandu", "5 0 * * *", "1985-12-31T12:00:00+05:30", "1 00:15, 2 00:05"},
		// Standard time itself moves.
		{"Asia/Pyongyang", "45 23 * * *", "2018-05-04T12:00:00+08:30", "5 00:00, 5 23:45"},
	} {
		z := zone(t, x.zone)
		c, err := Parse(x.expr, Options{Zone: z})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(x.want, ", ")
		list, err := Plan{Cron: c}.Preview(utc(x.from), len(want))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, at := range list {
			form := "2 15:04"
			if strings.Count(want[i], ":") == 2 {
				form = "2 15:04:05"
			}
			text := at.Local.Format(form)
			if at.Flag == SecondOfTwo {
				text = "=" + text
			}
			got = append(got, text)
		}
		if g := strings.Join(got, ", "); g != x.want {
			t.Errorf("%s in %s after %s:\n got %s\nwant %s", x.expr, x.zone, x.from, g, x.want)
		}
	}
}

func TestPreviewFlags(t *testing.T) {
	for _, x := range []struct{ zone, expr, from, want string }{
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00", "02:30, 03:00 gap, 02:30"},
		{"Europe/Berlin", "0 3 * * *", "2026-03-28T00:00:00+01:00", "03:00, 03:00, 03:00"},
		{"Europe/Berlin", "0 2,3 * * *", "2026-03-29T00:00:00+01:00", "03:00 gap, 02:00"},
		{"Europe/Berlin", "30 * * * *", "2026-10-25T01:00:00+02:00", "01:30, 02:30 first-of-two, 02:30 second-of-two, 03:30"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T01:00:00+02:00", "02:30 first-of-two, 02:30"},
		{"Europe/Berlin", "@every 1h", "2026-10-25T01:30:00+02:00", "02:30 first-of-two, 02:30 second-of-two, 03:30"},
		{"Europe/Berlin", "@every 1h", "2026-03-29T00:00:00+01:00", "01:00, 03:00, 04:00"},
	} {
		c, err := zones.Cron(x.expr, x.zone, "")
		if err != nil {
			t.Fatal(err)
		}
		list, err := Plan{Cron: c}.Preview(utc(x.from), strings.Count(x.want, ",")+1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range list {
			got = append(got, strings.TrimSpace(at.Local.Format("15:04")+" "+string(at.Flag)))
			if !at.UTC.Equal(at.Local) || at.UTC.Location() != time.UTC {
				t.Errorf("%s: %v is not %v", x.expr, at.UTC, at.Local)
			}
		}
		if g := strings.Join(got, ", "); g != x.want {
			t.Errorf("%s after %s:\n got %s\nwant %s", x.expr, x.from, g, x.want)
		}
	}
	for _, n := range []int{-1, 0, MaxPreview + 1} {
		if _, err := (Plan{Every: time.Second}).Preview(utc("2026-01-01T00:00:00Z"), n); err == nil {
			t.Errorf("a preview of %d is made", n)
		}
	}
}
