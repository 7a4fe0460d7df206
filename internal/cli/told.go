package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilTold is a context that ends when the process is told to stop. Being told twice ends the process at once: by the
// time the context has ended, nobody listens to signals any more.
func untilTold(ctx context.Context) (told context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cancel = func() {
		signal.Stop(signals)
		end()
	}
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, cancel
}
