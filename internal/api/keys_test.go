package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// signedIn is a face with sign-in, and the first key as a header's value.
func signedIn(t *testing.T) (face, string) {
	t.Helper()
	var key string
	f := newFace(t, func(c *api.Config, store engine.Store) {
		var err error
		if key, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Authenticate = access.New(store, clock.System{}, nil).Authenticate
	})
	return f, "Bearer " + key
}

func TestKeysOverHTTP(t *testing.T) {
	f, system := signedIn(t)
	const at = "/api/v1/api-keys"
	acme := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "acme", "tier": "pro"}`, "Authorization", system)
	make := func(by, body string) (client.APIKey, string) {
		t.Helper()
		k := want[client.APIKey](f, 201, "POST", at, body, "Authorization", by)
		if k.Key == nil || !strings.HasPrefix(*k.Key, k.Prefix) || k.Status != "ACTIVE" {
			t.Fatalf("made: %+v", k)
		}
		return k, "Bearer " + *k.Key
	}
	_, admin := make(system, `{"tenant_id": "`+acme.TenantID+`", "name": "acme's admin", "role": "admin"}`)
	viewerKey, viewer := make(admin, `{"name": "screens", "role": "viewer"}`)
	_, workers := make(admin, `{"name": "fleet", "role": "worker"}`)
	everywhere, all := make(system, `{"tenant_id": "*", "name": "everybody's fleet", "role": "worker"}`)
	if viewerKey.TenantID != acme.TenantID || everywhere.TenantID != "*" {
		t.Errorf("tenants: %+v, %+v", viewerKey, everywhere)
	}

	t.Run("a key is its tenant", func(t *testing.T) {
		mine := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop, "Authorization", admin)
		want[client.Job](f, 200, "GET", "/api/v1/jobs/"+mine.JobID, "", "Authorization", viewer)
		want[client.Problem](f, 404, "GET", "/api/v1/jobs/"+mine.JobID, "", "Authorization", system)
		want[client.Job](f, 200, "GET", "/api/v1/jobs/"+mine.JobID, "", "Authorization", system, "X-Tenant-ID", acme.TenantID)
		want[client.Problem](f, 403, "GET", "/api/v1/jobs/"+mine.JobID, "", "Authorization", viewer, "X-Tenant-ID", "default")
		want[client.Problem](f, 403, "POST", "/api/v1/jobs", noop, "Authorization", viewer)
		want[client.Problem](f, 403, "GET", "/api/v1/jobs", "", "Authorization", workers)
	})
	t.Run("workers", func(t *testing.T) {
		for _, by := range []string{workers, all} {
			s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"targets": ["simulate"]}`, "Authorization", by)
			got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 0}`, "Authorization", by, "X-Worker-Session", s.Session)
			_ = got
			other := workers
			if by == workers {
				other = all
			}
			want[client.Problem](f, 404, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{}`, "Authorization", other, "X-Worker-Session", s.Session)
		}
	})
	t.Run("the list shows no text", func(t *testing.T) {
		list := want[client.APIKeys](f, 200, "GET", at, "", "Authorization", admin)
		if len(list.APIKeys) != 3 || list.APIKeys[0].Name != "fleet" {
			t.Errorf("list: %+v", list.APIKeys)
		}
		for _, k := range list.APIKeys {
			if k.Key != nil {
				t.Errorf("%s shows its text", k.Name)
			}
		}
		if list := want[client.APIKeys](f, 200, "GET", at, "", "Authorization", system); len(list.APIKeys) != 2 {
			t.Errorf("the system's: %+v", list.APIKeys)
		}
		want[client.Problem](f, 404, "GET", at+"/"+viewerKey.KeyID, "", "Authorization", system)
		want[client.APIKey](f, 200, "GET", at+"/"+viewerKey.KeyID, "", "Authorization", admin)
	})
	t.Run("what is refused", func(t *testing.T) {
		for body, field := range map[string]string{
			`{"name": "x", "role": "system"}`:                                       "role",
			`{"name": "x", "role": "emperor"}`:                                      "role",
			`{"name": "", "role": "viewer"}`:                                        "name",
			`{"name": "x", "role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}`: "expires_at",
			`{"name": "x", "role": "viewer", "tenant_id": "default"}`:               "tenant_id",
			`{"name": "x", "role": "worker", "tenant_id": "*"}`:                     "tenant_id",
			`{"name": "x", "role": "viewer", "tenant_id": ""}`:                      "tenant_id",
		} {
			p := want[client.Problem](f, 422, "POST", at, body, "Authorization", admin)
			if len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", body, p.Errors)
			}
		}
		for body, field := range map[string]string{
			`{"name": "x", "role": "viewer", "tenant_id": "nobody"}`: "tenant_id",
			`{"name": "x", "role": "viewer", "tenant_id": "*"}`:      "tenant_id",
		} {
			p := want[client.Problem](f, 422, "POST", at, body, "Authorization", system)
			if len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", body, p.Errors)
			}
		}
		want[client.Problem](f, 403, "POST", at, `{"name": "x", "role": "viewer"}`, "Authorization", viewer)
	})
	t.Run("the same request again shows no text", func(t *testing.T) {
		const body = `{"name": "once", "role": "viewer"}`
		first := want[client.APIKey](f, 201, "POST", at, body, "Authorization", admin, "Idempotency-Key", "k1")
		second := want[client.APIKey](f, 201, "POST", at, body, "Authorization", admin, "Idempotency-Key", "k1")
		if first.Key == nil || second.Key != nil || second.KeyID != first.KeyID {
			t.Errorf("first %+v, second %+v", first, second)
		}
	})
	t.Run("rotation keeps when a key ends", func(t *testing.T) {
		const ends = "2100-01-02T03:04:05Z"
		for body, want1 := range map[string]string{"": ends, `{"expires_at": "2099-01-01T00:00:00Z"}`: "2099-01-01T00:00:00Z"} {
			old, _ := make(admin, `{"name": "ends", "role": "operator", "expires_at": "`+ends+`"}`)
			fresh := want[client.APIKey](f, 201, "POST", at+"/"+old.KeyID+"/rotate", body, "Authorization", admin)
			if fresh.ExpiresAt == nil || fresh.ExpiresAt.Format(time.RFC3339) != want1 {
				t.Errorf("rotated with %q: it ends at %v; want %s", body, fresh.ExpiresAt, want1)
			}
		}
	})
	t.Run("rotation and revocation", func(t *testing.T) {
		old, oldBearer := make(admin, `{"name": "rotates", "role": "operator"}`)
		fresh := want[client.APIKey](f, 201, "POST", at+"/"+old.KeyID+"/rotate", `{"overlap_seconds": 3600}`, "Authorization", admin)
		if fresh.Name != "rotates" || fresh.Role != "operator" || fresh.Key == nil || fresh.KeyID == old.KeyID {
			t.Errorf("fresh: %+v", fresh)
		}
		for _, by := range []string{oldBearer, "Bearer " + *fresh.Key} {
			want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Authorization", by)
		}
		if k := want[client.APIKey](f, 200, "GET", at+"/"+old.KeyID, "", "Authorization", admin); k.ExpiresAt == nil || time.Until(*k.ExpiresAt) > time.Hour {
			t.Errorf("the old one: %+v", k)
		}
		want[client.Problem](f, 422, "POST", at+"/"+old.KeyID+"/rotate", `{"overlap_seconds": -1}`, "Authorization", admin)
		gone := want[client.APIKey](f, 200, "DELETE", at+"/"+old.KeyID, "", "Authorization", admin)
		if gone.Status != "REVOKED" || gone.RevokedAt == nil {
			t.Errorf("revoked: %+v", gone)
		}
		want[client.Problem](f, 409, "POST", at+"/"+old.KeyID+"/rotate", "", "Authorization", admin)
		want[client.Problem](f, 404, "DELETE", at+"/"+old.KeyID, "", "Authorization", system)
	})
	t.Run("nobody locks themselves out", func(t *testing.T) {
		list := want[client.APIKeys](f, 200, "GET", at, "", "Authorization", system)
		for _, k := range list.APIKeys {
			if k.Role == "system" {
				if p := want[client.Problem](f, 409, "DELETE", at+"/"+k.KeyID, "", "Authorization", system); p.Code != "cannot_revoke" {
					t.Errorf("%+v", p)
				}
			}
		}
	})
	if w := f.ask("GET", "/api/v1/jobs", "", "Authorization", system[:len(system)-1]+"0"); w.Code != 401 {
		t.Errorf("mistyped: %d", w.Code)
	}
}
