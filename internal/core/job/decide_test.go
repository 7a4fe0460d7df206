package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func held(tries, max int) Held {
	return Held{
		Execution: Execution{ID: ExecutionID{1, 2, 3}, Status: Running, Tries: tries, MaxAttempts: max},
		Retry:     RetryPolicy{MaxRetries: max - 1, Backoff: Fixed, InitialDelay: 10 * time.Second, MaxDelay: time.Minute},
		JobState:  Active,
	}
}

func TestDecide(t *testing.T) {
	failure := Outcome{Status: OutcomeFailed, Retryable: true, Error: &Error{Type: HTTPError}}
	timeout := Outcome{Status: OutcomeFailed, Retryable: true, Error: &Error{Type: TimeoutError}}
	final := failure
	final.Retryable = false
	asked := failure
	asked.RetryAfter = time.Hour
	cancelling := held(0, 3)
	cancelling.Status = Cancelling
	deleted := held(0, 3)
	deleted.JobState = Deleted
	for _, c := range []struct {
		name  string
		h     Held
		o     Outcome
		move  Move
		want  Status
		tries int
	}{
		{"success", held(0, 3), Outcome{Status: OutcomeSucceeded}, Done, Succeeded, 0},
		{"success after a failure", held(1, 3), Outcome{Status: OutcomeSucceeded}, Done, Succeeded, 1},
		{"success with nothing known but the lease", Held{Execution: Execution{Status: Running}}, Outcome{Status: OutcomeSucceeded}, Done, Succeeded, 0},
		{"the worker stopped it", held(0, 3), Outcome{Status: OutcomeCancelled}, Stopped, Cancelled, 0},
		{"the worker found nothing to do", held(1, 3), Outcome{Status: OutcomeSkipped}, Skip, Skipped, 1},
		{"a cancelled one may be skipped", cancelling, Outcome{Status: OutcomeSkipped}, Skip, Skipped, 0},
		{"first failure", held(0, 3), failure, Again, Retrying, 1},
		{"last failure", held(2, 3), failure, Died, Failed, 3},
		{"no retries", held(0, 1), failure, Died, Failed, 1},
		{"never again", held(0, 3), final, Died, Failed, 1},
		{"a timeout is tried again", held(0, 3), timeout, Again, Retrying, 1},
		{"the last timeout", held(2, 3), timeout, Late, TimedOut, 3},
		{"a cancelled one is not tried again", cancelling, failure, Died, Failed, 1},
		{"a cancelled one may succeed", cancelling, Outcome{Status: OutcomeSucceeded}, Done, Succeeded, 0},
		{"a deleted job's is not tried again", deleted, failure, Died, Failed, 1},
		{"the target says when", held(0, 3), asked, Again, Retrying, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Decide(c.h, c.o, at)
			if got.Move != c.move || got.Status != c.want || got.Tries != c.tries {
				t.Errorf("got %v to %v with %d tries, want %v to %v with %d", got.Move, got.Status, got.Tries, c.move, c.want, c.tries)
			}
			if got.Status.Final() != got.DueAt.IsZero() {
				t.Errorf("%v with the next attempt at %v", got.Status, got.DueAt)
			}
		})
	}
	if got := Decide(held(0, 3), asked, at).DueAt; !got.Equal(at.Add(time.Hour)) {
		t.Errorf("asked for an hour, got %v", got.Sub(at))
	}
}

func TestTheTotalTimeoutIsNamed(t *testing.T) {
	failure := Outcome{Status: OutcomeFailed, Retryable: true, Error: &Error{Type: HandlerError, Message: "no luck"}}
	h := held(0, 3)
	h.StartedAt, h.Total = at.Add(-time.Second), 4*time.Second
	for range 2 { // a decision is made again where its answer was lost
		then := Decide(h, failure, at)
		got := h.Explain(failure, then)
		if then.Status != TimedOut || got.Type != HandlerError || got.Message != "no luck; the next try would come after the total timeout of 4s" {
			t.Errorf("%v: %v", then.Status, got)
		}
	}
	silent := failure
	silent.Error = &Error{Type: HandlerError}
	if got := h.Explain(silent, Decide(h, silent, at)); got.Message != "the next try would come after the total timeout of 4s" {
		t.Errorf("without a message: %v", got)
	}
	snoozed := Outcome{Status: OutcomeSnoozed, RetryAfter: time.Minute}
	if got := h.Explain(snoozed, Decide(h, snoozed, at)); got == nil || got.Type != TimeoutError {
		t.Errorf("snoozed: %v", got)
	}
	h.Total = 0
	if got := h.Explain(failure, Decide(h, failure, at)); got != failure.Error {
		t.Errorf("with time left: %v", got)
	}
	h.Total, h.Tries = 4*time.Second, 2 // it was the last anyway
	if got := h.Explain(failure, Decide(h, failure, at)); got != failure.Error {
		t.Errorf("without attempts left: %v", got)
	}
	if got := h.Explain(Outcome{Status: OutcomeSucceeded}, Decide(h, Outcome{Status: OutcomeSucceeded}, at)); got != nil {
		t.Errorf("a success: %v", got)
	}
}

// Whatever is reported of whatever is held, the decision is a legal move, and at
// most MaxAttempts failures are charged before the end.
func TestDecideStaysInTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := held(0, rapid.IntRange(1, 6).Draw(t, "max"))
		now := at
		for step := 0; ; step++ {
			if step > 10 {
				t.Fatal("it does not end")
			}
			if rapid.Bool().Draw(t, "cancel") {
				h.Status = Cancelling
			}
			o := Outcome{
				Status:     rapid.SampledFrom([]OutcomeStatus{OutcomeSucceeded, OutcomeFailed, OutcomeFailed, OutcomeFailed, OutcomeCancelled}).Draw(t, "status"),
				Retryable:  rapid.Bool().Draw(t, "retryable"),
				RetryAfter: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "asked")),
			}
			if rapid.Bool().Draw(t, "timeout") {
				o.Error = &Error{Type: TimeoutError}
			}
			got := Decide(h, o, now)
			if want, ok := Apply(h.Status, got.Move, got.Tries); !ok || want != got.Status {
				t.Fatalf("%v by %v: the table says %v, %v; decided %v", h.Status, got.Move, want, ok, got.Status)
			}
			if got.Tries > h.MaxAttempts {
				t.Fatalf("%d tries of %d", got.Tries, h.MaxAttempts)
			}
			if got.Status.Final() {
				return
			}
			if got.DueAt.Before(now) {
				t.Fatalf("the next attempt is due before now")
			}
			now = got.DueAt
			h.Status, h.Tries = Running, got.Tries
		}
	})
}

// What the store overruled came to what it says, and anything else to what was decided.
func TestCame(t *testing.T) {
	f := Finish{Then: Transition{Move: Again, Status: Retrying, DueAt: time.Unix(9, 0), Tries: 2}}
	for _, c := range []struct {
		ended Status
		want  Transition
	}{
		{0, f.Then},
		{Failed, Transition{Move: Died, Status: Failed, Tries: 2}},
		{TimedOut, Transition{Move: Late, Status: TimedOut, Tries: 2}},
		{Cancelled, Transition{Move: Stopped, Status: Cancelled, Tries: 2}},
		{Expired, Transition{Move: Expire, Status: Expired, Tries: 2}},
	} {
		if got := f.Came(&Verdict{Accepted: true, Ended: c.ended}); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.ended, got, c.want)
		}
	}
}

func TestDelay(t *testing.T) {
	id := ExecutionID{9}
	for _, c := range []struct {
		p    RetryPolicy
		n    int
		want time.Duration // before jitter and cap
	}{
		{RetryPolicy{Backoff: Fixed, InitialDelay: time.Second, MaxDelay: time.Hour}, 5, time.Second},
		{RetryPolicy{Backoff: Linear, InitialDelay: time.Second, MaxDelay: time.Hour}, 5, 5 * time.Second},
		{RetryPolicy{Backoff: Exponential, InitialDelay: time.Second, MaxDelay: time.Hour}, 1, time.Second},
		{RetryPolicy{Backoff: Exponential, InitialDelay: time.Second, MaxDelay: time.Hour}, 5, 16 * time.Second},
	} {
		got := c.p.Delay(id, c.n, 0)
		if got < c.want*3/4 || got > c.want*5/4 {
			t.Errorf("%s after %d: %v, want %v ± 25 %%", c.p.Backoff, c.n, got, c.want)
		}
		if again := c.p.Delay(id, c.n, 0); again != got {
			t.Errorf("%s after %d: %v, then %v", c.p.Backoff, c.n, got, again)
		}
	}
	capped := RetryPolicy{Backoff: Exponential, InitialDelay: time.Second, MaxDelay: time.Minute}
	if got := capped.Delay(id, 90, 0); got != time.Minute {
		t.Errorf("capped: %v", got)
	}
	if got := capped.Delay(id, 1, time.Hour); got != time.Hour {
		t.Errorf("the target's wish beats the cap: %v", got)
	}
	if got := capped.Delay(id, 1, 100*24*time.Hour); got != MaxRetryDelay {
		t.Errorf("no wish beats the bound: %v", got)
	}
	if got := (RetryPolicy{Backoff: Exponential, InitialDelay: 24 * time.Hour}).Delay(id, 80, 0); got != MaxRetryDelay {
		t.Errorf("without a cap: %v", got)
	}
}

// Jitter spreads over the whole range, so that a herd of failures does not come back as a herd.
func TestDelaySpreads(t *testing.T) {
	p := RetryPolicy{Backoff: Fixed, InitialDelay: 100 * time.Second, MaxDelay: time.Hour}
	var buckets [10]int
	const n = 10_000
	for i := range n {
		id := ExecutionID{14: byte(i >> 8), 15: byte(i)}
		d := p.Delay(id, 1, 0) - 75*time.Second
		buckets[min(9, int(d/(5*time.Second)))]++
	}
	for i, got := range buckets {
		if got < n/20 || got > n/5 {
			t.Errorf("tenth %d holds %d of %d: %v", i, got, n, buckets)
		}
	}
}

// What dies is redriven by itself once: what was redriven and dies again waits for a person.
func TestAutoRedriveIsOnce(t *testing.T) {
	for trigger, want := range map[Trigger]time.Time{BySchedule: at.Add(time.Hour), ByHand: at.Add(time.Hour), ByRedrive: {}} {
		h := held(2, 3)
		h.Trigger, h.AutoRedrive = trigger, time.Hour
		if got := Decide(h, Outcome{Status: OutcomeFailed, Retryable: true}, at); got.Status != Failed || !got.RedriveAt.Equal(want) {
			t.Errorf("triggered by %v: %v, redriven at %v, want %v", trigger, got.Status, got.RedriveAt, want)
		}
	}
}
