package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Store is the part of the store that the search for events needs.
type Store interface {
	engine.Notices
	Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) ([]job.Execution, error)
	Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]engine.Late, error)
	Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error)
	Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error)
	Due(ctx context.Context, f engine.DueFilter) ([]engine.Due, error)
	NewApprovals(ctx context.Context, t tenant.ID, after engine.RunWait, limit int) ([]engine.RunWait, error)
	WorkflowRun(ctx context.Context, t tenant.ID, id job.ExecutionID) (engine.WorkflowRun, error)
	WorkflowVersion(ctx context.Context, t tenant.ID, workflow job.ID, version int) (engine.WorkflowVersion, error)
}

// Send creates the job that posts a notification; only one for each key.
type Send func(ctx context.Context, r notice.Rule, key string, payload []byte) error

// Notifier looks for events.
type Notifier struct {
	Store Store
	Send  Send
	Clock clock.Clock // the store's
	Mine  func() bool // whether this server is the one to look; nil: it is
	Log   *slog.Logger

	watched time.Time                     // everything that finished before was examined, except late commits
	kept    time.Time                     // of that, what the store knows
	seen    map[job.ExecutionID]time.Time // examined executions that are not older than the overlap
	asked   map[ask]bool                  // examined approvals that are not older than the overlap
	alarms  map[alarm]notice.Alarm        // ongoing alarms; nil: not read yet
	states  time.Time                     // when states were last examined
	jobs    map[job.ID]*job.Job           // of this look; nil: gone
	rules   map[tenant.ID][]notice.Rule   // of this look
}

type alarm struct {
	tenant tenant.ID
	rule   string
	job    job.ID
	event  notice.Event
}

func keyOf(a notice.Alarm) alarm { return alarm{a.Tenant, a.Rule, a.Job, a.Event} }

const (
	pause   = 2 * time.Second
	overlap = 30 * time.Second // how much later than its timestamp a transaction may commit
	page    = 1000
	states  = 10 * time.Second // how often states are examined, which have no end event
	maxSeen = 100_000          // beyond that only the idempotency key prevents a repeat
)

// Tick makes one pass.
func (n *Notifier) Tick(ctx context.Context) (time.Duration, error) {
	if n.Mine != nil && !n.Mine() {
		n.alarms, n.seen, n.asked, n.watched = nil, nil, nil, time.Time{} // the server that looks now keeps them
		return pause, nil
	}
	began := time.Now()
	if err := n.read(ctx); err != nil {
		return 0, fmt.Errorf("look for what to tell: %w", err)
	}
	if len(n.rules) == 0 {
		n.watched, n.seen, n.asked = time.Time{}, nil, nil
		return pause, nil
	}
	now := n.Clock.Now()
	err := n.approvals(ctx, now)
	if err == nil {
		err = n.ends(ctx, now)
	}
	if err == nil && now.Sub(n.states) >= states {
		err = errors.Join(n.late(ctx, now), n.overdue(ctx, now), n.recover(ctx, now))
		if err == nil {
			n.states = now
		}
	}
	if err != nil {
		return 0, fmt.Errorf("tell of events: %w", err)
	}
	return max(pause, 10*time.Since(began)), nil // looking takes at most a tenth of the time
}

// read reads the rules, and what earlier passes stored.
func (n *Notifier) read(ctx context.Context) error {
	all, err := n.Store.Rules(ctx, "")
	if err != nil {
		return err
	}
	n.rules, n.jobs = map[tenant.ID][]notice.Rule{}, map[job.ID]*job.Job{}
	for _, r := range all {
		n.rules[r.Tenant] = append(n.rules[r.Tenant], r)
	}
	if len(all) == 0 {
		return nil
	}
	if n.alarms == nil {
		kept, err := n.Store.Alarms(ctx)
		if err != nil {
			return err
		}
		n.alarms = make(map[alarm]notice.Alarm, len(kept))
		for _, a := range kept {
			n.alarms[keyOf(a)] = a
		}
	}
	if n.seen == nil {
		n.seen = map[job.ExecutionID]time.Time{}
	}
	if n.watched.IsZero() {
		if n.watched, err = n.Store.Watched(ctx); err != nil {
			return err
		}
		n.kept = n.watched
		first := slices.MinFunc(all, func(a, b notice.Rule) int { return a.CreatedAt.Compare(b.CreatedAt) }).CreatedAt
		if n.watched.Before(first) {
			n.watched = first // before that nobody was interested
		}
	}
	return nil
}

// job finds a job, cached for this pass; nil if it is gone.
func (n *Notifier) job(ctx context.Context, t tenant.ID, id job.ID) (*job.Job, error) {
	if j, ok := n.jobs[id]; ok {
		return j, nil
	}
	j, err := n.Store.Job(ctx, t, engine.Ref{ID: id})
	switch {
	case errors.Is(err, engine.ErrNotFound):
		n.jobs[id] = nil
		return nil, nil
	case err != nil:
		return nil, err
	}
	j.Payload = nil
	n.jobs[id] = &j
	return &j, nil
}

// ends notifies of executions that have ended since the last look.
func (n *Notifier) ends(ctx context.Context, now time.Time) error {
	from := n.watched.Add(-overlap)
	mark := engine.Mark{At: from}
	tenants := slices.Sorted(maps.Keys(n.rules))
	for {
		es, err := n.Store.Unwell(ctx, tenants, mark, page)
		if err != nil {
			return err
		}
		for _, e := range es {
			mark = engine.Mark{At: e.FinishedAt, ID: e.ID}
			if _, ok := n.seen[e.ID]; ok {
				continue
			}
			if err := n.end(ctx, e, now); err != nil {
				return err
			}
			if len(n.seen) < maxSeen {
				n.seen[e.ID] = e.FinishedAt
			}
		}
		if len(es) < page {
			break
		}
	}
	n.watched = now
	maps.DeleteFunc(n.seen, func(_ job.ExecutionID, at time.Time) bool { return at.Before(now.Add(-2 * overlap)) })
	if now.Sub(n.kept) < states {
		return nil
	}
	n.kept = now
	return n.Store.SetWatched(ctx, now)
}

// eventsOf returns the events of an execution's end, the most specific one first.
func eventsOf(e job.Execution) []notice.Event {
	switch e.Status {
	case job.Failed, job.TimedOut:
		return []notice.Event{notice.DeadLettered, notice.Failed}
	case job.Expired:
		return []notice.Event{notice.Missing}
	case job.Skipped:
		if e.Metadata["reason"] == string(job.SkipMissed) {
			return []notice.Event{notice.Missing}
		}
	}
	return nil
}

// end notifies of one execution that has ended.
func (n *Notifier) end(ctx context.Context, e job.Execution, now time.Time) error {
	events := eventsOf(e)
	if len(events) == 0 {
		return nil
	}
	j, err := n.job(ctx, e.Tenant, e.Job)
	if err != nil || j == nil || j.State == job.Inline { // a node's end is its run's business
		return err
	}
	for _, r := range n.rules[e.Tenant] {
		i := slices.IndexFunc(events, func(ev notice.Event) bool { return r.Wants(ev, *j) })
		if i < 0 || e.FinishedAt.Before(r.CreatedAt) {
			continue
		}
		a := notice.Alarm{Tenant: e.Tenant, Rule: r.Name, Job: e.Job, Event: events[i], Execution: e.ID, Since: e.FinishedAt}
		if err := n.tell(ctx, r, a, *j, now, ended(e)); err != nil {
			return err
		}
		if err := n.begin(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// late notifies of jobs whose executions do not start.
func (n *Notifier) late(ctx context.Context, now time.Time) error {
	for t, rules := range n.rules {
		wait := time.Duration(0)
		for _, r := range rules {
			if slices.Contains(r.Events, notice.Late) && (wait == 0 || r.LateAfter < wait) {
				wait = r.LateAfter
			}
		}
		if wait == 0 {
			continue
		}
		found, err := n.Store.Late(ctx, t, now.Add(-wait), page)
		if err != nil {
			return err
		}
		still := map[alarm]bool{}
		for _, l := range found {
			err := n.lasts(ctx, t, l.Job, notice.Late, l.DueAt, now, still, &client.NotificationExecution{ExecutionID: l.Execution.String(), ScheduledTime: l.ScheduledAt})
			if err != nil {
				return err
			}
		}
		if len(found) < page {
			if err := n.over(ctx, t, notice.Late, still, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// overdue notifies of jobs that are due and that nobody fires.
func (n *Notifier) overdue(ctx context.Context, now time.Time) error {
	wait := time.Duration(0)
	for _, rules := range n.rules {
		for _, r := range rules {
			if slices.Contains(r.Events, notice.Missing) && (wait == 0 || r.LateAfter < wait) {
				wait = r.LateAfter
			}
		}
	}
	if wait == 0 {
		return nil
	}
	still := map[alarm]bool{}
	f := engine.DueFilter{Until: now.Add(-wait), Limit: page}
	for again := map[job.ID]bool{}; ; {
		found, err := n.Store.Due(ctx, f)
		if err != nil {
			return err
		}
		for _, d := range found {
			j := d.Job
			if again[j.ID] || n.rules[j.Tenant] == nil {
				continue
			}
			if n.jobs[j.ID] == nil {
				n.jobs[j.ID] = &j
			}
			if err := n.lasts(ctx, j.Tenant, j.ID, notice.Missing, j.NextRunAt, now, still, nil); err != nil {
				return err
			}
		}
		if len(found) < f.Limit {
			break
		}
		again = behind(&f, found)
	}
	for t := range n.rules {
		if err := n.over(ctx, t, notice.Missing, still, now); err != nil {
			return err
		}
	}
	return nil
}

// behind moves a filter to what comes after a page: from its last instant on, with as many more rows as it has of
// that instant. Those are repeated, so that none is missed if others fire between two pages.
func behind(f *engine.DueFilter, found []engine.Due) (again map[job.ID]bool) {
	again = map[job.ID]bool{}
	f.From = found[len(found)-1].Job.NextRunAt
	for _, d := range slices.Backward(found) {
		if !d.Job.NextRunAt.Equal(f.From) {
			break
		}
		again[d.Job.ID] = true
	}
	f.Limit = page + len(again)
	return again
}

// lasts notifies of an ongoing state of a job, unless that was done before.
func (n *Notifier) lasts(ctx context.Context, t tenant.ID, id job.ID, e notice.Event, since, now time.Time, still map[alarm]bool, x *client.NotificationExecution) error {
	j, err := n.job(ctx, t, id)
	if err != nil || j == nil {
		return err
	}
	for _, r := range n.rules[t] {
		if !r.Wants(e, *j) || !since.Before(now.Add(-r.LateAfter)) {
			continue
		}
		a := notice.Alarm{Tenant: t, Rule: r.Name, Job: id, Event: e, Since: since}
		still[keyOf(a)] = true
		if _, told := n.alarms[keyOf(a)]; told {
			continue
		}
		if err := n.tell(ctx, r, a, *j, now, x); err != nil {
			return err
		}
		if err := n.begin(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// over ends the alarms of a tenant about a state that has ended.
func (n *Notifier) over(ctx context.Context, t tenant.ID, e notice.Event, still map[alarm]bool, now time.Time) error {
	for k, a := range n.alarms {
		if k.tenant == t && k.event == e && a.Execution.IsZero() && !still[k] {
			if err := n.well(ctx, a, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// recover ends the alarms of jobs that have succeeded since.
func (n *Notifier) recover(ctx context.Context, now time.Time) error {
	byTenant := map[tenant.ID][]notice.Alarm{}
	for _, a := range n.alarms {
		if !a.Execution.IsZero() {
			byTenant[a.Tenant] = append(byTenant[a.Tenant], a)
		}
	}
	for t, all := range byTenant {
		for as := range slices.Chunk(all, page) {
			ids := make([]job.ID, len(as))
			for i, a := range as {
				ids[i] = a.Job
			}
			stats, err := n.Store.Stats(ctx, t, ids)
			if err != nil {
				return err
			}
			for i, a := range as {
				if stats[i].LastStatus != job.Succeeded {
					continue
				}
				if err := n.well(ctx, a, now); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// well ends an alarm, and notifies of it if the rule says so.
func (n *Notifier) well(ctx context.Context, a notice.Alarm, now time.Time) error {
	j, err := n.job(ctx, a.Tenant, a.Job)
	if err != nil {
		return err
	}
	for _, r := range n.rules[a.Tenant] {
		if r.Name != a.Rule || j == nil || j.State == job.Deleted || !r.Wants(notice.Recovered, *j) {
			continue
		}
		was := a
		was.Event = notice.Recovered
		if err := n.tell(ctx, r, was, *j, now, nil); err != nil {
			return err
		}
	}
	if err := n.Store.SetAlarms(ctx, nil, []notice.Alarm{a}); err != nil {
		return err
	}
	delete(n.alarms, keyOf(a))
	return nil
}

// begin stores an alarm, so that its end is notified of.
func (n *Notifier) begin(ctx context.Context, a notice.Alarm) error {
	if _, ok := n.alarms[keyOf(a)]; ok {
		return nil
	}
	if err := n.Store.SetAlarms(ctx, []notice.Alarm{a}, nil); err != nil {
		return err
	}
	n.alarms[keyOf(a)] = a
	return nil
}

// tell sends a notification, unless the rule is silent.
func (n *Notifier) tell(ctx context.Context, r notice.Rule, a notice.Alarm, j job.Job, now time.Time, x *client.NotificationExecution) error {
	if r.Silent(now) {
		return nil
	}
	at := a.Since
	if a.Event == notice.Recovered {
		at = now
	}
	body := client.Notification{
		Event: string(a.Event), Rule: r.Name, Summary: summary(a, j, x, now), OccurredAt: at.UTC(), Execution: x,
		Job: jobOf(j),
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return n.send(ctx, r, notice.Key(r.Name, a.Event, a.Job, a.Execution, a.Since), payload)
}

// send sends a notification.
func (n *Notifier) send(ctx context.Context, r notice.Rule, key string, payload []byte) error {
	err := n.Send(ctx, r, key, payload)
	if errors.Is(err, engine.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if err != nil { // which means that it will never be accepted: it must not block the others
		n.Log.WarnContext(ctx, "a notice could not be sent", "tenant", r.Tenant, "rule", r.Name, "notice", key, "error", err)
	}
	return nil
}

// jobOf returns a job in the form of notifications.
func jobOf(j job.Job) client.NotificationJob {
	out := client.NotificationJob{JobID: j.ID.String(), Key: optional(j.Key), Name: j.Name, Tags: j.Tags, Owner: optional(j.Owner), Runbook: optional(j.Runbook)}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	return out
}

// ended returns an execution in the form of notifications.
func ended(e job.Execution) *client.NotificationExecution {
	x := &client.NotificationExecution{
		ExecutionID: e.ID.String(), Status: e.Status.String(), ScheduledTime: e.ScheduledAt.UTC(), FinishedAt: &e.FinishedAt, AttemptNumber: e.Attempt,
	}
	if e.Error != nil {
		x.Error = &client.Error{Type: string(e.Error.Type), Message: e.Error.Message, HTTPStatus: e.Error.HTTPStatus}
	}
	return x
}

// summary returns a notification in one sentence.
func summary(a notice.Alarm, j job.Job, x *client.NotificationExecution, now time.Time) string {
	switch a.Event {
	case notice.Failed, notice.DeadLettered:
		s := fmt.Sprintf("%s ended as %s after %d attempts", j.Name, x.Status, x.AttemptNumber)
		if x.AttemptNumber == 1 {
			s = fmt.Sprintf("%s ended as %s after 1 attempt", j.Name, x.Status)
		}
		if x.Error != nil {
			s += ": " + cmp.Or(x.Error.Message, x.Error.Type)
		}
		return s
	case notice.Late:
		return fmt.Sprintf("%s was due at %s and has not started for %s", j.Name, a.Since.UTC().Format(time.RFC3339), now.Sub(a.Since).Round(time.Second))
	case notice.Missing:
		if x != nil {
			return fmt.Sprintf("%s did not run for its instant %s: it is %s", j.Name, x.ScheduledTime.Format(time.RFC3339), x.Status)
		}
		return fmt.Sprintf("%s was to fire at %s, and nobody has fired it for %s", j.Name, a.Since.UTC().Format(time.RFC3339), now.Sub(a.Since).Round(time.Second))
	case notice.Recovered, notice.Approval: // which tells of itself
	}
	return fmt.Sprintf("%s is well again", j.Name)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
