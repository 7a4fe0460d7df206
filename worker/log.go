package worker

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The streams of a log.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Logged = "log"    // what a handler logs, such as through Logger
	System = "system" // notes about the log itself
)

// Log adds a line to the log of the attempt that ctx belongs to, or several if the text has line breaks. It returns
// at once unless too much is unsent, and then waits; lines that the server does not accept for some seconds are
// dropped, and a line reports how many. Outside an attempt it does nothing.
func Log(ctx context.Context, stream, text string) {
	b := bookOf(ctx)
	if b == nil {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		b.line(stream, strings.TrimSuffix(line, "\r"))
	}
}

// LogWriter returns a writer whose lines go to the log of the attempt that ctx belongs to, like Log. An unfinished
// line is sent when it gets a line break, is too long for a line, or the attempt ends. It is safe for concurrent use.
func LogWriter(ctx context.Context, stream string) io.Writer {
	b := bookOf(ctx)
	if b == nil {
		return io.Discard
	}
	return &lineWriter{book: b, stream: stream}
}

// Logger returns a logger whose records are lines of the log of the attempt that ctx belongs to.
func Logger(ctx context.Context) *slog.Logger {
	return slog.New(slog.NewTextHandler(LogWriter(ctx, Logged), &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{} // every line has its time
			}
			return a
		},
	}))
}

func bookOf(ctx context.Context) *book {
	r := runningOf(ctx)
	if r == nil || r.write == nil {
		return nil
	}
	return r.book()
}

// lineWriter splits what is written to it into lines.
type lineWriter struct {
	book   *book
	stream string

	mu    sync.Mutex
	part  []byte // guarded by mu: of an unfinished line
	known bool   // guarded by mu: to the book, which sends unfinished lines
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		w.part = append(w.part, p[:i]...)
		p = p[i+1:]
		w.emit()
	}
	w.part = append(w.part, p...)
	for len(w.part) >= maxLine {
		end := maxLine
		for k := 1; k < utf8.UTFMax && !utf8.RuneStart(w.part[end-1]); k++ {
			end--
		}
		if end < maxLine { // a character begins before the end and may go beyond it
			end--
		}
		rest := bytes.Clone(w.part[end:])
		w.part = w.part[:end]
		w.emit()
		w.part = append(w.part, rest...)
	}
	if len(w.part) > 0 && !w.known { // most writers never leave a line open: a handler may make one for each line
		w.known = true
		w.book.attach(w)
	}
	return n, nil
}

// emit adds the line to the book. The caller holds mu.
func (w *lineWriter) emit() {
	for len(w.part) > maxLine {
		w.book.line(w.stream, string(w.part[:maxLine]))
		w.part = w.part[maxLine:]
	}
	w.book.line(w.stream, strings.TrimSuffix(string(w.part), "\r"))
	w.part = w.part[:0]
	if cap(w.part) > 4*maxLine {
		w.part = nil
	}
}

// flush emits an unfinished line.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.part) > 0 {
		w.emit()
	}
}

// Limits on unsent logs.
const (
	maxLine   = 16 << 10               // bytes of a line; a longer one is split
	maxOnWay  = 1 << 20                // bytes that an attempt has written and the server has not accepted
	poolOnWay = 64 << 20               // the same for all attempts of a pool, approximately
	logBatch  = 128 << 10              // bytes sent at once, about
	batchMost = 5000                   // lines sent at once
	logDelay  = 100 * time.Millisecond // how long lines are collected before they are sent
	logWait   = 5 * time.Second        // how long a writer waits for room before lines are dropped
	logFlush  = 15 * time.Second       // how long the end of an attempt waits for its log
	lineCost  = 64                     // bytes that a line counts besides its text
)
