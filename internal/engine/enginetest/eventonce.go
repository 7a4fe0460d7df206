package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// answersOnce is about drafts of answers: the first answer that replaces one counts.
func answersOnce(t *testing.T, h Harness) {
	b := open(t, h).begin(0)
	draft := engine.Draft([]byte("d"))
	once := engine.Idempotency{Key: "k", Hash: [32]byte{1}, Answer: draft, Until: b.now().Add(time.Hour)}
	if _, err := b.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, func(engine.RunView) (*engine.RunChange, error) {
		next := b.same()
		next.Once = once
		return &next, nil
	}); err != nil {
		t.Fatal(err)
	}
	answer := func(of tenant.ID, hash byte, text string) string {
		t.Helper()
		i := once
		i.Hash, i.Answer = [32]byte{hash}, []byte(text)
		return string(must(b.Answer(b.ctx, of, i, draft)))
	}
	kept := func() string { return string(must(b.Answered(b.ctx, tenant.Default, once)).Replay) }
	if got := answer("other", 1, "another tenant's"); got != "another tenant's" || kept() != string(draft) {
		t.Errorf("another tenant's answer: %q; stored is %q", got, kept())
	}
	if got := answer(tenant.Default, 2, "another request's"); got != "another request's" || kept() != string(draft) {
		t.Errorf("another request's answer: %q; stored is %q", got, kept())
	}
	for _, text := range []string{"first", "second"} {
		if got := answer(tenant.Default, 1, text); got != "first" || kept() != "first" {
			t.Errorf("the %s answer: %q counts; stored is %q", text, got, kept())
		}
	}
}

// eventsOnce is about events that are sent with an idempotency key: they are stored once, with one answer.
func eventsOnce(t *testing.T, h Harness) {
	b := open(t, h).begin(1)
	wait := func() {
		b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Waits = []engine.RunWait{{Node: 0, Kind: engine.WaitEvent, BegunAt: b.now(), Event: "paid"}}
			return &c
		})
	}
	until, at := b.now().Add(time.Hour), b.now().Add(-2*engine.EventAge) // stored counts events that are too old
	event := func() engine.RunEvent {
		return engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: "paid", Match: []byte(`"a"`), At: at}
	}
	once := func(key string, hash byte) engine.EventOnce {
		return engine.EventOnce{
			Idempotency: engine.Idempotency{Key: key, Hash: [32]byte{hash}, Until: until},
			Make:        func(id [16]byte, runs []job.ExecutionID) []byte { return fmt.Appendf(nil, "%x %v", id, runs) },
		}
	}
	send := func(ev engine.RunEvent, o engine.EventOnce) engine.SentEvent {
		t.Helper()
		return must(b.SendEvent(b.ctx, ev, o, nil))
	}
	stored := func() (n int) {
		t.Helper()
		for {
			k := must(b.ForgetEvents(b.ctx, 1000))
			if n += k; k == 0 {
				return n
			}
		}
	}
	wait()
	first := event()
	released := []job.ExecutionID{b.run.ID}
	if got, want := send(first, once("k", 1)), (engine.SentEvent{ID: first.ID, Runs: released}); !cmp.Equal(got, want) {
		t.Errorf("the first time: %+v; want %+v", got, want)
	}
	wait()
	replay := once("k", 1).Make(first.ID, released)
	for name, x := range map[string]struct {
		once engine.EventOnce
		want engine.SentEvent
	}{
		"the same request": {once("k", 1), engine.SentEvent{Created: engine.Created{Replay: replay}}},
		"another request":  {once("k", 2), engine.SentEvent{Created: engine.Created{Reused: true}}},
	} {
		if got := send(event(), x.once); !cmp.Equal(got, x.want) {
			t.Errorf("%s: %+v; want %+v", name, got, x.want)
		}
		if woken := b.wakes(); slices.Contains(woken, b.run.ID) {
			t.Errorf("%s wakes a run", name)
		}
	}
	for range 2 {
		if got := send(event(), engine.EventOnce{}); !cmp.Equal(got.Runs, released) {
			t.Errorf("without a key: %+v", got)
		}
	}
	if n := stored(); n != 3 {
		t.Errorf("%d events are stored; want one with the key, and two without", n)
	}
	wait()

	// Whoever sent it died before it found the waits: the next request finds them, for the same event.
	ctx, die := context.WithCancel(b.ctx)
	dies, lost := once("l", 1), event()
	dies.Make = func([16]byte, []job.ExecutionID) []byte { die(); return nil }
	if got, err := b.SendEvent(ctx, lost, dies, nil); err == nil {
		t.Fatalf("the store found the waits though its caller was gone: %+v", got)
	}
	if ws := must(b.RunWaits(b.ctx, tenant.Default, b.run.ID)); len(ws) != 1 || !ws[0].WakeAt.IsZero() {
		t.Errorf("a wait that the event did not reach: %+v", ws)
	}
	if got, want := send(event(), once("l", 1)), (engine.SentEvent{ID: lost.ID, Runs: released}); !cmp.Equal(got, want) {
		t.Errorf("after the death of the first: %+v; want %+v", got, want)
	}
	if got, want := send(event(), once("l", 1)), once("l", 1).Make(lost.ID, released); string(got.Replay) != string(want) {
		t.Errorf("after that: %+v; want %s", got, want)
	}
	if n := stored(); n != 1 {
		t.Errorf("%d events are stored; want the lost one", n)
	}

	// Of several at once, all give one answer.
	wait()
	var wg sync.WaitGroup
	var answers [4]string
	for i := range answers {
		wg.Go(func() {
			o := once("m", 1)
			got, err := b.SendEvent(b.ctx, event(), o, nil)
			if answers[i] = string(got.Replay); got.Replay == nil {
				answers[i] = string(o.Make(got.ID, got.Runs))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all := slices.Compact(answers[:]); len(all) != 1 {
		t.Errorf("several at once: %q", all)
	}
	if n := stored(); n != 1 {
		t.Errorf("several at once: %d events are stored", n)
	}
}
