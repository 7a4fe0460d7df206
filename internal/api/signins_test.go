package api_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// who is a list of sign-ins in a few words.
func who(xs []client.SignIn) string {
	var out []string
	for _, x := range xs {
		out = append(out, x.Name+" "+x.Role)
	}
	return strings.Join(out, ", ")
}

func TestWhoIsSignedIn(t *testing.T) {
	f, system, d := entrance(t)
	list := func(query string, headers ...string) client.SignIns {
		t.Helper()
		return want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins"+query, "", headers...)
	}
	if got := list("", "Authorization", system); len(got.SignIns) != 0 || got.Pagination.Total != 0 {
		t.Errorf("nobody: %+v", got)
	}
	key := func(name, role, more string) client.APIKey {
		t.Helper()
		return want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"name": %q, "role": %q%s}`, name, role, more), "Authorization", system)
	}
	ann, bob := key("ann", "admin", ""), key("bob", "viewer", "")
	boss := signInWith(f, system)
	ours := signInWith(f, *ann.Key)
	theirs := signInWith(f, *bob.Key)

	got := list("", "Cookie", ours)
	if who(got.SignIns) != "bob viewer, ann admin, bootstrap system" || got.Pagination.Total != 3 || got.Pagination.NextCursor != nil {
		t.Fatalf("%+v", got)
	}
	for i, x := range got.SignIns {
		if x.Current != (x.Name == "ann") || x.Kind != "key" || x.KeyID == nil || x.TenantID != "default" || x.ExpiresAt.Sub(x.SignedInAt) != 12*time.Hour || x.IdleExpiresAt.Sub(x.LastUsedAt) != time.Hour {
			t.Errorf("%d: %+v", i, x)
		}
	}
	if *got.SignIns[0].KeyID != bob.KeyID {
		t.Errorf("%+v", got.SignIns[0])
	}
	// Nothing in the answer opens anything.
	text := f.ask("GET", "/api/v1/sign-ins", "", "Cookie", ours).Body.String()
	for _, cookie := range []string{boss, ours, theirs} {
		hash := access.HashSignIn(strings.TrimPrefix(cookie, "carillon="))
		if strings.Contains(text, strings.TrimPrefix(cookie, "carillon=")) || strings.Contains(text, fmt.Sprintf("%x", hash)) {
			t.Errorf("the answer has a secret: %s", text)
		}
	}
	for _, x := range got.SignIns {
		want[client.Problem](f, 401, "GET", "/api/v1/session", "", "Cookie", "carillon="+x.SignInID)
	}
	if by := list("", "Authorization", system); slices.ContainsFunc(by.SignIns, func(x client.SignIn) bool { return x.Current }) {
		t.Errorf("a key is no browser: %+v", by)
	}

	// Page by page, while others come.
	first := list("?limit=2", "Authorization", system)
	signInWith(f, *bob.Key)
	second := list("?limit=2&cursor="+*first.Pagination.NextCursor, "Authorization", system)
	if who(first.SignIns) != "bob viewer, ann admin" || who(second.SignIns) != "bootstrap system" || second.Pagination.NextCursor != nil {
		t.Errorf("%s; %s", who(first.SignIns), who(second.SignIns))
	}
	want[client.Problem](f, 400, "GET", "/api/v1/sign-ins?cursor=x", "", "Authorization", system)
	want[client.Problem](f, 400, "GET", "/api/v1/sign-ins?x=1", "", "Authorization", system)

	// What is idle, or has ended with its key, is not there.
	want[client.APIKey](f, 200, "DELETE", "/api/v1/api-keys/"+bob.KeyID, "", "Authorization", system)
	if got := list("", "Authorization", system); who(got.SignIns) != "ann admin, bootstrap system" {
		t.Errorf("after the key was revoked: %s", who(got.SignIns))
	}
	d.advance(30 * time.Minute)
	short := key("short", "viewer", fmt.Sprintf(`, "expires_at": %q`, d.Now().Add(20*time.Minute).Format(time.RFC3339)))
	signInWith(f, *short.Key)
	if got := list("", "Authorization", system); who(got.SignIns) != "short viewer, ann admin, bootstrap system" || !got.SignIns[0].ExpiresAt.Equal(*short.ExpiresAt) {
		t.Errorf("%+v", got.SignIns)
	}
	d.advance(25 * time.Minute)
	if got := list("", "Authorization", system); who(got.SignIns) != "ann admin, bootstrap system" {
		t.Errorf("after the key expired: %s", who(got.SignIns))
	}
	d.advance(7 * time.Minute)
	if got := list("", "Authorization", system); len(got.SignIns) != 0 {
		t.Errorf("idle: %s", who(got.SignIns))
	}
}

func TestASignInIsEndedByAnother(t *testing.T) {
	f, system, d := entrance(t)
	// Another server over the same store, which remembers for itself.
	second := access.New(f.store, d, nil)
	ann := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "ann", "role": "admin"}`, "Authorization", system)
	bob := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "bob", "role": "viewer"}`, "Authorization", system)
	boss, ours, theirs := signInWith(f, system), signInWith(f, *ann.Key), signInWith(f, *bob.Key)
	value := strings.TrimPrefix(theirs, "carillon=")
	if _, err := second.SignedIn(t.Context(), value); err != nil {
		t.Fatal(err)
	}
	id := map[string]string{}
	for _, x := range want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins", "", "Cookie", ours).SignIns {
		id[x.Name] = x.SignInID
	}
	end := func(code int, id string, headers ...string) client.Problem {
		t.Helper()
		return want[client.Problem](f, code, "DELETE", "/api/v1/sign-ins/"+id, "", headers...)
	}
	end(403, id["ann"], "Cookie", theirs)
	if p := end(409, id["bootstrap"], "Cookie", ours); p.Code != "cannot_end" {
		t.Errorf("%+v", p)
	}
	for _, no := range []string{"nobody", "%00", "%ff", "x%2Fy", strings.Repeat("x", 500)} {
		end(404, no, "Cookie", ours)
	}
	want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "acme"}`, "Authorization", system)
	end(404, id["bob"], "Authorization", system, "X-Tenant-ID", "acme")
	want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", theirs)

	ended := want[client.SignIn](f, 200, "DELETE", "/api/v1/sign-ins/"+id["bob"], "", "Cookie", ours)
	if ended.SignInID != id["bob"] || ended.Name != "bob" || ended.Current {
		t.Errorf("%+v", ended)
	}
	end(404, id["bob"], "Cookie", ours)
	if w := f.ask("GET", "/api/v1/session", "", "Cookie", theirs); w.Code != http.StatusUnauthorized {
		t.Errorf("here it is refused at once: %d", w.Code)
	}
	d.advance(5 * time.Second)
	if _, err := second.SignedIn(t.Context(), value); err == nil {
		t.Error("another server goes on")
	}
	if _, err := second.Tick(t.Context()); err != nil { // tells that it was used
		t.Fatal(err)
	}
	if _, err := access.New(f.store, d, nil).SignedIn(t.Context(), value); err == nil {
		t.Error("it came back")
	}
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Authorization", "Bearer "+*bob.Key) // the key works on

	var told []string
	for _, e := range want[client.AuditEntries](f, 200, "GET", "/api/v1/audit?action=sign_in.end", "", "Authorization", system).Audit {
		told = append(told, e.Principal+" ended "+e.Before["name"]+" "+e.Before["role"])
		if e.Object != id["bob"] {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(told, ", "); got != "ann ended bob viewer" {
		t.Errorf("audit: %s", got)
	}
	// One's own, too.
	if x := want[client.SignIn](f, 200, "DELETE", "/api/v1/sign-ins/"+id["ann"], "", "Cookie", ours); !x.Current {
		t.Errorf("%+v", x)
	}
	want[client.Problem](f, 401, "GET", "/api/v1/session", "", "Cookie", ours)
	want[client.SignIn](f, 200, "DELETE", "/api/v1/sign-ins/"+id["bootstrap"], "", "Authorization", system)
	want[client.Problem](f, 401, "GET", "/api/v1/session", "", "Cookie", boss)
}

// unnamed are ids that are made up.
var unnamed = regexp.MustCompile(`"(sign_in_id|key_id)":"[a-z2-7]+"`)

// Of two tenants each sees its own, and the shape of the answer is kept.
func TestGoldenSignIns(t *testing.T) {
	f, system, _ := entrance(t)
	of := map[string]string{}
	for _, name := range []string{"acme", "other"} {
		want[client.Tenant](f, 201, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": %q}`, name), "Authorization", system)
		of[name] = *want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "people", "role": "admin"}`, name), "Authorization", system).Key
		signInWith(f, of[name])
	}
	for name, key := range of {
		got := want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins", "", "Authorization", "Bearer "+key)
		if len(got.SignIns) != 1 || got.SignIns[0].TenantID != name {
			t.Errorf("%s sees %+v", name, got)
		}
	}
	text := f.ask("GET", "/api/v1/sign-ins", "", "Authorization", "Bearer "+of["acme"]).Body.String()
	goldens(t, map[string]string{"sign_ins.json": unnamed.ReplaceAllString(text, `"$1":"<id>"`)})
}

// signInStore counts how often the store is asked for sign-ins.
type signInStore struct {
	engine.Store
	asked atomic.Int32
}

func (s *signInStore) SignIn(ctx context.Context, hash [32]byte) (engine.SignIn, error) {
	s.asked.Add(1)
	return s.Store.SignIn(ctx, hash)
}

// Who may not end a sign-in does not make a server forget it.
func TestARefusedEndChangesNothing(t *testing.T) {
	var counted signInStore
	f, system, _ := entrance(t, func(c *api.Config, s engine.Store) {
		counted.Store = s
		c.SignIns = access.New(&counted, clock.NewManual(time.Now()), nil)
		c.Authenticate = c.SignIns.Authenticate
	})
	ann := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "ann", "role": "admin"}`, "Authorization", system)
	boss := signInWith(f, system)
	who := want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins", "", "Cookie", boss).SignIns
	before := counted.asked.Load()
	want[client.Problem](f, 409, "DELETE", "/api/v1/sign-ins/"+who[0].SignInID, "", "Authorization", "Bearer "+*ann.Key)
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Cookie", boss)
	if n := counted.asked.Load() - before; n != 0 || before == 0 {
		t.Errorf("the store was asked %d times, and before %d", n, before)
	}
}
