package enginetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func finish(t *testing.T, h Harness) {
	f := open(t, h)
	accepted := func(t *testing.T, vs []job.Verdict, want ...bool) {
		t.Helper()
		for i, v := range vs {
			if v.Accepted != want[i] || v.Accepted != (v.Reason == "") {
				t.Errorf("verdict %d: %+v, want accepted %v", i, v, want[i])
			}
		}
	}
	t.Run("success goes into history", func(t *testing.T) {
		j, e := f.add("succeeds")
		w, as := f.take(e.ID)
		done := succeed(as[0])
		done.Outcome.Response = &job.Response{HTTPStatus: 200, BodyPreview: "fine"}
		accepted(t, f.report(done), true)
		got := f.execution(e.ID)
		want := e
		want.Status, want.StartedAt, want.LeasedAt, want.FinishedAt = job.Succeeded, as[0].LeasedAt, as[0].LeasedAt, got.FinishedAt
		want.Attempt, want.Worker, want.Token, want.JobName, want.Class = 1, w, as[0].Token, j.Name, ""
		want.Result, want.Response = []byte(`{"ok":true}`), done.Outcome.Response
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("execution (-want +got):\n%s", d)
		}
		if got.FinishedAt.Before(got.StartedAt) {
			t.Error("it finished before it started")
		}
	})
	t.Run("the same result again is accepted again", func(t *testing.T) {
		_, e := f.add("repeats")
		_, as := f.take(e.ID)
		accepted(t, f.report(succeed(as[0]), succeed(as[0])), true, true)
		accepted(t, f.report(succeed(as[0])), true)
		accepted(t, f.report(die(as[0], 1)), false)
		if got := f.execution(e.ID); got.Status != job.Succeeded {
			t.Errorf("it is %v", got.Status)
		}
	})
	t.Run("among successes one under an old token is refused", func(t *testing.T) {
		var first, next []job.Attempt
		for _, name := range []string{"batch-1", "batch-2", "batch-3"} {
			_, e := f.add(name)
			w, as := f.take(e.ID)
			first = append(first, as[0])
			if name == "batch-2" {
				must(f.Release(f.ctx, w, []job.Lease{as[0].Lease}))
				_, as = f.take(e.ID)
			}
			next = append(next, as[0])
		}
		accepted(t, f.report(succeed(first[0]), succeed(first[1]), succeed(first[2])), true, false, true)
		if got := f.execution(next[1].Execution); got.Status != job.Running || got.Token != next[1].Token {
			t.Errorf("it is %v under token %d, and is held under %d", got.Status, got.Token, next[1].Token)
		}
		accepted(t, f.report(succeed(next[1])), true)
	})
	t.Run("a worker finds nothing to do", func(t *testing.T) {
		_, e := f.add("nothing to do")
		w, as := f.take(e.ID)
		skip := job.Finish{
			Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeSkipped, Error: &job.Error{Type: job.SkippedError, Message: "no new files"}},
			Then:    job.Transition{Move: job.Skip, Status: job.Skipped},
		}
		accepted(t, f.report(skip), true)
		got := f.execution(e.ID)
		if got.Status != job.Skipped || got.PassedOver() || got.FinishedAt.IsZero() || got.Attempt != 1 || got.Worker != w || got.Error == nil || got.Error.Message != "no new files" || got.Metadata != nil {
			t.Errorf("got %+v", got)
		}
		if vs := f.report(skip, succeed(as[0])); !vs[0].Accepted || !vs[0].Repeated || vs[1].Accepted {
			t.Errorf("the same again, and a success: %+v", vs)
		}
	})
	t.Run("a failure is tried again", func(t *testing.T) {
		_, e := f.add("flaky")
		w, as := f.take(e.ID)
		at := f.now().Add(time.Hour)
		accepted(t, f.report(again(as[0], at, 1)), true)
		got := f.execution(e.ID)
		if got.Status != job.Retrying || !got.DueAt.Equal(at) || got.Tries != 1 || got.Attempt != 1 || !got.ScheduledAt.Equal(e.ScheduledAt) {
			t.Errorf("got %+v", got)
		}
		// The same outcome is accepted again, whatever a server that no longer sees the lease decides about it.
		vs := f.report(again(as[0], at, 1), die(as[0], 1))
		accepted(t, vs, true, true)
		if !vs[0].Repeated || !vs[1].Repeated {
			t.Errorf("the repeats do not say so: %+v", vs)
		}
		accepted(t, f.report(succeed(as[0])), false)
		if got := f.execution(e.ID); got.Tries != 1 || got.Attempt != 1 || got.Status != job.Retrying {
			t.Errorf("the repeat was charged: %+v", got)
		}
		past := must(f.Attempts(f.ctx, tenant.Default, e.ID))
		if len(past) != 1 || past[0].Number != 1 || past[0].Worker != w || past[0].Token != as[0].Token || past[0].Error != *boom || past[0].EndedAt.Before(past[0].StartedAt) {
			t.Errorf("attempts: %+v", past)
		}
	})
	t.Run("the next attempt has a greater token, and the old one is stale", func(t *testing.T) {
		_, e := f.add("twice")
		_, first := f.take(e.ID)
		accepted(t, f.report(again(first[0], f.now(), 1)), true)
		_, second := f.take(e.ID)
		if second[0].Token <= first[0].Token || second[0].Number != 2 {
			t.Errorf("tokens %d, %d; number %d", first[0].Token, second[0].Token, second[0].Number)
		}
		vs := f.report(succeed(first[0]))
		accepted(t, vs, false)
		if vs[0].Reason != job.RefusedStale {
			t.Errorf("reason %q", vs[0].Reason)
		}
		if got := f.execution(e.ID); got.Status != job.Running || got.Tries != 1 || !got.StartedAt.Equal(first[0].LeasedAt) {
			t.Errorf("it is %v, started %v", got.Status, got.StartedAt)
		}
		accepted(t, f.report(die(second[0], 2)), true)
		accepted(t, f.report(succeed(first[0])), false)
		got := f.execution(e.ID)
		if got.Status != job.Failed || got.Tries != 2 || got.Attempt != 2 || got.Error == nil || *got.Error != *boom || got.Response == nil || got.Response.BodyPreview != "sorry" {
			t.Errorf("got %+v", got)
		}
		if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 2 || past[0].Number != 1 || past[1].Number != 2 {
			t.Errorf("attempts: %+v", past)
		}
		if _, err := f.Attempts(f.ctx, "other", e.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant's attempts: got %v, want ErrNotFound", err)
		}
	})
	t.Run("unknown ones are refused, neighbours are not", func(t *testing.T) {
		_, e := f.add("neighbour")
		_, as := f.take(e.ID)
		stray := as[0]
		stray.Execution = newID()
		vs := f.report(succeed(stray), succeed(as[0]))
		accepted(t, vs, false, true)
		if vs[0].Reason != job.RefusedUnknown {
			t.Errorf("reason %q", vs[0].Reason)
		}
	})
	t.Run("all kinds in one batch", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 30 {
			_, e := f.add(fmt.Sprint("mixed ", i))
			ids = append(ids, e.ID)
		}
		_, as := f.take(ids...)
		var fs []job.Finish
		for i, a := range as {
			fs = append(fs, []job.Finish{succeed(a), again(a, f.now(), 1), die(a, 1)}[i%3])
		}
		for _, v := range f.report(fs...) {
			if !v.Accepted {
				t.Errorf("refused: %+v", v)
			}
		}
		for i, id := range ids {
			if got, want := f.execution(id).Status, []job.Status{job.Succeeded, job.Retrying, job.Failed}[i%3]; got != want {
				t.Errorf("%d: got %v, want %v", i, got, want)
			}
		}
	})
	t.Run("what deciding needs", func(t *testing.T) {
		j, e := f.add("held")
		_, as := f.take(e.ID)
		stale := job.Lease{Execution: e.ID, Token: as[0].Token - 1}
		hs := must(f.Held(f.ctx, []job.Lease{stale, as[0].Lease, {Execution: newID(), Token: 1}}))
		if len(hs) != 1 || hs[0].ID != e.ID || hs[0].Token != as[0].Token || hs[0].Status != job.Running || hs[0].Retry != j.Retry || hs[0].MaxAttempts != 3 || hs[0].JobState != job.Active {
			t.Errorf("got %+v", hs)
		}
	})
	t.Run("one result wins, however many race", func(t *testing.T) {
		for range 20 {
			_, e := f.add("raced")
			_, as := f.take(e.ID)
			results := []job.Finish{succeed(as[0]), die(as[0], 1), again(as[0], f.now().Add(time.Hour), 1)}
			won := make([]bool, len(results))
			var wg sync.WaitGroup
			for i, r := range results {
				wg.Go(func() {
					vs, err := f.Finish(f.ctx, []job.Finish{r})
					if err != nil {
						t.Errorf("finish: %v", err)
						return
					}
					won[i] = vs[0].Accepted
				})
			}
			wg.Wait()
			got := f.execution(e.ID).Status
			if success, failure := won[0], won[1] || won[2]; success == failure || success != (got == job.Succeeded) {
				t.Errorf("accepted: %v; it is %v", won, got)
			}
		}
	})
}
