package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/config"
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
