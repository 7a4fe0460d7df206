package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Outcome is the outcome of a scheduled instant.
type Outcome string

// The outcomes of instants.
const (
	Ran        Outcome = "ran"        // it has an execution that has started, or ended
	Waits      Outcome = "waiting"    // it has an execution that has not started
	CaughtUp   Outcome = "caught_up"  // it was missed, and its execution started later
	Backfilled Outcome = "backfilled" // a backfill made its execution, and that has started
	PassedOver Outcome = "skipped"    // with the reason
	Missed     Outcome = "missed"     // it passed while no server was running, and is not caught up
	Excluded   Outcome = "excluded"   // by the calendar
	Held       Outcome = "paused"     // it has come while the job is paused; when that ends, the catch-up policy decides
	Planned    Outcome = "planned"
)

// Occurrence is an instant of a schedule and its outcome.
type Occurrence struct {
	At        time.Time
	Outcome   Outcome
	Reason    string
	Execution job.ExecutionID // zero: there is none
	Status    job.Status
}

// Occurrences is one page of occurrences.
type Occurrences struct {
	Occurrences []Occurrence
	Next        string
	Total       engine.Total
}

const (
	maxRecords = 20_000 // executions read at once
	maxLooksOn = 20     // further reads for one page of occurrences
)

// Occurrences lists the instants of a job in [from, to) and the outcome of each, earliest first. It includes those of
// an earlier schedule as far as they left a record.
func (s *Jobs) Occurrences(ctx context.Context, p tenant.Principal, ref engine.Ref, from, to time.Time, page engine.Page) (out Occurrences, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return out, err
	}
	t := &timetable{s: s, j: j, ps: s.plans(p.Tenant)}
	from, to = around(from, to, t.ps.at)
	begin := from
	if page.Cursor != "" {
		if from, _, err = engine.DecodeCursor(page.Cursor); err != nil {
			return out, err
		}
	}
	if err := t.read(ctx, from, to, page.Limit+1); err != nil {
		return out, err
	}
	all := t.occurrences()
	for looks := 0; len(all) <= page.Limit && t.end.Before(to) && looks < maxLooksOn; looks++ { // many instants may have little or nothing to list
		if err := t.read(ctx, t.end, to, schedule.MaxPreview); err != nil {
			return out, err
		}
		all = append(all, t.occurrences()...)
	}
	if len(all) > page.Limit {
		out.Next = engine.EncodeCursor(all[page.Limit].At, [16]byte{})
		all = all[:page.Limit]
	} else if t.end.Before(to) {
		out.Next = engine.EncodeCursor(t.end, [16]byte{})
	}
	out.Occurrences = all
	if page.Cursor == "" && out.Next == "" {
		out.Total.Count = int64(len(all))
		return out, nil
	}
	out.Total, err = s.countOccurrences(ctx, t, begin, to)
	return out, err
}

// countOccurrences counts the occurrences in [from, to): exactly, as far as totals are, and then assuming that the
// plan continues as densely.
func (s *Jobs) countOccurrences(ctx context.Context, like *timetable, from, to time.Time) (n engine.Total, err error) {
	t := &timetable{s: s, j: like.j, ps: like.ps}
	for looks := 0; from.Before(to) && n.Count <= engine.TotalExact && looks < 2*engine.TotalExact/schedule.MaxPreview; looks++ {
		if err := t.read(ctx, from, to, schedule.MaxPreview); err != nil {
			return n, err
		}
		n.Count += int64(len(t.occurrences()))
		from = t.end
	}
	if !from.Before(to) {
		return n, nil
	}
	n.Estimate = true
	if !t.j.Schedule.Type.Recurs() {
		return n, nil
	}
	plan, err := t.ps.plan(ctx, t.j)
	if err != nil {
		return n, err
	}
	if !t.last.IsZero() && t.last.Before(to) {
		to = t.last
	}
	plan.Calendar = nil // excluded instants are listed, too
	begin, seen := from.Add(-1), int64(0)
	for at, ok := plan.Next(begin); ok && at.Before(to); at, ok = plan.Next(at) {
		if seen++; seen == maxCounted {
			share := float64(to.Sub(begin)) / float64(at.Sub(begin))
			seen = int64(float64(seen) * max(1, share))
			break
		}
	}
	n.Count += seen
	return n, nil
}

// maxCounted limits how many instants beyond the examined ones are counted one by one.
const maxCounted = 100_000

// around determines the open ends of a range of time.
func around(from, to, now time.Time) (time.Time, time.Time) {
	const day = 24 * time.Hour
	switch {
	case from.IsZero() && !to.IsZero() && to.Before(now):
		from = to.Add(-day)
	case from.IsZero():
		from = now.Add(-day)
	}
	switch {
	case to.IsZero() && from.After(now):
		to = from.Add(day)
	case to.IsZero():
		to = now.Add(day)
	}
	return from.Truncate(time.Microsecond), to.Truncate(time.Microsecond)
}

// timetable holds a job's known instants in a period.
type timetable struct {
	s       *Jobs
	j       job.Job
	ps      *plans
	planned []schedule.Instant
	ahead   int64                   // instants to be fired before these, if their number is limited
	last    time.Time               // nothing is planned from then on; zero: unknown
	records map[int64]job.Execution // by the microsecond they are scheduled at
	long    []job.Execution         // records of several instants
	unread  []string                // archived files that cannot be read: there may be more records
	end     time.Time               // what is read is all before it
	always  bool                    // including what the schedule would have fired before the job was created
}

// read reads up to n planned instants in [from, to), and the records of that time.
func (t *timetable) read(ctx context.Context, from, to time.Time, n int) error {
	t.end = to
	if err := t.plan(ctx, from, to, n); err != nil {
		return err
	}
	t.records, t.long, t.unread = map[int64]job.Execution{}, nil, nil
	f := engine.ExecutionFilter{Tenant: t.j.Tenant, Job: t.j.ID, From: from, Until: t.end}
	page := engine.Page{Limit: 1000, Uncounted: true}
	for read := 0; ; {
		found, err := t.s.store.FindExecutions(ctx, f, page)
		if err != nil {
			return err
		}
		for _, e := range found.Executions {
			t.note(e)
		}
		t.unread = append(t.unread, found.Unread...)
		read += len(found.Executions)
		if page.Cursor = found.Next; page.Cursor == "" {
			break
		}
		if read >= maxRecords { // the latest come first: start again with half of the time
			half := from.Add(t.end.Sub(from) / 2).Truncate(time.Microsecond)
			if !half.After(from) {
				break
			}
			return t.read(ctx, from, half, n)
		}
	}
	return t.before(ctx, from)
}

// plan reads the planned instants. It omits those from before the job was created or last changed, if there is no
// record of them.
func (t *timetable) plan(ctx context.Context, from, to time.Time, n int) error {
	t.planned = nil
	if !t.j.Schedule.Type.Recurs() {
		j := t.s.planned(ctx, t.j, t.ps)
		if at := j.NextRunAt; !at.IsZero() && !at.Before(from) && at.Before(to) {
			t.planned = []schedule.Instant{{UTC: at}}
		}
		return nil
	}
	plan, err := t.ps.plan(ctx, t.j)
	if err != nil {
		return err
	}
	if err := t.bound(ctx, plan, from, to); err != nil {
		return err
	}
	begin := from
	if !t.always && begin.Before(t.j.CreatedAt) {
		begin = t.j.CreatedAt
	}
	all, err := plan.Preview(begin.Add(-1), min(n, schedule.MaxPreview))
	if err != nil {
		return err
	}
	for i, x := range all {
		if !x.UTC.Before(to) || !t.last.IsZero() && !x.UTC.Before(t.last) {
			all = all[:i]
			break
		}
	}
	if len(all) == min(n, schedule.MaxPreview) {
		t.end = all[len(all)-1].UTC.Add(1000) // the next microsecond
	}
	t.planned = all
	return nil
}

// bound determines the last planned instant: for a finished job the latest of its records, otherwise from the
// remaining number of runs. It also counts the instants to be fired before from.
func (t *timetable) bound(ctx context.Context, plan schedule.Plan, from, to time.Time) error {
	t.ahead, t.last = 0, time.Time{}
	if t.always {
		return nil
	}
	if t.j.State == job.Completed || t.j.State == job.Deleted || spent(t.j) {
		found, err := t.s.store.FindExecutions(ctx, engine.ExecutionFilter{Tenant: t.j.Tenant, Job: t.j.ID}, engine.Page{Limit: 1, Uncounted: true})
		t.last = t.j.CreatedAt
		for _, e := range found.Executions {
			t.last = e.ScheduledAt.Add(1)
			if end, bad := time.Parse(time.RFC3339, e.Metadata["to"]); bad == nil {
				t.last = end.Add(1)
			}
		}
		return err
	}
	left := t.j.Schedule.MaxRuns - t.j.Runs
	if t.j.Schedule.MaxRuns == 0 || t.j.NextRunAt.IsZero() {
		return nil
	}
	n := int64(0)
	for at, ok := plan.Next(t.j.NextRunAt.Add(-1)); ok && at.Before(to) && n < maxCounted; at, ok = plan.Next(at) {
		if n == left {
			t.last = at
			break
		}
		if n++; at.Before(from) {
			t.ahead = n
		}
	}
	return nil
}

// note adds a record of the schedule. Of two for one instant the one that ran counts, and of these the latest.
func (t *timetable) note(e job.Execution) {
	if !e.Trigger.OfItself() {
		return
	}
	if e.Metadata["to"] != "" {
		t.long = append(t.long, e)
	}
	at := e.ScheduledAt.UnixMicro()
	was, ok := t.records[at]
	if !ok || was.PassedOver() && !e.PassedOver() || was.PassedOver() == e.PassedOver() && slices.Compare(e.ID[:], was.ID[:]) > 0 {
		t.records[at] = e
	}
}

// before looks for a record of several instants that begins before the period and extends into it.
func (t *timetable) before(ctx context.Context, from time.Time) error {
	found, err := t.s.store.FindExecutions(ctx, engine.ExecutionFilter{
		Tenant: t.j.Tenant, Job: t.j.ID, Statuses: []job.Status{job.Skipped}, Until: from,
	}, engine.Page{Limit: 10, Uncounted: true})
	for _, e := range found.Executions {
		if e.Metadata["to"] != "" {
			t.long = append(t.long, e)
		}
	}
	return err
}

// occurrences returns the known occurrences, in order.
func (t *timetable) occurrences() []Occurrence {
	var out []Occurrence
	left := t.j.Schedule.MaxRuns - t.j.Runs - t.ahead
	for _, x := range t.planned {
		at := x.UTC
		if e, ok := t.records[at.UnixMicro()]; ok {
			out = append(out, t.recorded(e))
			delete(t.records, at.UnixMicro())
			continue
		}
		if x.Flag == schedule.Excluded {
			out = append(out, Occurrence{At: at, Outcome: Excluded, Reason: "calendar " + t.j.Schedule.Calendar})
			continue
		}
		if e, ok := t.covered(at); ok {
			o := t.recorded(e)
			o.At = at
			out = append(out, o)
			continue
		}
		open := !t.j.NextRunAt.IsZero() && !at.Before(t.j.NextRunAt) // still to be fired
		switch {
		case open && (t.j.State == job.Active || t.j.State == job.Paused):
			if left--; t.j.Schedule.MaxRuns > 0 && left < 0 {
				continue
			}
			o := Occurrence{At: at, Outcome: Planned}
			if t.j.State == job.Paused {
				o.Outcome, o.Reason = Held, t.j.PauseNote
			}
			out = append(out, o)
		case t.j.Schedule.Type == job.OneTime && at.After(t.ps.at):
			out = append(out, Occurrence{At: at, Outcome: Planned})
		case at.After(t.j.UpdatedAt) && !at.After(t.ps.at) && !spent(t.j) && t.j.State != job.Deleted && t.j.State != job.Completed:
			out = append(out, Occurrence{At: at, Outcome: Missed, Reason: "there is no record of it"})
		}
	}
	for _, e := range t.records { // of an earlier schedule
		out = append(out, t.recorded(e))
	}
	slices.SortFunc(out, func(a, b Occurrence) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return out
}

// covered finds the record that covers an instant among others.
func (t *timetable) covered(at time.Time) (job.Execution, bool) {
	for _, e := range t.long {
		to, err := time.Parse(time.RFC3339, e.Metadata["to"])
		if err == nil && !at.Before(e.ScheduledAt) && !at.After(to) {
			return e, true
		}
	}
	return job.Execution{}, false
}

// waitsFor returns why a waiting execution was created, if not by its schedule.
var waitsFor = map[job.Trigger]string{job.ByCatchUp: string(CaughtUp), job.ByBackfill: string(Backfilled)}

// recorded returns the occurrence of an execution.
func (t *timetable) recorded(e job.Execution) Occurrence {
	o := Occurrence{At: e.ScheduledAt, Outcome: Ran, Execution: e.ID, Status: e.Status}
	switch {
	case e.PassedOver():
		o.Outcome, o.Reason = PassedOver, e.Metadata["reason"]
		if o.Reason == "" && e.Error != nil {
			o.Reason = string(job.SkipUnique)
		}
		if o.Reason == string(job.SkipMissed) {
			o.Outcome = Missed
		}
	case !e.Status.Final() && e.ScheduledAt.After(t.ps.at):
		o.Outcome = Planned
	case !e.Status.Final() && e.StartedAt.IsZero():
		o.Outcome, o.Reason = Waits, waitsFor[e.Trigger]
	case e.StartedAt.IsZero() && (e.Status == job.Cancelled || e.Status == job.Expired):
		o.Outcome, o.Reason = PassedOver, strings.ToLower(e.Status.String())
	case e.Trigger == job.ByCatchUp:
		o.Outcome = CaughtUp
	case e.Trigger == job.ByBackfill:
		o.Outcome = Backfilled
	}
	return o
}
