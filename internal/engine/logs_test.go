package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestLogsKeepEveryLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	lines := []job.LogLine{
		{At: at, Stream: "stdout", Text: "one"},
		{At: at.Add(-time.Hour), Stream: "stderr", Text: ""},
		{At: at, Stream: "other", Text: strings.Repeat("ü", 8000)},
	}
	filled(t, lines[0])
	data := EncodeLog(lines)
	if got, err := DecodeLog(data); err != nil || !slices.Equal(got, lines) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := DecodeLog(EncodeLog(nil)); err != nil || got != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	if len(data) > 1000 {
		t.Errorf("%d bytes", len(data))
	}
}

func FuzzDecodeLog(f *testing.F) {
	f.Add(EncodeLog([]job.LogLine{{Stream: "stdout", Text: "x"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := DecodeLog(data)
		if err != nil {
			return
		}
		if again, err := DecodeLog(EncodeLog(lines)); err != nil || !slices.Equal(again, lines) {
			t.Errorf("%v became %v, %v", lines, again, err)
		}
	})
}
