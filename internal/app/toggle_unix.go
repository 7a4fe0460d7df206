//go:build unix

package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// toggles has SIGUSR1 change between logging everything and what the settings say.
func (r *running) toggles() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	r.background("signals", func(ctx context.Context) {
		defer signal.Stop(told)
		for {
			select {
			case <-ctx.Done():
				return
			case <-told:
				r.log.Warn("the log's level was changed", "to", r.Log.Toggle(), "by", "SIGUSR1")
			}
		}
	})
}
