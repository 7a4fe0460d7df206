package executor

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

const maxRandomWork = 2 * time.Second

// simulate pretends to do the attempt's kind of work. Its behaviour depends only on the attempt, so that a demo or a
// test can be repeated. In particular, work of the kind "random" ends alike on every attempt with the same payload:
// its retries fail as its first attempt did.
func simulate(ctx context.Context, a client.Attempt) client.Outcome {
	kind := a.Execution.WorkKind
	switch kind {
	case "noop":
		return succeeded()
	case "hang":
		<-ctx.Done()
		return ended(ctx, a)
	}
	takes := time.Duration(a.Execution.DurationMS) * time.Millisecond
	outcome := done(kind)
	switch kind {
	case "sleep":
	case "fail":
		outcome = failed(typeHandler, true, "the simulated work failed, as it was told to")
	case "fail_permanent":
		outcome = failed(typeHandler, false, "the simulated work failed for good, as it was told to")
	case "flaky":
		if n := max(a.Execution.FailAttempts, 1); a.AttemptNumber <= n {
			outcome = failed(typeHandler, true, fmt.Sprintf("the simulated work failed, as it was told to in its first %d attempts", n))
		}
	case "cancel":
		outcome = cancelled("the simulated work cancelled itself, as it was told to")
	case "random":
		more, o := random(a.Payload)
		takes, outcome = takes+more, o
	default:
		return failed(typeInternal, false, fmt.Sprintf("this worker knows no work_kind %q", excerpt(kind)))
	}
	wait := pause
	if kind == "sleep" {
		wait = sleep
	}
	if !wait(ctx, takes) {
		return ended(ctx, a)
	}
	return outcome
}

// sleep pauses, and reports progress: twenty times, or each second if that is less often.
func sleep(ctx context.Context, d time.Duration) bool {
	step := max(time.Second, d/20)
	for done := time.Duration(0); done < d; done += step {
		if done > 0 {
			worker.Progress(ctx, int(100*done/d), "sleeping")
		}
		if !pause(ctx, min(step, d-done)) {
			return false
		}
	}
	return ctx.Err() == nil
}

func done(kind string) client.Outcome {
	o := succeeded()
	o.Result, _ = json.Marshal(map[string]string{"work_kind": kind}) // strings always marshal
	return o
}

// random derives up to two seconds and an outcome from the payload's SHA-256: 80 of 100 succeed, 15 fail with a
// retryable error, 5 fail for good.
func random(payload []byte) (time.Duration, client.Outcome) {
	sum := sha256.Sum256(payload)
	takes := time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(maxRandomWork/time.Millisecond+1)) * time.Millisecond
	switch n := binary.BigEndian.Uint64(sum[8:16]) % 100; {
	case n < 80:
		return takes, done("random")
	case n < 95:
		return takes, failed(typeHandler, true, "the simulated work failed, as the hash of its payload says")
	default:
		return takes, failed(typeHandler, false, "the simulated work failed for good, as the hash of its payload says")
	}
}

// pause waits, and reports whether the context outlived the wait.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
