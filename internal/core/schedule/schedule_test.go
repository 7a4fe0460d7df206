package schedule

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestOneInstant(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := created.Add(time.Hour)
	once, now := job.Schedule{Type: job.OneTime, At: at}, job.Schedule{Type: job.Immediate}
	if got := First(once, created); !got.Equal(at) {
		t.Errorf("ONE_TIME fires first at %v", got)
	}
	if got := First(now, created); !got.Equal(created) {
		t.Errorf("IMMEDIATE fires first at %v", got)
	}
	if got, ok := Next(once, created); !ok || !got.Equal(at) {
		t.Errorf("before its instant: %v, %v", got, ok)
	}
	for _, s := range []job.Schedule{once, now} {
		if got, ok := Next(s, at); ok || !got.IsZero() {
			t.Errorf("%v after its instant: %v, %v", s.Type, got, ok)
		}
	}
}
