package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// bell lets the servers that share a store wake each other: a server rings it when work becomes ready, and the others
// hear it. Rings in quick succession are one notification.
type bell struct {
	store engine.Notifier
	log   *slog.Logger
	rung  chan struct{}
}

// between is the time for which a notification covers later rings.
const between = 5 * time.Millisecond

func newBell(store engine.Notifier, log *slog.Logger) *bell {
	return &bell{store, log, make(chan struct{}, 1)}
}

// Ring signals that work became ready. It never blocks.
func (b *bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Tell passes rings on until ctx ends.
func (b *bell) Tell(ctx context.Context) {
	loop.Run(ctx, b.log, "notify", nil, func(ctx context.Context) (time.Duration, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-b.rung:
		}
		return between, b.store.Notify(ctx)
	})
}

// Hear calls wake whenever another server has rung, until ctx ends.
func (b *bell) Hear(ctx context.Context, wake func()) {
	loop.Run(ctx, b.log, "listen", nil, func(ctx context.Context) (time.Duration, error) {
		err := b.store.Listen(ctx, wake)
		if err == nil {
			err = errors.New("listening ended")
		}
		return 0, err
	})
}
