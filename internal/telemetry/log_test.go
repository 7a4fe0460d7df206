package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

type tenantID = tenant.ID

// TestLogIsLines logs what would forge lines, move a cursor, or turn text round.
func TestLogIsLines(t *testing.T) {
	corpus := []string{
		"a\nlevel=ERROR msg=forged", "a\r\nb", "\x1b[2J\x1b]0;title\x07", "\u009b31mred", "\x7f\x00\x08", "user\u202egnp.exe", "\u2028new\u2029line", "\ufeffbom\u200b", "bad \xff\xfe utf8", `{"level":"ERROR"}`, `a" b="c`, "\ue000", "ordinary ünïcode 漢字",
	}
	for _, format := range []string{"text", "json"} {
		for _, evil := range corpus {
			var b bytes.Buffer
			l := telemetry.NewLog(&b, format, "debug")
			l.Info("name: "+evil, "value", evil, "error", errors.New(evil), "key "+evil, 1)
			got := b.String()
			if strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
				t.Errorf("%s: %q is not one line: %q", format, evil, got)
			}
			for _, r := range strings.TrimSuffix(got, "\n") {
				if unicode.IsControl(r) || r == 0x202e || r == 0x2028 || r == unicode.ReplacementChar {
					t.Errorf("%s: %q passes %U on: %q", format, evil, r, got)
					break
				}
			}
			var event map[string]any
			if format == "json" && json.Unmarshal(b.Bytes(), &event) != nil {
				t.Errorf("%q is no JSON", got)
			}
		}
	}
	var b bytes.Buffer
	telemetry.NewLog(&b, "text", "info").Info("plain", "name", "ünïcode 漢字")
	if !strings.Contains(b.String(), "ünïcode 漢字") {
		t.Errorf("text is not left as it is: %s", b.String())
	}
}

func TestLogLevel(t *testing.T) {
	var b bytes.Buffer
	l := telemetry.NewLog(&b, "text", "warn")
	said := func() int {
		b.Reset()
		l.Debug("d")
		l.Info("i")
		l.Warn("w")
		l.Error("e")
		return strings.Count(b.String(), "\n")
	}
	if n := said(); n != 2 || l.Level() != "warn" {
		t.Errorf("%d lines at %s", n, l.Level())
	}
	if l.Toggle() != "debug" || said() != 4 {
		t.Error("not everything is said")
	}
	if l.Toggle() != "warn" || said() != 2 {
		t.Error("not as it was")
	}
	if err := l.Set("error"); err != nil || said() != 1 {
		t.Errorf("set: %v", err)
	}
	for _, no := range []string{"", "loud", "DEBUG", "info+2"} {
		if l.Set(no) == nil || l.Level() != "error" {
			t.Errorf("%q is taken, the level is %s", no, l.Level())
		}
	}
	if telemetry.NewLog(&b, "text", "nonsense").Level() != "info" {
		t.Error("what was not checked is not info")
	}
}
