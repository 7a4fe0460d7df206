package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// TestSecretBackends runs jobs that name secrets in a folder and in Vault, which goes away and comes back.
func TestSecretBackends(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"default/key": "files-canary-one\nfiles-canary-two\n", "other/key": "others-canary"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var away atomic.Bool
		vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case away.Load():
				w.WriteHeader(503)
			case r.Header.Get("X-Vault-Token") != "root":
				w.WriteHeader(403)
			case r.URL.Path == "/v1/secret/data/carillon/default/shop":
				io.WriteString(w, `{"data": {"data": {"token": "vault-canary"}, "metadata": {"version": 3}}}`)
			default:
				w.WriteHeader(404)
			}
		}))
		defer vault.Close()
		var got atomic.Value
		got.Store("")
		sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got.Store(r.Header.Get("X-Token") + " " + string(body))
			w.WriteHeader(400)
			w.Write(append(body, r.Header.Get("X-Token")...))
		}))
		defer sink.Close()
		s := serve(t, where, func(o *app.Options) {
			o.Config.SecretsFiles, o.Config.Vault.Address, o.Config.Vault.Token, o.Config.SecretsCache = dir, vault.URL, "root", 0
			o.Config.Callbacks.BreakerFailures = 1000
		})
		body := func(header, payload string) string {
			return fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "headers": {"X-Token": %q}, "payload": {"v": %q}}, "retry_policy": {"max_retries": 20, "initial_delay_ms": 100, "max_delay_ms": 200}}`, sink.URL, header, payload)
		}
		j := want[client.Job](s, 201, "POST", "/api/v1/jobs", body("${secret:vault/shop#token}", "${secret:files/key}"))
		if h := j.Execution.Headers["X-Token"]; h != "${secret:vault/shop#token}" {
			t.Errorf("shown: %q", h)
		}
		s.ends(j.ExecutionID, "FAILED")
		if got.Load() != `vault-canary {"v":"files-canary-one\nfiles-canary-two"}` {
			t.Errorf("the target got %s", got.Load())
		}
		if _, text := s.ask("GET", "/api/v1/executions/"+j.ExecutionID, ""); strings.Contains(text, "canary") || !strings.Contains(text, "[redacted]") {
			t.Errorf("told: %s", text)
		}
		for _, name := range []string{"vault/none#token", "vault/shop#none", "files/none", "files/../other/key", "other/key", "files/key#x"} {
			p := want[client.Problem](s, 422, "POST", "/api/v1/jobs", body("x", "${secret:"+name+"}"))
			if len(p.Errors) != 1 || p.Errors[0].Field != "execution.payload" || strings.Contains(fmt.Sprint(p), "canary") {
				t.Errorf("%s: %+v", name, p.Errors)
			}
		}
		away.Store(true)
		j = want[client.Job](s, 201, "POST", "/api/v1/jobs", body("${secret:vault/shop#token}", "plain")) // what cannot be asked now may be there
		s.until("an attempt to fail", func() bool {
			_, text := s.ask("GET", "/api/v1/executions/"+j.ExecutionID+"/attempts", "")
			return strings.Contains(text, "the secret backend vault ("+vault.URL+") answered 503")
		})
		got.Store("")
		away.Store(false)
		s.until("the target to be called", func() bool { return strings.HasPrefix(got.Load().(string), "vault-canary") })
	})
}
