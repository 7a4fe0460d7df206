package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// after lists n firings of a plan in RFC 3339, and "end" where it is exhausted.
func after(p Plan, from string, n int) string {
	var out []string
	at := utc(from)
	for range n {
		t, ok := p.Next(at)
		if !ok {
			return strings.Join(append(out, "end"), " ")
		}
		out = append(out, t.Format("01-02T15:04:05"))
		at = t
	}
	return strings.Join(out, " ")
}

func TestInterval(t *testing.T) {
	anchor := utc("2026-01-01T00:00:10.9Z")
	for _, x := range []struct {
		p          Plan
		from, want string
	}{
		{Plan{Every: 90 * time.Second, Anchor: anchor}, "2025-12-01T00:00:00Z", "01-01T00:01:40 01-01T00:03:10"},
		{Plan{Every: 90 * time.Second, Anchor: anchor}, "2026-01-01T00:00:10Z", "01-01T00:01:40"},
		{Plan{Every: 90 * time.Second, Anchor: anchor}, "2026-01-01T00:01:40Z", "01-01T00:03:10"},
		{Plan{Every: 90 * time.Second, Anchor: anchor}, "2026-01-01T00:01:39.9Z", "01-01T00:01:40"},
		{Plan{Every: time.Hour, Start: anchor}, "2025-01-01T00:00:00Z", "01-01T01:00:10"},
		{Plan{Every: time.Hour}, "2025-01-01T00:00:05Z", "01-01T01:00:05"},
		{Plan{Every: time.Hour, Anchor: anchor, Calendar: calendar(t, Exclusions{Dates: []Date{{2026, 1, 1}}})}, "2025-01-01T00:00:05Z", "01-02T00:00:10"},
		{Plan{Every: time.Hour, Anchor: anchor, End: utc("2026-01-01T02:00:10Z")}, "2025-01-01T00:00:05Z", "01-01T01:00:10 end"},
		{Plan{Cron: mustParse(t, "@every 1h"), Anchor: anchor}, "2026-01-01T05:00:00Z", "01-01T05:00:10 01-01T06:00:10"},
		{Plan{Every: time.Hour, Anchor: utc("9999-12-31T23:30:00Z")}, "2026-01-01T05:00:00Z", "end"},
		{Plan{Every: time.Hour, Anchor: anchor}, "9999-12-31T23:30:00Z", "end"},
		{Plan{}, "2026-01-01T05:00:00Z", "end"},
	} {
		if got := after(x.p, x.from, strings.Count(x.want, " ")+1); got != x.want {
			t.Errorf("after %s: %s, want %s", x.from, got, x.want)
		}
	}
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2h5s": 2*time.Hour + 5*time.Second, "": 0, "s": 0, "1": 0, "-1s": 0, "500ms": 0, "1s1s": 0, "1d": 0} {
		got, err := ParseEvery(text)
		var e *Error
		if got != want || (want == 0) != errors.As(err, &e) {
			t.Errorf("every %q: %v, %v", text, got, err)
		}
	}
}

func TestStartAndEnd(t *testing.T) {
	p := Plan{Cron: mustParse(t, "0 * * * *"), Start: utc("2026-01-01T10:00:00Z"), End: utc("2026-01-01T12:00:00Z")}
	if got := after(p, "2025-01-01T00:00:00Z", 5); got != "01-01T10:00:00 01-01T11:00:00 end" {
		t.Error(got)
	}
	p.Start, p.End = p.Start.Add(time.Nanosecond), p.End.Add(time.Nanosecond)
	if got := after(p, "2025-01-01T00:00:00Z", 5); got != "01-01T11:00:00 01-01T12:00:00 end" {
		t.Error(got)
	}
}

func TestFarInstants(t *testing.T) {
	c := mustParse(t, "0 0 1 1 *")
	if got, ok := c.Next(time.Time{}); !ok || !got.Equal(utc("0002-01-01T00:00:00Z")) {
		t.Errorf("after the zero time: %v, %v", got, ok)
	}
	if got, ok := c.Next(time.Unix(-1<<62, 0)); !ok || !got.Equal(utc("0001-01-01T00:00:00Z")) {
		t.Errorf("long before: %v, %v", got, ok)
	}
	for _, at := range []time.Time{utc("9999-01-01T00:00:00Z"), utc("9999-12-31T23:59:59Z"), time.Unix(1<<62, 0)} {
		if got, ok := c.Next(at); ok {
			t.Errorf("after %v: %v", at, got)
		}
	}
}

func calendar(t *testing.T, x Exclusions) *Calendar {
	t.Helper()
	c, err := NewCalendar(x)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCalendar(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	noon, err := Parse("0 12 * * *", Options{Zone: berlin})
	if err != nil {
		t.Fatal(err)
	}
	everySecond := mustParse(t, "* * * * * *")
	weekend := []time.Weekday{time.Saturday, time.Sunday}
	all := append([]time.Weekday{1, 2, 3, 4, 5}, weekend...)
	for _, x := range []struct {
		name       string
		cron       *Cron
		not        Exclusions
		from, want string
	}{
		{"dates", noon, Exclusions{Dates: []Date{{2026, 6, 2}, {2026, 6, 3}}}, "2026-06-01T12:00:00Z", "06-04T10:00:00"},
		{"weekdays", noon, Exclusions{Weekdays: weekend}, "2026-06-05T12:00:00Z", "06-08T10:00:00"},
		{"yearly", noon, Exclusions{Yearly: []Date{{0, 12, 25}, {0, 12, 26}, {0, 2, 29}}}, "2026-12-24T12:00:00Z", "12-27T11:00:00"},
		{"a window", noon, Exclusions{Windows: []Window{{utc("2026-06-02T12:00:00Z"), utc("2026-06-04T12:00:00Z")}}}, "2026-06-01T12:00:00Z", "06-04T10:00:00"},
		{"a window that ends a second later", noon, Exclusions{Windows: []Window{{utc("2026-06-02T12:00:00Z"), utc("2026-06-04T12:00:01Z")}}}, "2026-06-01T12:00:00Z", "06-05T10:00:00"},
		{"a zone of its own", noon, Exclusions{Dates: []Date{{2026, 6, 2}}, Zone: zone(t, "Pacific/Kiritimati")}, "2026-06-01T06:00:00Z", "06-02T10:00:00"},
		{"windows that overlap", everySecond, Exclusions{Windows: []Window{{utc("2026-01-02T00:00:00Z"), utc("2046-01-02T00:00:00Z")}, {utc("2030-01-01T00:00:00Z"), utc("2047-01-02T00:00:00.5Z")}}}, "2026-01-02T00:00:00Z", "01-02T00:00:01"},
		{"everything", everySecond, Exclusions{Weekdays: all}, "2026-01-02T00:00:00Z", "end"},
		{"more than 41 years", everySecond, Exclusions{Windows: []Window{{utc("2026-01-01T00:00:00Z"), utc("2099-01-01T00:00:00Z")}}}, "2026-01-02T00:00:00Z", "end"},
		{"all but what never comes", noon, Exclusions{Weekdays: all[:6], Windows: []Window{{utc("2026-01-01T00:00:00Z"), utc("2026-06-14T00:00:00Z")}}}, "2026-01-02T00:00:00Z", "06-14T10:00:00"},
	} {
		if got := after(Plan{Cron: x.cron, Calendar: calendar(t, x.not)}, x.from, 1); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	p := Plan{Every: 24 * time.Hour, Calendar: calendar(t, Exclusions{Weekdays: weekend}), Zone: berlin, End: utc("2026-06-09T00:00:00Z")}
	list, err := p.Preview(utc("2026-06-04T12:00:00Z"), 10)
	if err != nil || len(list) != 4 || list[0].Flag != "" || list[1].Flag != Excluded || list[2].Flag != Excluded || list[3].Flag != "" || list[0].Local.Hour() != 14 {
		t.Errorf("preview: %v, %v", list, err)
	}
}

func TestCalendarErrors(t *testing.T) {
	for field, x := range map[string]Exclusions{
		"dates":    {Dates: []Date{{2026, 2, 29}}},
		"yearly":   {Yearly: []Date{{0, 13, 1}}},
		"weekdays": {Weekdays: []time.Weekday{7}},
		"windows":  {Windows: []Window{{utc("2026-01-02T00:00:00Z"), utc("2026-01-02T00:00:00Z")}}},
	} {
		_, err := NewCalendar(x)
		var e *Error
		if !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestJitter(t *testing.T) {
	id := job.ID{1, 2, 3, 15: 4}
	at := utc("2026-01-01T00:00:00Z")
	if got := Jitter(id, at, time.Minute); got != Jitter(id, at.In(time.FixedZone("", 3600)), time.Minute) || got != pinned {
		t.Errorf("the jitter is %v: what nodes agreed on has changed", got)
	}
	const jobs, window = 10000, 10 * time.Second
	var tenths [10]int
	for i := range jobs {
		d := Jitter(job.ID{14: byte(i >> 8), 15: byte(i)}, at, window)
		if d < 0 || d >= window || d%time.Millisecond != 0 {
			t.Fatalf("jitter %v", d)
		}
		tenths[d/time.Second]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 {
			t.Errorf("%d of %d jobs fire in second %d", n, jobs, i)
		}
	}
	for _, w := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		if d := Jitter(id, at, w); d != 0 {
			t.Errorf("a window of %v: %v", w, d)
		}
	}
}

// pinned is the jitter of one job: every version must give the same, for a re-fire may come from another.
const pinned = 6925 * time.Millisecond
