package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/notify"
)

var begin = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// world is a store in memory, a clock, and what was sent.
type world struct {
	*testing.T
	now     time.Time
	rules   []notice.Rule
	jobs    map[job.ID]job.Job
	ends    []job.Execution
	waiting []engine.Late
	due     []engine.Due
	last    map[job.ID]job.Status
	alarms  []notice.Alarm
	watched time.Time
	sent    []client.Notification
	keys    map[string]bool
	refuse  error
}

func (w *world) Now() time.Time                       { return w.now }
func (w *world) After(time.Duration) <-chan time.Time { panic("not used") }

func (w *world) PutRule(context.Context, notice.Rule, int, *audit.Entry) error { panic("not used") }
func (w *world) Rule(context.Context, tenant.ID, string) (notice.Rule, error) {
	panic("not used")
}
func (w *world) DeleteRule(context.Context, tenant.ID, string, *audit.Entry) error { panic("not used") }
func (w *world) Rules(context.Context, tenant.ID) ([]notice.Rule, error) {
	return w.rules, nil
}

func (w *world) Unwell(_ context.Context, ts []tenant.ID, after engine.Mark, limit int) ([]job.Execution, error) {
	var out []job.Execution
	for _, e := range w.ends {
		if slices.Contains(ts, e.Tenant) && (e.FinishedAt.After(after.At) || e.FinishedAt.Equal(after.At) && slices.Compare(e.ID[:], after.ID[:]) > 0) {
			out = append(out, e)
		}
	}
	return out[:min(limit, len(out))], nil
}

func (w *world) Late(_ context.Context, _ tenant.ID, before time.Time, _ int) ([]engine.Late, error) {
	return slices.DeleteFunc(slices.Clone(w.waiting), func(l engine.Late) bool { return !l.DueAt.Before(before) }), nil
}

func (w *world) NewApprovals(context.Context, tenant.ID, engine.RunWait, int) ([]engine.RunWait, error) {
	panic("not used")
}
func (w *world) WorkflowRun(context.Context, tenant.ID, job.ExecutionID) (engine.WorkflowRun, error) {
	panic("not used")
}
func (w *world) WorkflowVersion(context.Context, tenant.ID, job.ID, int) (engine.WorkflowVersion, error) {
	panic("not used")
}

func (w *world) Due(_ context.Context, f engine.DueFilter) ([]engine.Due, error) {
	out := slices.DeleteFunc(slices.Clone(w.due), func(d engine.Due) bool { return d.Job.NextRunAt.After(f.Until) || d.Job.NextRunAt.Before(f.From) })
	slices.SortStableFunc(out, func(a, b engine.Due) int { return a.Job.NextRunAt.Compare(b.Job.NextRunAt) })
	return out[:min(f.Limit, len(out))], nil
}

func (w *world) Alarms(context.Context) ([]notice.Alarm, error) { return w.alarms, nil }
func (w *world) SetAlarms(_ context.Context, began, ended []notice.Alarm) error {
	w.alarms = append(w.alarms, began...)
	for _, x := range ended {
		w.alarms = slices.DeleteFunc(w.alarms, func(a notice.Alarm) bool { return a == x })
	}
	return nil
}
func (w *world) Watched(context.Context) (time.Time, error) { return w.watched, nil }
func (w *world) SetWatched(_ context.Context, at time.Time) error {
	w.watched = at
	return nil
}

func (w *world) Job(_ context.Context, _ tenant.ID, ref engine.Ref) (job.Job, error) {
	if j, ok := w.jobs[ref.ID]; ok {
		return j, nil
	}
	return job.Job{}, engine.ErrNotFound
}

func (w *world) Stats(_ context.Context, _ tenant.ID, ids []job.ID) ([]job.Stats, error) {
	out := make([]job.Stats, len(ids))
	for i, id := range ids {
		out[i].LastStatus = w.last[id]
	}
	return out, nil
}

func (w *world) send(_ context.Context, _ notice.Rule, key string, payload []byte) error {
	if w.refuse != nil {
		return w.refuse
	}
	if w.keys[key] {
		return nil
	}
	w.keys[key] = true
	var n client.Notification
	if err := json.Unmarshal(payload, &n); err != nil {
		w.Fatal(err)
	}
	w.sent = append(w.sent, n)
	return nil
}

func (w *world) notifier() *notify.Notifier {
	return &notify.Notifier{Store: w, Send: w.send, Clock: w, Log: slog.New(slog.DiscardHandler)}
}

// look ticks after a time, and answers with the events of what was sent.
func (w *world) look(n *notify.Notifier, after time.Duration) string {
	w.Helper()
	w.now = w.now.Add(after)
	w.sent = nil
	if _, err := n.Tick(w.Context()); err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, x := range w.sent {
		out = append(out, x.Rule+":"+x.Event+":"+x.Job.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *world) job(name string, tags ...string) job.Job {
	j := job.Job{ID: job.ID{byte(len(w.jobs) + 1)}, Tenant: tenant.Default, Definition: job.Definition{Name: name, Tags: tags, Owner: "team"}, State: job.Active}
	w.jobs[j.ID] = j
	return j
}

func (w *world) end(j job.Job, s job.Status, at time.Time) {
	e := job.Execution{ID: job.ExecutionID{byte(len(w.ends) + 1)}, Job: j.ID, Tenant: j.Tenant, Status: s, FinishedAt: at, ScheduledAt: at, Attempt: 3}
	switch s {
	case job.Failed:
		e.Error = &job.Error{Type: job.HTTPError, Message: "answered 503"}
	case job.Skipped:
		e.Metadata = map[string]string{"reason": "missed"}
	}
	w.ends = append(w.ends, e)
	w.last[j.ID] = s
}

func newWorld(t *testing.T, rules ...notice.Rule) *world {
	for i := range rules {
		rules[i].Tenant, rules[i].CreatedAt, rules[i].LateAfter = tenant.Default, begin, time.Minute
	}
	return &world{T: t, now: begin, rules: rules, jobs: map[job.ID]job.Job{}, last: map[job.ID]job.Status{}, keys: map[string]bool{}}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}

func TestFailuresAreToldOnceAndTheirEnd(t *testing.T) {
	w := newWorld(t, notice.Rule{Name: "all", Events: []notice.Event{notice.Failed, notice.DeadLettered, notice.Recovered}},
		notice.Rule{Name: "billing", Events: []notice.Event{notice.Failed}, Tags: []string{"billing"}})
	plain, billing, own := w.job("plain"), w.job("invoice", "billing"), w.job("its own", notice.Tag)
	n := w.notifier()
	w.end(plain, job.Failed, begin.Add(-time.Hour))
	expect(t, "what was before the rules", w.look(n, 0), "")
	w.end(plain, job.Failed, begin.Add(time.Second))
	w.end(billing, job.TimedOut, begin.Add(time.Second))
	w.end(own, job.Failed, begin.Add(time.Second))
	expect(t, "two failures", w.look(n, 2*time.Second), "all:dead_lettered:invoice all:dead_lettered:plain billing:failed:invoice")
	if s := w.sent[0]; s.Summary != "plain ended as FAILED after 3 attempts: answered 503" || s.Execution.Error.Message != "answered 503" || *s.Job.Owner != "team" {
		t.Errorf("the notice: %+v", s)
	}
	expect(t, "nothing new", w.look(n, 2*time.Second), "")
	w.end(plain, job.Failed, w.now.Add(-3*time.Second)) // it committed late
	expect(t, "a late commit", w.look(n, 2*time.Second), "all:dead_lettered:plain")
	n = w.notifier() // another server
	expect(t, "after a takeover", w.look(n, 2*time.Second), "")
	w.last[plain.ID] = job.Succeeded
	expect(t, "well again", w.look(n, 10*time.Second), "all:recovered:plain")
	expect(t, "still well", w.look(n, 10*time.Second), "")
	w.end(plain, job.Failed, w.now)
	expect(t, "not well once more", w.look(n, 2*time.Second), "all:dead_lettered:plain")
	w.last[plain.ID] = job.Succeeded
	expect(t, "and well once more", w.look(n, 10*time.Second), "all:recovered:plain")
	delete(w.jobs, billing.ID)
	w.last[billing.ID] = job.Succeeded
	expect(t, "a job that is gone", w.look(n, 10*time.Second), "")
	if len(w.alarms) != 0 {
		t.Errorf("alarms are left: %+v", w.alarms)
	}
}

func TestLateAndMissing(t *testing.T) {
	w := newWorld(t, notice.Rule{Name: "r", Events: []notice.Event{notice.Late, notice.Missing, notice.Recovered}})
	n := w.notifier()
	slow, idle, skips, expires := w.job("slow"), w.job("idle"), w.job("skips"), w.job("expires")
	w.waiting = []engine.Late{{Execution: job.ExecutionID{1}, Job: slow.ID, DueAt: begin.Add(-30 * time.Second)}}
	idle.NextRunAt = begin.Add(-45 * time.Second)
	w.due = []engine.Due{{Job: idle}}
	expect(t, "not late enough", w.look(n, 0), "")
	expect(t, "late", w.look(n, 31*time.Second), "r:late:slow r:missing:idle")
	expect(t, "still late", w.look(n, 10*time.Second), "")
	n = w.notifier()
	expect(t, "after a takeover", w.look(n, 10*time.Second), "")
	w.waiting, w.due = nil, nil
	expect(t, "over", w.look(n, 10*time.Second), "r:recovered:idle r:recovered:slow")
	w.end(skips, job.Skipped, w.now)
	w.end(expires, job.Expired, w.now)
	expect(t, "did not run", w.look(n, 10*time.Second), "r:missing:expires r:missing:skips")
	w.last[skips.ID], w.last[expires.ID] = job.Succeeded, job.Succeeded
	expect(t, "ran", w.look(n, 10*time.Second), "r:recovered:expires r:recovered:skips")
}

// Very many jobs that are missing, others' too, hide none.
func TestVeryManyThatAreMissing(t *testing.T) {
	w := newWorld(t, notice.Rule{Name: "r", Events: []notice.Event{notice.Missing, notice.Recovered}})
	n := w.notifier()
	others := func(i int, at time.Time) engine.Due {
		return engine.Due{Job: job.Job{ID: job.ID{0xff, byte(i), byte(i >> 8)}, Tenant: "other", NextRunAt: at}}
	}
	for i := range 2500 { // of one instant
		w.due = append(w.due, others(i, begin.Add(-3*time.Minute)))
	}
	early, late := w.job("early"), w.job("late")
	early.NextRunAt, late.NextRunAt = begin.Add(-3*time.Minute), begin.Add(-2*time.Minute)
	w.due = append(w.due, engine.Due{Job: early})
	for i := range 1500 {
		w.due = append(w.due, others(2500+i, begin.Add(-150*time.Second+time.Duration(i))))
	}
	w.due = append(w.due, engine.Due{Job: late})
	expect(t, "behind pages of others'", w.look(n, time.Second), "r:missing:early r:missing:late")
	expect(t, "still", w.look(n, 10*time.Second), "")
	w.due = slices.DeleteFunc(w.due, func(d engine.Due) bool { return d.Job.ID == late.ID })
	expect(t, "one is over, with others' still there", w.look(n, 10*time.Second), "r:recovered:late")
}

func TestSilenceAndTrouble(t *testing.T) {
	w := newWorld(t, notice.Rule{Name: "r", Events: []notice.Event{notice.Failed, notice.Recovered}, SilentUntil: begin.Add(time.Minute)})
	j := w.job("j")
	n := w.notifier()
	w.end(j, job.Failed, begin.Add(time.Second))
	expect(t, "silent", w.look(n, 2*time.Second), "")
	expect(t, "what was in the silence stays untold", w.look(n, 2*time.Minute), "")
	w.end(j, job.Failed, w.now)
	w.refuse = engine.ErrUnavailable
	if _, err := n.Tick(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("the store is away: %v", err)
	}
	w.refuse = errors.New("never")
	expect(t, "refused for good", w.look(n, time.Second), "")
	w.refuse = nil
	expect(t, "is in nobody's way", w.look(n, time.Second), "")
	w.end(j, job.Failed, w.now)
	expect(t, "the next one", w.look(n, time.Second), "r:failed:j")
	n.Mine = func() bool { return false }
	w.end(j, job.Failed, w.now)
	expect(t, "another server looks", w.look(n, time.Second), "")
}

func TestRulesAreChecked(t *testing.T) {
	good := notice.Rule{Name: "r", Events: []notice.Event{notice.Failed}, URL: "https://example.com/x", LateAfter: time.Minute}
	if v := good.Check(); len(v) != 0 {
		t.Errorf("good: %v", v)
	}
	for field, change := range map[string]func(*notice.Rule){
		"name":               func(r *notice.Rule) { r.Name = "Not A Key" },
		"events":             func(r *notice.Rule) { r.Events = nil },
		"events[1]":          func(r *notice.Rule) { r.Events = append(r.Events, "exploded") },
		"callback_url":       func(r *notice.Rule) { r.URL = "ftp://x" },
		"late_after_seconds": func(r *notice.Rule) { r.LateAfter = time.Second },
		"tags[0]":            func(r *notice.Rule) { r.Tags = []string{"a\x00b"} },
	} {
		bad := good
		change(&bad)
		if v := bad.Check(); len(v) != 1 || v[0].Field != field || v[0].Want == "" {
			t.Errorf("%s: %+v", field, v)
		}
	}
	if v := (notice.Rule{Name: "r", Events: []notice.Event{notice.Recovered}, URL: good.URL, LateAfter: time.Minute}).Check(); len(v) != 1 {
		t.Errorf("recovered from nothing: %+v", v)
	}
}
