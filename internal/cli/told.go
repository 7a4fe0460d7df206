package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilTold returns a context that ends when the process is told to stop. A second signal ends the process at once:
// when the context has ended, signals have their default effect again.
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
