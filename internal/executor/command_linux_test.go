package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	for _, tt := range []struct {
		cause error
		kind  string
		retry bool
	}{{context.DeadlineExceeded, typeTimeout, true}, {worker.ErrCancelled, typeCancelled, false}, {worker.ErrLeaseLost, typeLeaseLost, true}} {
		check(t, stopped(t, run, tt.cause), tt.kind, tt.retry)
	}
	check(t, New(Config{}).Execute(t.Context(), attempt(client.Target{Target: "command", Command: []string{"true"}})), typeInternal, false)
}

// stopped runs a command whose context ends when it has begun, which it says through a pipe.
func stopped(t *testing.T, run func(context.Context, ...string) client.Outcome, cause error) client.Outcome {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pipe := filepath.Join(dir, "begun")
	if err := errors.Join(os.Chmod(dir, 0o711), syscall.Mkfifo(pipe, 0o666), os.Chmod(pipe, 0o666)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	go func() {
		f, err := os.Open(pipe) // waits for who writes
		stop(cause)
		if err == nil {
			f.Close()
		}
	}()
	return run(ctx, "sh", "-c", "trap '' PIPE; echo >"+pipe+"; exec sleep 60")
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
