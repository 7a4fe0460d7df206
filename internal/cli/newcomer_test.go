package cli

import (
	"strings"
	"testing"
)

// A notification rule whose URL may no longer be called shows it, the doctor names it, and it is not kept again.
func TestABlockedNotificationRule(t *testing.T) {
	c := at(t, "--server", devServer(t))
	set := []string{"notification", "set", "oncall", "--event", "failed", "--to", "http://127.0.0.1:1/x"}
	c.ok(set...)
	if out := c.ok("notification", "get", "oncall"); strings.Contains(out, "Blocked") {
		t.Errorf("blocked from the start:\n%s", out)
	}
	c.ok("tenant", "quota", "default", "--https-only")
	if out := c.ok("notification", "get", "oncall"); !strings.Contains(out, "callbacks_https_only") {
		t.Errorf("get does not say that it is blocked:\n%s", out)
	}
	if out := c.ok("notification", "list"); !strings.Contains(out, "BLOCKED") || !strings.Contains(out, "yes") {
		t.Errorf("list does not say that it is blocked:\n%s", out)
	}
	c.fails(failed, "there are problems", "doctor", "--data", t.TempDir())
	if !strings.Contains(c.out, "the rule oncall may not call http://127.0.0.1:1/x") {
		t.Errorf("the doctor says nothing of it:\n%s", c.out)
	}
	c.fails(misuse, "callbacks_https_only", set...)
	c.fails(runFailed, "BLOCKED_ADDRESS", "notification", "test", "oncall", "--wait")
	c.ok(append(set, "--silence-until", "+2h")...)
}
