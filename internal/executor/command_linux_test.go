package executor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/command"
	"github.com/carillon-jobs/carillon/worker"
)

func TestCommandsAreJudged(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "carillon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o711); err != nil {
		t.Fatal(err)
	}
	r, err := command.New(command.Config{Folder: filepath.Join(base, "c"), User: "nobody", MaxOutput: 1000, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	x := New(Config{Commands: r})
	run := func(ctx context.Context, args ...string) client.Outcome {
		return x.Execute(ctx, attempt(client.Target{Target: "command", Command: args}))
	}
	for _, tt := range []struct {
		script string
		kind   string
		retry  bool
		says   string
		result string
	}{
		{`echo '{"n":1}' > $CARILLON_RESULT`, "", false, "", "{\"n\":1}\n"},
		{"echo one >&2; echo broken >&2; exit 7", typeExit, true, "exit code 7; standard error ends with: one | broken", ""},
		{"kill -KILL $$", typeExit, true, "SIGKILL", ""},
		{`mkdir $CARILLON_RESULT`, typeHandler, false, "not a plain file", ""},
	} {
		o := run(t.Context(), "sh", "-c", tt.script)
		check(t, o, tt.kind, tt.retry)
		if tt.says != "" && !strings.Contains(o.Error.Message, tt.says) || string(o.Result) != tt.result {
			t.Errorf("%s: %+v %s", tt.script, o.Error, o.Result)
		}
	}
	o := run(t.Context(), "no-such-program")
	check(t, o, typeHandler, false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check(t, run(ctx, "sleep", "60"), typeTimeout, true)
	cancelled, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { stop(worker.ErrCancelled) })
	check(t, run(cancelled, "sleep", "60"), typeCancelled, false)
	lost, lose := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { lose(worker.ErrLeaseLost) })
	check(t, run(lost, "sleep", "60"), typeLeaseLost, true)
	check(t, New(Config{}).Execute(t.Context(), attempt(client.Target{Target: "command", Command: []string{"true"}})), typeInternal, false)
}

func TestEveryKindOfSimulatedWorkIsTheSameForTheSameInput(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"noop", "sleep", "fail", "fail_permanent", "flaky", "cancel", "random"} {
		for number := range 3 {
			a := attempt(client.Target{Target: "simulate", WorkKind: kind, DurationMS: 1})
			a.AttemptNumber, a.Payload = number+1, []byte(`{"n": 91}`)
			one, two := simulate(t.Context(), a), simulate(t.Context(), a)
			if one.Status != two.Status || one.Retryable != two.Retryable || string(one.Result) != string(two.Result) {
				t.Errorf("%s %d: %+v, then %+v", kind, number, one, two)
			}
		}
	}
}
