package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// The cookie of a signed-in browser. The second is for plain HTTP on loopback, where some browsers refuse a Secure
// cookie.
const (
	secureCookie = "__Host-carillon"
	plainCookie  = "carillon"
)

// signInRoutes returns the routes for signing browsers in and out.
func (s accessAPI) signInRoutes() []route {
	const group = "Access"
	return []route{
		{
			method: "POST", path: "/api/v1/sign-in", needs: tenant.Enter, group: group, summary: "Sign a browser in with an API key or a token",
			detail: "The response sets a cookie that scripts cannot read. It grants what the credential grants, until you sign out, the credential ends, an hour passes without a request, or 12 hours have passed. Each sign-in ends the previous one of the same browser. Programs send their key with each request instead.",
			body:   of[client.SignInRequest](), sample: `{"credential": "car_live_the-text-of-a-key", "next": "/jobs"}`, status: 200, answer: of[client.SignedIn](), handle: s.enter,
		},
		{
			method: "POST", path: "/api/v1/sign-out", needs: tenant.Known, group: group, summary: "Sign the browser out",
			detail: "Every server refuses its cookie within 5 s.", status: 200, answer: of[struct{}](), handle: s.leaveBrowser,
		},
		{
			method: "GET", path: "/api/v1/session", needs: tenant.Known, group: group, summary: "Read the current session: who am I?",
			detail: "Returns who the request's credential belongs to, and until when it is valid.", status: 200, answer: of[client.SignedIn](), handle: s.whoAmI,
		},
		{
			method: "GET", path: "/api/v1/sign-ins", needs: tenant.Manage, group: group, summary: "List active sign-ins, newest first", params: pageParams,
			detail: "The browsers that are signed in to the tenant.", status: 200, answer: of[client.SignIns](), handle: s.listSignIns,
		},
		{
			method: "DELETE", path: "/api/v1/sign-ins/{id}", needs: tenant.Manage, group: group, summary: "End a sign-in",
			detail: "Every server refuses its cookie within 5 s. The credential still works: revoke it to keep someone out.", status: 200, answer: of[client.SignIn](), handle: s.endOneSignIn,
		},
	}
}

// cookie returns the sign-in cookie of the request; "" if there is none, or if the request has a key or a token,
// which take precedence. Other Authorization headers may come from a proxy.
func (s *Server) cookie(r *http.Request) string {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if s.cfg.SignIns == nil || strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	if c, err := r.Cookie(secureCookie); err == nil {
		return c.Value
	}
	if c, err := r.Cookie(plainCookie); err == nil && plainHere(r) {
		return c.Value
	}
	return ""
}

// plainHere reports whether the request came over plain HTTP to a loopback name.
func plainHere(r *http.Request) bool { return r.TLS == nil && localName(r.Host) }

// cookieFor returns the kind of cookie that the request's browser keeps, or why it would keep none. It trusts the
// browser for the page's address, since a proxy may speak plain HTTP to the server.
func cookieFor(r *http.Request) (name string, err error) {
	u, err := url.Parse(r.Header.Get("Origin"))
	switch {
	case err == nil && u.Scheme == "https":
		return secureCookie, nil
	case err == nil && u.Scheme == "http" && !localName(u.Host):
		return "", refuse(403, "insecure", "Sign-in needs https: browsers do not keep secure cookies from plain http pages. Set tls.cert and tls.key, or put a TLS proxy in front.")
	case plainHere(r):
		return plainCookie, nil
	}
	return secureCookie, nil
}

func setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: name == secureCookie, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// unsetCookies makes the browser forget its cookies.
func (s *Server) unsetCookies(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{secureCookie, plainCookie} {
		if _, err := r.Cookie(name); err == nil && (name == secureCookie || plainHere(r)) {
			setCookie(w, name, "", 0)
		}
	}
}

// noSignIn answers sign-in requests to servers without sign-in.
var noSignIn = refuse(409, "no_sign_in", "This server has no sign-in.")

func (s accessAPI) enter(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	if s.cfg.SignIns == nil && s.cfg.Local == nil {
		return noSignIn
	}
	data, _, err := read(w, r, 16<<10)
	if err != nil {
		return err
	}
	var req client.SignInRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if s.cfg.SignIns == nil {
		return s.enterLocal(w, r, req)
	}
	name, err := cookieFor(r)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(req.Credential)
	if text == "" || len(text) > 8<<10 {
		return job.Invalids{{Field: "credential", Want: "an API key or a token, of at most 8192 bytes"}}
	}
	x, err := s.checkIn(r, text)
	if err != nil {
		return err
	}
	p := tenant.Principal{Tenant: x.Tenant, Role: x.Role, Name: x.Name, Key: x.Key, Asked: requestID(r)}
	if from := s.caller(r); from.IsValid() {
		p.From = from.String()
	}
	if err := s.meter(w, r, route{needs: tenant.Known}, p); err != nil {
		return err
	}
	var value string
	value, x.Hash, x.ID = access.NewSignIn()
	if err := s.service.SignIn(r.Context(), p, x); err != nil {
		return err
	}
	if old := s.cookie(r); old != "" { // the browser's earlier sign-in is worthless now
		if err := s.endSignIn(r, p, old); err != nil {
			return err
		}
	}
	setCookie(w, name, value, x.EndsAt.Sub(x.CreatedAt))
	out := s.wireSignIn(x)
	out.Next = new(withinHere(deref(req.Next, "/")))
	return reply(w, 200, out)
}

// checkIn checks a credential that someone signs in with. Failures count against the caller only, not the key: its id
// is not secret, so anyone who knows it could lock out its owner, and its secret cannot be guessed.
func (s accessAPI) checkIn(r *http.Request, text string) (engine.SignIn, error) {
	from, now, credential := s.caller(r), time.Now(), "Bearer "+text
	if wait := s.failures.wait(from, credential, now); wait > 0 {
		err := &tooMany{wait: wait}
		s.denials.note(r, from, credential, err)
		return engine.SignIn{}, err
	}
	x, err := s.cfg.SignIns.Begin(r.Context(), text)
	switch {
	case err == nil:
		s.failures.worked(from, credential, now)
	case refusesCredential(err):
		s.failures.failed(from, credential, now)
		s.denials.note(r, from, credential, err)
	}
	return x, err
}

// endSignIn ends the sign-in of a cookie; if it has ended already, it does nothing.
func (s accessAPI) endSignIn(r *http.Request, p tenant.Principal, value string) error {
	x, err := s.cfg.SignIns.SignedIn(r.Context(), value)
	if errors.Is(err, access.ErrSignedOut) {
		return nil
	}
	if err != nil {
		return err
	}
	p.Tenant, p.Role, p.Name, p.Key = x.Tenant, x.Role, x.Name, x.Key
	defer s.cfg.SignIns.Forget(x.Hash)
	return s.service.SignOut(r.Context(), p, x)
}

func (s accessAPI) leaveBrowser(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	value := s.cookie(r)
	switch {
	case s.cfg.SignIns == nil:
		return noSignIn
	case value == "":
		return &service.NotDone{What: "sign_out", Why: "The request came with a key, not with a cookie: only browsers sign out. A key is revoked instead."}
	}
	if err := s.endSignIn(r, p, value); err != nil {
		return err
	}
	s.unsetCookies(w, r)
	return reply(w, 200, struct{}{})
}

func (s accessAPI) whoAmI(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if err := noParams(r); err != nil {
		return err
	}
	out := client.SignedIn{TenantID: tenantID(p.Tenant), Role: string(p.Role), Name: p.Name, KeyID: optional(p.Key), Kind: "token"}
	switch value := s.cookie(r); {
	case s.cfg.Authenticate == nil:
		out.Kind = "none"
	case value != "":
		x, err := s.cfg.SignIns.SignedIn(r.Context(), value)
		if err != nil {
			return err
		}
		in := s.wireSignIn(x)
		in.TenantID = out.TenantID // X-Tenant-ID may have set it
		out = in
	default:
		if p.Key != "" {
			out.Kind = "key"
		}
		if s.cfg.SignIns != nil {
			until, err := s.cfg.SignIns.Until(r.Context(), r.Header.Get("Authorization"))
			if err != nil {
				return err
			}
			out.ExpiresAt = instant(until)
		}
	}
	return reply(w, 200, out)
}

func (s accessAPI) wireSignIn(x engine.SignIn) client.SignedIn {
	return client.SignedIn{
		TenantID: tenantID(x.Tenant), Role: string(x.Role), Name: x.Name, KeyID: optional(x.Key), Kind: "cookie",
		SignedInAt: &x.CreatedAt, IdleExpiresAt: new(s.cfg.SignIns.IdleUntil(x)), ExpiresAt: &x.EndsAt,
	}
}

// tenantID returns a tenant in API form.
func tenantID(t tenant.ID) string {
	if t == "" {
		return service.AllTenants
	}
	return string(t)
}

// withinHere returns a path of this server, or / in place of anything else: also of what a browser would take for
// another address, such as //example.com, /\example.com, or either with a tab in it.
func withinHere(next string) string {
	u, err := url.Parse(next)
	bad := func(c rune) bool { return c == '\\' || unicode.IsControl(c) }
	if err != nil || len(next) > 2000 || !utf8.ValidString(next) || strings.ContainsFunc(next, bad) ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || u.Scheme != "" || u.Host != "" {
		return "/"
	}
	return next
}
