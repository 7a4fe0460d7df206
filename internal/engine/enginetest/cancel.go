package enginetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// orders returns the orders in the answer to a renewal of the session.
func (f fixture) orders(w job.WorkerID) []job.Order {
	f.Helper()
	got := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour))
	if len(got.Ended) != 0 {
		f.Fatalf("the session has ended")
	}
	return got.Orders
}

func cancel(t *testing.T, h Harness) {
	f := open(t, h)
	ask := func(id job.ExecutionID) (job.Status, error) {
		got, err := f.Cancel(f.ctx, tenant.Default, id, "not needed", nil)
		return got.Status, err
	}
	t.Run("what waits ends at once", func(t *testing.T) {
		_, pending := f.add("pending")
		_, future := f.add("future", func(_ *job.Job, e *job.Execution) { e.DueAt = e.DueAt.Add(time.Hour) })
		_, retrying := f.add("retrying")
		f.report(again(f.took(retrying.ID), f.now().Add(time.Hour), 1))
		for _, id := range []job.ExecutionID{pending.ID, future.ID, retrying.ID} {
			for range 2 { // the second time, too
				if got, err := ask(id); err != nil || got != job.Cancelled {
					t.Errorf("got %v, %v", got, err)
				}
			}
			e := f.execution(id)
			if e.Status != job.Cancelled || e.FinishedAt.IsZero() || e.Error == nil || e.Error.Type != job.CancelledError || e.Error.Message != "not needed" {
				t.Errorf("it is %v, %+v", e.Status, e.Error)
			}
		}
	})
	t.Run("what runs is asked to stop", func(t *testing.T) {
		_, e := f.add("runs")
		_, beside := f.add("beside")
		w, as := f.take(e.ID, beside.ID)
		if got := f.orders(w); len(got) != 0 {
			t.Errorf("orders %+v", got)
		}
		for range 2 {
			if got, err := ask(e.ID); err != nil || got != job.Cancelling {
				t.Errorf("got %v, %v", got, err)
			}
		}
		if got := f.execution(e.ID); got.Status != job.Cancelling || got.CancelAt.IsZero() {
			t.Errorf("it is %v", got.Status)
		}
		want := job.Order{Worker: w, Lease: as[0].Lease, Kind: job.OrderCancel}
		for range 2 { // a lost answer is repeated
			if got := f.orders(w); !slices.Equal(got, []job.Order{want}) {
				t.Errorf("orders %+v", got)
			}
		}
		if hs := must(f.Held(f.ctx, []job.Lease{as[0].Lease})); len(hs) != 1 || hs[0].Status != job.Cancelling {
			t.Errorf("held %+v", hs)
		}
		stopped := job.Finish{
			Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeCancelled, Error: &job.Error{Type: job.CancelledError, Message: "stopped"}},
			Then:    job.Transition{Move: job.Stopped, Status: job.Cancelled},
		}
		if vs := f.report(stopped); !vs[0].Accepted {
			t.Errorf("verdict %+v", vs)
		}
		if got, err := ask(e.ID); err != nil || got != job.Cancelled {
			t.Errorf("after its end: %v, %v", got, err)
		}
		if got := f.execution(e.ID); got.Error == nil || *got.Error != (job.Error{Type: job.CancelledError, Message: "not needed"}) {
			t.Errorf("it ended with %+v", got.Error)
		}
		if got := f.orders(w); len(got) != 0 {
			t.Errorf("orders after its end: %+v", got)
		}
	})
	t.Run("the reason is the cancel's, if there is one", func(t *testing.T) {
		_, unasked := f.add("stops unasked")
		_, asked := f.add("stops when asked")
		_, fails := f.add("fails beside") // a batch of its own kind
		own := &job.Error{Type: job.CancelledError, Message: "stopped"}
		for _, beside := range []bool{false, true} {
			if beside {
				_, unasked = f.add("stops unasked, beside a failure")
				_, asked = f.add("stops when asked, beside a failure")
			}
			_, as := f.take(unasked.ID, asked.ID)
			must(ask(asked.ID))
			var fs []job.Finish
			for _, a := range as {
				fs = append(fs, job.Finish{
					Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeCancelled, Error: own}, Then: job.Transition{Move: job.Stopped, Status: job.Cancelled},
				})
			}
			if beside {
				fs = append(fs, die(f.took(fails.ID), 1))
			}
			for range 2 { // again, too
				for i, v := range f.report(fs...) {
					if !v.Accepted {
						t.Errorf("beside a failure: %v, verdict %d: %+v", beside, i, v)
					}
				}
			}
			for id, want := range map[job.ExecutionID]string{unasked.ID: "stopped", asked.ID: "not needed"} {
				if got := f.execution(id); got.Status != job.Cancelled || got.Error == nil || got.Error.Type != job.CancelledError || got.Error.Message != want {
					t.Errorf("beside a failure: %v: it is %v, %+v, want %q", beside, got.Status, got.Error, want)
				}
			}
		}
	})
	t.Run("what ends by itself stands", func(t *testing.T) {
		_, good := f.add("succeeds")
		_, bad := f.add("fails")
		_, as := f.take(good.ID, bad.ID)
		for _, id := range []job.ExecutionID{good.ID, bad.ID} {
			must(ask(id))
		}
		if vs := f.report(succeed(as[0]), die(as[1], 1)); !accepted(vs, 0, 0) {
			t.Errorf("verdicts %+v", vs)
		}
		for id, want := range map[job.ExecutionID]job.Status{good.ID: job.Succeeded, bad.ID: job.Failed} {
			if got := f.execution(id); got.Status != want {
				t.Errorf("it is %v, want %v", got.Status, want)
			}
			if _, err := ask(id); !errors.Is(err, engine.ErrConflict) {
				t.Errorf("cancel after it: got %v, want ErrConflict", err)
			}
		}
	})
	t.Run("what would be run again is not", func(t *testing.T) {
		for name, end := range map[string]func(job.WorkerID, job.Attempt){
			"release": func(_ job.WorkerID, a job.Attempt) { must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease})) },
			"leave":   func(w job.WorkerID, _ job.Attempt) { must(f.Leave(f.ctx, w)) },
			"disown":  func(w job.WorkerID, _ job.Attempt) { must(f.Disown(f.ctx, w, nil, time.Time{})) },
			"reap":    func(w job.WorkerID, _ job.Attempt) { f.expire(w); must(f.Reap(f.ctx, 100, 3)) },
			"retry": func(_ job.WorkerID, a job.Attempt) { // decided before the cancel was seen
				x := again(a, f.now(), 1)
				if vs := f.report(x, x); !accepted(vs, job.Cancelled, job.Cancelled) {
					t.Errorf("verdicts %+v", vs)
				}
				if vs := f.report(die(a, 1)); !accepted(vs, job.Cancelled) { // the same once more, decided when it was over
					t.Errorf("again: %+v", vs)
				}
			},
		} {
			_, e := f.add("cancelled, then " + name)
			w, as := f.take(e.ID)
			must(ask(e.ID))
			end(w, as[0])
			got := f.execution(e.ID)
			if got.Status != job.Cancelled || got.Error == nil || got.Error.Message != "not needed" {
				t.Errorf("%s: it is %v, %+v", name, got.Status, got.Error)
			}
			if ran := name == "reap" || name == "retry"; got.StartedAt.IsZero() == ran {
				t.Errorf("%s: it started at %v", name, got.StartedAt)
			}
		}
	})
	t.Run("by force after the grace", func(t *testing.T) {
		_, e := f.add("stubborn")
		w, as := f.take(e.ID)
		must(ask(e.ID))
		if n := len(must(f.Force(f.ctx, time.Hour, 100))); n != 0 {
			t.Errorf("%d were ended within the grace", n)
		}
		if n := len(must(f.Force(f.ctx, -time.Second, 100))); n != 1 {
			t.Errorf("%d were ended", n)
		}
		if n := len(must(f.Force(f.ctx, -time.Second, 100))); n != 0 {
			t.Errorf("%d more were ended", n)
		}
		if got := f.execution(e.ID); got.Status != job.Cancelled || got.Error == nil || got.Error.Message != "not needed" {
			t.Errorf("it is %v, %+v", got.Status, got.Error)
		}
		if got := f.orders(w); !slices.Equal(got, []job.Order{{Worker: w, Lease: as[0].Lease, Kind: job.OrderLost}}) {
			t.Errorf("orders %+v", got)
		}
		if vs := f.report(succeed(as[0])); vs[0].Accepted {
			t.Error("a result after it was accepted")
		}
	})
	t.Run("unknown and foreign", func(t *testing.T) {
		_, e := f.add("mine")
		if _, err := ask(newID()); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if _, err := f.Cancel(f.ctx, "other", e.ID, "", nil); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if got := f.execution(e.ID); got.Status != job.Pending {
			t.Errorf("it is %v", got.Status)
		}
	})
	t.Run("one outcome, however cancel, lease and result race", func(t *testing.T) {
		w := f.worker()
		for i := range 40 {
			_, e := f.add(fmt.Sprint("raced ", i))
			var wg sync.WaitGroup
			var asked job.Status
			var askErr error
			accepted := false
			wg.Go(func() { asked, askErr = ask(e.ID) })
			wg.Go(func() {
				as, err := f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{})
				if err != nil || len(as) == 0 {
					return
				}
				if vs, err := f.Finish(f.ctx, []job.Finish{succeed(as[0])}); err == nil {
					accepted = vs[0].Accepted
				}
			})
			wg.Wait()
			got := f.execution(e.ID).Status
			switch {
			case accepted && got != job.Succeeded, !accepted && got != job.Cancelled:
				t.Errorf("the result was accepted: %v; it is %v", accepted, got)
			case askErr != nil && !(errors.Is(askErr, engine.ErrConflict) && got == job.Succeeded):
				t.Errorf("cancel: %v; it is %v", askErr, got)
			case askErr == nil && asked == job.Cancelled && got != job.Cancelled:
				t.Errorf("it was said to be %v and is %v", asked, got)
			}
		}
	})
}

func workers(t *testing.T, h Harness) {
	f := open(t, h)
	w := job.Worker{
		ID: newID(), Secret: [32]byte{1, 2, 3}, Host: "host", Version: "v1", Capacity: 7, StartedAt: f.now(),
		Labels: []string{"gpu", "eu"}, Queues: []string{"slow"}, Targets: []string{"worker"}, Kinds: []string{"a", "b"},
		Beat: job.Beat{Memory: job.Memory{Used: 100, Limit: 200}},
	}
	if _, err := f.Worker(f.ctx, w.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("before it registered: got %v, want ErrNotFound", err)
	}
	if err := f.Register(f.ctx, w, time.Hour); err != nil {
		t.Fatal(err)
	}
	memory := func(what string, want job.Memory) {
		t.Helper()
		if got := must(f.Worker(f.ctx, w.ID)).Memory; got != want {
			t.Errorf("memory %s: %+v, want %+v", what, got, want)
		}
	}
	memory("as registered", w.Memory)
	beat := job.Beat{Running: 3, Completed: 12, Failed: 2, Draining: true, Memory: job.Memory{Used: 5 << 40, Limit: 6 << 40}}
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w.ID, Beat: job.Beat{}}}, time.Hour))
	memory("after a beat that does not tell it", w.Memory)
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w.ID, Beat: job.Beat{Memory: job.Memory{Used: 300}}}}, time.Hour))
	memory("after a beat that tells what is used", job.Memory{Used: 300, Limit: 200})
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w.ID, Beat: beat}}, time.Hour))
	other := job.Worker{ID: newID(), Tenant: "other", Host: "h2", Version: "v1", Capacity: 1, StartedAt: f.now()}
	if err := f.Register(f.ctx, other, time.Hour); err != nil {
		t.Fatal(err)
	}
	own := job.Worker{ID: newID(), Host: "a server", Version: "v1", Capacity: 32, StartedAt: f.now(), Targets: []string{string(job.Workflow)}}
	if err := f.Register(f.ctx, own, time.Hour); err != nil { // the worker under which a server begins runs: it is nobody's
		t.Fatal(err)
	}
	got := must(f.Workers(f.ctx, tenant.Default))
	if len(got) != 1 || got[0].ID != w.ID || got[0].Host != "host" || got[0].Version != "v1" || got[0].Capacity != 7 || got[0].Beat != beat ||
		!got[0].StartedAt.Equal(w.StartedAt) || got[0].BeatAt.IsZero() || !got[0].ExpiresAt.After(f.now()) || got[0].Ended {
		t.Errorf("got %+v", got)
	}
	want := w
	want.Beat, want.BeatAt, want.ExpiresAt = beat, got[0].BeatAt, got[0].ExpiresAt
	for _, x := range []job.Worker{got[0], must(f.Worker(f.ctx, w.ID))} {
		if d := cmp.Diff(want, x, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("worker (-want +got):\n%s", d)
		}
	}
	if got := must(f.Workers(f.ctx, "other")); len(got) != 2 || got[0].ID != other.ID {
		t.Errorf("the other tenant sees %+v", got)
	}
	must(f.Leave(f.ctx, w.ID))
	if got := must(f.Workers(f.ctx, tenant.Default)); len(got) != 1 || !got[0].Ended {
		t.Errorf("after it left: %+v", got)
	}
	if got := must(f.Worker(f.ctx, w.ID)); !got.Ended {
		t.Errorf("after it left: %+v", got)
	}
}

func deadLetters(t *testing.T, h Harness) {
	f := open(t, h)
	all := engine.DeadLetterFilter{Tenant: tenant.Default}
	list := func(q engine.DeadLetterFilter) []job.DeadLetter {
		page := must(f.DeadLetters(f.ctx, q, engine.Page{Limit: 100}))
		early := must(f.DeadLetters(f.ctx, q, engine.Page{Limit: 100, Bounded: true}))
		if page.Total.Count != int64(len(page.DeadLetters)) || page.Next != "" || !cmp.Equal(page, early, cmpopts.EquateEmpty()) {
			t.Errorf("total %+v, next %q for %d; that may end early: %+v", page.Total, page.Next, len(page.DeadLetters), early)
		}
		return page.DeadLetters
	}
	began := f.now()
	j, exhausted := f.add("exhausted") // three attempts
	for n := 1; n <= 3; n++ {
		a := f.took(exhausted.ID)
		if n < 3 {
			f.report(again(a, f.now(), n))
		} else {
			f.report(die(a, n), die(a, n))
		}
	}
	_, forGood := f.add("for good")
	x := die(f.took(forGood.ID), 1)
	x.Outcome.Error = &job.Error{Type: job.HTTPError, Message: "answered 404: No Such Thing", HTTPStatus: 404}
	f.report(x)
	_, poison := f.add("poison")
	for range 3 {
		w, _ := f.take(poison.ID)
		f.expire(w)
		must(f.Reap(f.ctx, 100, 3))
	}
	_, fine := f.add("fine")
	f.report(succeed(f.took(fine.ID)))
	_, stopped := f.add("stopped")
	must(f.Cancel(f.ctx, tenant.Default, stopped.ID, "", nil))

	t.Run("with the whole history, the latest first", func(t *testing.T) {
		got := list(all)
		if len(got) != 3 || got[0].ID != poison.ID || got[1].ID != forGood.ID || got[2].ID != exhausted.ID {
			t.Fatalf("got %d: %+v", len(got), got)
		}
		for i, want := range []job.DeadReason{job.DeadPoison, job.DeadForGood, job.DeadExhausted} {
			if got[i].Reason != want || got[i].At.Before(began) {
				t.Errorf("%d: %s at %v, want %s", i, got[i].Reason, got[i].At, want)
			}
		}
		d := got[2]
		if len(d.Errors) != 3 || d.Errors[0].Number != 1 || d.Errors[2].Number != 3 || d.Errors[0].Error != *boom || d.JobName != "exhausted" || d.Job != j.ID || d.Status != job.Failed || d.Attempt != 3 || d.Error == nil {
			t.Errorf("got %+v", d)
		}
		if len(got[0].Errors) != 3 || got[0].Errors[2].Error.Type != job.LeaseLost {
			t.Errorf("poison: %+v", got[0].Errors)
		}
	})
	t.Run("pages", func(t *testing.T) {
		var ids []job.ExecutionID
		p := engine.Page{Limit: 1, Bounded: true}
		for {
			page := must(f.DeadLetters(f.ctx, all, p))
			if page.Total.Count != 3 {
				t.Errorf("total %+v", page.Total)
			}
			for _, d := range page.DeadLetters {
				ids = append(ids, d.ID)
			}
			if page.Next == "" {
				break
			}
			p.Cursor = page.Next
		}
		if !slices.Equal(ids, []job.ExecutionID{poison.ID, forGood.ID, exhausted.ID}) {
			t.Errorf("paged through %d", len(ids))
		}
		if _, err := f.DeadLetters(f.ctx, all, engine.Page{Limit: 1, Cursor: "x"}); !errors.Is(err, engine.ErrCursor) {
			t.Errorf("got %v, want ErrCursor", err)
		}
	})
	t.Run("filters", func(t *testing.T) {
		for name, c := range map[string]struct {
			q    engine.DeadLetterFilter
			want int
		}{
			"job":             {engine.DeadLetterFilter{Job: j.ID}, 1},
			"execution":       {engine.DeadLetterFilter{Execution: forGood.ID}, 1},
			"reason":          {engine.DeadLetterFilter{Reason: job.DeadPoison}, 1},
			"text":            {engine.DeadLetterFilter{Text: "no such"}, 1},
			"text as written": {engine.DeadLetterFilter{Text: "%"}, 0},
			"from":            {engine.DeadLetterFilter{From: f.now().Add(time.Hour)}, 0},
			"until":           {engine.DeadLetterFilter{Until: began}, 0},
			"both":            {engine.DeadLetterFilter{From: began, Until: f.now().Add(time.Hour)}, 3},
		} {
			c.q.Tenant = tenant.Default
			if got := list(c.q); len(got) != c.want {
				t.Errorf("%s: %d, want %d", name, len(got), c.want)
			}
		}
		if got := list(engine.DeadLetterFilter{Tenant: "other"}); len(got) != 0 {
			t.Errorf("another tenant sees %d", len(got))
		}
	})
	rerun := func(of job.Execution, dead bool) (job.Execution, int) {
		e := f.rerunOf(f.execution(of.ID), job.ByRedrive)
		r := engine.Rerun{Executions: []job.Execution{e}, DeadOnly: dead}
		first := must(f.Rerun(f.ctx, tenant.Default, r))
		again := must(f.Rerun(f.ctx, tenant.Default, r))
		if !slices.Equal(first.Added, again.Added) {
			t.Errorf("the same call answered %v, then %v", first, again)
		}
		return e, len(first.Added)
	}
	t.Run("rerun", func(t *testing.T) {
		e, n := rerun(exhausted, true)
		if n != 1 {
			t.Fatalf("%d were added", n)
		}
		got := f.execution(e.ID)
		if got.Status != job.Pending || got.RetryOf != exhausted.ID || got.Trigger != job.ByRedrive || got.Job != j.ID || got.MaxAttempts != 3 || got.Attempt != 0 {
			t.Errorf("got %+v", got)
		}
		if got := list(all); len(got) != 2 {
			t.Errorf("%d dead letters are left", len(got))
		}
		if got := f.execution(exhausted.ID); got.Status != job.Failed {
			t.Errorf("the old one became %v", got.Status)
		}
		if _, n := rerun(exhausted, true); n != 0 {
			t.Error("what is no dead letter was redriven")
		}
		if _, n := rerun(exhausted, false); n != 1 {
			t.Error("what has finished was not run again")
		}
		if _, n := rerun(fine, false); n != 1 {
			t.Error("what has succeeded was not run again")
		}
		a := f.took(e.ID)
		f.report(die(a, 1))
		if got := list(all); len(got) != 3 || got[0].ID != e.ID || got[0].RetryOf != exhausted.ID {
			t.Errorf("its own death: %+v", got)
		}
	})
	t.Run("rerun passes over", func(t *testing.T) {
		_, live := f.add("live")
		e := f.rerunOf(live, job.ByRetry)
		stray := f.rerunOf(live, job.ByRetry)
		stray.RetryOf = newID()
		if got := must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{e, stray}})); len(got.Added) != 0 {
			t.Errorf("added %v", got)
		}
		foreign := f.rerunOf(f.execution(fine.ID), job.ByRetry)
		if got := must(f.Rerun(f.ctx, "other", engine.Rerun{Executions: []job.Execution{foreign}})); len(got.Added) != 0 {
			t.Errorf("another tenant added %v", got)
		}
		gone, ended := f.add("gone")
		f.report(die(f.took(ended.ID), 1))
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: gone.ID, AsOf: f.now()}))
		if _, n := rerun(ended, true); n != 0 {
			t.Error("a deleted job was run again")
		}
		if got := must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{})); len(got.Added) != 0 {
			t.Errorf("nothing added %v", got)
		}
	})
	t.Run("rerun with an idempotency key", func(t *testing.T) {
		_, e := f.add("keyed")
		f.report(die(f.took(e.ID), 1))
		old := f.execution(e.ID)
		ask := func(body string) engine.Rerunning {
			return must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{
				Executions:  []job.Execution{f.rerunOf(old, job.ByRetry)},
				Idempotency: engine.Idempotency{Key: "rerun", Hash: sha256.Sum256([]byte(body)), Answer: []byte("answer to " + body), Until: f.now().Add(time.Hour)},
			}))
		}
		if got := ask("x"); len(got.Added) != 1 || got.Replay != nil {
			t.Errorf("first: %+v", got)
		}
		if got := ask("x"); len(got.Added) != 0 || string(got.Replay) != "answer to x" {
			t.Errorf("again: %+v", got)
		}
		if got := ask("y"); len(got.Added) != 0 || !got.Reused {
			t.Errorf("another: %+v", got)
		}
		page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: old.Job}, engine.Page{Limit: 10}))
		if len(page.Executions) != 2 {
			t.Errorf("%d executions", len(page.Executions))
		}
	})
	t.Run("discard once", func(t *testing.T) {
		_, a := f.add("a")
		_, b := f.add("b")
		f.report(die(f.took(a.ID), 1), die(f.took(b.ID), 1))
		discardOnce(fixture{t, f.Store, f.ctx, f.where}, a.ID, b.ID)
	})
	t.Run("discard", func(t *testing.T) {
		if n := f.discard(f.ctx, "other", forGood.ID); n != 0 {
			t.Error("another tenant discarded it")
		}
		if n := f.discard(f.ctx, tenant.Default, forGood.ID, newID(), fine.ID); n != 1 {
			t.Errorf("%d were discarded", n)
		}
		if got := list(engine.DeadLetterFilter{Tenant: tenant.Default, Execution: forGood.ID}); len(got) != 0 {
			t.Error("it is still there")
		}
		if got := f.execution(forGood.ID); got.Status != job.Failed {
			t.Errorf("the execution is %v", got.Status)
		}
	})
	t.Run("one redrive wins, however many race", func(t *testing.T) {
		for range 20 {
			_, e := f.add("raced")
			f.report(die(f.took(e.ID), 1))
			dead := f.execution(e.ID)
			var mu sync.Mutex
			added := 0
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					got, err := f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{f.rerunOf(dead, job.ByRedrive)}, DeadOnly: true})
					if err != nil {
						t.Errorf("rerun: %v", err)
					}
					mu.Lock()
					added += len(got.Added)
					mu.Unlock()
				})
			}
			wg.Wait()
			if added != 1 {
				t.Errorf("%d were added", added)
			}
		}
	})
}

// discard discards dead letters of a tenant, and returns how many there were.
func (f fixture) discard(ctx context.Context, t tenant.ID, ids ...job.ExecutionID) int {
	n, _, err := f.Discard(ctx, t, ids, engine.Idempotency{}, nil, nil)
	return must(n, err)
}

// discardOnce discards under an idempotency key: with a known key it discards nothing and writes no audit entry.
func discardOnce(f fixture, a, b job.ExecutionID) {
	once := func(hash byte) engine.Idempotency {
		return engine.Idempotency{Key: "discard", Hash: [32]byte{hash}, Until: f.now().Add(time.Hour)}
	}
	answer := func(n int) []byte { return fmt.Append(nil, n) }
	try := func(hash byte, id job.ExecutionID) (int, engine.Created) {
		entry := audit.Entry{Tenant: tenant.Default, At: f.now(), By: "ann", Action: "dead_letter.discard", Object: "once", Count: 1}
		n, out, err := f.Discard(f.ctx, tenant.Default, []job.ExecutionID{id}, once(hash), answer, &entry)
		must(0, err)
		return n, out
	}
	if n, out := try(1, a); n != 1 || out.Replay != nil || out.Reused {
		f.Errorf("the first time: %d, %+v", n, out)
	}
	if n, out := try(1, a); n != 0 || string(out.Replay) != "1" {
		f.Errorf("the same request again: %d, %+v", n, out)
	}
	if n, out := try(2, b); n != 0 || !out.Reused {
		f.Errorf("another request under the same key: %d, %+v", n, out)
	}
	if n := f.discard(f.ctx, tenant.Default, b); n != 1 {
		f.Errorf("what a refused request named is gone")
	}
	page := must(f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: tenant.Default, Object: "once"}, engine.Page{Limit: 9}))
	if len(page.Entries) != 1 {
		f.Errorf("%d entries, want one", len(page.Entries))
	}
}
