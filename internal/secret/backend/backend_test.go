package backend

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/secret"
)

func located(t *testing.T, name string) secret.Path {
	t.Helper()
	p, ok := secret.Locate(name)
	if !ok {
		t.Fatalf("%q is no name", name)
	}
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLocate(t *testing.T) {
	for name, want := range map[string]bool{
		"vault/a": true, "vault/shop/db#password": true, "files/.dockerconfigjson": true, "vault/A_b-c.d/e": true,
		"vault": false, "vault/": false, "/a": false, "vault//a": false, "vault/../a": false, "vault/./a": false, "vault/..data/a": false, "vault/a#": false, "vault/a#b#c": false, "vault/a#b/c": false,
		"vault/a b": false, "vault/%2e%2e/a": false, `vault/a\b`: false, "vault/a?x=1": false, "vault/ä": false, "vault/a\x00": false, "vault/" + strings.Repeat("a", 600): false, "": false,
	} {
		if _, ok := secret.Locate(name); ok != want {
			t.Errorf("%q: %v", name, ok)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "acme", "db"), "acme-password\n")
	write(t, filepath.Join(dir, "acme", "deep", "key.pem"), "line one\nline two\n")
	write(t, filepath.Join(dir, "other", "db"), "other-password")
	write(t, filepath.Join(dir, "acme", "..2026", "token"), "mounted")
	write(t, filepath.Join(filepath.Dir(dir), filepath.Base(dir)+"-outside"), "outside")
	t.Cleanup(func() { os.Remove(dir + "-outside") })
	for link, to := range map[string]string{"acme/..data": "..2026", "acme/token": "..data/token", "acme/out": "../../" + filepath.Base(dir) + "-outside"} { // as Kubernetes does
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := Files{dir}
	for _, c := range []struct {
		tenant tenant.ID
		name   string
		want   string
		err    error
	}{
		{"acme", "files/db", "acme-password", nil}, {"other", "files/db", "other-password", nil}, {"acme", "files/deep/key.pem", "line one\nline two", nil}, {"acme", "files/token", "mounted", nil},
		{"acme", "files/none", "", secret.ErrMissing}, {"third", "files/db", "", secret.ErrMissing}, {"acme", "files/deep", "", secret.ErrMissing}, {"acme", "files/db#field", "", secret.ErrMissing}, {"acme", "files/db/below", "", secret.ErrMissing},
		{"..", "files/db", "", secret.ErrMissing}, {"acme/../other", "files/db", "", secret.ErrMissing}, {"", "files/db", "", secret.ErrMissing},
	} {
		got, err := f.Read(t.Context(), c.tenant, located(t, c.name))
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %s: %q, %v", c.tenant, c.name, got, err)
		}
	}
	var away *secret.Away
	if got, err := f.Read(t.Context(), "acme", located(t, "files/out")); err == nil || got != "" || errors.As(err, &away) {
		t.Errorf("a link leads out of the folder: %q, %v", got, err)
	}
	if _, err := (Files{dir + "-gone"}).Read(t.Context(), "acme", located(t, "files/db")); err == nil || errors.Is(err, secret.ErrMissing) || !errors.As(err, &away) || !strings.Contains(err.Error(), "backend files") {
		t.Errorf("without the folder: %v", err)
	}
}

// fake speaks the paths of Vault that are used: reading the key-value store, version 2, and signing in.
type fake struct {
	mu        sync.Mutex
	data      map[string]map[string]any // by the path behind /v1/
	tokens    map[string]bool
	namespace string
	logins    int
	reads     int
	answer    int // another status, whatever is asked
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	say := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	wrong := map[string]any{"errors": []string{"canary in an error"}}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	switch {
	case f.answer != 0:
		w.Header().Set("Location", "http://example.invalid/")
		say(f.answer, wrong)
	case r.Header.Get("X-Vault-Request") != "true" || r.Header.Get("X-Vault-Namespace") != f.namespace:
		say(400, wrong)
	case r.Method == "POST" && strings.HasPrefix(path, "auth/"):
		var in map[string]string
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.logins++
		if path == "auth/approle/login" && in["role_id"] == "role" && in["secret_id"] == "secret-id" || path == "auth/k8s/cluster/login" && in["role"] == "role" && in["jwt"] == "jwt" {
			token := "hvs." + time.Duration(f.logins).String()
			f.tokens[token] = true
			say(200, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": 3600}})
			return
		}
		say(400, wrong)
	case !f.tokens[r.Header.Get("X-Vault-Token")]:
		say(403, wrong)
	case r.Method == "GET" && f.data[path] != nil:
		f.reads++
		say(200, map[string]any{"data": map[string]any{"data": f.data[path], "metadata": map[string]any{"version": 1}}})
	default:
		f.reads++
		say(404, map[string]any{"errors": []string{}})
	}
}

func newFake() *fake {
	return &fake{tokens: map[string]bool{"root": true}, data: map[string]map[string]any{
		"secret/data/carillon/acme/shop/db": {"password": "acme-canary", "value": "whole", "port": 5432, "options": map[string]any{"a": 1}, "none": nil},
		"secret/data/carillon/other/db":     {"value": "other-canary"},
		"kv/data/acme/db":                   {"value": "elsewhere"},
	}}
}

func TestVault(t *testing.T) {
	f := newFake()
	srv := httptest.NewServer(f)
	defer srv.Close()
	v, err := NewVault(VaultConfig{Address: srv.URL + "/", Mount: "secret", Prefix: "carillon/", Token: "root"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant tenant.ID
		name   string
		want   string
		err    error
	}{
		{"acme", "vault/shop/db#password", "acme-canary", nil}, {"acme", "vault/shop/db", "whole", nil}, {"acme", "vault/shop/db#port", "5432", nil}, {"acme", "vault/shop/db#options", `{"a":1}`, nil}, {"other", "vault/db", "other-canary", nil},
		{"acme", "vault/shop/db#gone", "", secret.ErrMissing}, {"acme", "vault/shop/db#none", "", secret.ErrMissing}, {"acme", "vault/db", "", secret.ErrMissing}, {"other", "vault/shop/db", "", secret.ErrMissing},
		{"acme/../other", "vault/db", "", secret.ErrMissing}, {"", "vault/db", "", secret.ErrMissing},
	} {
		got, err := v.Read(t.Context(), c.tenant, located(t, c.name))
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %s: %q, %v", c.tenant, c.name, got, err)
		}
	}
	for _, status := range []int{307, 400, 403, 429, 500, 503} {
		f.answer = status
		_, err := v.Read(t.Context(), "acme", located(t, "vault/shop/db"))
		if err == nil || errors.Is(err, secret.ErrMissing) || !strings.Contains(err.Error(), "backend vault ("+srv.URL) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "root") {
			t.Errorf("%d: %v", status, err)
		}
		if whole := errors.As(err, new(*secret.Away)); whole != (status == 429 || status >= 500) {
			t.Errorf("%d concerns everybody: %v", status, whole)
		}
	}
	f.answer = 0
	f.data["secret/data/carillon/acme/long"] = map[string]any{"value": strings.Repeat("x", maxAnswer)}
	if _, err := v.Read(t.Context(), "acme", located(t, "vault/long")); err == nil || errors.As(err, new(*secret.Away)) {
		t.Errorf("an answer that is too long: %v", err)
	}
	srv.Close()
	if _, err := v.Read(t.Context(), "acme", located(t, "vault/shop/db")); err == nil || errors.Is(err, secret.ErrMissing) || !errors.As(err, new(*secret.Away)) || !strings.Contains(err.Error(), "could not be reached") {
		t.Errorf("away: %v", err)
	}
}

func TestVaultSignsIn(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, text)
		write(t, path, text+"\n")
		return path
	}
	for name, c := range map[string]VaultConfig{
		"approle":    {Auth: AuthAppRole, Role: "role", Credential: file("secret-id"), Namespace: "team"},
		"kubernetes": {Auth: AuthKubernetes, AuthPath: "k8s/cluster", Role: "role", Credential: file("jwt")},
	} {
		f := newFake()
		f.namespace = c.Namespace
		srv := httptest.NewServer(f)
		defer srv.Close()
		c.Address, c.Mount, c.Prefix = srv.URL, "kv", ""
		v, err := NewVault(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got, err := v.Read(t.Context(), "acme", located(t, "vault/db")); got != "elsewhere" || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if f.logins != 1 {
			t.Errorf("%s: signed in %d times", name, f.logins)
		}
		f.tokens = map[string]bool{} // revoked
		if got, err := v.Read(t.Context(), "acme", located(t, "vault/db")); got != "elsewhere" || err != nil || f.logins != 2 {
			t.Errorf("%s, revoked: %q, %v", name, got, err)
		}
		v.now = func() time.Time { return time.Now().Add(time.Hour) }
		if _, err := v.Read(t.Context(), "acme", located(t, "vault/db")); err != nil || f.logins != 3 {
			t.Errorf("%s, expired: %d, %v", name, f.logins, err)
		}
	}
	f := newFake()
	srv := httptest.NewServer(f)
	defer srv.Close()
	token := file("first")
	v, _ := NewVault(VaultConfig{Address: srv.URL, Mount: "kv", Credential: token})
	f.tokens["second"] = true
	if _, err := v.Read(t.Context(), "acme", located(t, "vault/db")); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a token that is refused: %v", err)
	}
	write(t, token, "second")
	if got, err := v.Read(t.Context(), "acme", located(t, "vault/db")); got != "elsewhere" || err != nil {
		t.Errorf("a new token: %q, %v", got, err)
	}
}

func TestVaultOverTLS(t *testing.T) {
	srv := httptest.NewTLSServer(newFake())
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	for file, fine := range map[string]bool{ca: true, "": false} {
		v, err := NewVault(VaultConfig{Address: srv.URL, Mount: "kv", Token: "root", CAFile: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Read(t.Context(), "acme", located(t, "vault/db")); (err == nil) != fine {
			t.Errorf("trusting %q: %v", file, err)
		}
	}
	if _, err := NewVault(VaultConfig{CAFile: ca + "x"}); err == nil {
		t.Error("without the file")
	}
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	v, _ := NewVault(VaultConfig{Address: slow.URL, Mount: "kv", Token: "root"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := v.Read(ctx, "acme", located(t, "vault/db")); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, new(*secret.Away)) {
		t.Errorf("one that does not answer: %v", err)
	}
}
