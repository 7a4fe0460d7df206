package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

// stopwatch tells the time since it was started, by the clock of the bubble it is in.
func stopwatch() func() time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	end, _ := ctx.Deadline()
	cancel()
	return func() time.Duration { return 24*time.Hour - time.Until(end) }
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target  client.Target
		attempt int
		kind    string
		retry   bool
		result  string
		takes   time.Duration
	}{
		{client.Target{WorkKind: "noop", DurationMS: 5000}, 1, "", false, "", 0},
		{client.Target{WorkKind: "sleep"}, 1, "", false, `{"work_kind":"sleep"}`, 0},
		{client.Target{WorkKind: "sleep", DurationMS: 1500}, 1, "", false, `{"work_kind":"sleep"}`, 1500 * time.Millisecond},
		{client.Target{WorkKind: "sleep", DurationMS: -1}, 1, "", false, `{"work_kind":"sleep"}`, 0},
		{client.Target{WorkKind: "fail", DurationMS: 20}, 1, typeHandler, true, "", 20 * time.Millisecond},
		{client.Target{WorkKind: "fail_permanent", DurationMS: 20}, 9, typeHandler, false, "", 20 * time.Millisecond},
		{client.Target{WorkKind: "flaky"}, 1, typeHandler, true, "", 0},
		{client.Target{WorkKind: "flaky"}, 2, "", false, `{"work_kind":"flaky"}`, 0},
		{client.Target{WorkKind: "flaky", FailAttempts: 3, DurationMS: 10}, 3, typeHandler, true, "", 10 * time.Millisecond},
		{client.Target{WorkKind: "flaky", FailAttempts: 3, DurationMS: 10}, 4, "", false, `{"work_kind":"flaky"}`, 10 * time.Millisecond},
		{client.Target{WorkKind: "cancel", DurationMS: 10}, 1, typeCancelled, false, "", 10 * time.Millisecond},
		{client.Target{WorkKind: "hang", DurationMS: 10}, 1, typeTimeout, true, "", time.Minute},
		{client.Target{WorkKind: "sleep", DurationMS: 61_000}, 1, typeTimeout, true, "", time.Minute},
		{client.Target{WorkKind: "dance", DurationMS: 10}, 1, typeInternal, false, "", 0},
		{client.Target{}, 1, typeInternal, false, "", 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %d", tt.target.WorkKind, tt.attempt), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				tt.target.Target = "simulate"
				a := attempt(tt.target)
				a.AttemptNumber = tt.attempt
				elapsed := stopwatch()
				o := New(Config{}).Execute(ctx, a)
				check(t, o, tt.kind, tt.retry)
				if string(o.Result) != tt.result {
					t.Errorf("got result %s, want %s", o.Result, tt.result)
				}
				if took := elapsed(); took != tt.takes {
					t.Errorf("took %s, want %s", took, tt.takes)
				}
			})
		})
	}
}

func TestSimulatedWorkStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hang", "sleep", "fail", "flaky", "random"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			elapsed := stopwatch()
			time.AfterFunc(time.Second, func() { cancel(worker.ErrCancelled) })
			o := New(Config{}).Execute(ctx, attempt(client.Target{Target: "simulate", WorkKind: kind, DurationMS: 3_600_000}))
			check(t, o, typeCancelled, false)
			if took := elapsed(); took != time.Second {
				t.Errorf("%s: took %s, want 1s", kind, took)
			}
		})
	}
}

func TestRandomDependsOnThePayloadOnly(t *testing.T) {
	t.Parallel()
	const n = 4000
	counts := map[string]int{}
	durations := map[time.Duration]bool{}
	for i := range n {
		payload := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
		takes, o := random(payload)
		again, p := random(payload)
		if takes != again || o.Status != p.Status || o.Retryable != p.Retryable {
			t.Fatalf("payload %s: got %s %s, then %s %s", payload, takes, o.Status, again, p.Status)
		}
		if takes < 0 || takes > maxRandomWork {
			t.Fatalf("payload %s takes %s", payload, takes)
		}
		durations[takes] = true
		counts[fmt.Sprintf("%s %t", o.Status, o.Retryable)]++
	}
	for outcome, share := range map[string]float64{"SUCCEEDED false": 0.80, "FAILED true": 0.15, "FAILED false": 0.05} {
		if got := float64(counts[outcome]) / n; got < share-0.02 || got > share+0.02 {
			t.Errorf("%s: got a share of %.3f, want about %.2f", outcome, got, share)
		}
	}
	if len(durations) < 1000 {
		t.Errorf("got %d different durations", len(durations))
	}
	synctest.Test(t, func(t *testing.T) {
		a := attempt(client.Target{Target: "simulate", WorkKind: "random", DurationMS: 100})
		more, _ := random(nil)
		elapsed := stopwatch()
		New(Config{}).Execute(t.Context(), a)
		if took := elapsed(); took != 100*time.Millisecond+more {
			t.Errorf("took %s, want %s", took, 100*time.Millisecond+more)
		}
	})
}

func TestSleepEndsOnTimeWhateverItReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{0, time.Millisecond, time.Second, 1500 * time.Millisecond, time.Hour} {
			began := time.Now()
			if !sleep(t.Context(), d) || time.Since(began) != d {
				t.Errorf("%v took %v", d, time.Since(began))
			}
		}
	})
}
