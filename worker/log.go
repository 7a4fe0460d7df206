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
	System = "system" // what is said about the log itself
)

// Log adds a line to the log of the attempt that ctx belongs to, or several where the text has line breaks. It returns at
// once unless so much is on the way to the server that it has to wait; what the server does not take for some seconds is dropped, and a
// line says how much. Out of an attempt it does nothing.
func Log(ctx context.Context, stream, text string) {
	b := bookOf(ctx)
	if b == nil {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		b.line(stream, strings.TrimSuffix(line, "\r"))
	}
}

// LogWriter is a writer whose lines go to the log of the attempt that ctx belongs to, as if by Log. What has no line
// break yet goes when it has one, is too long for a line, or the attempt ends. Several may write at once.
func LogWriter(ctx context.Context, stream string) io.Writer {
	b := bookOf(ctx)
	if b == nil {
		return io.Discard
	}
	return &lineWriter{book: b, stream: stream}
}

// Logger is a logger whose records are lines of the log of the attempt that ctx belongs to.
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

// lineWriter makes lines of what is written to it.
type lineWriter struct {
	book   *book
	stream string

	mu    sync.Mutex
	part  []byte // guarded by mu: of a line that has no end yet
	known bool   // guarded by mu: to the book, which sends what has no end
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

// emit passes the line on. The caller holds mu.
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

// flush passes on what has no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.part) > 0 {
		w.emit()
	}
}

// How much of a log is on the way.
const (
	maxLine   = 16 << 10               // bytes of a line; a longer one is made several
	maxOnWay  = 1 << 20                // bytes that an attempt has written and the server has not taken
	poolOnWay = 64 << 20               // bytes that all attempts of a pool have, about
	logBatch  = 128 << 10              // bytes sent at once, about
	batchMost = 5000                   // lines sent at once
	logDelay  = 100 * time.Millisecond // for which lines are gathered before they are sent
	logWait   = 5 * time.Second        // for which a writer waits for room before lines are dropped
	logFlush  = 15 * time.Second       // for which the end of an attempt waits for its log
	lineCost  = 64                     // bytes that a line counts beside its text
)
