package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

const (
	systemKey = "a-bootstrap-key-of-thirty-two-characters-or-more"
	workerKey = "a-key-for-workers-of-thirty-two-characters-or-more"
)

// bootServe runs a server over a folder, with a key for workers, and says where it is and how to stop it.
func bootServe(t *testing.T, dir, chosen string) (url string, stop func() error) {
	t.Helper()
	c := config.Default()
	c.Listen, c.Data, c.Database, c.BootstrapKey, c.BootstrapWorker = "127.0.0.1:0", dir, "sqlite:"+filepath.Join(dir, "carillon.db"), systemKey, chosen
	c.Roles = []string{"api"}
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := app.Run(ctx, app.Options{Config: c, Out: w, Logger: slog.New(slog.DiscardHandler)})
		w.Close()
		ended <- err
	}()
	greeting := make([]byte, 4096)
	n, _ := io.ReadAtLeast(r, greeting, 1)
	go io.Copy(io.Discard, r)
	stop = func() error { cancel(); return <-ended }
	if m := regexp.MustCompile(`(http://\S+)/readyz`).FindSubmatch(greeting[:n]); m != nil {
		return string(m[1]), stop
	}
	return "", stop
}

// ask sends a request and answers with its status and body.
func ask(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

func TestAKeyForWorkersFromTheStart(t *testing.T) {
	dir := t.TempDir()
	register := func(url string) int {
		code, _ := ask(t, "POST", url+"/api/v1/workers", workerKey, `{"kinds": ["x"], "capacity": 1}`)
		return code
	}
	id := ""
	for range 2 { // the second start finds it
		url, stop := bootServe(t, dir, workerKey)
		if code := register(url); code/100 != 2 {
			t.Errorf("a worker is answered with %d", code)
		}
		if code, text := ask(t, "POST", url+"/api/v1/jobs", workerKey, `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop"}}`); code != 403 {
			t.Errorf("a worker creates a job: %d %s", code, text)
		}
		code, text := ask(t, "GET", url+"/api/v1/api-keys", systemKey, "")
		var keys struct {
			Keys []struct {
				ID   string `json:"key_id"`
				Role string `json:"role"`
			} `json:"api_keys"`
		}
		if err := json.Unmarshal([]byte(text), &keys); err != nil || code != 200 {
			t.Fatalf("%d %v: %s", code, err, text)
		}
		n := 0
		for _, k := range keys.Keys {
			if k.Role == "worker" {
				id, n = k.ID, n+1
			}
		}
		if n != 1 {
			t.Errorf("there are %d keys for workers: %s", n, text)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	url, stop := bootServe(t, dir, workerKey)
	if code, text := ask(t, "DELETE", url+"/api/v1/api-keys/"+id, systemKey, ""); code/100 != 2 {
		t.Errorf("revoke: %d %s", code, text)
	}
	stop()
	url, stop = bootServe(t, dir, workerKey)
	if code := register(url); code != 401 {
		t.Errorf("a key that was revoked is answered with %d after a start", code)
	}
	stop()
}

func TestAKeyForWorkersThatMayDoEverythingIsRefused(t *testing.T) {
	dir := t.TempDir()
	_, stop := bootServe(t, dir, "")
	stop()
	url, stop := bootServe(t, dir, systemKey)
	if err := stop(); url != "" || err == nil || !strings.Contains(err.Error(), "role system") {
		t.Errorf("got %q, %v", url, err)
	}
}

// A file that its owner lets others read is refused; one that root lends to this process's user is not: see lent, which only a
// process that is not root can be asked about.
func TestKeyFilesThatOthersRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	if err := os.WriteFile(file, []byte("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen, c.Data, c.Database, c.SecretsKeyFile = "127.0.0.1:0", dir, "sqlite:"+filepath.Join(dir, "carillon.db"), file
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := app.Run(ctx, app.Options{Config: c, Out: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "only its owner may read") {
		t.Errorf("got %v", err)
	}
}

// Whoever has lost every key, and has the database, gets in again; the audit log knows of it.
func TestALostKeyIsRecovered(t *testing.T) {
	where := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	serve(t, where).stop()
	c := config.Default()
	c.Database = where
	id, made, err := app.RecoverKey(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, where)
	if code, text := s.ask("GET", "/api/v1/tenants", "", "Authorization", "Bearer "+made); code != 200 {
		t.Errorf("the key is refused: %d, %s", code, text)
	}
	if code, text := s.ask("GET", "/api/v1/audit", "", "Authorization", "Bearer "+made); code != 200 || !strings.Contains(text, id) || !strings.Contains(text, "recovered on ") {
		t.Errorf("the audit log: %d, %s", code, text)
	}
}
