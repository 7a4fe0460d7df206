package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	c := at(t)
	if out := c.ok("health", "--server", devServer(t)); !strings.HasPrefix(out, "ready, version ") {
		t.Errorf("got %q", out)
	}
	c.ok("health", "--live", "--server", devServer(t))
	t.Setenv("CARILLON_HEALTH_SERVER", devServer(t))
	c.ok("health")
	c.fails(unavailable, "no server answers", "health", "--server", "http://127.0.0.1:1")
	c.fails(misuse, "not the address of a server", "health", "--server", "ftp://x")

	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a probe sends a key")
		}
		if r.URL.Path == "/readyz" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			w.Write([]byte(`{"status": 503, "code": "not_ready", "detail": "The store is away."}`))
			return
		}
		w.Write([]byte(`{"status": "ok", "version": "v1"}`))
	}))
	defer sick.Close()
	t.Setenv("CARILLON_TOKEN", "car_x")
	c.fails(unavailable, "The store is away.", "health", "--server", sick.URL)
	c.ok("health", "--live", "--server", sick.URL)

	sealed := httptest.NewTLSServer(sick.Config.Handler)
	defer sealed.Close()
	c.fails(unavailable, "certificate", "health", "--live", "--server", sealed.URL)
	c.ok("health", "--live", "--insecure", "--server", sealed.URL)
}

func TestAKeyFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-bootstrap-key-of-thirty-two-characters-or-more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CARILLON_TOKEN_FILE", file)
	at(t, "--server", realServer(t)).ok("job", "list")
	t.Setenv("CARILLON_TOKEN_FILE", file+".none")
	at(t, "--server", realServer(t)).fails(misuse, "CARILLON_TOKEN_FILE", "job", "list")
	at(t).fails(misuse, "CARILLON_TOKEN_FILE", "worker", "--server", "http://127.0.0.1:1")
}

func TestAWorkersVariables(t *testing.T) {
	t.Setenv("CARILLON_CAPACITY", "many")
	at(t).fails(misuse, "environment CARILLON_CAPACITY", "worker")
	t.Setenv("CARILLON_CAPACITY", "0")
	t.Setenv("CARILLON_SERVER", "carillon.example")
	at(t).fails(misuse, "an address such as", "worker")
}
