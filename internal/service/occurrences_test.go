package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// diary is a store of one job and its executions.
type diary struct {
	keeping
	j       job.Job
	records []job.Execution
	unread  []string
}

func (d *diary) Job(context.Context, tenant.ID, engine.Ref) (job.Job, error) { return d.j, nil }

func (d *diary) Calendar(context.Context, tenant.ID, string) (engine.Calendar, error) {
	return engine.Calendar{Spec: []byte(`{"dates": ["2030-01-09"]}`)}, nil
}

func (d *diary) FindExecutions(_ context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	var out []job.Execution
	for _, e := range d.records {
		if !e.ScheduledAt.Before(f.From) && e.ScheduledAt.Before(f.Until) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, e.Status)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b job.Execution) int { return b.ScheduledAt.Compare(a.ScheduledAt) })
	page := engine.ExecutionPage{Unread: d.unread}
	skip := 0
	fmt.Sscan(p.Cursor, &skip)
	out = out[skip:]
	if len(out) > p.Limit {
		out, page.Next = out[:p.Limit], fmt.Sprint(skip+p.Limit)
	}
	page.Executions = out
	return page, nil
}

// january is noon of a day of January 2030.
func january(day int) time.Time { return time.Date(2030, 1, day, 12, 0, 0, 0, time.UTC) }

func newDiary(now time.Time) (*diary, *Service) {
	d := &diary{j: job.Job{
		ID: job.ID{1}, Tenant: "t", State: job.Active, CreatedAt: january(1).Add(time.Minute), UpdatedAt: january(1).Add(time.Minute), Revision: 1, NextRunAt: january(21),
		Definition: job.Definition{Schedule: job.Schedule{Type: job.Cron, Cron: "0 12 * * *", Calendar: "c"}},
	}}
	return d, New(d, clock.NewManual(now), Config{LookAhead: 5 * time.Second})
}

func (d *diary) add(day int, status job.Status, by job.Trigger, more ...string) job.ExecutionID {
	e := job.Execution{ID: job.ExecutionID{byte(len(d.records) + 1)}, Job: d.j.ID, ScheduledAt: january(day), Status: status, Trigger: by}
	if len(more) > 0 {
		e.Metadata = map[string]string{"reason": more[0]}
	}
	if len(more) > 1 {
		e.Metadata["to"] = more[1]
	}
	d.records = append(d.records, e)
	return e.ID
}

func TestOccurrences(t *testing.T) {
	d, s := newDiary(january(20).Add(time.Hour))
	p := tenant.Local()
	d.add(2, job.Succeeded, job.BySchedule)
	d.add(3, job.Failed, job.BySchedule)
	d.add(3, job.Succeeded, job.ByHand) // no instant of the schedule
	d.add(4, job.Skipped, job.BySchedule, "overlap")
	d.add(5, job.Skipped, job.BySchedule, "missed", january(8).Format(time.RFC3339))
	again := d.add(6, job.Succeeded, job.ByBackfill) // which was missed
	d.add(10, job.Skipped, job.BySchedule, "missed")
	d.add(10, job.Succeeded, job.ByBackfill)
	for day := 12; day < 21; day++ {
		d.add(day, job.Succeeded, job.ByCatchUp)
	}
	d.records = append(d.records, job.Execution{ID: job.ExecutionID{99}, ScheduledAt: january(2).Add(time.Hour), Status: job.Succeeded, Trigger: job.BySchedule}) // of an earlier schedule
	got, err := s.Occurrences(t.Context(), p, engine.Ref{}, january(1), january(24), engine.Page{Limit: 100})
	if err != nil || got.Next != "" {
		t.Fatal(got.Next, err)
	}
	want := map[string]string{
		"02 12": "ran", "02 13": "ran", "03 12": "ran", "04 12": "skipped overlap", "05 12": "missed missed", "06 12": "backfilled", "07 12": "missed missed", "08 12": "missed missed",
		"09 12": "excluded calendar c", "10 12": "backfilled", "11 12": "missed there is no record of it", "21 12": "planned", "22 12": "planned", "23 12": "planned",
	}
	for day := 12; day < 21; day++ {
		want[fmt.Sprintf("%02d 12", day)] = "caught_up"
	}
	for i, o := range got.Occurrences {
		text := string(o.Outcome)
		if o.Reason != "" {
			text += " " + o.Reason
		}
		key := o.At.Format("02 15")
		if want[key] != text {
			t.Errorf("%s: %q, want %q", key, text, want[key])
		}
		delete(want, key)
		if i > 0 && !o.At.After(got.Occurrences[i-1].At) {
			t.Errorf("%v is out of order", o.At)
		}
		if o.At.Equal(january(6)) && o.Execution != again {
			t.Errorf("the backfill of the 6th is not shown")
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	// The same in pages; one begins within the stretch that was missed.
	var all []Occurrence
	page := engine.Page{Limit: 4}
	for n := 0; n == 0 || page.Cursor != ""; n++ {
		part, err := s.Occurrences(t.Context(), p, engine.Ref{}, january(1), january(24), page)
		if err != nil || n > 20 {
			t.Fatal(n, err)
		}
		all, page.Cursor = append(all, part.Occurrences...), part.Next
	}
	if !slices.Equal(all, got.Occurrences) {
		t.Errorf("in pages:\n%v\nat once:\n%v", all, got.Occurrences)
	}
	d.j.State, d.j.PauseNote = job.Paused, "rest"
	got, err = s.Occurrences(t.Context(), p, engine.Ref{}, january(21), january(22), engine.Page{Limit: 4})
	if err != nil || len(got.Occurrences) != 1 || got.Occurrences[0].Outcome != Held || got.Occurrences[0].Reason != "rest" {
		t.Errorf("paused: %+v, %v", got, err)
	}
	d.j.State, d.j.Schedule.MaxRuns, d.j.Runs = job.Active, 12, 10
	got, err = s.Occurrences(t.Context(), p, engine.Ref{}, january(21), january(30), engine.Page{Limit: 40})
	if err != nil || len(got.Occurrences) != 2 {
		t.Errorf("two runs are left: %+v, %v", got, err)
	}
}

func TestBackfillCounts(t *testing.T) {
	d, s := newDiary(january(20).Add(time.Hour))
	d.add(2, job.Succeeded, job.BySchedule)
	d.add(3, job.Skipped, job.BySchedule, "missed")
	ten := Backfill{From: january(1), To: january(11), OnlyMissing: true}
	for _, c := range []struct {
		name string
		b    Backfill
		want int64
	}{
		{"what is missing", ten, 8}, // not the 2nd, and the 9th is excluded
		{"all", Backfill{From: january(1), To: january(11)}, 9},
		{"not what is to come", Backfill{From: january(19), To: january(30)}, 2},
		{"before the job was", Backfill{From: january(1).AddDate(-1, 0, 0), To: january(1)}, 365},
	} {
		if n, err := s.CountBackfill(t.Context(), tenant.Local(), engine.Ref{}, c.b); err != nil || n != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, n, err, c.want)
		}
	}
	for name, b := range map[string]Backfill{"nothing": {}, "backwards": {From: january(3), To: january(2)}, "to come": {From: january(25), To: january(26)}} {
		if _, err := s.CountBackfill(t.Context(), tenant.Local(), engine.Ref{}, b); !isInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.j.Schedule = job.Schedule{Type: job.Cron, Cron: "* * * * * *"}
	if _, err := s.CountBackfill(t.Context(), tenant.Local(), engine.Ref{}, ten); !isInvalid(err) {
		t.Errorf("too many: %v", err)
	}
}

// A time that may have run, according to a file that cannot be read, is not fired again: the backfill is refused, and one that is under way
// waits. One of all times needs to know nothing.
func TestABackfillBesideHistoryThatCannotBeRead(t *testing.T) {
	d, s := newDiary(january(20).Add(time.Hour))
	d.unread = []string{"executions/x.parquet"}
	ten := Backfill{From: january(1), To: january(11), OnlyMissing: true}
	_, count := s.CountBackfill(t.Context(), tenant.Local(), engine.Ref{}, ten)
	_, _, begin := s.BeginBackfill(t.Context(), tenant.Local(), engine.Ref{}, ten, 0, Once[job.Operation]{})
	r := &Runner{s: s.Operations}
	x := &run{from: ten.From, fill: filling{From: ten.From, To: ten.To, OnlyMissing: true, job: d.j.ID}}
	for doing, err := range map[string]error{"count": count, "begin": begin, "go on": r.listFill(t.Context(), x)} {
		if !errors.Is(err, engine.ErrArchive) || !strings.Contains(err.Error(), "executions/x.parquet") {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if len(x.next) > 0 || x.last {
		t.Errorf("it goes on with %v", x.next)
	}
	ten.OnlyMissing = false
	if n, err := s.CountBackfill(t.Context(), tenant.Local(), engine.Ref{}, ten); n != 9 || err != nil {
		t.Errorf("all: %d, %v", n, err)
	}
}

// What a backfill or a catch-up made is distinguished from what ran in time, and what has not started is not said to have run.
func TestOccurrencesThatHaveNotStarted(t *testing.T) {
	d, s := newDiary(january(20).Add(time.Hour))
	for day, c := range map[int]struct {
		status  job.Status
		by      job.Trigger
		started bool
	}{
		2: {job.Pending, job.ByBackfill, false}, 3: {job.Running, job.ByBackfill, true}, 4: {job.Pending, job.ByCatchUp, false}, 5: {job.Retrying, job.ByCatchUp, true},
		6: {job.Pending, job.BySchedule, false}, 7: {job.Running, job.BySchedule, true}, 8: {job.Cancelled, job.ByBackfill, false}, 9: {job.Expired, job.BySchedule, false}, 10: {job.Cancelled, job.ByBackfill, true},
	} {
		d.add(day, c.status, c.by)
		if e := &d.records[len(d.records)-1]; c.started {
			e.StartedAt = january(20)
		}
	}
	got, err := s.Occurrences(t.Context(), tenant.Local(), engine.Ref{}, january(2), january(9).Add(time.Second), engine.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{
		2: "waiting backfilled", 3: "backfilled ", 4: "waiting caught_up", 5: "caught_up ", 6: "waiting ", 7: "ran ", 8: "skipped cancelled", 9: "skipped expired", 10: "backfilled ",
	}
	for _, o := range got.Occurrences {
		if w, ok := want[o.At.Day()]; ok && o.Reason != "calendar c" && string(o.Outcome)+" "+o.Reason != w {
			t.Errorf("day %d: %q %q, want %q", o.At.Day(), o.Outcome, o.Reason, w)
		}
		delete(want, o.At.Day())
	}
	delete(want, 10) // after the end
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}
