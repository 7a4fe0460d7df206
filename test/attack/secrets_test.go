package attack

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

// TestSecretsStayHidden tries to read back what was hidden, as someone who may change jobs.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	s := stage(t)
	admin, c := s.people["victim/admin"], s.people["victim/operator"]
	other := harness.NewSink(t)
	recurring := `"schedule": {"type": "INTERVAL", "every": "24h"}, "retry_policy": {"max_retries": 0}`

	// A literal credential goes to the secret store; changing where the job calls must not carry it along.
	literal := "canary-" + rand.Text()
	hidden := fmt.Sprintf(`{"name": "x", %s, "execution": {"callback_url": %q, "headers": {"Authorization": "Bearer %s", "Cookie": "session=%s"}}}`, recurring, s.sink.URL, literal, literal)
	for what, patch := range map[string]string{
		"another host":   fmt.Sprintf(`{"execution": {"callback_url": %q}}`, other.URL),
		"a path of it":   fmt.Sprintf(`{"execution": {"callback_url": %q}}`, other.URL+"/steal"),
		"sent back":      fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]", "Cookie": "[redacted]"}}}`, other.URL),
		"with a header":  fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": {"X-More": "1"}}}`, other.URL),
		"and redirects":  fmt.Sprintf(`{"execution": {"callback_url": %q, "follow_redirects": true}}`, other.URL),
		"another scheme": fmt.Sprintf(`{"execution": {"callback_url": %q}}`, strings.Replace(other.URL, "http://", "HTTP://", 1)),
	} {
		j := c.Create(hidden)
		before := len(other.Seen())
		a, err := c.Do("PATCH", "/api/v1/jobs/"+j.JobID, patch)
		if err != nil {
			t.Fatal(err)
		}
		if a.Code == 200 {
			e := harness.Want[client.Triggered](c, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", "")
			s.final(c, e.ExecutionID)
		}
		leaked := strings.Contains(fmt.Sprint(other.Since(before)), literal)
		s.row(!leaked && a.Code < 500, "re-targeting a hidden header: "+what, fmt.Sprintf("%d, leaked: %v", a.Code, leaked))
	}
	// By way of the target's kind and of an older revision.
	j := c.Create(hidden)
	for _, step := range []struct{ method, path, body string }{
		{"PATCH", "/api/v1/jobs/" + j.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": null}}`, other.URL)},
		{"POST", "/api/v1/jobs/" + j.JobID + "/revisions/1/restore", ""},
		{"PATCH", "/api/v1/jobs/" + j.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q}}`, other.URL)},
		{"POST", "/api/v1/jobs/" + j.JobID + "/trigger", ""},
	} {
		a, err := c.Do(step.method, step.path, step.body)
		if err != nil || a.Code >= 500 {
			s.row(false, "a revision, step "+step.method, fmt.Sprint(a.Code, err))
		}
	}
	harness.Within(3*time.Second, func() bool { return len(other.Seen()) > 0 })
	s.row(!strings.Contains(fmt.Sprint(other.Seen()), literal), "re-targeting by way of an older revision", "nothing leaked")

	// What the API shows.
	for _, path := range []string{"jobs/" + j.JobID, "jobs?q=x", "jobs/" + j.JobID + "/revisions", "audit", "secrets"} {
		a := s.answers(admin, []int{200}, "reading "+path, "GET", "/api/v1/"+path, "")
		s.row(!strings.Contains(a.Body, literal), "no credential in "+path, fmt.Sprint(len(a.Body), " bytes"))
	}

	// A target that repeats what it was sent, in every form a program might print it.
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	der, _ := x509.MarshalPKCS8PrivateKey(key)
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: append(der, []byte(rand.Text()+rand.Text()+rand.Text()+rand.Text())...)}))
	for name, value := range map[string]string{"pem": block, "word": "canary-" + rand.Text(), "lines": "first-" + rand.Text() + "\nsecond-" + rand.Text() + "\r\nthird-" + rand.Text()} {
		harness.Want[client.Secret](admin, 200, "PUT", "/api/v1/secrets/"+name, fmt.Sprintf(`{"value": %s}`, quote(value)))
		b := base64.StdEncoding.EncodeToString([]byte(value))
		wrapped := ""
		for rest := b; rest != ""; {
			n := min(76, len(rest))
			wrapped, rest = wrapped+rest[:n]+"\n", rest[n:]
		}
		percent := func(s string) string {
			var out strings.Builder
			for _, c := range []byte(s) {
				fmt.Fprintf(&out, "%%%02X", c)
			}
			return out.String()
		}
		twice := map[string]string{
			"base64 of base64": base64.StdEncoding.EncodeToString([]byte(b)), "base64 of hex": base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(value)))), "hex of base64": hex.EncodeToString([]byte(b)),
			"hex of hex": hex.EncodeToString([]byte(hex.EncodeToString([]byte(value)))), "base64 of JSON": base64.StdEncoding.EncodeToString([]byte(quote(value))), "hex of JSON": hex.EncodeToString([]byte(quote(value))),
			"percent-encoded base64": percent(b), "base64 of a percent-encoding": base64.StdEncoding.EncodeToString([]byte(percent(value))),
		}
		forms := map[string]string{
			"itself": value, "one line": strings.NewReplacer("\r", "", "\n", " ").Replace(value), "quoted": quote(value), "base64": b, "wrapped base64": wrapped, "hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
			"the end of a long text": strings.Repeat(".", 4096-len(value)/2) + value, "Go": fmt.Sprintf("%q", value), "a hex dump": hex.Dump([]byte("key=" + value)),
			"coloured": coloured(value, "\x1b[31m", "\x1b[0m"), "coloured, as a log writes it": coloured(value, `\u001b[38;5;9m`, `\u001b[0m`), "struck over": struck(value),
		}
		maps.Copy(forms, twice)
		for how, form := range forms {
			s.sink.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); fmt.Fprint(w, form) })
			j := c.Create(fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "headers": {}, "payload": "${secret:%s}"}, "retry_policy": {"max_retries": 0}}`, s.sink.URL, name))
			s.final(c, j.ExecutionID)
			told := ""
			for _, path := range []string{"executions/" + j.ExecutionID, "executions/" + j.ExecutionID + "/attempts", "executions/" + j.ExecutionID + "/report", "executions/" + j.ExecutionID + "/events", "executions/" + j.ExecutionID + "/explain", "dead-letters?job_id=" + j.JobID, "executions:export?format=jsonl&job_id=" + j.JobID} {
				a, err := admin.Do("GET", "/api/v1/"+path, "")
				if err != nil {
					t.Fatal(err)
				}
				told += a.Body
			}
			found := ""
			for _, line := range strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
				if len(line) >= 6 && !strings.HasPrefix(line, "-----") && (strings.Contains(told, line) || strings.Contains(told, line[:len(line)*3/4])) {
					found = line
				}
			}
			for _, line := range append(strings.Split(wrapped, "\n"), hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))) {
				if len(line) >= 24 && strings.Contains(told, line) {
					found = line
				}
			}
			for i := 0; i+10 <= len(value); i++ {
				if piece := value[i : i+10]; !strings.ContainsAny(piece, "-\r\n ") && (strings.Contains(told, piece) || strings.Contains(told, fmt.Sprintf("% x", piece))) {
					found = piece
				}
			}
			again := twice[how]
			for i := 12; i+24 <= len(again)-12; i++ { // the ends depend on what was encoded with it
				if piece := again[i : i+24]; strings.Contains(told, piece) && !strings.Contains(piece, base64.StdEncoding.EncodeToString([]byte("%2D%2D%2D"))) { // of the dashes around a key
					found = piece
				}
			}
			s.row(found == "", fmt.Sprintf("an answer that repeats the secret %s (%s)", name, how), short("found: "+found))
		}
	}
	s.row(!strings.Contains(s.server.Out.String(), literal), "no credential in the server's log", "")
	s.alive()
}

// coloured is a text in which a program has begun and ended a colour after every 12 characters.
func coloured(s, begin, end string) string {
	var b strings.Builder
	for i, c := range []rune(s) {
		b.WriteRune(c)
		if i%12 == 11 {
			b.WriteString([]string{begin, end}[i/12%2])
		}
	}
	return b.String()
}

// struck is a text as man pages have it in bold: each character twice, one over the other.
func struck(s string) string {
	var b strings.Builder
	for _, c := range s {
		b.WriteRune(c)
		if c > ' ' {
			b.WriteString("\b" + string(c))
		}
	}
	return b.String()
}

// TestRevokedKeys uses keys that were revoked a moment ago.
func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	s := stage(t)
	admin := s.people["victim/admin"]
	harness.Want[client.Secret](admin, 200, "PUT", "/api/v1/secrets/canary", `{"value": "canary-5ae3f1c09d"}`)
	k := harness.Want[client.APIKey](admin, 201, "POST", "/api/v1/api-keys", `{"name": "stolen", "role": "worker"}`)
	thief := harness.At(t, s.server.Base)
	thief.Key = *k.Key
	session := harness.Want[client.Session](thief, 201, "POST", "/api/v1/workers", `{"kinds": ["mail"]}`)
	// Before that it claims ahead: no value comes with the claim.
	s.people["victim/operator"].Create(`{"name": "ahead", "execution": {"target": "worker", "kind": "mail", "payload": "${secret:canary}"}}`)
	ahead := s.answers(thief, []int{200}, "claiming ahead", "POST", "/api/v1/workers/"+session.WorkerID+"/claim", `{"max": 5, "wait_seconds": 10, "late_secrets": true}`, "X-Worker-Session", session.Session)
	var first client.Claimed
	if err := json.Unmarshal([]byte(ahead.Body), &first); err != nil || len(first.Attempts) != 1 {
		t.Fatalf("%v: %s", err, ahead.Body)
	}
	claimed := first.Attempts[0]
	s.row(claimed.LateSecrets && !strings.Contains(ahead.Body, "canary-"), "no value in what was claimed ahead", short(ahead.Body))
	type result struct {
		a   harness.Answer
		err error
	}
	poll := make(chan result, 1)
	go func() {
		a, err := thief.Do("POST", "/api/v1/workers/"+session.WorkerID+"/claim", `{"wait_seconds": 30}`, "X-Worker-Session", session.Session)
		poll <- result{a, err}
	}()
	time.Sleep(500 * time.Millisecond) // the poll must be open; nothing shows it from outside
	s.answers(admin, []int{200, 204}, "revoking the key of an open long poll", "DELETE", "/api/v1/api-keys/"+k.KeyID, "")
	time.Sleep(5 * time.Second) // what is promised
	j := s.people["victim/operator"].Create(`{"name": "x", "execution": {"target": "worker", "kind": "mail", "payload": "${secret:canary}"}}`)
	var got result
	select {
	case got = <-poll:
	case <-time.After(10 * time.Second):
	}
	s.row(!strings.Contains(got.a.Body, "canary-5ae3f1c09d") && !strings.Contains(got.a.Body, j.ExecutionID), "an open long poll 5 s after its key was revoked", fmt.Sprintf("%d %.80s", got.a.Code, got.a.Body))
	began, err := thief.Do("POST", "/api/v1/executions/"+claimed.ExecutionID+"/start", fmt.Sprintf(`{"fencing_token": %d}`, claimed.FencingToken), "X-Worker-ID", session.WorkerID, "X-Worker-Session", session.Session)
	s.row(err == nil && began.Code == 401 && !strings.Contains(began.Body, "canary"), "revoked key: starting an attempt that it held", fmt.Sprintf("%d %.80s", began.Code, began.Body))
	for _, call := range []string{"claim", "beat", "complete", "logs", "release"} {
		s.answers(thief, []int{401}, "revoked key: "+call, "POST", "/api/v1/workers/"+session.WorkerID+"/"+call, "{}", "X-Worker-Session", session.Session)
	}
	s.answers(thief, []int{401}, "revoked key: registering", "POST", "/api/v1/workers", "{}")
	e := harness.Read[client.Execution](admin, "/api/v1/executions/"+j.ExecutionID)
	s.row(e.Status == "PENDING", "the execution still waits for an honest worker", e.Status)
	s.alive()
}

// TestWorkers tries what a compromised worker may try on executions it does not hold.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := stage(t)
	v, a := s.people["victim/worker"], s.people["attacker/worker"]
	vs := harness.Want[client.Session](v, 201, "POST", "/api/v1/workers", `{"kinds": ["mail"]}`)
	as := harness.Want[client.Session](a, 201, "POST", "/api/v1/workers", `{"kinds": ["mail"], "targets": ["worker", "http", "command", "simulate"], "capacity": 100}`)
	j := s.people["victim/operator"].Create(`{"name": "x", "execution": {"target": "worker", "kind": "mail", "payload": "tainted-by-victim"}}`)
	b := s.answers(a, []int{200}, "claiming another tenant's work", "POST", "/api/v1/workers/"+as.WorkerID+"/claim", `{"max": 10, "wait_seconds": 1}`, "X-Worker-Session", as.Session)
	s.row(!strings.Contains(b.Body, "tainted"), "nothing of the victim's was handed out", short(b.Body))
	held := s.answers(v, []int{200}, "the victim's own claim", "POST", "/api/v1/workers/"+vs.WorkerID+"/claim", `{"max": 1, "wait_seconds": 10}`, "X-Worker-Session", vs.Session)
	var claimed client.Claimed
	if err := json.Unmarshal([]byte(held.Body), &claimed); err != nil || len(claimed.Attempts) != 1 {
		t.Fatalf("%v: %s", err, held.Body)
	}
	token := claimed.Attempts[0].FencingToken
	outcome := func(token int64) string {
		return fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "SUCCEEDED"}]}`, j.ExecutionID, token)
	}
	for what, tok := range map[string]int64{"the right token": token, "a greater token": token + 1, "token 0": 0, "a negative token": -token, "the greatest token": 1<<63 - 1} {
		b, err := a.Do("POST", "/api/v1/workers/"+as.WorkerID+"/complete", outcome(tok), "X-Worker-Session", as.Session)
		s.row(err == nil && b.Code < 500 && !strings.Contains(b.Body, `"accepted"`), "completing the victim's execution with "+what, fmt.Sprint(b.Code, " ", short(b.Body)))
	}
	for what, tok := range map[string]int64{"a greater token": token + 1, "token 0": 0, "an older token": token - 1} {
		b, err := v.Do("POST", "/api/v1/workers/"+vs.WorkerID+"/complete", outcome(tok), "X-Worker-Session", vs.Session)
		s.row(err == nil && b.Code < 500 && !strings.Contains(b.Body, `"accepted"`), "completing its own with "+what, fmt.Sprint(b.Code, " ", short(b.Body)))
	}
	for _, call := range []struct{ name, body string }{
		{"logs", fmt.Sprintf(`{"execution_id": %q, "fencing_token": %d, "offset": 0, "lines": [{"at": "2026-01-31T15:04:05Z", "stream": "stdout", "text": "forged"}]}`, j.ExecutionID, token)},
		{"beat", fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d, "progress": {"percent": 99, "message": "forged"}}]}`, j.ExecutionID, token)},
		{"release", fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d}]}`, j.ExecutionID, token)},
	} {
		b, err := a.Do("POST", "/api/v1/workers/"+as.WorkerID+"/"+call.name, call.body, "X-Worker-Session", as.Session)
		s.row(err == nil && b.Code < 500, "foreign "+call.name, fmt.Sprint(b.Code))
	}
	start := func(p *harness.Client, session client.Session, token int64) harness.Answer {
		b, err := p.Do("POST", "/api/v1/executions/"+j.ExecutionID+"/start", fmt.Sprintf(`{"fencing_token": %d}`, token), "X-Worker-ID", session.WorkerID, "X-Worker-Session", session.Session)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for what, b := range map[string]harness.Answer{
		"another tenant's": start(a, as, token), "with the victim's session and its own key": start(a, vs, token), "with the victim's key and its own session": start(v, as, token),
		"its own with a greater token": start(v, vs, token+1), "its own with token 0": start(v, vs, 0), "its own with a negative token": start(v, vs, -token),
	} {
		s.row((b.Code == 404 || b.Code == 409) && !strings.Contains(b.Body, "tainted"), "starting "+what, fmt.Sprint(b.Code, " ", short(b.Body)))
	}
	e := harness.Read[client.Execution](s.people["victim/admin"], "/api/v1/executions/"+j.ExecutionID)
	forged := e.Progress != nil && e.Progress.Message == "forged"
	s.row(e.Status == "RUNNING" && e.AttemptNumber == 1 && !forged, "the victim's execution runs on untouched", e.Status)
	log := s.answers(s.people["victim/admin"], []int{200}, "its log", "GET", "/api/v1/executions/"+j.ExecutionID+"/logs", "")
	s.row(!strings.Contains(log.Body, "forged"), "no forged line in it", "")
	b = s.answers(v, []int{200}, "the victim's own result", "POST", "/api/v1/workers/"+vs.WorkerID+"/complete", outcome(token), "X-Worker-Session", vs.Session)
	s.row(strings.Contains(b.Body, `"accepted"`), "it is accepted", short(b.Body))
	s.alive()
}
