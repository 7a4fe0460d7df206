package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// logStore keeps logs in memory; every lease but those of stale is held.
type logStore struct {
	Store
	mu    sync.Mutex
	heads map[job.Lease]job.LogHead
	lines map[job.Lease][]string
	stale map[job.Lease]bool
	calls int
	fail  error // of the next call, after it has happened
}

func (s *logStore) AppendLogs(_ context.Context, as []engine.LogAppend) ([]engine.LogAppended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	out := make([]engine.LogAppended, len(as))
	for i, a := range as {
		h := s.heads[a.Lease]
		out[i] = engine.LogAppended{Held: !s.stale[a.Lease], Head: h}
		if !out[i].Held || a.From != h.Lines {
			continue
		}
		lines, err := engine.DecodeLog(a.Data)
		if err != nil || len(lines) != a.To.Lines-h.Lines {
			return nil, fmt.Errorf("a chunk of %d lines from %+v to %+v: %w", len(lines), h, a.To, err)
		}
		for _, l := range lines {
			s.lines[a.Lease] = append(s.lines[a.Lease], l.Text)
		}
		s.heads[a.Lease], out[i].Stored, out[i].Head = a.To, true, a.To
	}
	err := s.fail
	s.fail = nil
	return out, err
}

func numbered(from, to int) (lines []job.LogLine, texts []string) {
	for i := from; i < to; i++ {
		lines, texts = append(lines, job.LogLine{Stream: job.LogStdout, Text: fmt.Sprint(i)}), append(texts, fmt.Sprint(i))
	}
	return lines, texts
}

func TestLog(t *testing.T) {
	s := &logStore{heads: map[job.Lease]job.LogHead{}, lines: map[job.Lease][]string{}, stale: map[job.Lease]bool{}}
	open := func() *Dispatcher { return New(s, clock.System{}, slog.New(slog.DiscardHandler), Config{}) }
	d := open()
	var w job.WorkerID
	x := job.Lease{Execution: job.ExecutionID{1}, Token: 7}
	put := func(d *Dispatcher, offset, from, to int) (job.LogHead, error) {
		lines, _ := numbered(from, to)
		return d.Log(t.Context(), w, Lines{Lease: x, Offset: offset, Lines: lines})
	}
	want := func(n int) {
		t.Helper()
		if _, texts := numbered(0, n); !slices.Equal(s.lines[x], texts) {
			t.Fatalf("kept %q, want %d lines", s.lines[x], n)
		}
	}
	changed, stop := d.Watch(x.Execution)
	defer stop()
	if h, err := put(d, 0, 0, 5); err != nil || h.Lines != 5 {
		t.Fatal(h, err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if h, err := put(d, 3, 3, 8); err != nil || h.Lines != 8 { // some of it again
		t.Fatal(h, err)
	}
	if h, err := put(open(), 8, 8, 10); err != nil || h.Lines != 10 { // at a server that knows nothing of it
		t.Fatal(h, err)
	}
	if h, err := put(d, 0, 0, 10); err != nil || h.Lines != 10 { // all of it again
		t.Fatal(h, err)
	}
	if h, err := put(d, AtEnd, 10, 12); err != nil || h.Lines != 12 {
		t.Fatal(h, err)
	}
	if h, err := put(open(), AtEnd, 12, 13); err != nil || h.Lines != 13 {
		t.Fatal(h, err)
	}
	var ahead *Ahead
	if _, err := put(d, 20, 20, 21); !errors.As(err, &ahead) || ahead.Have != 13 {
		t.Fatal(err)
	}
	s.fail = fmt.Errorf("lost: %w", engine.ErrUnavailable)
	if _, err := put(d, 13, 13, 20); !errors.Is(err, engine.ErrUnavailable) {
		t.Fatal(err)
	}
	if h, err := put(d, 13, 13, 20); err != nil || h.Lines != 20 { // the answer was lost, the lines were not
		t.Fatal(h, err)
	}
	want(20)
	before := s.calls
	if _, err := put(d, 20, 20, 4000); err != nil {
		t.Fatal(err)
	}
	want(4000)
	if n := s.calls - before; n > 3 {
		t.Errorf("%d chunks", n)
	}
	if _, err := put(d, 4000, 4000, 4000); err != nil { // nothing
		t.Error(err)
	}
	s.stale[x] = true
	if _, err := put(d, 4000, 4000, 4001); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
	if _, err := put(d, 4000, 4000, 4000); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
	want(4000)
}

func TestLogIsCutOnce(t *testing.T) {
	s := &logStore{heads: map[job.Lease]job.LogHead{}, lines: map[job.Lease][]string{}}
	d := New(s, clock.System{}, slog.New(slog.DiscardHandler), Config{})
	x := job.Lease{Execution: job.ExecutionID{1}, Token: 7}
	s.heads[x] = job.LogHead{Lines: job.MaxLogLines - 2}
	lines, _ := numbered(0, 10)
	for range 3 {
		h, err := d.Log(t.Context(), job.WorkerID{}, Lines{Lease: x, Offset: job.MaxLogLines - 2, Lines: lines})
		if err != nil || !h.Cut || len(s.lines[x]) != 3 {
			t.Errorf("%+v, %v, kept %q", h, err, s.lines[x])
		}
	}
}

func TestManyLogAtOnce(t *testing.T) {
	s := &logStore{heads: map[job.Lease]job.LogHead{}, lines: map[job.Lease][]string{}}
	d := New(s, clock.System{}, slog.New(slog.DiscardHandler), Config{})
	x := job.Lease{Execution: job.ExecutionID{1}, Token: 7}
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range 50 {
				l := job.LogLine{At: time.Unix(0, 0), Stream: job.LogStdout, Text: fmt.Sprint(k, ".", i)}
				for {
					_, err := d.Log(t.Context(), job.WorkerID{}, Lines{Lease: x, Offset: AtEnd, Lines: []job.LogLine{l}})
					if err == nil {
						break
					}
					if !errors.Is(err, engine.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	got := s.lines[x]
	slices.Sort(got)
	if len(slices.Compact(got)) != 400 {
		t.Errorf("%d lines", len(got))
	}
}
