package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// changes are zones and dates around which their clocks change, in odd ways too.
var changes = []struct {
	zone string
	at   time.Time // a few hours before
}{
	{"America/New_York", utc("2026-03-08T03:00:00Z")},
	{"America/New_York", utc("2026-11-01T03:00:00Z")},
	{"Europe/Berlin", utc("2026-03-28T22:00:00Z")},
	{"Europe/Berlin", utc("2026-10-24T22:00:00Z")},
	{"Australia/Lord_Howe", utc("2026-10-03T12:00:00Z")},
	{"Australia/Lord_Howe", utc("2026-04-04T11:00:00Z")},
	{"America/Sao_Paulo", utc("2018-11-03T23:00:00Z")},
	{"America/Sao_Paulo", utc("2018-02-17T22:00:00Z")},
	{"Africa/Cairo", utc("2026-04-23T18:00:00Z")},
	{"Africa/Cairo", utc("2026-10-29T16:00:00Z")},
	{"Asia/Beirut", utc("2026-03-28T18:00:00Z")},
	{"America/Santiago", utc("2026-09-06T00:00:00Z")},
	{"Antarctica/Troll", utc("2026-03-28T22:00:00Z")},
	{"Antarctica/Troll", utc("2026-10-24T22:00:00Z")},
	{"Pacific/Apia", utc("2011-12-30T04:00:00Z")},
	{"Asia/Pyongyang", utc("2018-05-04T12:00:00Z")},
	{"Pacific/Kwajalein", utc("1993-08-21T06:00:00Z")},
	{"Asia/Kathmandu", utc("1985-12-31T15:00:00Z")},
	{"Asia/Kathmandu", utc("2026-03-08T03:00:00Z")},
	{"UTC", utc("2026-02-27T22:00:00Z")},
	{"Europe/London", utc("2150-03-28T20:00:00Z")},
}

func utc(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// fieldOf draws the text of a field from lo to hi; special items come from more.
func fieldOf(lo, hi int, more ...string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 2).Draw(t, "wild") == 0 {
			return "*"
		}
		v := rapid.IntRange(lo, hi)
		one := rapid.Custom(func(t *rapid.T) string {
			a, b, s := v.Draw(t, "a"), v.Draw(t, "b"), rapid.IntRange(1, 1+hi).Draw(t, "s")
			forms := append([]string{
				fmt.Sprint(a), fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("%d-%d/%d", a, b, s), fmt.Sprintf("%d/%d", a, s), fmt.Sprintf("*/%d", s),
			}, more...)
			return rapid.SampledFrom(forms).Draw(t, "form")
		})
		return strings.Join(rapid.SliceOfN(one, 1, 3).Draw(t, "items"), ",")
	})
}

var (
	dateField = fieldOf(1, 31, "L", "LW", "L-3", "L-30", "15W", "1W", "31W", "L-2W", "?")
	weekField = fieldOf(0, 7, "5L", "SUNL", "MON#1", "7#5", "FRI-MON", "7-7", "0-7", "?")
	dayModes  = rapid.SampledFrom([]Day{Vixie, Either, Both})
)

// TestAgainstReference walks the clock around a change, and compares.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch := rapid.SampledFrom(changes).Draw(t, "change")
		z, err := zones.Zone(ch.zone)
		if err != nil {
			t.Fatal(err)
		}
		hour := fieldOf(0, 4, "22-2", "23", "0-23", "1-3", "*/2")
		fields := []string{fieldOf(0, 59, "0-59").Draw(t, "minute"), hour.Draw(t, "hour"), "*", "*", "*"}
		length := 36 * time.Hour
		if rapid.IntRange(0, 3).Draw(t, "seconds") == 0 {
			fields = append([]string{fieldOf(0, 59).Draw(t, "second")}, fields...)
			length = 3 * time.Hour
		}
		if n := len(fields); rapid.Bool().Draw(t, "dates") {
			fields[n-3], fields[n-1] = dateField.Draw(t, "date"), weekField.Draw(t, "week")
		}
		day := dayModes.Draw(t, "day")
		expr := strings.Join(fields, " ")
		c, err := Parse(expr, Options{Zone: z, Day: day})
		if err != nil {
			t.Skip(err)
		}
		from := ch.at.Add(time.Duration(rapid.IntRange(0, 9*3600).Draw(t, "from")) * time.Second)
		if hi := z.at(ch.at.Unix()).hi; hi < farFuture && rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
			from = time.Unix(hi+int64(rapid.IntRange(-2, 1).Draw(t, "around")), 0)
		}
		until := from.Add(length)
		ref := newReference(expr, day, z.loc)
		for range 4 {
			want := ref.next(from, until)
			got, ok := c.Next(from)
			if want.IsZero() {
				if ok && got.Before(until) {
					t.Fatalf("%q in %s after %v: got %v, the reference has none", expr, z, from.In(z.loc), got.In(z.loc))
				}
				return
			}
			if !ok || !got.Equal(want) {
				t.Fatalf("%q (%s) in %s after %v: got %v, want %v", expr, day, z, from.In(z.loc), got.In(z.loc), want.In(z.loc))
			}
			from = got
		}
	})
}

// TestDaysAgainstReference compares days alone, over years.
func TestDaysAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		day := dayModes.Draw(t, "day")
		expr := fmt.Sprintf("0 12 %s %s %s", dateField.Draw(t, "date"), fieldOf(1, 12).Draw(t, "month"), weekField.Draw(t, "week"))
		ref := newReference(expr, day, time.UTC)
		from := time.Date(rapid.IntRange(1890, 2200).Draw(t, "year"), 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "date"))
		want, limit := from, from.AddDate(searchYear, 0, 0)
		for want = want.AddDate(0, 0, 1); !ref.matchDay(want) && want.Before(limit); {
			want = want.AddDate(0, 0, 1)
		}
		c, err := Parse(expr, Options{Day: day})
		if err != nil {
			if want.Before(limit) {
				t.Fatalf("%q (%s) is refused (%v), but fires at %v", expr, day, err, want)
			}
			return
		}
		if got, ok := c.Next(from); !ok || !got.Equal(want) {
			t.Fatalf("%q (%s) after %v: got %v, want %v", expr, day, from, got, want)
		}
	})
}

// TestCivil compares the arithmetic of days with the time package's, day by day over 24 centuries.
func TestCivil(t *testing.T) {
	at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 2400 * 366 {
		day := uint32(at.Unix()/daySeconds + epochDay)
		y, m, d := civil(day)
		if int(y) != at.Year() || int(m)+1 != int(at.Month()) || int(d)+1 != at.Day() || weekday(day) != uint32(at.Weekday()) || firstOf(y, m)+d != day {
			t.Fatalf("%v is day %d: %d-%d-%d, weekday %d", at, day, y, m+1, d+1, weekday(day))
		}
		if i := monthOf(day); i != y*12+m || monthAt(i) != makeMonth(i) || monthAt(i).first+d != day {
			t.Fatalf("%v is in month %d, which is %v", at, i, monthAt(i))
		}
		at = at.AddDate(0, 0, 1)
	}
}

// TestZoneTable compares the tables with the time package: at and around every change, and before and after what is laid out.
func TestZoneTable(t *testing.T) {
	names := []string{"Africa/Lagos", "Africa/Casablanca", "Etc/GMT+5"}
	for _, ch := range changes {
		names = append(names, ch.zone)
	}
	for _, name := range names {
		z := zone(t, name)
		at := []int64{minInstant, -3e9, -1.6e9, -1, 0, tableEnd - 1, tableEnd, tableEnd + 1e9, maxInstant}
		for i, s := range z.spans {
			if i > 0 && (s.lo != z.spans[i-1].hi || s.prev != z.spans[i-1].off || s.off == s.prev) {
				t.Errorf("%s: span %d does not follow the one before it", z, i)
			}
			at = append(at, s.lo, s.hi-1, s.hi)
		}
		for _, at := range at {
			if at < minInstant || at > maxInstant {
				continue
			}
			_, off := time.Unix(at, 0).In(z.loc).Zone()
			if s := z.at(at); s.off != int64(off) || at < s.lo || at >= s.hi {
				t.Errorf("%s at %d: %v, want the offset %d", z, at, s, off)
			}
		}
	}
}
