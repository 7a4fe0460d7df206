package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTracked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skew, delay := 90*time.Second, 40*time.Millisecond
		var fail error
		c := NewTracked(func(context.Context) (time.Time, error) {
			at := time.Now().Add(skew)
			<-time.After(delay) // the answer's way back
			return at, fail
		})
		if d := time.Until(c.Now()).Abs(); d > time.Second {
			t.Errorf("before the first reading it is %v off", d)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if ahead := c.Now().Sub(time.Now().Add(skew)); ahead > 0 || ahead < -delay {
				t.Errorf("it is %v ahead of the clock it follows", ahead)
			}
			<-time.After(time.Hour)
		}
		told := c.Now()
		skew -= 500 * time.Millisecond // the answer took longer, or the clock is being slewed
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Now().Before(told) {
			t.Error("it stepped backwards")
		}
		skew = -time.Hour // the followed clock is set back
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ahead := c.Now().Sub(time.Now().Add(skew)); ahead > 0 {
			t.Errorf("it is %v ahead of a clock that was set back", ahead)
		}
		fail = errors.New("away")
		before := c.Now()
		if err := c.Refresh(t.Context()); err == nil {
			t.Error("no error")
		}
		<-time.After(2 * time.Hour)
		if !c.Now().After(before) {
			t.Error("it stands still while it cannot be read")
		}
	})
}

func TestManual(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewManual(at)
	c.Advance(time.Minute)
	if !c.Now().Equal(at.Add(time.Minute)) {
		t.Errorf("it stands at %v", c.Now())
	}
	if (System{}).Now().Location() != time.UTC {
		t.Error("not in UTC")
	}
}

// machine is a clock that people set.
type machine struct{ off time.Duration }

func (m *machine) wall() time.Time { return time.Now().Add(m.off) }

func TestThisMachinesClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var m machine
			store := time.Now().Add(time.Second)
			begun := time.Now()
			c := NewTrackedOn(func(context.Context) (time.Time, error) { return store.Add(time.Since(begun)), nil }, m.wall)
			var jumps []Jump
			c.Alarm(func(j Jump) { jumps = append(jumps, j) })
			refresh := func() {
				if err := c.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			refresh()
			<-time.After(10 * time.Minute) // an idle host is no jump
			if c.Held() {
				t.Error("held for nothing")
			}
			m.off = by
			told := c.Now()
			if !c.Held() || told.Sub(store.Add(time.Since(begun))).Abs() > time.Second {
				t.Errorf("set by %v: held %v, told %v", by, c.Held(), told)
			}
			refresh()
			if c.Held() || len(jumps) != 1 || !jumps[0].Host || jumps[0].By.Round(time.Second) != by {
				t.Errorf("set by %v: held %v, alarms %v", by, c.Held(), jumps)
			}
			if d := c.Now().Sub(told); d < 0 || d > time.Second {
				t.Errorf("set by %v: it went by %v", by, d)
			}
			m.off += 30 * time.Second // a correction
			refresh()
			if len(jumps) != 1 {
				t.Errorf("alarms %v", jumps)
			}
		})
	}
}

func TestTheFollowedClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off time.Duration
		c := NewTracked(func(context.Context) (time.Time, error) { return time.Now().Add(off), nil })
		var jumps []Jump
		c.Alarm(func(j Jump) { jumps = append(jumps, j) })
		follow := func(seconds int) time.Duration {
			for range seconds {
				if err := c.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Second)
			}
			return time.Until(c.Now()).Round(time.Second)
		}
		follow(3)
		off = time.Hour // for two seconds
		if by := follow(2); by != 0 || len(jumps) != 1 || jumps[0].By.Round(time.Second) != time.Hour || jumps[0].Host {
			t.Errorf("a leap that does not last is followed by %v; alarms %v", by, jumps)
		}
		off = 0
		if by := follow(10); by != 0 {
			t.Errorf("off by %v", by)
		}
		off = time.Hour
		if by := follow(4); by != 0 {
			t.Errorf("too soon: %v", by)
		}
		if by := follow(3); by != time.Hour || len(jumps) != 2 {
			t.Errorf("one that lasts is followed by %v; alarms %v", by, jumps)
		}
		off = 0
		if by := follow(1); by != 0 || len(jumps) != 3 || jumps[2].By.Round(time.Second) != -time.Hour {
			t.Errorf("one back is followed by %v; alarms %v", by, jumps)
		}
	})
}

func TestSkews(t *testing.T) {
	for spec, want := range map[string]skew{"+1h": {by: time.Hour}, "-90m": {by: -90 * time.Minute}, "-1h@10s": {-time.Hour, 10 * time.Second}} {
		if s, err := parseSkew(spec); err != nil || *s != want {
			t.Errorf("%s: %v, %v", spec, s, err)
		}
	}
	for _, spec := range []string{"1", "x", "+1h@", "+1h@-1s", "@1s"} {
		if _, err := parseSkew(spec); err == nil {
			t.Errorf("%s is read", spec)
		}
	}
	if s, err := parseSkew(""); s != nil || err != nil {
		t.Errorf("nothing: %v, %v", s, err)
	}
}

func TestFresh(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	until := now.Add(3 * time.Second)
	for step, want := range map[time.Duration]bool{0: true, 2 * time.Second: true, 3 * time.Second: false, -time.Millisecond: false, -time.Hour: false} {
		if got := Fresh(now.Add(step), until, 3*time.Second); got != want {
			t.Errorf("%v after it was read: fresh %v, want %v", step, got, want)
		}
	}
}
