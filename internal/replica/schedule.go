package replica

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// Schedule stores backups of a store at intervals while its server runs. The newest one at the place says when the next is due, so a
// restart neither repeats nor delays any.
type Schedule struct {
	cfg   ScheduleConfig
	local local
	since time.Time // when this process began to look

	mu     sync.Mutex
	looked bool
	store  time.Time // tells stores apart
	newest time.Time // everything acknowledged before is in the newest backup; zero: there is none
	crowd  bool      // there may be more backups than are kept
	fails  int
	last   error
}

// ScheduleConfig holds the store, the place and the interval of scheduled backups.
type ScheduleConfig struct {
	Store         *sqlite.Store
	Path          string // of the store
	Place         blob.Store
	Mounted       bool   // the place is a folder, on which a file system may be mounted
	Folder        string // for parts until they are stored, and for what is known of the place
	Every         time.Duration
	Keep          int
	Host, Version string
	Log           *slog.Logger
	Now           func() time.Time // nil: the machine's clock
}

const (
	retrySoon = time.Minute // after a backup that failed, and twice as long after each further one
	retryLate = 30 * time.Minute
	lookAgain = time.Hour // clocks may be set

	partsPrefix = "parts-"
	newestFile  = "newest" // when the newest backup was begun, for as long as the place cannot be asked
)

// NewSchedule makes a schedule; Tick works on it.
func NewSchedule(cfg ScheduleConfig) (*Schedule, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for parts of backups: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(cfg.Folder, partsPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, x := range left { // of a process that was killed
		if err := os.RemoveAll(x); err != nil {
			return nil, err
		}
	}
	s := &Schedule{cfg: cfg, local: local{cfg.Folder}, since: cfg.Now()}
	if text, err := os.ReadFile(filepath.Join(cfg.Folder, newestFile)); err == nil {
		_ = s.newest.UnmarshalText(text) // else the place says
	}
	return s, nil
}

// Tick stores a backup if one is due, and returns when to look again. A failure is logged, and tried again at growing intervals: each try
// reads the whole store.
func (s *Schedule) Tick(ctx context.Context) (time.Duration, error) {
	err := s.look(ctx)
	if err == nil && s.wait() <= 0 {
		err = s.backup(ctx)
	}
	if err == nil {
		err = s.trim(ctx)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = err; err == nil {
		s.fails = 0
		return min(max(s.waitLocked(), retrySoon), lookAgain), nil
	}
	s.fails++
	wait := min(retrySoon<<min(s.fails-1, 10), retryLate)
	s.cfg.Log.Error("scheduled backups fail; it is tried again", "place", s.cfg.Place.String(), "in", wait, "error", err)
	return wait, nil
}

// look finds the newest backup of this store that is whole, once.
func (s *Schedule) look(ctx context.Context) error {
	s.mu.Lock()
	looked := s.looked
	s.mu.Unlock()
	if looked {
		return nil
	}
	if err := s.there(ctx); err != nil {
		return err
	}
	id, err := s.cfg.Store.Identify(ctx)
	if err != nil {
		return err
	}
	all, err := (&Survey{place: s.cfg.Place}).points(ctx, backups)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked, s.store, s.newest, s.crowd = true, id.Created, time.Time{}, true
	for _, p := range all {
		if p.Store.Equal(id.Created) && p.whole() && p.Began.After(s.newest) {
			s.newest = p.Began
		}
	}
	return nil
}

// there fails if the place is a folder, and not the one that was written to before. It marks a new one.
func (s *Schedule) there(ctx context.Context) error {
	if !s.cfg.Mounted {
		return nil
	}
	known := s.local.mark(s.cfg.Place.String())
	if known == "" {
		mark, err := blob.Mark(ctx, s.cfg.Place)
		if err != nil {
			return err
		}
		return s.local.remember(remembered{s.cfg.Place.String(), mark})
	}
	same, err := marked(ctx, s.cfg.Place, known)
	if err == nil && !same {
		err = fmt.Errorf("%w: %s does not have the %s that this server knows, so it is empty or another folder; is its file system mounted? If it is meant to be a new one, delete %s",
			errAway, s.cfg.Place, blob.MarkName, filepath.Join(s.cfg.Folder, markFile))
	}
	return err
}

// backup stores a backup.
func (s *Schedule) backup(ctx context.Context) error {
	if err := s.there(ctx); err != nil {
		return err
	}
	spool, err := os.MkdirTemp(s.cfg.Folder, partsPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(spool)
	p, err := store(ctx, s.cfg.Path, s.cfg.Place, spool, s.cfg.Host, s.cfg.Version, s.cfg.Now, true)
	if err != nil {
		return err
	}
	if err := s.there(ctx); err != nil { // the file system left while it was written
		return err
	}
	s.mu.Lock()
	s.newest, s.crowd = p.Began, true
	s.mu.Unlock()
	s.cfg.Log.Info("the store was backed up", "backup", p.ID(), "place", s.cfg.Place.String(), "bytes", p.Bytes)
	text, err := p.Began.MarshalText()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.cfg.Folder, newestFile), text, 0o600)
}

// trim deletes backups that are too many.
func (s *Schedule) trim(ctx context.Context) error {
	s.mu.Lock()
	crowd, of := s.crowd, s.store
	s.mu.Unlock()
	if !crowd {
		return nil
	}
	if err := s.there(ctx); err != nil {
		return err
	}
	n, err := trim(ctx, s.cfg.Place, of, s.cfg.Keep, s.cfg.Now())
	if err != nil {
		return fmt.Errorf("older backups could not be deleted: %w", err)
	}
	if n > 0 {
		s.cfg.Log.Info("older backups were deleted", "place", s.cfg.Place.String(), "backups", n)
	}
	s.mu.Lock()
	s.crowd = false
	s.mu.Unlock()
	return nil
}

func (s *Schedule) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waitLocked()
}

// waitLocked returns how long until the next backup is due.
func (s *Schedule) waitLocked() time.Duration {
	if s.newest.IsZero() {
		return 0
	}
	return min(s.newest.Add(s.cfg.Every).Sub(s.cfg.Now()), s.cfg.Every) // the clock may have been set back
}

// Overdue returns for how long the store should have been backed up.
func (s *Schedule) Overdue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.since
	if !s.newest.IsZero() {
		due = s.newest.Add(s.cfg.Every)
	}
	return max(0, s.cfg.Now().Sub(due))
}

// Warning returns the reason why backups fail; empty: they do not.
func (s *Schedule) Warning() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	has := ""
	switch {
	case !s.newest.IsZero():
		has = "; the newest backup is of " + s.newest.UTC().Format(time.RFC3339)
	case s.looked:
		has = "; there is no backup of this store yet"
	}
	return fmt.Sprintf("Scheduled backups to %s fail%s: %v", s.cfg.Place, has, s.last)
}
