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

// drowsy is a store that answers only after some time.
type drowsy struct {
	engine.Store
	from     time.Time
	migrated bool
}

func (d *drowsy) Present(context.Context) ([]string, error) {
	if time.Now().Before(d.from) {
		return nil, fmt.Errorf("look for servers: %w", engine.ErrUnavailable)
	}
	return nil, nil
}

func (d *drowsy) Migrate(context.Context) error { d.migrated = true; return nil }

// A server that starts beside a database that is slow to answer waits for it, and one that gives up does not speak of servers to stop.
func TestAStartWaitsForTheStore(t *testing.T) {
	for after, starts := range map[time.Duration]bool{0: true, 10 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			d := &drowsy{from: time.Now().Add(after)}
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
