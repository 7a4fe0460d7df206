package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func notices(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	rule := notice.Rule{
		Tenant: tenant.Default, Name: "on-call", Events: []notice.Event{notice.Failed, notice.Recovered}, Jobs: []job.ID{newID()}, Tags: []string{"billing"},
		URL: "https://example.com/hook", LateAfter: time.Minute, SilentUntil: now.Add(time.Hour), CreatedAt: now, UpdatedAt: now,
	}
	t.Run("rules", func(t *testing.T) {
		if _, err := f.Rule(f.ctx, tenant.Default, rule.Name); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		for range 2 {
			if err := f.PutRule(f.ctx, rule, 2, nil); err != nil {
				t.Fatal(err)
			}
		}
		later := rule
		later.CreatedAt, later.UpdatedAt, later.Tags = now.Add(time.Second), now.Add(time.Second), nil
		if err := f.PutRule(f.ctx, later, 2, nil); err != nil {
			t.Fatal(err)
		}
		later.CreatedAt = rule.CreatedAt
		if got := must(f.Rule(f.ctx, tenant.Default, rule.Name)); !cmp.Equal(got, later) {
			t.Errorf("changed (-want +got):\n%s", cmp.Diff(later, got))
		}
		second, third, others := rule, rule, rule
		second.Name, third.Name, others.Tenant = "second", "third", "other"
		if err := f.PutRule(f.ctx, second, 2, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.PutRule(f.ctx, third, 2, nil); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("one too many: %v", err)
		}
		if err := f.PutRule(f.ctx, second, 2, nil); err != nil {
			t.Errorf("changing one of the most there may be: %v", err)
		}
		if err := f.PutRule(f.ctx, others, 2, nil); err != nil {
			t.Errorf("another tenant's: %v", err)
		}
		if got := must(f.Rules(f.ctx, tenant.Default)); len(got) != 2 || got[0].Name != "on-call" || got[1].Name != "second" {
			t.Errorf("of the tenant: %+v", got)
		}
		if got := must(f.Rules(f.ctx, "")); len(got) != 3 {
			t.Errorf("of all: %+v", got)
		}
		if err := f.DeleteRule(f.ctx, tenant.Default, "second", nil); err != nil {
			t.Fatal(err)
		}
		if err := f.DeleteRule(f.ctx, tenant.Default, "second", nil); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("twice: %v", err)
		}
	})
	t.Run("alarms", func(t *testing.T) {
		a := notice.Alarm{Tenant: tenant.Default, Rule: "on-call", Job: newID(), Event: notice.Failed, Execution: newID(), Since: now}
		late := a
		late.Event, late.Execution = notice.Late, job.ExecutionID{}
		unruly := a
		unruly.Rule = "nobody's"
		for range 2 {
			if err := f.SetAlarms(f.ctx, []notice.Alarm{a, late, unruly}, nil); err != nil {
				t.Fatal(err)
			}
		}
		again := a
		again.Since = now.Add(time.Minute)
		if err := f.SetAlarms(f.ctx, []notice.Alarm{again}, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Alarms(f.ctx)); !cmp.Equal(got, []notice.Alarm{a, late}) {
			t.Errorf("(-want +got):\n%s", cmp.Diff([]notice.Alarm{a, late}, got))
		}
		if err := f.SetAlarms(f.ctx, nil, []notice.Alarm{late}); err != nil {
			t.Fatal(err)
		}
		if err := f.DeleteRule(f.ctx, tenant.Default, "on-call", nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Alarms(f.ctx)); len(got) != 0 {
			t.Errorf("of a deleted rule: %+v", got)
		}
	})
	t.Run("how far", func(t *testing.T) {
		if at := must(f.Watched(f.ctx)); !at.IsZero() {
			t.Errorf("at first: %v", at)
		}
		for _, at := range []time.Time{now, now.Add(-time.Hour)} {
			if err := f.SetWatched(f.ctx, at); err != nil {
				t.Fatal(err)
			}
		}
		if at := must(f.Watched(f.ctx)); !at.Equal(now) {
			t.Errorf("got %v, want %v", at, now)
		}
	})
	t.Run("what did not go well", func(t *testing.T) { unwell(t, f) })
	t.Run("late", func(t *testing.T) {
		j, first := f.add("late")
		second := f.due(j)
		second.DueAt = second.DueAt.Add(time.Second)
		must(f.Trigger(f.ctx, tenant.Default, second, engine.Idempotency{}, nil))
		_, running := f.add("running")
		f.took(running.ID)
		soon := second.DueAt.Add(time.Minute)
		got := must(f.Late(f.ctx, tenant.Default, soon, 10))
		want := engine.Late{Execution: first.ID, Job: j.ID, ScheduledAt: first.ScheduledAt, DueAt: first.DueAt}
		if !cmp.Equal(got, []engine.Late{want}) {
			t.Errorf("(-want +got):\n%s", cmp.Diff([]engine.Late{want}, got))
		}
		if got := must(f.Late(f.ctx, tenant.Default, first.DueAt, 10)); len(got) != 0 {
			t.Errorf("in time: %+v", got)
		}
		if got := must(f.Late(f.ctx, "other", soon, 10)); len(got) != 0 {
			t.Errorf("another tenant's: %+v", got)
		}
	})
}

func unwell(t *testing.T, f fixture) {
	_, fine := f.add("fine")
	f.report(succeed(f.took(fine.ID)))
	_, stopped := f.add("stopped")
	must(f.Cancel(f.ctx, tenant.Default, stopped.ID, "", nil))
	var want []job.ExecutionID
	for i := range 3 {
		_, e := f.add(fmt.Sprintf("fails %d", i))
		f.report(die(f.took(e.ID), 1))
		want = append(want, e.ID)
	}
	var got []job.ExecutionID
	var mark engine.Mark
	for {
		page := must(f.Unwell(f.ctx, []tenant.ID{"other", tenant.Default}, mark, 2))
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.ID)
			mark = engine.Mark{At: e.FinishedAt, ID: e.ID}
			if e.Status != job.Failed || e.Error == nil || e.Tenant != tenant.Default {
				t.Errorf("%+v", e)
			}
		}
	}
	if !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, ts := range [][]tenant.ID{nil, {"other"}} {
		if page := must(f.Unwell(f.ctx, ts, engine.Mark{}, 10)); len(page) != 0 {
			t.Errorf("of %v: %+v", ts, page)
		}
	}
}
