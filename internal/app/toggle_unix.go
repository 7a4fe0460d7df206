//go:build unix

package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// toggles makes SIGUSR1 switch between logging everything and the level in the settings.
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
				r.log.Warn("the log level was changed", "to", r.Log.Toggle(), "by", "SIGUSR1")
			}
		}
	})
}
