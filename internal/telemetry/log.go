package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Log writes the lines of a process at its level.
type Log struct {
	*slog.Logger
	level slog.LevelVar

	mu    sync.Mutex
	asked slog.Level // guarded by mu: what the settings, or whoever asked last, say

	recent recent
}

// NewLog makes a log of lines of text, or of JSON, from a level on. Whatever a tenant's text holds, an event is one line, and
// nothing in it moves a terminal's cursor or changes the order of what is read.
func NewLog(w io.Writer, format, level string) *Log {
	l := &Log{}
	if err := l.Set(level); err != nil {
		l.level.Set(slog.LevelInfo) // the settings were checked
	}
	o := &slog.HandlerOptions{Level: &l.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return plain(a) }}
	w = io.MultiWriter(&l.recent, w)
	if format == "json" {
		l.Logger = slog.New(slog.NewJSONHandler(w, o))
	} else {
		l.Logger = slog.New(slog.NewTextHandler(w, o))
	}
	return l
}

// Level is the least level that is logged, as settings write it. Of no log it is off.
func (l *Log) Level() string {
	if l == nil {
		return "off"
	}
	return strings.ToLower(l.level.Level().String())
}

// Set sets the least level that is logged: debug, info, warn or error.
func (l *Log) Set(level string) error {
	var v slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		if err := v.UnmarshalText([]byte(level)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%q is none of debug, info, warn, error", level)
	}
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = v
	l.level.Set(v)
	return nil
}

// Toggle changes between debug and what was asked for, and says which it is now.
func (l *Log) Toggle() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.level.Level() == slog.LevelDebug && l.asked != slog.LevelDebug {
		l.level.Set(l.asked)
	} else {
		l.level.Set(slog.LevelDebug)
	}
	return strings.ToLower(l.level.Level().String())
}

// plain escapes what a reader would not see as it is.
func plain(a slog.Attr) slog.Attr {
	a.Key = escape(a.Key)
	switch v := a.Value.Any().(type) {
	case string:
		if clean := escape(v); clean != v {
			a.Value = slog.StringValue(clean)
		}
	case error:
		if clean := escape(v.Error()); clean != v.Error() {
			a.Value = slog.StringValue(clean)
		}
	}
	return a
}

// hidden are the characters that JSON, or a terminal, would pass on: the second half of the control characters, and those
// that format or are no text at all. The others are escaped by whoever writes the line.
func hidden(r rune) bool {
	return r == 0x7f || r >= 0x80 && r <= 0x9f || r == utf8.RuneError || r > 0x9f && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r))
}

func escape(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
