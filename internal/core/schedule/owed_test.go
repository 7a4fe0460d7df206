package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestOwe(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hourly := Plan{Every: time.Hour, Anchor: at.Add(-time.Hour), Zone: UTC}
	h := func(n int) time.Time { return at.Add(time.Duration(n) * time.Hour) }
	for name, c := range map[string]struct {
		now     time.Time
		policy  job.CatchUp
		limit   int
		runs    int64
		fires   []time.Time
		caught  bool
		skipped int64
		next    time.Time
		spare   time.Time
	}{
		"it comes soon":                 {now: h(0).Add(-time.Second), runs: -1, fires: []time.Time{h(0)}, next: h(1)},
		"in time":                       {now: h(0).Add(time.Second), runs: -1, fires: []time.Time{h(0)}, next: h(1)},
		"in time, none":                 {now: h(0).Add(time.Second), policy: job.CatchUpNone, runs: -1, fires: []time.Time{h(0)}, next: h(1)},
		"late":                          {now: h(0).Add(30 * time.Minute), runs: -1, fires: []time.Time{h(0)}, caught: true, next: h(1)},
		"late, none":                    {now: h(0).Add(30 * time.Minute), policy: job.CatchUpNone, runs: -1, caught: true, skipped: 1, next: h(1)},
		"five missed, latest":           {now: h(4).Add(30 * time.Minute), policy: job.CatchUpLatest, runs: -1, fires: []time.Time{h(4)}, caught: true, skipped: 4, next: h(5)},
		"five missed, none":             {now: h(4).Add(30 * time.Minute), policy: job.CatchUpNone, runs: -1, caught: true, skipped: 5, next: h(5)},
		"four missed, one in time":      {now: h(4).Add(time.Second), policy: job.CatchUpNone, runs: -1, fires: []time.Time{h(4)}, caught: true, skipped: 4, next: h(5)},
		"five missed, all":              {now: h(4).Add(30 * time.Minute), policy: job.CatchUpAll, limit: 10, runs: -1, fires: []time.Time{h(0), h(1), h(2), h(3), h(4)}, caught: true, next: h(5)},
		"five missed, all of three":     {now: h(4).Add(30 * time.Minute), policy: job.CatchUpAll, limit: 3, runs: -1, fires: []time.Time{h(2), h(3), h(4)}, caught: true, skipped: 2, next: h(5)},
		"the last run":                  {now: h(0), runs: 1, fires: []time.Time{h(0)}, spare: h(1)},
		"no run is left":                {now: h(0), runs: 0, spare: h(0)},
		"fewer runs than missed":        {now: h(4).Add(time.Minute * 5), policy: job.CatchUpAll, limit: 9, runs: 2, fires: []time.Time{h(0), h(1)}, caught: true, spare: h(2)},
		"a year of seconds, by seconds": {now: h(0).Add(24 * time.Hour), policy: job.CatchUpLatest, runs: -1, fires: []time.Time{h(24)}, caught: true, skipped: 24, next: h(25)},
	} {
		t.Run(name, func(t *testing.T) {
			o := Owe(hourly, at, c.now, Terms{Policy: c.policy, Limit: c.limit, Runs: c.runs})
			var skipped int64
			if o.Skipped != nil {
				skipped = o.Skipped.Count
				if !o.Skipped.From.Equal(at) || len(o.Fires) > 0 && !o.Skipped.To.Before(o.Fires[0]) {
					t.Errorf("skipped %+v", *o.Skipped)
				}
			}
			if !slices.EqualFunc(o.Fires, c.fires, time.Time.Equal) || o.Caught != c.caught || skipped != c.skipped || !o.Next.Equal(c.next) || !o.Spare.Equal(c.spare) {
				t.Errorf("got %+v, %d skipped", o, skipped)
			}
		})
	}
}

// In steps of any size the same instants fire, and the same ones are skipped, as at once.
func TestOweInSteps(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	minutely := Plan{Every: time.Minute, Anchor: at.Add(-time.Minute), Zone: UTC}
	now := at.Add(2 * time.Hour)
	for _, runs := range []int64{-1, 0, 1, 7, 99, 100, 101} {
		whole := Owe(minutely, at, now, Terms{Policy: job.CatchUpAll, Limit: 100, Runs: runs})
		for _, most := range []int{1, 7, 50, 99, 100, 1000} {
			var fires []time.Time
			var skipped int64
			left, cursor, steps := runs, at, 0
			var o Owed
			for ; !cursor.IsZero() && !cursor.After(now); steps++ {
				o = Owe(minutely, cursor, now, Terms{Policy: job.CatchUpAll, Limit: 100, Runs: left, Most: most})
				if len(o.Fires) > most || o.Looked == 0 {
					t.Fatalf("%d in one go of %d, %d looked at", len(o.Fires), most, o.Looked)
				}
				if o.Skipped != nil {
					skipped += o.Skipped.Count
				}
				fires = append(fires, o.Fires...)
				if left >= 0 {
					left -= int64(len(o.Fires))
				}
				cursor = o.Next
			}
			if !slices.Equal(fires, whole.Fires) || skipped != whole.Skipped.Count || !o.Next.Equal(whole.Next) || !o.Spare.Equal(whole.Spare) || steps < len(fires)/most {
				t.Errorf("%d runs, steps of %d: %d fire, %d skipped, next %v, spare %v in %d steps; want %d, %d, %v, %v", runs, most, len(fires), skipped, o.Next, o.Spare, steps,
					len(whole.Fires), whole.Skipped.Count, whole.Next, whole.Spare)
			}
		}
	}
}

func TestPlanOfASchedule(t *testing.T) {
	c := NewCache(time.LoadLocation)
	created := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	next := func(s job.Schedule) time.Time {
		t.Helper()
		if v := c.Check(s, created, nil); v != nil {
			t.Fatalf("%+v: %v", s, v)
		}
		p, err := c.Plan(s, created, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := p.Next(created)
		return n.UTC()
	}
	for _, x := range []struct {
		s    job.Schedule
		want string
	}{
		{job.Schedule{Type: job.Cron, Cron: "30 4 * * *"}, "2026-03-02T04:30:00Z"},
		{job.Schedule{Type: job.Cron, Cron: "30 4 * * *", Zone: "America/New_York"}, "2026-03-02T09:30:00Z"},
		{job.Schedule{Type: job.Interval, Every: 90 * time.Second}, "2026-03-01T12:01:30Z"},
		{job.Schedule{Type: job.Interval, Every: time.Hour, Start: created.Add(10 * time.Minute).Truncate(time.Second)}, "2026-03-01T13:10:00Z"},
		{job.Schedule{Type: job.Cron, Cron: "@hourly", Start: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, "2030-01-01T00:00:00Z"},
	} {
		if got := next(x.s).Format(time.RFC3339); got != x.want {
			t.Errorf("%+v: %s, want %s", x.s, got, x.want)
		}
	}
	for field, s := range map[string]job.Schedule{
		"schedule.cron_expression": {Type: job.Cron, Cron: "61 * * * *"},
		"schedule.timezone":        {Type: job.Cron, Cron: "* * * * *", Zone: "Mars/Base"},
		"schedule.day":             {Type: job.Cron, Cron: "* * * * *", Day: "some"},
		"schedule.every":           {Type: job.Interval, Every: 1500 * time.Millisecond},
		"schedule.end_at":          {Type: job.Cron, Cron: "* * * * *", End: created.Add(-time.Hour)},
	} {
		if v := c.Check(s, created, nil); len(v) != 1 || v[0].Field != field || v[0].Want == "" {
			t.Errorf("%s: %v", field, v)
		}
	}
	if v := c.Check(job.Schedule{Type: job.Immediate}, created, nil); v != nil {
		t.Error(v)
	}
}

func TestOweOfALongPauseIsBounded(t *testing.T) {
	p := Plan{Every: time.Second, Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	at := p.Anchor.Add(time.Second)
	now := p.Anchor.Add(25_000 * time.Second)
	var skipped, fired int64
	for rounds := 0; !at.After(now); rounds++ {
		o := Owe(p, at, now, Terms{Policy: job.CatchUpAll, Limit: 100, Runs: -1})
		if rounds > 3 || o.Skipped != nil && (o.Skipped.Count > maxMissed || !o.Skipped.From.Equal(at)) {
			t.Fatalf("round %d: %+v", rounds, o)
		}
		if o.Skipped != nil {
			skipped += o.Skipped.Count
		}
		fired += int64(len(o.Fires))
		at = o.Next
	}
	if skipped != 24_900 || fired != 100 || !at.Equal(now.Add(time.Second)) {
		t.Errorf("%d skipped, %d fired, then %v", skipped, fired, at)
	}
}

func TestWhatPassedInAPauseIsSkipped(t *testing.T) {
	every := Plan{Every: 10 * time.Second, Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := func(n int) time.Time { return every.Anchor.Add(time.Duration(n) * time.Second) }
	terms := Terms{Policy: job.CatchUpNone, Runs: -1, Resumed: s(35)}
	// Nothing of it is a minute old, and yet none of it fires.
	o := Owe(every, s(10), s(36), terms)
	if len(o.Fires) != 0 || o.Skipped == nil || o.Skipped.Count != 3 || !o.Skipped.To.Equal(s(30)) || o.Why != job.SkipPause || !o.Next.Equal(s(40)) {
		t.Errorf("got %+v", o)
	}
	// What came since the pause is judged as ever, from its own instant on.
	if o = Owe(every, s(10), s(52), terms); o.Skipped.Count != 3 || !o.Next.Equal(s(40)) {
		t.Errorf("got %+v", o)
	}
	if o = Owe(every, s(40), s(52), terms); len(o.Fires) != 1 || !o.Fires[0].Equal(s(50)) || o.Why != job.SkipMissed {
		t.Errorf("since the pause: %+v", o)
	}
	// The instant at which it ends is not part of a pause.
	terms.Resumed = s(30)
	if o = Owe(every, s(10), s(31), terms); o.Skipped.Count != 2 || !o.Next.Equal(s(30)) {
		t.Errorf("got %+v", o)
	}
	terms.Policy = job.CatchUpLatest
	if o = Owe(every, s(10), s(31), terms); len(o.Fires) != 1 || o.Why != job.SkipPause {
		t.Errorf("the latest: %+v", o)
	}
	// What came before the pause has not passed in it.
	terms.Paused = s(15)
	if o = Owe(every, s(10), s(31), terms); len(o.Fires) != 1 || o.Skipped.Count != 2 || o.Why != job.SkipMissed {
		t.Errorf("the latest, and one before the pause: %+v", o)
	}
	if o = Owe(every, s(20), s(31), terms); len(o.Fires) != 1 || o.Why != job.SkipPause {
		t.Errorf("the latest, from the pause on: %+v", o)
	}
	terms.Policy = job.CatchUpNone
	if o = Owe(every, s(10), s(31), terms); len(o.Fires) != 1 || !o.Fires[0].Equal(s(10)) || o.Skipped != nil || !o.Next.Equal(s(20)) {
		t.Errorf("before the pause: %+v", o)
	}
	if o = Owe(every, s(10), s(71), terms); len(o.Fires) != 0 || o.Skipped.Count != 1 || o.Why != job.SkipMissed || !o.Next.Equal(s(20)) {
		t.Errorf("long before the pause: %+v", o)
	}
	if o = Owe(every, s(20), s(31), terms); len(o.Fires) != 0 || o.Skipped.Count != 1 || o.Why != job.SkipPause || !o.Next.Equal(s(30)) {
		t.Errorf("in the pause: %+v", o)
	}
	// Years of seconds are bounded.
	second := Plan{Every: time.Second, Anchor: s(0)}
	if o = Owe(second, s(1), s(100_000), Terms{Policy: job.CatchUpNone, Runs: -1, Resumed: s(90_000)}); o.Skipped.Count != maxMissed || !o.Next.Equal(s(maxMissed+1)) {
		t.Errorf("many: %+v", o)
	}
}

// A calendar that leaves nothing makes a plan wait, not end.
func TestCursorOfABarredPlan(t *testing.T) {
	all := calendar(t, Exclusions{Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6}})
	now := time.Date(2026, 5, 1, 12, 0, 0, 7, time.UTC)
	p := Plan{Every: time.Minute, Anchor: now.Add(-time.Hour), Calendar: all}
	at, ok := p.Cursor(now.AddDate(-1, 0, 0), now)
	if !ok || !p.Barred(now) || p.At(at) || at.Sub(now) > LookAgain || at.Sub(now) < LookAgain-time.Second {
		t.Errorf("look again at %v, %v", at, ok)
	}
	p.End = now.Add(time.Hour)
	if at, ok = p.Cursor(now, now); !ok || !at.Equal(p.End) {
		t.Errorf("not after its end: %v, %v", at, ok)
	}
	if at, ok = p.Cursor(p.End.Add(-1), now); ok || !at.IsZero() || p.Barred(p.End) {
		t.Errorf("after its end: %v, %v", at, ok)
	}
	p = Plan{Every: time.Minute, Anchor: p.Anchor, End: now}
	if _, ok = p.Cursor(now, now); ok || p.Barred(now) {
		t.Error("one without a calendar is over")
	}
}
