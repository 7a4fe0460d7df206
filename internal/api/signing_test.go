package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// TestSignedFromTheStart: a tenant that has done nothing has its callbacks signed, and one admin is shown with what.
func TestSignedFromTheStart(t *testing.T) {
	c := newCallbacks(t)
	url, calls := sink(t, nil)
	c.until(c.job(url, "").ExecutionID, is("SUCCEEDED"))
	first := <-calls
	if first.header.Get("webhook-signature") == "" {
		t.Fatalf("the first callback is not signed: %v", first.header)
	}
	list := want[client.SigningSecrets](c.face, 200, "GET", "/api/v1/signing-secrets", "").SigningSecrets
	if len(list) != 1 || list[0].Shown || list[0].Prefix != "" || list[0].Secret != "" || list[0].ExpiresAt != nil {
		t.Fatalf("listed: %+v", list)
	}
	path := "/api/v1/signing-secrets/" + list[0].ID + "/reveal"
	answers := make(chan *httptest.ResponseRecorder, 4)
	var wg sync.WaitGroup
	for range cap(answers) {
		wg.Go(func() { answers <- c.ask("POST", path, "") })
	}
	wg.Wait()
	close(answers)
	var secret string
	refused := 0
	for w := range answers {
		switch w.Code {
		case 200:
			var x client.SigningSecret
			if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil || secret != "" || !x.Shown {
				t.Errorf("shown: %+v, %v, after %q", x, err, secret)
			}
			secret = x.Secret
		case 409:
			if refused++; !strings.Contains(w.Body.String(), "otate") {
				t.Errorf("refused with %s", w.Body)
			}
		default:
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
	if secret == "" || refused != 3 || verified(t, first, secret) != 1 {
		t.Errorf("shown %q, refused %d times, verified %d", secret, refused, verified(t, first, secret))
	}
	want[client.Problem](c.face, 404, "POST", "/api/v1/signing-secrets/none/reveal", "")
	audit := c.ask("GET", "/api/v1/audit", "").Body.String()
	if !strings.Contains(audit, "signing_secret.reveal") || !strings.Contains(audit, "signing_secret.create") || strings.Contains(audit, secret) {
		t.Errorf("the audit log: %s", audit)
	}
	// One that nobody was shown does not sign beside the next.
	want[client.SigningSecret](c.face, 200, "DELETE", "/api/v1/signing-secrets/"+list[0].ID, "")
	if again := want[client.SigningSecrets](c.face, 200, "GET", "/api/v1/signing-secrets", "").SigningSecrets; len(again) != 1 || again[0].Shown || again[0].ID == list[0].ID {
		t.Errorf("after all were revoked: %+v", again)
	}
	made := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", "")
	if now := want[client.SigningSecrets](c.face, 200, "GET", "/api/v1/signing-secrets", "").SigningSecrets; len(now) != 1 || now[0].ID != made.ID || !now[0].Shown {
		t.Errorf("after one was made: %+v", now)
	}
}
