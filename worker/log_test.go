package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// shelf keeps the lines that a server is sent, as a server does: in order, each once.
type shelf struct {
	mu    sync.Mutex
	lines []client.LogLine
	calls int
	most  int                          // bytes of one request
	fail  func(call int) (error, bool) // what a call answers; true: after it has happened
}

func (s *shelf) take(r client.LogRequest) (client.LogAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var err error
	if s.fail != nil {
		var after bool
		if err, after = s.fail(s.calls); err != nil && !after {
			return client.LogAnswer{}, err
		}
	}
	if *r.Offset > len(s.lines) {
		return client.LogAnswer{}, &client.Problem{Status: 422, Code: "invalid", Detail: "lines are missing"}
	}
	size := 0
	for _, l := range r.Lines {
		size += len(l.Text)
	}
	s.most = max(s.most, size)
	s.lines = append(s.lines, r.Lines[min(len(r.Lines), len(s.lines)-*r.Offset):]...)
	return client.LogAnswer{Lines: len(s.lines)}, err
}

func (s *shelf) texts() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		out = append(out, l.Text)
	}
	return out
}

// logged runs one attempt that logs, and waits for its outcome.
func logged(t *testing.T, s *shelf, f func(ctx context.Context)) (o client.Outcome, reported bool, before int) {
	t.Helper()
	srv := newServer(1)
	srv.logs = s.take
	srv.refuse = func([]client.Outcome) error { before = len(s.texts()); return nil }
	stop := start(srv, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
		f(ctx)
		return client.Outcome{Status: client.Succeeded}
	}), Config{Drain: time.Second})
	<-time.After(3 * time.Minute)
	stop()
	o, reported = srv.outcomes["0"]
	return o, reported, before
}

func TestEveryLineArrivesBeforeTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		s.fail = func(call int) (error, bool) { // one call of five is lost, every other time after it was taken
			if call%5 == 0 {
				return errors.New("lost"), call%2 == 0
			}
			return nil, false
		}
		const n = 50_000
		_, _, before := logged(t, &s, func(ctx context.Context) {
			for i := range n {
				Log(ctx, Stdout, fmt.Sprint("line ", i))
			}
		})
		got := s.texts()
		if len(got) != n || before != n {
			t.Fatalf("%d lines, %d of them before the outcome", len(got), before)
		}
		for i, text := range got {
			if text != fmt.Sprint("line ", i) {
				t.Fatalf("line %d is %q", i, text)
			}
		}
		if s.most > logBatch {
			t.Errorf("%d bytes at once", s.most)
		}
	})
}

func TestASlowServerHoldsTheWriterUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, s := newServer(1), &shelf{}
		srv.logs = func(r client.LogRequest) (client.LogAnswer, error) {
			<-time.After(time.Second)
			return s.take(r)
		}
		var wrote atomic.Int64
		stop := start(srv, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			for range 400 { // four megabytes
				Log(ctx, Stdout, strings.Repeat("x", 10<<10))
				wrote.Add(1)
			}
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(500 * time.Millisecond)
		if most := int64(maxOnWay/(10<<10) + 1); wrote.Load() > most {
			t.Errorf("%d lines are on their way, want at most %d", wrote.Load(), most)
		}
		<-time.After(2 * time.Minute)
		stop()
		if got := s.texts(); len(got) != 400 || len(slices.Compact(got)) != 1 {
			t.Errorf("%d lines", len(got))
		}
	})
}

func TestWhatTheServerNeverTakesIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		away := true
		s.fail = func(int) (error, bool) {
			if away {
				return errors.New("away"), false
			}
			return nil, false
		}
		var took time.Duration
		logged(t, &s, func(ctx context.Context) {
			began := time.Now()
			for range 300 {
				Log(ctx, Stdout, strings.Repeat("x", 10<<10))
			}
			took = time.Since(began)
			s.mu.Lock()
			away = false
			s.mu.Unlock()
			<-time.After(10 * time.Second)
			Log(ctx, Stdout, "after")
		})
		got := s.texts()
		n := len(got)
		if took != logWait || n < 50 || n > maxOnWay/(10<<10)+3 || got[n-1] != "after" || got[n-2] != fmt.Sprintf("… %d lines dropped: the server did not take them in time", 300-(n-2)) || s.lines[n-2].Stream != System {
			t.Errorf("after %v: %d lines, the last %.60q, %.60q", took, n, got[n-2], got[n-1])
		}
	})
}

func TestAServerThatIsAwayDoesNotHoldTheOutcomeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{fail: func(int) (error, bool) { return errors.New("away"), false }}
		if _, reported, _ := logged(t, &s, func(ctx context.Context) { Log(ctx, Stdout, "x") }); !reported {
			t.Error("there is no outcome")
		}
	})
}

func TestAStaleTokenEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{fail: func(int) (error, bool) {
			return &client.Problem{Status: 409, Code: client.CodeStaleToken}, false
		}}
		var cause error
		_, reported, _ := logged(t, &s, func(ctx context.Context) {
			Log(ctx, Stdout, "x")
			<-ctx.Done()
			cause = context.Cause(ctx)
			Log(ctx, Stdout, "y")
		})
		if !errors.Is(cause, ErrLeaseLost) || reported || s.calls != 1 {
			t.Errorf("%v, reported %v, %d calls", cause, reported, s.calls)
		}
	})
}

func TestALogThatIsCutIsNotSentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, calls := newServer(1), 0
		srv.logs = func(r client.LogRequest) (client.LogAnswer, error) {
			calls++
			return client.LogAnswer{Lines: 5, Cut: true}, nil
		}
		stop := start(srv, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			for range 100 {
				Log(ctx, Stdout, strings.Repeat("x", 10<<10))
				<-time.After(time.Second)
			}
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(3 * time.Minute)
		stop()
		if calls != 1 || len(srv.outcomes) != 1 {
			t.Errorf("%d calls, %d outcomes", calls, len(srv.outcomes))
		}
	})
}

func TestLinesComeSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		logged(t, &s, func(ctx context.Context) {
			for range 10 {
				Log(ctx, Stdout, "x")
			}
			<-time.After(logDelay + time.Millisecond)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.lines) != 10 || s.calls != 1 {
				t.Errorf("%d lines in %d calls", len(s.lines), s.calls)
			}
		})
	})
}

func TestWritersAndLoggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		logged(t, &s, func(ctx context.Context) {
			w := LogWriter(ctx, Stderr)
			for _, part := range []string{"a", "b\nc\r\n", "\n", "é", strings.Repeat("é", maxLine), "\nno end"} {
				if n, err := io.WriteString(w, part); n != len(part) || err != nil {
					t.Error(n, err)
				}
			}
			Log(ctx, Stdout, "two\nlines\n")
			Logger(ctx).Info("hello", "n", 1)
		})
		var all strings.Builder
		for _, l := range s.lines {
			if len(l.Text) > maxLine || l.At.IsZero() {
				t.Errorf("%d bytes at %v", len(l.Text), l.At)
			}
			fmt.Fprintf(&all, "%s %.12s|", l.Stream, l.Text)
		}
		want := "stderr ab|stderr c|stderr |stderr éééééééééééé|stderr éééééééééééé|stderr ééé|stdout two|stdout lines|log level=INFO m|stderr no end|"
		if got := all.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	Log(t.Context(), Stdout, "of nothing")
	if w := LogWriter(t.Context(), Stdout); w != io.Discard {
		t.Error("a writer of nothing")
	}
	Logger(t.Context()).Info("of nothing")
}

// A server that answers after the attempt's end has given up on its log does no harm.
func TestALogThatIsTakenTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, s := newServer(1), &shelf{}
		srv.logs = func(r client.LogRequest) (client.LogAnswer, error) {
			<-time.After(logFlush + 5*time.Second)
			return s.take(r)
		}
		stop := start(srv, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			Log(ctx, Stdout, "x")
			return client.Outcome{Status: client.Succeeded}
		}), Config{})
		<-time.After(time.Minute)
		stop()
		if len(srv.outcomes) != 1 || len(s.texts()) != 1 {
			t.Errorf("%d outcomes, %d lines", len(srv.outcomes), len(s.texts()))
		}
	})
}

// However many attempts write at once, what the server has not taken is bounded.
func TestLogsOfAPoolAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const attempts, line = 100, 10 << 10
		srv, away := newServer(attempts), make(chan struct{})
		srv.logs = func(r client.LogRequest) (client.LogAnswer, error) {
			<-away
			return client.LogAnswer{Lines: *r.Offset + len(r.Lines)}, nil
		}
		var wrote atomic.Int64
		stop := start(srv, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			for range 2 << 20 / line {
				Log(ctx, Stdout, strings.Repeat("x", line))
				wrote.Add(line)
			}
			return client.Outcome{Status: client.Succeeded}
		}), Config{Slots: attempts})
		<-time.After(logWait / 2)
		if n := wrote.Load(); n < poolOnWay*9/10 || n > poolOnWay+attempts*line {
			t.Errorf("%d bytes are on their way, want about %d", n, poolOnWay)
		}
		close(away)
		<-time.After(time.Minute)
		if n := wrote.Load(); n != attempts*(2<<20/line*line) || len(srv.outcomes) != attempts {
			t.Errorf("%d bytes, %d outcomes", n, len(srv.outcomes))
		}
		stop()
	})
}

// A logger for each line is no more than a line.
func TestWritersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		logged(t, &s, func(ctx context.Context) {
			for range 10 {
				Logger(ctx).Info("x")
			}
			if n := len(bookOf(ctx).writers); n != 0 {
				t.Errorf("%d writers are remembered", n)
			}
		})
	})
}
