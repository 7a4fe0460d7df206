package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LogLine is a line of an attempt's log.
type LogLine struct {
	At     time.Time
	Stream string
	Text   string
}

// The streams of a log.
const (
	LogStdout = "stdout"
	LogStderr = "stderr"
	LogOwn    = "log"    // what a handler logs
	LogSystem = "system" // Carillon's own notes about the log
)

// LogStreams lists the streams of a log.
var LogStreams = []string{LogStdout, LogStderr, LogOwn, LogSystem}

// Limits of a log.
const (
	MaxLogText  = 16 << 10 // bytes of a line; more is cut off
	MaxLogChunk = 64 << 10 // bytes of lines stored together
	MaxLogLines = 100_000  // of an attempt
	MaxLogBytes = 10 << 20 // of an attempt
	logOverhead = 16       // bytes that a line counts besides its text
)

// LogHead describes how much of an attempt's log is stored.
type LogHead struct {
	Lines int   // that are kept
	Bytes int64 // of them
	Cut   bool  // it has reached its limit: nothing more is stored
}

// Take takes as many lines after the head as are stored together; next is the new head, and rest the lines that did
// not fit. If the log reaches its limit, a line that says so is the last.
func (h LogHead) Take(lines []LogLine) (kept []LogLine, next LogHead, rest []LogLine) {
	next = h
	size := 0
	for i, l := range lines {
		n := len(l.Text) + logOverhead
		switch {
		case next.Cut:
			return lines[:i], next, nil
		case next.Lines >= MaxLogLines || next.Bytes+int64(n) > MaxLogBytes:
			end := LogLine{At: l.At, Stream: LogSystem, Text: fmt.Sprintf("… the log is cut off here: it has reached its limit of %d lines or %d MiB", MaxLogLines, MaxLogBytes>>20)}
			next.Lines, next.Cut = next.Lines+1, true
			return append(slices.Clone(lines[:i]), end), next, nil
		case i > 0 && size+n > MaxLogChunk:
			return lines[:i], next, lines[i:]
		}
		size += n
		next.Lines, next.Bytes = next.Lines+1, next.Bytes+int64(n)
	}
	return lines, next, nil
}

// LogText returns a text in the form of a log line: valid UTF-8, without NUL and line ends, and not too long.
func LogText(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > MaxLogText {
		const dots = " … cut off"
		s = strings.ToValidUTF8(s[:MaxLogText-len(dots)], "") + dots
	}
	return s
}

// LogPlace is a position in an execution's log: before a line of the attempt under a token. The zero place is the
// beginning.
type LogPlace struct {
	Token Token
	Line  int
}

// Compare orders places as the log is read.
func (p LogPlace) Compare(q LogPlace) int {
	if p.Token != q.Token {
		return int(min(1, max(-1, p.Token-q.Token)))
	}
	return p.Line - q.Line
}

// String returns the place in the form that ParseLogPlace reads.
func (p LogPlace) String() string { return fmt.Sprintf("%d.%d", p.Token, p.Line) }

// ParseLogPlace parses the format of String.
func ParseLogPlace(s string) (p LogPlace, ok bool) {
	var rest string
	n, err := fmt.Sscanf(s, "%d.%d%s", (*int64)(&p.Token), &p.Line, &rest)
	if n != 2 || err == nil || p.Token < 0 || p.Line < 0 || p.String() != s {
		return LogPlace{}, false
	}
	return p, true
}
