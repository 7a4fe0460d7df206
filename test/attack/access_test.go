package attack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// call is one operation of the OpenAPI document.
type call struct {
	method, path string
	open         bool // it asks for no credential
}

// calls reads every operation from the document that the server publishes, so a new route is attacked from its first day.
func (s *scene) calls() (all []call) {
	s.Helper()
	type operation struct {
		Security []map[string][]string `json:"security"`
	}
	doc := harness.Want[struct {
		Paths map[string]map[string]operation `json:"paths"`
	}](s.system, 200, "GET", "/openapi.json", "")
	for path, of := range doc.Paths {
		for method, o := range of {
			all = append(all, call{strings.ToUpper(method), path, len(o.Security) == 0})
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].path+all[i].method < all[k].path+all[k].method })
	if len(all) < 100 {
		s.Fatalf("the document has %d operations only", len(all))
	}
	return all
}

// filled puts an id in place of each parameter of a path.
func filled(path, id string) string {
	for {
		before, rest, ok := strings.Cut(path, "{")
		if !ok {
			return path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + id + after
	}
}

const nobody = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := stage(t)
	victim := s.people["victim/admin"]
	anonymous := &stranger{base: s.server.Base}

	// Every operation without a credential, and with one that was made up.
	for _, c := range s.calls() {
		path := filled(c.path, nobody)
		if c.open {
			continue
		}
		s.answers(anonymous, denied(), "anonymous "+c.method+" "+c.path, c.method, path, "", "Authorization", "")
		s.answers(anonymous, denied(), "invented key "+c.method+" "+c.path, c.method, path, "", "Authorization", "Bearer "+victim.Key[:len(victim.Key)-4]+"AAAA")
	}

	// Forged, malformed and misplaced credentials.
	claims := fmt.Sprintf(`{"iss":"carillon","aud":"carillon","sub":"x","tenant_id":"victim","role":"admin","exp":%d,"nbf":1}`, time.Now().Add(time.Hour).Unix())
	hs := func(header string) string {
		text := b64(header) + "." + b64(claims)
		m := hmac.New(sha256.New, []byte("secret"))
		m.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	for name, credential := range map[string]string{
		"empty": "Bearer ", "basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:admin")), "two keys": "Bearer " + victim.Key + " " + victim.Key,
		"key in capitals": "Bearer " + strings.ToUpper(victim.Key), "key cut short": "Bearer " + victim.Key[:len(victim.Key)/2], "key and more": "Bearer " + victim.Key + "x",
		"a quote": "Bearer ' OR 1=1 --", "a percent sign": "Bearer %", "a null byte encoded": "Bearer %00", "64 KiB": "Bearer " + strings.Repeat("a", 12<<10),
		"JWT with alg none": "Bearer " + b64(`{"alg":"none","typ":"JWT"}`) + "." + b64(claims) + ".", "JWT with alg NONE": "Bearer " + b64(`{"alg":"NonE"}`) + "." + b64(claims) + ".",
		"JWT signed with a guess": "Bearer " + hs(`{"alg":"HS256","typ":"JWT"}`), "JWT with jku": "Bearer " + hs(`{"alg":"HS256","jku":"http://127.0.0.1/keys"}`),
		"JWT with crit": "Bearer " + hs(`{"alg":"HS256","crit":["b64"],"b64":false}`), "JWT with its own key": "Bearer " + hs(`{"alg":"HS256","jwk":{"kty":"oct","k":"c2VjcmV0"}}`),
		"JWT with a path as kid": "Bearer " + hs(`{"alg":"HS256","kid":"../../../../dev/null"}`), "JWT of three dots": "Bearer ...",
	} {
		s.answers(anonymous, denied(), "credential: "+name, "GET", "/api/v1/jobs", "", "Authorization", credential)
	}
	for _, place := range []string{"?token=", "?key=", "?access_token=", "?api_key="} {
		s.answers(anonymous, append(denied(), 400), "key in the address "+place, "GET", "/api/v1/jobs"+place+victim.Key, "", "Authorization", "")
	}
	for _, header := range []string{"X-API-Key", "X-Auth-Token", "X-Forwarded-User", "X-Remote-User", "X-Original-URL", "X-Tenant-ID"} {
		s.answers(anonymous, denied(), "credential in "+header, "GET", "/api/v1/jobs", "", "Authorization", "", header, "victim")
	}

	// A tenant named anywhere but in the credential.
	attacker := s.people["attacker/admin"]
	s.answers(attacker, []int{403}, "X-Tenant-ID of another tenant", "GET", "/api/v1/jobs", "", "X-Tenant-ID", "victim")
	s.answers(attacker, []int{403, 404, 422}, "key for another tenant", "POST", "/api/v1/api-keys", `{"tenant_id": "victim", "name": "x", "role": "viewer"}`)
	s.answers(attacker, []int{403, 422}, "key of role system", "POST", "/api/v1/api-keys", `{"name": "x", "role": "system"}`)
	s.answers(attacker, []int{400}, "tenant_id in a job", "POST", "/api/v1/jobs", `{"name": "x", "tenant_id": "victim", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	s.answers(attacker, []int{400}, "tenant_id in a query", "GET", "/api/v1/jobs?tenant_id=victim", "")
	s.answers(attacker, []int{403}, "its own tier", "PATCH", "/api/v1/tenants/attacker", `{"tier": "enterprise"}`)

	// Rights that its role does not have.
	job := harness.Want[client.Job](s.people["attacker/operator"], 201, "POST", "/api/v1/jobs", `{"name": "later", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	reads := []string{"POST /api/v1/schedules/preview", "POST /api/v1/jobs:plan", "POST /api/v1/workflows:lint", "POST /api/v1/sign-in", "POST /api/v1/sign-out", "POST /api/v1/executions/{id}/complete"}
	for _, c := range s.calls() {
		path := filled(c.path, job.JobID)
		decides := strings.HasSuffix(c.path, "/approve") || strings.HasSuffix(c.path, "/reject") // an approval says which roles may
		if c.method != "GET" && !c.open && !decides && !slices.Contains(reads, c.method+" "+c.path) {
			s.answers(s.people["attacker/viewer"], []int{403}, "viewer "+c.method+" "+c.path, c.method, path, "{}")
		}
		if !c.open && !strings.HasPrefix(c.path, "/api/v1/workers") && c.path != "/api/v1/executions/{id}/start" && !slices.Contains(reads, c.method+" "+c.path) && c.path != "/api/v1/session" && !strings.HasPrefix(c.path, "/api/v1/artifacts/") {
			s.answers(s.people["attacker/worker"], []int{403}, "worker "+c.method+" "+c.path, c.method, path, "{}")
		}
		if strings.HasPrefix(c.path, "/api/v1/admin/") || strings.HasPrefix(c.path, "/api/v1/tenants") {
			s.answers(s.people["attacker/admin"], []int{403}, "admin "+c.method+" "+c.path, c.method, path, "{}")
		}
	}
	s.alive()
}

// TestOtherTenantsIDs asks for what the victim has, by id, with the attacker's best credential.
func TestOtherTenantsIDs(t *testing.T) {
	t.Parallel()
	s := stage(t)
	v := s.people["victim/admin"]
	j := harness.Want[client.Job](v, 201, "POST", "/api/v1/jobs", `{"name": "theirs", "key": "theirs", "priority": 5, "execution": {"target": "worker", "kind": "never", "payload": "tainted-by-victim"}}`)
	flow := harness.Want[client.Workflow](v, 201, "POST", "/api/v1/workflows", `{"name": "theirs", "key": "flow", "nodes": [{"key": "theirs", "execution": {"target": "worker", "kind": "never"}}]}`)
	ran := harness.Want[client.WorkflowTriggered](v, 202, "POST", "/api/v1/workflows/key:flow/trigger", `{"input": "tainted-by-victim"}`)
	hold := harness.Want[client.Hold](v, 200, "PUT", "/api/v1/holds", fmt.Sprintf(`{"job_id": %q, "reason": "theirs"}`, flow.WorkflowID))
	badge := harness.Want[client.Badge](v, 201, "POST", "/api/v1/badges", fmt.Sprintf(`{"job_id": %q}`, j.JobID))
	harness.Want[client.Calendar](v, 200, "PUT", "/api/v1/calendars/things", `{"weekdays": ["SAT"]}`)
	harness.Want[client.Secret](v, 200, "PUT", "/api/v1/secrets/things", `{"value": "hidden thing"}`)
	session := harness.Want[client.Session](s.people["victim/worker"], 201, "POST", "/api/v1/workers", `{}`)
	mine := harness.Want[client.Session](s.people["attacker/worker"], 201, "POST", "/api/v1/workers", `{}`)
	keys := harness.Want[client.APIKeys](v, 200, "GET", "/api/v1/api-keys", "")
	ids := map[string]string{
		"/api/v1/jobs/": j.JobID, "/api/v1/executions/": j.ExecutionID, "/api/v1/dead-letters/": j.ExecutionID, "/api/v1/calendars/": "things", "/api/v1/secrets/": "things",
		"/api/v1/badges/": badge.BadgeID, "/api/v1/holds/": hold.HoldID, "/api/v1/workers/": session.WorkerID, "/api/v1/api-keys/": keys.APIKeys[0].KeyID, "/api/v1/workflows/": flow.WorkflowID, "/api/v1/workflow-runs/": ran.WorkflowRunID,
	}
	bodies := map[string]string{
		"/pause": "{}", "/resume": "{}", "/trigger": "{}", "/cancel": "{}", "/retry": "{}", "/claim": `{"max": 1}`, "/beat": "{}", "/complete": `{"outcomes": []}`, "/logs": `{}`, "/release": "{}",
		"/backfill": `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}`,
	}
	for _, c := range s.calls() {
		before, _, names := strings.Cut(c.path, "{")
		id, known := ids[before]
		if !names || !known || c.method == "PUT" || strings.HasSuffix(c.path, "/executions/{id}/complete") {
			continue
		}
		who := s.people["attacker/admin"]
		headers := []string{}
		if strings.HasPrefix(c.path, "/api/v1/workers/{id}") && c.method != "GET" && !strings.HasSuffix(c.path, "rdon") && !strings.HasSuffix(c.path, "drain") {
			who, headers = s.people["attacker/worker"], []string{"X-Worker-Session", mine.Session}
		}
		body := ""
		for end, b := range bodies {
			if strings.HasSuffix(c.path, end) {
				body = b
			}
		}
		a := s.answers(who, []int{401, 403, 404}, "foreign id "+c.method+" "+c.path, c.method, strings.Replace(filled(c.path, id), "/revisions/"+id, "/revisions/1", 1), body, headers...)
		if strings.Contains(a.Body, "tainted-by-victim") || strings.Contains(a.Body, "theirs") {
			s.row(false, "foreign id "+c.method+" "+c.path, "the answer holds the victim's data")
		}
		// An id that nobody has gets the same answer, so that ids cannot be probed.
		if a.Code == 404 {
			none := "nothing"
			if len(id) == len(nobody) {
				none = nobody
			}
			b, err := who.Do(c.method, strings.Replace(filled(c.path, none), "/revisions/"+none, "/revisions/1", 1), body, headers...)
			same := err == nil && b.Code == a.Code && without(b.Body, none) == without(a.Body, id)
			s.row(same, "unknown id answers the same "+c.method+" "+c.path, fmt.Sprintf("%d", b.Code))
			if !same {
				t.Logf("foreign: %s\nunknown: %s", a.Body, b.Body)
			}
		}
	}
	s.answers(s.people["attacker/admin"], []int{404}, "foreign key as an id", "GET", "/api/v1/jobs/key:theirs", "")
	s.answers(s.people["attacker/admin"], []int{404}, "foreign key of a workflow", "GET", "/api/v1/workflows/key:flow", "")
	for what, id := range map[string]string{"its id": j.JobID, "its key": "key:theirs", "a workflow's": flow.WorkflowID} {
		s.answers(s.people["attacker/admin"], []int{422}, "a node that runs another tenant's job, by "+what, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "x", "nodes": [{"key": "a", "job_id": %q}]}`, id))
	}
	for _, path := range []string{"jobs", "workflows", "workflow-runs", "executions", "jobs?q=theirs", "executions?q=tainted", "workers", "secrets", "audit", "events/stream?limit=1"} {
		if strings.HasPrefix(path, "events") {
			continue // a stream does not end
		}
		a := s.answers(s.people["attacker/admin"], []int{200}, "list "+path, "GET", "/api/v1/"+path, "")
		s.row(!strings.Contains(a.Body, "theirs") && !strings.Contains(a.Body, session.WorkerID), "list "+path+" holds nothing of the victim's", fmt.Sprint(len(a.Body), " bytes"))
	}
	s.alive()
}

// without is a problem without the id and the number of its request.
func without(body, id string) string {
	var p map[string]any
	if json.Unmarshal([]byte(body), &p) != nil {
		return body
	}
	delete(p, "request_id")
	b, _ := json.Marshal(p)
	return strings.ReplaceAll(string(b), id, "ID")
}
