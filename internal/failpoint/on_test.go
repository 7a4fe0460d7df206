//go:build failpoint && unix

package failpoint

import (
	"errors"
	"testing"
	"time"
)

func TestHit(t *testing.T) {
	if err := Arm("api.beforeTx=error@2-3;claim.beforeCommit=commitThenError@1;api.afterCommitBeforeReply=stop(300ms);api.beforeCommit=sleep(50ms)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Arm("") })
	for name, want := range map[string]bool{"api.beforeTx": true, "claim.afterCommitBeforeReply": false, "workflow.beforeCommit": false} {
		if got := Set("migrate.midStep", name); got != want {
			t.Errorf("something is to happen at %s: %v", name, got)
		}
	}
	for i, fails := range []bool{false, true, true, false} {
		if err := Hit("api.beforeTx"); errors.Is(err, ErrInjected) != fails {
			t.Errorf("hit %d: %v", i+1, err)
		}
	}
	for i, fails := range []bool{true, false} {
		if err := Hit("claim.beforeCommit"); err != nil {
			t.Errorf("before the commit: %v", err)
		}
		if err := Hit("claim.afterCommitBeforeReply"); errors.Is(err, ErrInjected) != fails {
			t.Errorf("commit %d: %v", i+1, err)
		}
	}
	for name, least := range map[string]time.Duration{"api.afterCommitBeforeReply": 250 * time.Millisecond, "api.beforeCommit": 50 * time.Millisecond} {
		began := time.Now()
		if err := Hit(name); err != nil || time.Since(began) < least {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
	}
	if err := Arm("nonsense"); err == nil {
		t.Error("nonsense was taken")
	}
}
