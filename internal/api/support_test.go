package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

func TestReadingASupportBundleIsAudited(t *testing.T) {
	s := newSigned(t, "free", func(c *api.Config, _ engine.Store) { c.Support = &api.Support{Host: "box-1"} })
	want[client.SupportBundle](s.face, 200, "GET", "/api/v1/admin/support", "", s.system...)
	log := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=support.read", "", s.system...)
	if len(log.Audit) != 1 || log.Audit[0].Object != "box-1" || log.Audit[0].Principal != "bootstrap" || log.Audit[0].KeyID == nil {
		t.Errorf("the audit log: %+v", log.Audit)
	}
}

// Secrets of every kind are put wherever a bundle takes its texts from; none comes out.
func TestNoSecretIsInASupportBundle(t *testing.T) {
	value, _, _ := access.NewSignIn()
	_, key := access.NewKey()
	canaries := map[string]string{
		"a setting":            `corr"ect<horse>&battery`,
		"a key":                key,
		"a cookie":             value,
		"a signing secret":     "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5",
		"a private key":        "whsk_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5",
		"a callback token":     "cct_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5",
		"a token":              "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl",
		"a password":           "hunter2hunter2",
		"an authorization":     "Zm9vOmNhbmFyeWNhbmFyeQ==",
		"a badge":              access.NewBadge(),
		"a payload":            "canary-of-a-payload",
		"a secret of a tenant": "canary-of-a-tenant",
	}
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			log := telemetry.NewLog(io.Discard, format, "debug")
			f := newFace(t, func(c *api.Config, _ engine.Store) {
				c.Log, c.Logger, c.Metrics = log, log.Logger, telemetry.NewMetrics("test")
				c.Ready = func(context.Context) error { return errors.New("the pool said " + canaries["a setting"]) }
				c.Support = &api.Support{
					Secrets: []string{canaries["a setting"]}, Store: "postgres://u:" + canaries["a password"] + "@h/x", Roles: []string{"api"}, Host: "box-1", StartedAt: time.Now(),
					Settings: []client.SupportSetting{{Key: "x", Value: canaries["a setting"], Changed: true}},
				}
			})
			want[client.Secret](f, 200, "PUT", "/api/v1/secrets/canary", fmt.Sprintf(`{"value": %q}`, canaries["a secret of a tenant"]))
			want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "x", "execution": {"target": "simulate", "work_kind": "noop", "payload": {"a": %q}}}`, canaries["a payload"]))
			for name, text := range canaries {
				if name == "a payload" || name == "a secret of a tenant" {
					continue // nobody logs them
				}
				switch name {
				case "a password":
					text = "dial postgres://u:" + text + "@h/x"
				case "an authorization":
					text = "Authorization: Basic " + text
				}
				log.Warn("it said\n"+text, "error", errors.New(text), "value", slog.AnyValue(text))
			}
			w := f.ask("GET", "/api/v1/admin/support", "")
			if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Disposition"), "carillon-support-") {
				t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			var b client.SupportBundle
			if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
				t.Fatal(err)
			}
			texts := slices.Concat(b.Log, b.Missing, []string{b.Metrics, b.Store, *b.NotReady})
			for _, s := range b.Settings {
				texts = append(texts, s.Value)
			}
			for name, text := range canaries {
				if bytes.Contains(w.Body.Bytes(), []byte(text)) || slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }) {
					t.Errorf("%s is in it", name)
				}
			}
			if len(b.Log) < 8 || !strings.Contains(b.Metrics, "carillon_") || b.Status == nil || b.Tenants == nil || len(b.Missing) != 0 || b.Ready || b.Process.Goroutines == 0 {
				t.Errorf("it lacks something: %+v", b)
			}
		})
	}
}

// While the store is away there is a bundle that says so.
func TestASupportBundleWithoutAStore(t *testing.T) {
	f := newFace(t, func(c *api.Config, _ engine.Store) { c.Metrics = telemetry.NewMetrics("test") })
	f.store.Close()
	b := want[client.SupportBundle](f, 200, "GET", "/api/v1/admin/support", "")
	if b.Ready || b.NotReady == nil || b.Status != nil || len(b.Missing) == 0 || b.Metrics == "" {
		t.Errorf("%+v", b)
	}
}

// A minute, and ten, into an outage whoever runs the installation has a bundle; nobody else has, and nothing else is to be had.
func TestASupportBundleWhileTheStoreIsAway(t *testing.T) {
	f, system, d := entrance(t, func(c *api.Config, _ engine.Store) { c.Metrics = telemetry.NewMetrics("test") })
	made := func(role string) client.APIKey {
		t.Helper()
		return want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"name": "x", "role": %q}`, role), "Authorization", system)
	}
	admin, revoked, unused := made("admin"), made("system"), made("system")
	cookie := signInWith(f, system)
	ask := func(credential ...string) int {
		return f.ask("GET", "/api/v1/admin/support", "", credential...).Code
	}
	for _, x := range []struct {
		want       int
		credential string
	}{{200, system}, {403, "Bearer " + *admin.Key}, {200, "Bearer " + *revoked.Key}} {
		if got := ask("Authorization", x.credential); got != x.want {
			t.Fatalf("while all is well: %d", got)
		}
	}
	if got := ask("Cookie", cookie); got != 200 {
		t.Fatalf("with a cookie: %d", got)
	}
	want[client.APIKey](f, 200, "DELETE", "/api/v1/api-keys/"+revoked.KeyID, "", "Authorization", system)
	f.store.Close()
	for _, by := range []time.Duration{time.Minute, 9 * time.Minute} {
		d.advance(by)
		for _, credential := range [][]string{{"Authorization", system}, {"Cookie", cookie}, {"Authorization", system, "X-Tenant-ID", "acme"}} {
			b := want[client.SupportBundle](f, 200, "GET", "/api/v1/admin/support", "", credential...)
			if b.Ready || len(b.Missing) == 0 || b.Metrics == "" {
				t.Errorf("%+v", b)
			}
		}
		for name, credential := range map[string]string{"admin": *admin.Key, "revoked": *revoked.Key, "never used": *unused.Key, "wrong": strings.Repeat("x", 40)} {
			if got := ask("Authorization", "Bearer "+credential); got != 503 {
				t.Errorf("%s: %d", name, got)
			}
		}
		for _, path := range []string{"/api/v1/jobs", "/api/v1/admin/sizes", "/api/v1/admin/log-level"} {
			want[client.Problem](f, 503, "GET", path, "", "Authorization", system)
		}
	}
	d.advance(6 * time.Minute)
	if got := ask("Authorization", system); got != 503 {
		t.Errorf("after a quarter of an hour: %d", got)
	}
	if got := ask("Cookie", cookie); got != 503 {
		t.Errorf("and with a cookie: %d", got)
	}
}
