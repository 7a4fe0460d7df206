package app

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/config"
)

// A worker that the server finds wrong, such as one with commands for every tenant, ends and says why; it does not try forever.
func TestWorkerEndsWhenItsRegistrationIsInvalid(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(422)
		io.WriteString(w, `{"status": 422, "code": "invalid", "detail": "wrong", "errors": [{"field": "targets[2]", "value": "command", "want": "no commands"}]}`)
	}))
	defer s.Close()
	cfg := config.Default()
	cfg.Listen, cfg.Data = "127.0.0.1:0", t.TempDir()
	err := RunWorker(t.Context(), WorkerOptions{
		Options: Options{Config: cfg, Out: io.Discard, Logger: slog.New(slog.DiscardHandler)}, Servers: []string{s.URL}, Token: "key", Capacity: 1,
	})
	var p *client.Problem
	if !errors.Is(err, client.ErrInvalid) || !errors.As(err, &p) || len(p.Errors) != 1 {
		t.Errorf("ended with %v", err)
	}
}
