package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Local defines whom a server without sign-in answers on a shared machine: the user who started it, and anyone with
// its token.
type Local struct {
	Token string // in the address that was printed
	File  string // where it is stored, for its owner alone
	Port  int    // cookies are for all ports of a host, so their names tell servers apart

	// Mine reports whether a request comes from a process of the same user, or of root. Its description of others is
	// for a message.
	Mine func(r *http.Request) (mine bool, who string)
}

// tokenAge is the lifetime of the token's cookie. A server makes a new token at each start.
const tokenAge = 30 * 24 * time.Hour

func (l *Local) cookie() string { return fmt.Sprintf("carillon-dev-%d", l.Port) }

// is compares a text with the token in constant time.
func (l *Local) is(text string) bool {
	a, b := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(l.Token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// pass derives the cookie of a browser from the token. It opens this server and does not reveal the token.
func (l *Local) pass() string {
	h := hmac.New(sha256.New, []byte(l.Token))
	h.Write([]byte("carillon dev cookie"))
	return hex.EncodeToString(h.Sum(nil))
}

// setCookie gives a browser its pass, unless it belongs to the same user, who needs none.
func (l *Local) setCookie(w http.ResponseWriter, r *http.Request) {
	if mine, _ := l.Mine(r); mine {
		return
	}
	http.SetCookie(w, &http.Cookie{Name: l.cookie(), Value: l.pass(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(tokenAge / time.Second), Secure: r.TLS != nil})
}

// admits returns why a request may not be answered, or nil.
func (l *Local) admits(r *http.Request) error {
	if scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		if text = strings.TrimSpace(text); l.is(text) {
			return nil
		}
		if access.IsKey(text) { // its tenant may be another: nobody should be shown this tenant's jobs instead
			return refuse(401, "unauthorized", "'carillon dev' takes no API keys: it has no sign-in, and serves only the tenant \"default\". Leave the key out, or run 'carillon serve', which has tenants and keys.")
		}
	}
	if c, err := r.Cookie(l.cookie()); err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(l.pass())) == 1 {
		return nil
	}
	mine, who := l.Mine(r)
	if mine {
		return nil
	}
	return refuse(401, "unauthorized", fmt.Sprintf("'carillon dev' needs no sign-in from the user who started it; this request came from %s, so it needs the server's token. "+
		"Whoever started the server can give you the address that it printed, which holds the token, or the content of %s. With curl: -H \"Authorization: Bearer TOKEN\".", who, l.File))
}

// takeToken handles a browser that brings the token in the address: it gets a cookie, and is redirected to the
// address without the token.
func (s *Server) takeToken(w http.ResponseWriter, r *http.Request) (done bool) {
	l := s.cfg.Local
	if l == nil || r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/api/") {
		return false
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !q.Has("token") {
		return false
	}
	if l.is(q.Get("token")) {
		l.setCookie(w, r)
	} else if mine, _ := l.Mine(r); !mine {
		s.fail(w, r, refuse(401, "unauthorized", fmt.Sprintf("The token in the URL is not valid for this server, which creates a new one at each start. Open the URL that it printed last; the token is also in %s.", l.File)))
		return true
	}
	q.Del("token")
	to := withinHere((&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String())
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// enterLocal gives a browser the cookie for a pasted token.
func (s accessAPI) enterLocal(w http.ResponseWriter, r *http.Request, req client.SignInRequest) error {
	l := s.cfg.Local
	if !l.is(strings.TrimSpace(req.Credential)) {
		return refuse(401, "unauthorized", "The token is not valid for this server. You find the right one in the URL that the server printed, and in "+l.File+".")
	}
	l.setCookie(w, r)
	p := tenant.Local()
	return reply(w, 200, client.SignedIn{TenantID: tenantID(p.Tenant), Role: string(p.Role), Name: p.Name, Kind: "none", Next: new(withinHere(deref(req.Next, "/")))})
}

// elsewhere reports whether a page of another site, or of another port of this host, made a request that it may not
// make. Navigating to a page is allowed, since pages contain no data and request the rest themselves; so are images
// meant for embedding, and health.
func elsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" {
		return false
	}
	switch p := r.URL.Path; {
	case strings.HasPrefix(p, "/badges/"), isProbe(p):
		return false
	case strings.HasPrefix(p, "/api/"), p == "/metrics", p == "/openapi.json", strings.HasPrefix(p, "/debug/"):
		return true
	}
	goes := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !goes || r.Method != http.MethodGet && r.Method != http.MethodHead || wantsJSON(r)
}
