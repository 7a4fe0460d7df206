// A worker in Go. It runs jobs of the target worker and the kinds "greet" and "flaky":
//
//	CARILLON_SERVER=http://localhost:8080 CARILLON_TOKEN=… go run ./examples/go
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/carillon-jobs/carillon/worker"
)

type greeting struct {
	Name string `json:"name"`
}

func main() {
	w := worker.Dial([]string{cmp.Or(os.Getenv("CARILLON_SERVER"), "http://localhost:8080")}, os.Getenv("CARILLON_TOKEN"), worker.Options{Slots: 10})
	worker.HandleResult(w, "greet", func(ctx context.Context, in greeting) (map[string]string, error) {
		worker.Logger(ctx).Info("greeting", "name", in.Name) // shown by GET /executions/{id}/logs
		worker.Progress(ctx, 50, "half way")
		return map[string]string{"text": fmt.Sprintf("Hello, %s!", in.Name)}, nil
	})
	worker.Handle(w, "flaky", func(ctx context.Context, _ any) error {
		if a, _ := worker.AttemptFrom(ctx); a.AttemptNumber == 1 {
			return errors.New("not this time") // retried, under the job's policy
		}
		return nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil { // stops once running executions have ended
		slog.Error("the worker stopped", "error", err)
		os.Exit(1)
	}
}
