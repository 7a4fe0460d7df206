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
