package job_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// takeAll stores lines chunk by chunk, and fails where one is too large.
func takeAll(t *testing.T, h job.LogHead, lines []job.LogLine) (all []job.LogLine, head job.LogHead) {
	t.Helper()
	for first := true; first || len(lines) > 0; first = false {
		var kept []job.LogLine
		before := h
		kept, h, lines = h.Take(lines)
		size := 0
		for _, l := range kept {
			size += len(l.Text)
		}
		if size > job.MaxLogChunk || h.Lines != before.Lines+len(kept) {
			t.Fatalf("a chunk of %d bytes, %d lines from %+v to %+v", size, len(kept), before, h)
		}
		all = append(all, kept...)
	}
	return all, h
}

func TestALogIsCutAtItsLimit(t *testing.T) {
	lines := make([]job.LogLine, job.MaxLogLines+10)
	for i := range lines {
		lines[i].Text = fmt.Sprint(i)
	}
	all, head := takeAll(t, job.LogHead{}, lines)
	if len(all) != job.MaxLogLines+1 || !head.Cut || all[job.MaxLogLines-1].Text != fmt.Sprint(job.MaxLogLines-1) || all[job.MaxLogLines].Stream != job.LogSystem {
		t.Errorf("%d lines, %+v, the last %+v", len(all), head, all[len(all)-1])
	}
	more, after := takeAll(t, head, lines[:5])
	if len(more) != 0 || after != head {
		t.Errorf("%d lines behind the cut", len(more))
	}
	long := job.LogLine{Text: strings.Repeat("x", job.MaxLogText)}
	var many []job.LogLine
	for range 1000 {
		many = append(many, long)
	}
	all, head = takeAll(t, job.LogHead{}, many)
	if !head.Cut || head.Bytes > job.MaxLogBytes || len(all) < 600 {
		t.Errorf("%d long lines, %+v", len(all), head)
	}
}

func TestLogText(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "end\r\n": "end", "a\x00b": "a\uFFFDb", "\xff": "\uFFFD", "\x1b[31mred": "\x1b[31mred", "": "",
	} {
		if got := job.LogText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := job.LogText(strings.Repeat("é", job.MaxLogText)); len(got) > job.MaxLogText || !utf8.ValidString(got) || !strings.HasSuffix(got, "cut off") {
		t.Errorf("a long line has %d bytes", len(got))
	}
}

func TestLogPlaces(t *testing.T) {
	for _, p := range []job.LogPlace{{}, {Token: 7, Line: 12}, {Token: 1 << 60, Line: 100_000}} {
		if got, ok := job.ParseLogPlace(p.String()); !ok || got != p {
			t.Errorf("%v: %v, %v", p, got, ok)
		}
	}
	for _, bad := range []string{"", "1", "1.", ".1", "-1.2", "1.-2", "1.2x", "1.2.3", " 1.2", "+1.2", "01.2", "x", "99999999999999999999.1"} {
		if got, ok := job.ParseLogPlace(bad); ok {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	if (job.LogPlace{Token: 1, Line: 9}).Compare(job.LogPlace{Token: 2}) >= 0 || (job.LogPlace{Token: 2, Line: 1}).Compare(job.LogPlace{Token: 2}) <= 0 {
		t.Error("the order of places")
	}
}
