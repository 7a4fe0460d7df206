package telemetry

import (
	"strings"
	"sync"
)

// How much of a log is kept in memory.
const (
	linesKept = 500
	lineKept  = 4000 // bytes: twice what is shown, so that a secret at the end of that is recognised
)

// recent keeps the last lines of a log, each of which is written by one Write.
type recent struct {
	mu    sync.Mutex
	lines []string // guarded by mu, like next: a ring, once it is full
	next  int
}

// Write keeps a line. It never fails.
func (r *recent) Write(p []byte) (int, error) {
	line := strings.TrimSuffix(string(p[:min(len(p), lineKept)]), "\n")
	if len(p) > lineKept {
		line = strings.ToValidUTF8(line, "") + "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < linesKept {
		r.lines = append(r.lines, line)
	} else {
		r.lines[r.next] = line
		r.next = (r.next + 1) % linesKept
	}
	return len(p), nil
}

// Recent returns the last logged lines, the latest last; nil if there is no log.
func (l *Log) Recent() []string {
	if l == nil {
		return nil
	}
	r := &l.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.lines))
	return append(append(out, r.lines[r.next:]...), r.lines[:r.next]...)
}
