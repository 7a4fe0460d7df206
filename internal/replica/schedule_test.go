package replica

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// schedule is a schedule of daily backups of the rig's store.
func (r *rig) schedule(keep int) *Schedule {
	r.t.Helper()
	s, err := NewSchedule(ScheduleConfig{
		Store: r.store, Path: r.path, Place: r.place, Mounted: true, Folder: r.path + "-backup", Every: 24 * time.Hour, Keep: keep, Host: "host", Version: "test",
		Log: slog.New(slog.DiscardHandler), Now: r.now,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// due lets a schedule work, and compares when it wants to look again, to the minute.
func (r *rig) due(s *Schedule, want time.Duration) {
	r.t.Helper()
	got, err := s.Tick(r.t.Context())
	if err != nil || got.Round(time.Minute) != want {
		r.t.Fatalf("look again in %v, %v; want %v", got, err, want)
	}
}

func (r *rig) stored() int {
	r.t.Helper()
	v := &Survey{place: r.place}
	all, err := v.points(r.t.Context(), backups)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

func (r *rig) has(n int) {
	r.t.Helper()
	if got := r.stored(); got != n {
		r.t.Fatalf("%d backups are stored, want %d", got, n)
	}
}

func TestBackupsAreStoredWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	s := r.schedule(2)
	r.due(s, time.Hour) // the first one at once
	r.has(1)
	r.ahead += 23*time.Hour + 30*time.Minute
	s = r.schedule(2) // a restart neither repeats it nor puts the next one off
	r.due(s, 30*time.Minute)
	r.has(1)
	r.write(1)
	r.ahead += 30 * time.Minute
	if s.Overdue() > time.Minute {
		t.Errorf("overdue for %v", s.Overdue())
	}
	r.due(s, time.Hour)
	r.has(2)
	for range 3 {
		r.write(1)
		r.ahead += 24 * time.Hour
		r.due(s, time.Hour)
		r.has(2) // as many as are kept
	}
	r.must(Want{}, 5)
	r.ahead -= 100 * time.Hour // a clock that is set back puts off none for longer than an interval
	if got := s.wait(); got != 24*time.Hour {
		t.Errorf("the next one in %v", got)
	}
}

func TestABackupThatFailsIsTriedAgainAndTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.schedule(2)
	r.due(s, time.Hour)
	r.ahead += 24 * time.Hour
	r.place.away = errors.New("the bucket is on strike")
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		r.due(s, wait*time.Minute)
	}
	r.ahead += time.Hour
	if got := s.Warning(); !strings.Contains(got, "on strike") || !strings.Contains(got, "the newest backup is of ") {
		t.Errorf("the warning is %q", got)
	}
	if got := s.Overdue().Round(time.Minute); got != time.Hour {
		t.Errorf("overdue for %v", got)
	}
	r.place.away = nil
	r.due(s, time.Hour)
	if s.Warning() != "" || s.Overdue() != 0 {
		t.Errorf("still %q, for %v", s.Warning(), s.Overdue())
	}
	r.has(2)
	if left, _ := filepath.Glob(filepath.Join(r.path+"-backup", partsPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A backup that lacks a part, or is of another store, does not count.
func TestOnlyAWholeBackupOfTheStoreCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := newRigAt(t, r.place.Store)
	other.due(other.schedule(2), time.Hour)
	s := r.schedule(2)
	r.due(s, time.Hour)
	r.has(2)
	var part string
	if err := blob.Each(t.Context(), r.place, s.newestName(t), func(x blob.Info) error {
		if !strings.HasSuffix(x.Name, manifest) {
			part = x.Name
		}
		return nil
	}); err != nil || part == "" {
		t.Fatalf("no part: %v", err)
	}
	if err := r.place.Delete(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	r.due(r.schedule(2), time.Hour)
	r.has(3)
}

// newestName returns the name of the newest backup of the schedule's store.
func (s *Schedule) newestName(t *testing.T) string {
	t.Helper()
	all, err := (&Survey{place: s.cfg.Place}).points(t.Context(), backups)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Began.Equal(s.newest) {
			return p.Name
		}
	}
	t.Fatalf("no backup of %v among %v", s.newest, all)
	return ""
}

// Backups that cannot be deleted are told of until they are, and no further backup is stored for them.
func TestBackupsThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.schedule(1)
	r.due(s, time.Hour)
	r.ahead += 24 * time.Hour
	r.place.keep = errors.New("object lock")
	for _, wait := range []time.Duration{1, 2, 4} {
		r.due(s, wait*time.Minute)
		r.has(2)
		if got := s.Warning(); !strings.Contains(got, "older backups could not be deleted: ") || !strings.Contains(got, "object lock") {
			t.Errorf("the warning is %q", got)
		}
	}
	r.place.keep = nil
	r.due(s, time.Hour)
	r.has(1)
	if s.Warning() != "" {
		t.Errorf("still %q", s.Warning())
	}
}

// A process that starts while the place is away knows for how long a backup is overdue.
func TestABackupIsOverdueAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.due(r.schedule(2), time.Hour)
	r.ahead += 30 * time.Hour
	s := r.schedule(2)
	if got := s.Overdue().Round(time.Minute); got != 6*time.Hour {
		t.Errorf("overdue for %v", got)
	}
}

// Nothing is written under a mount that is away, and what a killed process has left goes.
func TestNothingIsBackedUpUnderAMount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.schedule(2)
	r.due(s, time.Hour)
	at := strings.TrimPrefix(r.place.String(), "file:")
	if err := os.Rename(at, at+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(r.path+"-backup", partsPrefix+"1"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.ahead += 24 * time.Hour
	for _, s := range []*Schedule{s, r.schedule(2)} {
		r.due(s, time.Minute)
		if got := s.Warning(); !strings.Contains(got, "is its file system mounted?") {
			t.Errorf("the warning is %q", got)
		}
	}
	if files, err := filepath.Glob(filepath.Join(at, "*")); err != nil || len(files) > 0 {
		t.Errorf("written: %v, %v", files, err)
	}
	if left, _ := filepath.Glob(filepath.Join(r.path+"-backup", partsPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".away", at); err != nil {
		t.Fatal(err)
	}
	r.due(s, time.Hour)
	r.has(2)
}
