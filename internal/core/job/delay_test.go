package job

import (
	"encoding/binary"
	"testing"
	"time"
)

func idAt(t time.Time) (u [16]byte) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.UnixMilli()))
	copy(u[:], b[2:])
	u[6] = 0x70
	return u
}

func TestDelays(t *testing.T) {
	made, fired := at, at.Add(3*time.Second)
	for _, c := range []struct {
		name      string
		scheduled time.Time
		by        Trigger
		delay     time.Duration
		begins    time.Time
	}{
		{"an instant after the creation", at.Add(time.Second), BySchedule, 2 * time.Second, at.Add(time.Second)},
		{"one years before it", at.AddDate(-3, 0, 0), BySchedule, 3 * time.Second, made},
		{"one that is staged", at.Add(time.Minute), BySchedule, 0, at.Add(time.Minute)},
		{"one that was missed", at.Add(time.Second), ByCatchUp, 2 * time.Second, fired},
		{"one years before it, by a change", at.AddDate(-3, 0, 0), ByCatchUp, 0, fired},
		{"a backfill", at.AddDate(0, -1, 0), ByBackfill, 3 * time.Second, fired},
	} {
		j, x := ID(idAt(made)), ExecutionID(idAt(fired))
		e := Execution{ID: x, Job: j, Trigger: c.by, ScheduledAt: c.scheduled}
		if got := e.TriggerDelay(); got != c.delay || !Begins(j, x, c.by, c.scheduled).Equal(c.begins) {
			t.Errorf("%s: a delay of %v, from %v; want %v, %v", c.name, got, Begins(j, x, c.by, c.scheduled), c.delay, c.begins)
		}
	}
}

func TestOneOffTrigger(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Job)
		want   Trigger
	}{
		"as it was created": {func(*Job) {}, BySchedule},
		"changed before":    {func(j *Job) { j.UpdatedAt = at.Add(-time.Second) }, BySchedule},
		"changed after":     {func(j *Job) { j.UpdatedAt = at.Add(time.Second) }, ByCatchUp},
		"resumed after":     {func(j *Job) { j.ResumedAt = at.Add(time.Second) }, ByCatchUp},
	} {
		j := Job{CreatedAt: at.Add(-time.Hour), UpdatedAt: at.Add(-time.Hour)}
		if c.change(&j); j.OneOffTrigger(at) != c.want {
			t.Errorf("%s: %v", name, j.OneOffTrigger(at))
		}
	}
	if (&Job{CreatedAt: at.Add(time.Hour), UpdatedAt: at.Add(time.Hour)}).OneOffTrigger(at) != BySchedule {
		t.Error("created for an instant in the past")
	}
}
