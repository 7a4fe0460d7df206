package schedule

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseErrors(t *testing.T) {
	for _, x := range []struct {
		expr     string
		day      Day
		field    string
		value    string
		position int
		says     string
	}{
		{"0 0 * * L", "", "day-of-week", "L", 9, "which weekday? write 5L for the last Friday"},
		{"60 * * * *", "", "minute", "60", 1, "0-59"},
		{"0 24 * * *", "", "hour", "24", 3, "midnight is hour 0"},
		{"0 0 1,32 * *", "", "day-of-month", "32", 7, "1-31"},
		{"0 0 * janu *", "", "month", "janu", 7, "names have three letters: JAN"},
		{"0 0 * * Sunday", "", "day-of-week", "Sunday", 9, "SUN"},
		{"0 0 JAN * *", "", "day-of-month", "JAN", 5, "the month is the field after"},
		{"0 0 * mon *", "", "month", "mon", 7, "the weekday is the last field"},
		{"1,,2 * * * *", "", "minute", "", 3, "a comma too many"},
		{"*/0 * * * *", "", "minute", "*/0", 1, "a step of 1 or more"},
		{"? * * * *", "", "minute", "?", 1, "write *"},
		{"0 0 ?/2 * *", "", "day-of-month", "?/2", 5, "write */n"},
		{"-5 * * * *", "", "minute", "-5", 1, "no sign"},
		{"5- * * * *", "", "minute", "5-", 1, "0-59"},
		{"0 0 1-5W * *", "", "day-of-month", "1-5W", 5, "no range"},
		{"0 0 L/2 * *", "", "day-of-month", "L/2", 5, "no range and no step"},
		{"0 0 L-31 * *", "", "day-of-month", "L-31", 5, "L-1 to L-30"},
		{"0 0 * * 4W", "", "day-of-week", "4W", 9, "W belongs to the day-of-month"},
		{"0 0 * * MON#6", "", "day-of-week", "MON#6", 9, "1 to 5"},
		{"0 0 * 1#2 *", "", "month", "1#2", 7, "# belongs to the day-of-week"},
		{"0 0 30 2 *", "", "day-of-month", "30", 5, "never fires"},
		{"0 0 L-30 2 *", "", "day-of-month", "L-30", 5, "never fires"},
		{"0 0 1 * 1#2", Both, "day-of-month", "1", 5, "satisfies both"},
		{"* * * *", "", "expression", "* * * *", 0, "there are 4 fields"},
		{"* * * * * * *", "", "expression", "* * * * * * *", 13, "no year field"},
		{" ", "", "expression", " ", 0, "it is empty"},
		{"@reboot", "", "expression", "@reboot", 1, "no boot"},
		{" @fortnightly", "", "expression", "@fortnightly", 2, "@weekly"},
		{"@daily x", "", "expression", "@daily x", 1, "@daily"},
		{"@every", "", "expression", "@every", 7, "90s"},
		{"@every 1.5h", "", "expression", "@every 1.5h", 8, "whole hours, minutes and seconds"},
		{"@every 0s", "", "expression", "@every 0s", 8, "at least 1s"},
		{"@every 30m1h", "", "expression", "@every 30m1h", 8, "1h30m"},
		{"@every 9999999999h", "", "expression", "@every 9999999999h", 8, "at least 1s"},
		{"0 0 * * \u6708", "", "expression", "0 0 * * \u6708", 9, "ASCII"},
		{"0 0 * *\n*", "", "expression", `0 0 * *\u000a*`, 8, "ASCII"},
		{strings.Repeat(" ", 257), "", "expression", strings.Repeat(" ", 100) + "…", 0, "256 bytes"},
		{strings.Repeat("1,", 64) + "1 * * * *", "", "minute", strings.Repeat("1,", 50) + "…", 1, "at most 64 items"},
		{"* * * * *", "both", "day", "both", 0, `"vixie", "or" or "and"`},
	} {
		_, err := Parse(x.expr, Options{Day: x.day})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", x.expr, err)
			continue
		}
		if e.Field != x.field || e.Value != x.value || e.Position != x.position || !strings.Contains(e.Error(), x.says) {
			t.Errorf("%q: %d %v", x.expr, e.Position, err)
		}
	}
}

func TestForms(t *testing.T) {
	same := [][]string{
		{"22-2", "22,23,0,1,2"},
		{"22-4/3", "22,1,4"},
		{"*/30", "0"},
		{"20/2", "20,22"},
		{"05", "5"},
		{"0-23", "*"},
		{"3-3/9", "3"},
	}
	for _, x := range same {
		if a, b := mustParse(t, "0 "+x[0]+" * * *"), mustParse(t, "0 "+x[1]+" * * *"); a.hour != b.hour {
			t.Errorf("hours %s and %s differ: %b, %b", x[0], x[1], a.hour, b.hour)
		}
	}
	days := [][]string{
		{"0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"},
		{"0 0 * * 0-7", "0 0 * * *"},
		{"0 0 * * 1-7/2", "0 0 * * mon,wed,fri,sun"},
		{"0 0 * * 7-2", "0 0 * * 0,1,2"},
		{"0 0 * * 7-7", "0 0 * * 0"},
		{"0 0 * * 7/3", "0 0 * * 0,3,6"},
		{"0 0 * * MON-SUN/2", "0 0 * * 1,3,5,0"},
		{"0 0 * * 0L", "0 0 * * 7L"},
		{"0 0 * * FRI-MON", "0 0 * * 5,6,0,1"},
		{"0 0 28-3 * *", "0 0 28,29,30,31,1,2,3 * *"},
		{"0 0 1 nov-feb *", "0 0 1 11,12,1,2 *"},
		{"0 0 ? * ?", "0 0 * * *"},
		{"\t0  0\t* * * ", "@Midnight"},
		{"0 0 LW * *", "0 0 LW,LW * ?"},
	}
	for _, x := range days {
		if a, b := mustParse(t, x[0]), mustParse(t, x[1]); a.days != b.days || a.month != b.month || a.week != b.week {
			t.Errorf("%q and %q differ", x[0], x[1])
		}
	}
	if c := mustParse(t, " @every 1H30M "); c.Every() != 90*time.Minute || c.String() != " @every 1H30M " || c.Zone() != UTC {
		t.Errorf("%q is every %v", c, c.Every())
	}
}

func mustParse(t testing.TB, expr string) *Cron {
	t.Helper()
	c, err := Parse(expr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestZoneNames(t *testing.T) {
	for _, name := range []string{"", "EST", "cet", "GMT", "+02:00", "UTC+2", "Local", "Mars/Base", "europe/berlin", "../etc/passwd", "Europe/", "Europe//Berlin", "Europe/Ber lin", "right/UTC", "A" + strings.Repeat("b", 64)} {
		_, err := zones.Zone(name)
		var e *Error
		if !errors.As(err, &e) || e.Field != "timezone" || !strings.Contains(e.Want, "Europe/Berlin") {
			t.Errorf("zone %q: %v", name, err)
		}
		if _, err := zones.Cron("* * * * *", name, ""); err == nil && name != "" {
			t.Errorf("an expression in zone %q is compiled", name)
		}
	}
	if z := zone(t, "Europe/Berlin"); z != zone(t, "Europe/Berlin") || z.String() != "Europe/Berlin" || zone(t, "UTC") != UTC {
		t.Error("zones are not shared")
	}
}

func TestCacheShares(t *testing.T) {
	a, err := zones.Cron("1 2 3 * *", "Europe/Berlin", "")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := zones.Cron("1 2 3 * *", "Europe/Berlin", Vixie); a != b || err != nil {
		t.Error("the same expression is compiled twice")
	}
	if b, err := zones.Cron("1 2 3 * *", "Europe/Berlin", Both); a == b || err != nil {
		t.Error("day modes share an expression")
	}
	if _, err := zones.Cron("61 * * * *", "", ""); err == nil {
		t.Error("a wrong expression is cached")
	}
	var all sync.WaitGroup
	fresh := NewCache(time.LoadLocation)
	for i := range 8 {
		all.Go(func() {
			for k := range 50 {
				if _, err := fresh.Cron(strconv.Itoa(k)+" * * * *", changes[(i+k)%len(changes)].zone, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	full := NewCache(time.LoadLocation)
	for i := range maxCrons {
		full.crons[cronKey{zone: strconv.Itoa(i)}] = a
	}
	for i := range maxZones {
		full.zones[strconv.Itoa(i)] = UTC
	}
	if _, err := full.Cron("* * * * *", "Europe/Berlin", ""); err != nil || len(full.crons) != 1 || len(full.zones) != 2 {
		t.Errorf("a full cache holds %d expressions and %d zones: %v", len(full.crons), len(full.zones), err)
	}
}
