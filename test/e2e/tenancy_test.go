package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

const quick = `{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`

// member is a client with a key of a new tenant.
func member(t *testing.T, p *harness.Process, name, tier, role string) *harness.Client {
	t.Helper()
	made := harness.Want[client.Tenant](p, 201, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": %q, "tier": %q}`, name, tier))
	k := harness.Want[client.APIKey](p, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "m", "role": %q}`, made.TenantID, role))
	c := harness.At(t, p.Base)
	c.Key = *k.Key
	return c
}

func TestTenancy(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		a, b := member(t, p, "alpha", "free", "admin"), member(t, p, "beta", "pro", "admin")

		// Quotas: what is refused, and what the tenant is told of it.
		harness.Want[client.Tenant](p, 200, "PATCH", "/api/v1/tenants/alpha", `{"quotas": {"active_jobs": 2, "executions_per_minute": 60, "executions_burst": 3, "requests_per_second": 50}}`)
		later := `{"name": "later", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`
		j := harness.Want[client.Job](a, 201, "POST", "/api/v1/jobs", later)
		harness.Want[client.Job](a, 201, "POST", "/api/v1/jobs", later)
		if over := harness.Want[client.Problem](a, 403, "POST", "/api/v1/jobs", later); over.Quota == nil || over.Quota.Limit != 2 || over.Quota.Current != 2 {
			t.Errorf("%+v", over)
		}
		harness.Want[client.Job](a, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "")
		one := harness.Want[client.Job](a, 201, "POST", "/api/v1/jobs", quick) // the deleted one made room
		a.Ends(one.ExecutionID, "SUCCEEDED")
		begun, since := 1, time.Now()
		for range 10 {
			if code, _, err := a.Ask("POST", "/api/v1/jobs/"+one.JobID+"/trigger", ""); err != nil || code == 429 {
				break
			}
			begun++
		}
		if most := 5 + int(time.Since(since)/time.Second); begun < 3 || begun > most { // one more may begin each second
			t.Errorf("%d executions were begun at once, want 3", begun)
		}

		// Rates: of one tenant, not of the other. It is one that a slow machine exceeds, too.
		harness.Want[client.Tenant](p, 200, "PATCH", "/api/v1/tenants/alpha", `{"quotas": {"requests_per_second": 1}}`)
		var limited http.Header
		harness.Eventually(t, 20*time.Second, "a limit", func() bool {
			got, err := a.Do("GET", "/api/v1/quotas", "")
			if err != nil {
				t.Fatal(err)
			}
			limited = got.Header
			return got.Code == 429
		})
		if limited.Get("Retry-After") == "" || !strings.HasPrefix(limited.Get("RateLimit"), `"requests";r=0`) {
			t.Errorf("it was not limited: %v", limited)
		}
		harness.Want[client.Allowance](b, 200, "GET", "/api/v1/quotas", "")

		// The tier changes for what comes from then on, without a restart.
		harness.Want[client.Tenant](p, 200, "PATCH", "/api/v1/tenants/alpha", `{"tier": "enterprise", "quotas": {"requests_per_second": null, "active_jobs": null}}`)
		harness.Eventually(t, 5*time.Second, "the new tier to count", func() bool {
			code, _, err := a.Ask("POST", "/api/v1/jobs", `{"name": "n", "priority": 1, "execution": {"target": "simulate", "work_kind": "noop", "payload": "`+strings.Repeat("x", 50_000)+`"}}`)
			return err == nil && code == 201
		})

		// The log tells all of it, to its own tenant only, and holds.
		log := harness.Want[client.AuditEntries](a, 200, "GET", "/api/v1/audit?limit=1000", "")
		kinds := map[string]int{}
		for _, e := range log.Audit {
			kinds[e.Action]++
		}
		if kinds["job.create"] < 3 || kinds["job.delete"] != 1 || kinds["tenant.update"] != 3 || kinds["job.trigger"] != begun-1 {
			t.Errorf("%v", kinds)
		}
		for _, e := range harness.Want[client.AuditEntries](b, 200, "GET", "/api/v1/audit?limit=1000", "").Audit {
			if strings.HasPrefix(e.Action, "job.") {
				t.Errorf("another tenant's: %+v", e)
			}
		}
		harness.Eventually(t, 30*time.Second, "the log to be sealed", func() bool {
			v := harness.Want[client.AuditVerification](a, 200, "GET", "/api/v1/audit/verify", "")
			return v.OK && v.Unsealed == 0 && v.Entries >= int64(len(log.Audit))
		})
	})
}

// Two servers hold a tenant to one rate.
func TestTwoServersShareARate(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	ps := []*harness.Process{harness.Serve(t, where), harness.Serve(t, where)}
	if ps[0].Says("second wall") || ps[1].Says("second wall") {
		t.Errorf("the wall is down:\n%s", ps[0].Out.String())
	}
	first := member(t, ps[0], "alpha", "free", "viewer")
	second := harness.At(t, ps[1].Base)
	second.Key = first.Key
	passed, asked := 0, 0
	began := time.Now()
	for time.Since(began) < 5*time.Second {
		for _, c := range []*harness.Client{first, second} {
			code, _, err := c.Ask("GET", "/api/v1/jobs", "")
			if err != nil {
				t.Fatal(err)
			}
			asked++
			if code == 200 {
				passed++
			}
		}
	}
	took := time.Since(began)
	if most := int(10*(took.Seconds()+1)) + 2*10; passed < min(40, asked/2) || passed > most { // a slow machine asks less often
		t.Errorf("%d of %d requests passed in %v at 10 a second, want %d at most", passed, asked, took, most)
	}
}
