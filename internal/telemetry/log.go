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
	asked slog.Level // guarded by mu: the level last set by the settings or a request

	recent recent
}

// NewLog makes a log of text or JSON lines, from a level on. Whatever a tenant's text contains, an event is one line,
// and nothing in it moves a terminal's cursor or changes the reading order.
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

// Level returns the log level as settings write it; off if there is no log.
func (l *Log) Level() string {
	if l == nil {
		return "off"
	}
	return strings.ToLower(l.level.Level().String())
}

// Set sets the log level: debug, info, warn or error.
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

// Toggle switches between debug and the level that was set, and returns the new one.
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

// plain escapes invisible or misleading characters.
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

// hidden lists the characters that JSON, or a terminal, would pass on: the second half of the control characters, and
// format or non-text characters. The others are escaped by whoever writes the line.
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
