package api_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/service"
)

// audited is a signed face of a tenant without limits on requests, whose every part can be changed.
func newAudited(t *testing.T) signed {
	s := newSigned(t, "enterprise", func(c *api.Config, store engine.Store) {
		ring := must(seal.NewRing([]byte(strings.Repeat("k", seal.KeySize))))
		c.MaxArtifact = 1 << 20
		c.Service = service.New(store, clock.System{}, service.Config{
			LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Secrets: c.Secrets, Sealer: ring, Commands: true,
			Artifacts: artifact.NewStore(folder.New(filepath.Join(t.TempDir(), "a")), t.TempDir(), c.MaxArtifact, 1<<30),
		})
	})
	s.quotas(`{"quotas": {"requests_per_second": -1}}`)
	return s
}

func (s signed) audit(query string) []client.AuditEntry {
	s.Helper()
	return want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit"+query, "", s.admin...).Audit
}

func TestEveryChangeIsAudited(t *testing.T) {
	s := newAudited(t)
	admin := s.admin
	do := func(status int, method, path, body string) map[string]any {
		t.Helper()
		return want[map[string]any](s.face, status, method, "/api/v1"+path, body, admin...)
	}
	secret := "hunter2-hunter2"
	job := do(201, "POST", "/jobs", strings.Replace(every("1h"), `"work_kind"`, `"payload": {"private": "`+secret+`"}, "work_kind"`, 1))["job_id"].(string)
	do(201, "POST", "/jobs:batch", "["+noop+","+noop+"]")
	do(200, "PATCH", "/jobs/"+job, `{"priority": 2, "execution": {"payload": {"private": "`+secret+secret+`"}}}`)
	do(200, "PATCH", "/jobs/"+job, `{"priority": 2}`) // changes nothing
	do(200, "PATCH", "/jobs/"+job+"/pause", `{"reason": "tired"}`)
	do(200, "PATCH", "/jobs/"+job+"/resume", "")
	x := do(202, "POST", "/jobs/"+job+"/trigger", "")["execution_id"].(string)
	do(202, "POST", "/executions/"+x+"/cancel", `{"reason": "no"}`)
	do(202, "POST", "/executions/"+x+"/retry", "")
	do(200, "POST", "/dead-letters:discard", `{"ids": ["`+x+`"]}`) // which is no dead letter: nothing changes
	op := do(202, "POST", "/dead-letters:redrive", `{"filter": {}}`)["operation_id"].(string)
	do(202, "POST", "/operations/"+op+"/cancel", "")
	do(200, "PUT", "/calendars/c", `{"weekdays": ["SAT"]}`)
	do(200, "PUT", "/calendars/c", `{"weekdays": ["SUN"]}`)
	do(200, "DELETE", "/calendars/c", "")
	do(200, "PUT", "/secrets/s", `{"value": "`+secret+`"}`)
	do(200, "DELETE", "/secrets/s", "")
	sign := do(201, "POST", "/signing-secrets", "")
	do(200, "DELETE", "/signing-secrets/"+sign["id"].(string), "")
	badge := do(201, "POST", "/badges", `{"job_id": "`+job+`", "label": "l"}`)
	do(200, "DELETE", "/badges/"+badge["badge_id"].(string), "")
	hold := do(200, "PUT", "/holds", `{"job_id": "`+job+`", "reason": "r"}`)
	do(200, "PUT", "/holds", `{"job_id": "`+job+`", "reason": "r"}`)
	do(200, "DELETE", "/holds/"+hold["hold_id"].(string), "")
	do(200, "PUT", "/notification-rules/r", `{"events": ["failed"], "callback_url": "https://example.com/?token=`+secret+`"}`)
	do(202, "POST", "/notification-rules/r/test", "")
	do(200, "DELETE", "/notification-rules/r", "")
	do(200, "PUT", "/limits/tenant", `{"max_concurrent": 5}`)
	do(200, "PUT", "/limits/queues/q", `{"max_concurrent": 5}`)
	do(200, "POST", "/queues/q/pause", `{"reason": "`+strings.Repeat("r", 10)+`"}`)
	do(200, "POST", "/queues/q/pause", `{"reason": "`+strings.Repeat("r", 10)+`"}`)
	do(200, "POST", "/queues/q/resume", "")
	do(200, "POST", "/queues/q/resume", "")
	key := do(201, "POST", "/api-keys", `{"name": "new", "role": "viewer"}`)
	do(201, "POST", "/api-keys/"+key["key_id"].(string)+"/rotate", "")
	do(200, "DELETE", "/api-keys/"+key["key_id"].(string), "")
	art := do(201, "PUT", "/artifacts", "#!/bin/sh\n")["artifact_id"].(string)
	do(200, "DELETE", "/artifacts/"+art, "")
	worker := want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{}`, s.key("worker")...)
	do(200, "POST", "/workers/"+worker.WorkerID+"/cordon", "")
	do(200, "POST", "/workers/"+worker.WorkerID+"/uncordon", "")
	do(202, "POST", "/workers/"+worker.WorkerID+"/drain", "")
	do(200, "DELETE", "/jobs/"+job, "")
	do(200, "DELETE", "/jobs/"+job, "")
	s.quotas(`{"tier": "pro"}`)

	entries := s.audit("?limit=1000")
	slices.Reverse(entries)
	var got []string
	for _, e := range entries {
		got = append(got, e.Action)
		if e.Principal == "" || e.Role == "" || e.KeyID == nil || e.IP != "192.0.2.1" || e.RequestID == "" || e.Object == "" && e.Action != "limit.set" || e.Count < 1 || time.Since(e.At) > time.Minute {
			t.Errorf("%+v", e)
		}
		for _, text := range []string{secret, sign["secret"].(string), key["key"].(string), strings.TrimSuffix(strings.TrimPrefix(badge["svg"].(string), "/badges/"), ".svg")} {
			if strings.Contains(fmt.Sprintf("%+v", e), text) {
				t.Errorf("%s tells a secret: %+v", e.Action, e)
			}
		}
	}
	wanted := strings.Fields(`tenant.create signing_secret.create api_key.create tenant.update job.create job.create job.update job.pause job.resume job.trigger execution.cancel execution.retry
		operation.begin operation.cancel calendar.put calendar.put calendar.delete secret.put secret.delete signing_secret.create signing_secret.revoke badge.create badge.revoke hold.add hold.end
		notification_rule.put notification_rule.test notification_rule.delete limit.set limit.set queue.pause queue.resume api_key.create api_key.expire api_key.create api_key.revoke artifact.put artifact.delete api_key.create worker.cordon worker.uncordon worker.drain
		job.delete tenant.update`)
	if !slices.Equal(got, wanted) {
		t.Errorf("got  %q\nwant %q", got, wanted)
	}
	one := func(query string) client.AuditEntry {
		t.Helper()
		list := s.audit(query)
		if len(list) == 0 {
			t.Fatalf("nothing for %s", query)
		}
		return list[0]
	}
	if e := one("?action=job.update"); e.Before["priority"] != "5" || e.After["priority"] != "2" || len(e.After) != 2 || !strings.HasPrefix(e.After["payload"], "sha256:") || e.Before["payload"] == e.After["payload"] {
		t.Errorf("update: %v → %v", e.Before, e.After)
	}
	if e := one("?action=job.create"); e.Count != 2 || e.After["name"] != "hello" {
		t.Errorf("batch: %+v", e)
	}
	if e := one("?action=tenant.update"); e.Before["tier"] != "enterprise" || e.After["tier"] != "pro" || e.Role != "system" || e.Principal != "bootstrap" {
		t.Errorf("tenant: %+v", e)
	}
	if list := s.audit("?action=job.&object=" + job); len(list) != 6 {
		t.Errorf("%d entries of the job", len(list))
	}
	if list := s.audit("?principal=nobody"); len(list) != 0 {
		t.Errorf("%d entries of nobody", len(list))
	}
	if list := s.audit("?principal=k-admin&from=2020-01-01&to=2021-01-01"); len(list) != 0 {
		t.Errorf("%d entries of the past", len(list))
	}
	// Who is not of the tenant sees none of it, and only admins see any.
	for _, role := range []string{"viewer", "operator", "worker"} {
		want[client.Problem](s.face, 403, "GET", "/api/v1/audit", "", s.key(role)...)
	}
	for _, e := range want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?limit=1000", "", s.system...).Audit {
		if e.Object == job {
			t.Errorf("another tenant's: %+v", e)
		}
	}
	for _, bad := range []string{"?limit=0", "?from=yesterday", "?to=x", "?cursor=x", "?actor=x", "?action=a&action=b", "/verify?cursor=x", "/verify?limit=5"} {
		want[client.Problem](s.face, 400, "GET", "/api/v1/audit"+bad, "", s.admin...)
	}
}

// A request that is answered again, or refused, is no change.
func TestWhatIsNoChangeIsNotAudited(t *testing.T) {
	s := newAudited(t)
	before := len(s.audit("?limit=1000"))
	for range 3 {
		s.ask("POST", "/api/v1/jobs", noop, append(s.admin, "X-Idempotency-Key", "a")...)
		s.ask("POST", "/api/v1/api-keys", `{"name": "x", "role": "viewer"}`, append(s.admin, "X-Idempotency-Key", "b")...)
		s.ask("POST", "/api/v1/signing-secrets", "", append(s.admin, "X-Idempotency-Key", "c")...)
		s.ask("POST", "/api/v1/jobs", `{}`, s.admin...)
		s.ask("DELETE", "/api/v1/secrets/none", "", s.admin...)
	}
	if n := len(s.audit("?limit=1000")) - before; n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

func TestVerifyAudit(t *testing.T) {
	var where string
	s := newSigned(t, "pro", func(_ *api.Config, store engine.Store) { where = store.Describe() })
	path := where[strings.Index(where, "/"):]
	if i := strings.Index(path, "c.db"); i > 0 {
		path = path[:i+4]
	}
	verify := func() client.AuditVerification {
		t.Helper()
		return want[client.AuditVerification](s.face, 200, "GET", "/api/v1/audit/verify", "", s.admin...)
	}
	sealAll := func() {
		t.Helper()
		for more := true; more; {
			var err error
			if more, err = s.store.SealAudit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v := verify(); !v.OK || v.Entries != 0 || v.Unsealed != 2 || v.Head != nil {
		t.Errorf("before a seal: %+v", v)
	}
	for range 3 {
		want[client.Job](s.face, 201, "POST", "/api/v1/jobs", noop, s.admin...)
		sealAll()
	}
	v := verify()
	if !v.OK || v.Entries != 5 || v.Seals != 3 || v.FirstSeal != 1 || v.LastSeal != 3 || v.Head == nil || len(*v.Head) != 64 || v.Unsealed != 0 || v.NextCursor != nil {
		t.Errorf("sealed: %+v", v)
	}
	// Someone with the file in hand changes an entry.
	forge := func(sql string) {
		t.Helper()
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := sqlitex.ExecuteScript(c, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Or puts one in where another tenant's stood: between two seals, and behind the last.
	putIn := func() {
		t.Helper()
		want[client.Job](s.face, 201, "POST", "/api/v1/jobs", noop, s.system...)
		sealAll()
		other := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?limit=1", "", s.system...).Audit[0].Seq
		forge(fmt.Sprintf(`DELETE FROM audit WHERE seq = %d;
			INSERT INTO audit SELECT %d, at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail FROM audit WHERE seq = %d`, other, other, s.audit("?action=job.create")[0].Seq))
		if v := verify(); v.OK || v.Broken == nil || v.Broken.Seq == nil || *v.Broken.Seq != other || !strings.Contains(v.Broken.Reason, "put in later") {
			t.Errorf("put in: %+v %+v", v, v.Broken)
		}
		want[client.Job](s.face, 201, "POST", "/api/v1/jobs", noop, s.admin...)
		sealAll()
		if v := verify(); v.OK || v.Broken == nil || *v.Broken.Seq != other {
			t.Errorf("put in, and sealed since: %+v %+v", v, v.Broken)
		}
		forge(fmt.Sprintf("DELETE FROM audit WHERE seq = %d", other))
		if v := verify(); !v.OK {
			t.Errorf("taken out again: %+v", v.Broken)
		}
	}
	putIn()
	list := s.audit("?action=job.create")
	forge(fmt.Sprintf("UPDATE audit SET by_whom = 'somebody else' WHERE seq = %d", list[1].Seq))
	if v := verify(); v.OK || v.Broken == nil || v.Broken.Seq == nil || *v.Broken.Seq != list[1].Seq || !strings.Contains(v.Broken.Reason, "changed") {
		t.Errorf("changed: %+v %+v", v, v.Broken)
	}
	forge(fmt.Sprintf("DELETE FROM audit WHERE seq = %d", list[2].Seq))
	if v := verify(); v.OK || *v.Broken.Seq != list[2].Seq || !strings.Contains(v.Broken.Reason, "removed") {
		t.Errorf("removed: %+v", v.Broken)
	}
	if v := want[client.AuditVerification](s.face, 200, "GET", "/api/v1/audit/verify", "", s.system...); v.OK || !strings.Contains(v.Broken.Reason, "removed") {
		t.Errorf("another tenant's: %+v", v)
	}
}

func TestASecretInUseStays(t *testing.T) {
	s := newAudited(t)
	want[client.Secret](s.face, 200, "PUT", "/api/v1/secrets/s", `{"value": "abcdefgh"}`, s.admin...)
	j := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", `{"name": "uses it", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"callback_url": "https://example.com/", "headers": {"X-Api-Key": "${secret:s}"}}}`, s.admin...)
	p := want[client.Problem](s.face, 409, "DELETE", "/api/v1/secrets/s", "", s.admin...)
	if p.Code != "cannot_delete" || !strings.Contains(p.Detail, j.JobID) {
		t.Errorf("%+v", p)
	}
	want[client.Problem](s.face, 400, "DELETE", "/api/v1/secrets/s?force=yes", "", s.admin...)
	want[client.Secret](s.face, 200, "DELETE", "/api/v1/secrets/s?force=true", "", s.admin...)
	want[client.Job](s.face, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "", s.admin...)
	for _, node := range []string{`"execution": {"callback_url": "https://example.com/", "headers": {"X-A": "${secret:s}"}}`, `"execution": {"callback_url": "https://example.com/", "payload": ["${secret:s}"]}`} {
		want[client.Secret](s.face, 200, "PUT", "/api/v1/secrets/s", `{"value": "abcdefgh"}`, s.admin...)
		w := want[client.Workflow](s.face, 201, "POST", "/api/v1/workflows", `{"name": "uses it", "nodes": [{"key": "a", `+node+`}]}`, s.admin...)
		if p := want[client.Problem](s.face, 409, "DELETE", "/api/v1/secrets/s", "", s.admin...); !strings.Contains(p.Detail, w.WorkflowID) {
			t.Errorf("a node names it: %+v", p)
		}
		want[client.Workflow](s.face, 200, "DELETE", "/api/v1/workflows/"+w.WorkflowID, "", s.admin...)
		want[client.Secret](s.face, 200, "DELETE", "/api/v1/secrets/s", "", s.admin...)
	}
}

func TestASigningSecretIsShownToItsMaker(t *testing.T) {
	s := newAudited(t)
	ask := func(who []string) client.SigningSecret {
		return want[client.SigningSecret](s.face, 201, "POST", "/api/v1/signing-secrets", "", append(who, "X-Idempotency-Key", "k")...)
	}
	first, again, other := ask(s.admin), ask(s.admin), ask(s.key("admin"))
	if first.Secret == "" || again.Secret != first.Secret || other.Secret != "" || other.ID != first.ID {
		t.Errorf("%+v\n%+v\n%+v", first, again, other)
	}
}

func TestGoldenAudit(t *testing.T) {
	s := newAudited(t)
	j := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", every("1h"), append(s.admin, "X-Request-ID", "r1")...)
	s.ask("PATCH", "/api/v1/jobs/"+j.JobID, `{"priority": 2}`, append(s.admin, "X-Request-ID", "r2")...)
	key := strings.Split(s.admin[1], "_")[2]
	goldens(t, map[string]string{
		"audit.json":        strings.ReplaceAll(s.ask("GET", "/api/v1/audit?object="+j.JobID, "", s.admin...).Body.String(), key, "kkkkkkkk"),
		"audit_verify.json": s.ask("GET", "/api/v1/audit/verify", "", s.admin...).Body.String(),
	})
}
