package telemetry

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRecentLines(t *testing.T) {
	var none *Log
	if got := none.Recent(); got != nil {
		t.Errorf("of no log: %q", got)
	}
	l := NewLog(io.Discard, "text", "info")
	l.Debug("not logged")
	l.Info("first")
	if got := l.Recent(); len(got) != 1 || !strings.Contains(got[0], "first") || strings.HasSuffix(got[0], "\n") {
		t.Errorf("%q", got)
	}
	for i := range linesKept + 3 {
		l.Info(fmt.Sprintf("line %d.", i))
	}
	got := l.Recent()
	if len(got) != linesKept || !strings.Contains(got[0], "line 3.") || !strings.Contains(got[linesKept-1], fmt.Sprintf("line %d.", linesKept+2)) {
		t.Errorf("%d lines, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	l.Info(strings.Repeat("é", lineKept))
	if last := l.Recent()[linesKept-1]; len(last) > lineKept+4 || !utf8.ValidString(last) || !strings.HasSuffix(last, "…") {
		t.Errorf("a long line is kept as %d bytes: %q", len(last), last)
	}
}
