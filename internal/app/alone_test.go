package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// inhabited is a database that other servers are at.
type inhabited struct {
	engine.Store
	hosts    []string
	until    time.Time // when they end; zero: never
	rolling  bool      // they may run on after the step that is missing
	silent   time.Time // until when it does not answer
	migrated bool
}

func (s *inhabited) Present(context.Context) ([]string, error) {
	if time.Now().Before(s.silent) {
		return nil, fmt.Errorf("look for servers: %w", engine.ErrUnavailable)
	}
	if !s.until.IsZero() && !time.Now().Before(s.until) {
		return nil, nil
	}
	return s.hosts, nil
}

func (s *inhabited) Steps(context.Context) ([]engine.Step, error) {
	return []engine.Step{{Version: 1, Name: "first", At: time.Now()}, {Version: 2, Name: "second", Rolling: s.rolling}}, nil
}

func (s *inhabited) Migrate(context.Context) error {
	s.migrated = true
	return nil
}

// A server does not make a step at its start that others cannot work with, while they live; it waits for those that are about to end.
func TestAServerDoesNotMigrateUnderOthers(t *testing.T) {
	for name, c := range map[string]struct {
		store   inhabited
		ends    time.Duration
		ttl     time.Duration
		refused bool
		after   time.Duration
	}{
		"nobody lives":                        {},
		"they may run on":                     {store: inhabited{hosts: []string{"box-7"}, rolling: true}},
		"they end":                            {store: inhabited{hosts: []string{"box-7"}}, ends: 5 * time.Second, after: 5 * time.Second},
		"they stay":                           {store: inhabited{hosts: []string{"box-7", "box-8"}}, refused: true, after: 15 * time.Second},
		"one was killed that counts for long": {store: inhabited{hosts: []string{"box-7"}}, ttl: time.Minute, ends: time.Minute, after: time.Minute},
		"they stay, and would count for long": {store: inhabited{hosts: []string{"box-7", "box-8"}}, ttl: time.Minute, refused: true, after: 65 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := c.store
				if c.ends > 0 {
					s.until = time.Now().Add(c.ends)
				}
				r := running{Options: Options{Config: config.Config{Migrate: true, OwnershipTTL: c.ttl}}, log: slog.New(slog.DiscardHandler)}
				begun := time.Now()
				err := r.fit(t.Context(), &s)
				if took := time.Since(begun); took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
				if s.migrated == c.refused || (err != nil) != c.refused {
					t.Errorf("migrated %v, %v", s.migrated, err)
				}
				if c.refused && (!errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "step 0002 (second)") || !strings.Contains(err.Error(), "box-7, box-8") || !strings.Contains(err.Error(), "migrate up --force")) {
					t.Errorf("it says: %v", err)
				}
			})
		})
	}
}

// A server that is told to stop while it waits for others to end stops, and does not say that they are to be stopped.
func TestAServerThatWaitsForOthersStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		s := inhabited{hosts: []string{"box-7"}}
		r := running{Options: Options{Config: config.Config{Migrate: true}}, log: slog.New(slog.DiscardHandler)}
		begun := time.Now()
		if err := r.fit(ctx, &s); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrConflict) || strings.Contains(err.Error(), "migrate up") || s.migrated {
			t.Errorf("migrated %v, %v", s.migrated, err)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A server that starts beside a database that is slow to answer waits for it, and one that gives up does not speak of servers to stop.
func TestAStartWaitsForTheStore(t *testing.T) {
	for after, starts := range map[time.Duration]bool{0: true, 10 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			d := &inhabited{silent: time.Now().Add(after)}
			r := &running{log: slog.New(slog.DiscardHandler)}
			r.Config = config.Default()
			r.Config.Migrate = true
			err := r.fit(t.Context(), d)
			if starts != (err == nil) || starts != d.migrated {
				t.Fatalf("after %v: %v", after, err)
			}
			if err != nil && (!errors.Is(err, engine.ErrUnavailable) || strings.Contains(err.Error(), "stop them")) {
				t.Errorf("after %v: %v", after, err)
			}
		})
	}
}

// keyless is a store of keys that does not answer for a while, or whose first answers are lost.
type keyless struct {
	engine.Store
	silent time.Time
	lost   int // answers
	keys   map[[32]byte]engine.Key
}

func (s *keyless) answer() error {
	if time.Now().Before(s.silent) {
		return fmt.Errorf("keys: %w", engine.ErrUnavailable)
	}
	if s.lost > 0 {
		s.lost--
		return fmt.Errorf("the answer is lost: %w", engine.ErrUnavailable)
	}
	return nil
}

func (s *keyless) Bootstrap(_ context.Context, k engine.Key) (bool, error) {
	stored := !time.Now().Before(s.silent) && len(s.keys) == 0
	if stored {
		s.keys[k.Hash] = k
	}
	return stored, s.answer()
}

func (s *keyless) Key(_ context.Context, hash [32]byte) (engine.Key, error) {
	if err := s.answer(); err != nil {
		return engine.Key{}, err
	}
	k, ok := s.keys[hash]
	if !ok {
		return k, engine.ErrNotFound
	}
	return k, nil
}

func (s *keyless) AddKey(_ context.Context, _ tenant.ID, k engine.Key, _ int, _ engine.Idempotency, _ *audit.Entry) (engine.Created, error) {
	if !time.Now().Before(s.silent) {
		s.keys[k.Hash] = k
	}
	return engine.Created{}, s.answer()
}

// The keys to begin with are stored once the store answers, and the text of the first is told though an answer was lost.
func TestTheFirstKeyWaitsForTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration
		lost   int
		worker string
		fails  bool
	}{
		"at once":           {},
		"after a while":     {silent: 10 * time.Second, worker: "a-key-for-workers-of-thirty-two-characters-or-more"},
		"an answer is lost": {lost: 1},
		"several are":       {lost: 4, worker: "a-key-for-workers-of-thirty-two-characters-or-more"},
		"it never answers":  {silent: time.Hour, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &keyless{silent: time.Now().Add(c.silent), lost: c.lost, keys: map[[32]byte]engine.Key{}}
				r := &running{log: slog.New(slog.DiscardHandler)}
				r.Config = config.Default()
				r.Config.BootstrapWorker = c.worker
				begun := time.Now()
				key, err := r.bootstrap(t.Context(), s, clock.System{})
				if c.fails {
					if !errors.Is(err, engine.ErrUnavailable) || time.Since(begun) > 20*time.Second {
						t.Errorf("%v after %v", err, time.Since(begun))
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if k, ok := s.keys[sha256.Sum256([]byte(key))]; !ok || k.Role != tenant.System {
					t.Errorf("the text that is told, %q, is of no key that is stored", key)
				}
				if k := s.keys[sha256.Sum256([]byte(c.worker))]; c.worker != "" && k.Role != tenant.Worker {
					t.Errorf("there is no key for workers: %v", s.keys)
				}
				if again, err := r.bootstrap(t.Context(), s, clock.System{}); err != nil || again != "" {
					t.Errorf("a second start tells of %q, %v", again, err)
				}
			})
		})
	}
}
