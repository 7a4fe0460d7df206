package e2e

import (
	"fmt"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// TestServeSignsFromTheStart has an admin, whose requests may do no more in the database than they need, ask for the secret that
// the tenant's callbacks are signed with.
func TestServeSignsFromTheStart(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Start(t, harness.Settings("CARILLON_SECRETS_KEY="+firstKey), "serve", "--database", where)
		s := harness.NewSink(t)
		p.Ends(p.Create(s.Call("")).ExecutionID, "SUCCEEDED")
		if got := s.Seen()[0].Header.Get("webhook-signature"); got == "" {
			t.Errorf("the first callback is not signed: %v", s.Seen()[0].Header)
		}
		made := harness.Want[client.Tenant](p, 201, "POST", "/api/v1/tenants", `{"name": "Acme", "tier": "pro"}`)
		for _, of := range []string{"default", made.TenantID} {
			key := harness.Want[client.APIKey](p, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "boss", "role": "admin"}`, of))
			boss := &harness.Client{T: t, Base: p.Base, Key: *key.Key}
			all := harness.Want[client.SigningSecrets](boss, 200, "GET", "/api/v1/signing-secrets", "").SigningSecrets
			if len(all) != 1 || all[0].Shown {
				t.Fatalf("%s: %+v", of, all)
			}
			path := "/api/v1/signing-secrets/" + all[0].ID
			shown := harness.Want[client.SigningSecret](boss, 200, "POST", path+"/reveal", "")
			if shown.Secret == "" || !shown.Shown {
				t.Errorf("%s is shown %+v", of, shown)
			}
			harness.Want[client.Problem](boss, 409, "POST", path+"/reveal", "")
			harness.Want[client.SigningSecret](boss, 200, "DELETE", path, "")
			if again := harness.Want[client.SigningSecrets](boss, 200, "GET", "/api/v1/signing-secrets", "").SigningSecrets; len(again) != 1 || again[0].Shown {
				t.Errorf("%s, after it was revoked: %+v", of, again)
			}
		}
	})
}
