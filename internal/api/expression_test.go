package api_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// chain is a concurrency key that joins a member of the payload with itself as often as it may.
var chain = strings.TrimSuffix(strings.Repeat("payload.a+", 24), "+")

func greedyJob(key string, size int) string {
	return fmt.Sprintf(`{"key": %q, "name": "n", "concurrency_key": %q, "max_concurrent": 1, "execution": {"target": "simulate", "work_kind": "noop", "payload": {"a": %q}}}`,
		key, chain, strings.Repeat("x", size))
}

// tenAtOnce sends a request ten times at once, and answers with what they allocate, all in all.
func (f face) tenAtOnce(method, path, body string, headers ...string) (answers [10]*httptest.ResponseRecorder, allocated uint64) {
	f.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = f.ask(method, path, body, headers...) })
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	return answers, after.TotalAlloc - before.TotalAlloc
}

// A viewer of a tenant of the free tier cannot have the server fill its memory: what ten of its plans allocate is a small
// multiple of what they send.
func TestPlansOfAViewerStayWithinMemory(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprintf(`{"job": %s}`, greedyJob(fmt.Sprint("k", i), 900))
	}
	for _, c := range []struct {
		name, tier, body, problem string
		most                      uint64
	}{
		{"one long payload", "free", `{"jobs": [{"job": ` + greedyJob("k", 1<<20) + `}]}`, "Payloads of this tenant have at most 1024 bytes", 150 << 20},
		{"many payloads within the quota", "free", `{"jobs": [` + strings.Join(many, ",") + `]}`, "it makes more than 32768 bytes of text", 300 << 20},
		{"a long payload within the quota", "", `{"jobs": [{"job": ` + greedyJob("k", 60<<10) + `}]}`, "it makes more than 32768 bytes of text", 100 << 20},
		{"a longer payload without a quota", "", `{"jobs": [{"job": ` + greedyJob("k", 1<<20) + `}]}`, "at most 65536", 200 << 20},
	} {
		s := newSigned(t, "free")
		viewer := s.key("viewer")
		if c.tier == "" {
			s.quotas(`{"quotas": {"payload_bytes": -1}}`)
		}
		answers, got := s.tenAtOnce("POST", "/api/v1/jobs:plan", c.body, viewer...)
		if got > c.most {
			t.Errorf("%s: ten plans of %d bytes allocated %d bytes; want at most %d", c.name, len(c.body), got, c.most)
		}
		t.Logf("%s: ten plans of %d bytes allocated %d MiB", c.name, len(c.body), got>>20)
		for _, a := range answers {
			var plan client.JobPlans
			if err := json.Unmarshal(a.Body.Bytes(), &plan); err != nil || len(plan.Jobs) == 0 {
				t.Fatalf("%s: %d, %v, %.400s", c.name, a.Code, err, a.Body)
			}
			if p := plan.Jobs[0]; a.Code != 200 || p.Action != client.ActionInvalid || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Want, c.problem) {
				t.Fatalf("%s: %d, %.400s", c.name, a.Code, a.Body)
			}
		}
	}
}

// Wherever a payload comes in, its length is judged before an expression looks into it.
func TestThePayloadQuotaIsJudgedBeforeExpressions(t *testing.T) {
	s := newSigned(t, "free")
	long, key := strings.Repeat("x", 2000), `"concurrency_key": "payload.a.b", "max_concurrent": 1`
	body := func(payload string) string {
		return fmt.Sprintf(`{"name": "n", %s, "schedule": {"type": "CRON", "cron_expression": "0 3 * * *"}, "execution": {"target": "simulate", "work_kind": "noop", "payload": %s}}`, key, payload)
	}
	bad, good := fmt.Sprintf(`{"a": %q}`, long), `{"a": {"b": 1}}` // of the first the key has no value
	j := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", body(good), s.admin...)
	at := "/api/v1/jobs/" + j.JobID
	n := int64(len(bad))
	s.over(413, "payload_bytes", 1024, n, "POST", "/api/v1/jobs", body(bad))
	s.over(413, "payload_bytes", 1024, n, "POST", "/api/v1/jobs:batch", "["+body(good)+","+body(bad)+"]")
	s.over(413, "payload_bytes", 1024, n, "PATCH", at, `{"execution": {"payload": `+bad+`}}`)
	s.over(413, "payload_bytes", 1024, n, "POST", at+"/trigger", `{"payload_override": `+bad+`}`)
	s.over(413, "payload_bytes", 1024, n, "POST", "/api/v1/jobs:bulk", `{"action": "trigger", "ids": ["`+j.JobID+`"], "payload_override": `+bad+`}`)
	e := want[client.Execution](s.face, 202, "POST", at+"/trigger", "", s.admin...)
	want[client.Execution](s.face, 202, "POST", "/api/v1/executions/"+e.ExecutionID+"/cancel", "", s.admin...)
	s.over(413, "payload_bytes", 1024, n, "POST", "/api/v1/executions/"+e.ExecutionID+"/retry", `{"payload_override": `+bad+`}`)
	p := want[client.Problem](s.face, 422, "POST", at+"/trigger", `{"payload_override": {"a": "short"}}`, s.admin...)
	if len(p.Errors) != 1 || p.Errors[0].Field != "payload_override" {
		t.Errorf("a payload for which the key has no value: %+v", p)
	}
}
