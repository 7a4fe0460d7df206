package api

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// caller returns the address that a request came from: that of the connection or, behind a trusted proxy, the
// forwarded one. Of several addresses it is the last that no such proxy has added.
func (s *Server) caller(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	at = at.Unmap().WithZone("")
	if len(s.cfg.Proxies) == 0 || !s.believed(at) {
		return at
	}
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(said) - 1; i >= 0; i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(said[i]))
		if err != nil {
			break
		}
		if at = next.Unmap().WithZone(""); !s.believed(at) {
			break
		}
	}
	return at
}

func (s *Server) believed(a netip.Addr) bool {
	for _, p := range s.cfg.Proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Failed sign-ins cost the caller, so that nobody guesses for long: several at once, and then one at a time.
const (
	failuresAtOnce = 30
	failureEvery   = 2 * time.Second
	maxAddresses   = 10_000 // that are remembered
	maxGood        = 10_000 // remembered credentials that have worked
	goodFor        = 10 * time.Minute
	chargedFor     = time.Minute // how long the same wrong credential is not charged again, and an ended cookie not looked up
)

// failures remembers which callers failed to sign in. Entries expire, and their number is limited: when full, it
// drops some.
type failures struct {
	atOnce int
	seed   maphash.Seed

	mu    sync.RWMutex
	until map[netip.Prefix]time.Time // guarded by mu: until when each failed caller is charged
	good  map[uint64]time.Time       // guarded by mu: recently accepted credentials, with their networks, by a hash
	paid  map[uint64]time.Time       // guarded by mu: recently charged wrong credentials, likewise
}

func newFailures(atOnce int) *failures {
	if atOnce == 0 {
		atOnce = failuresAtOnce
	}
	return &failures{atOnce: atOnce, seed: maphash.MakeSeed(), until: map[netip.Prefix]time.Time{}, good: map[uint64]time.Time{}, paid: map[uint64]time.Time{}}
}

// network returns what counts as one caller: for IPv6 a whole network, because one caller usually controls all of its
// addresses.
func network(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // zero for no address: those share an entry
	return p
}

// sentFrom is a credential with its origin.
type sentFrom struct {
	from       netip.Prefix
	credential string
}

func (f *failures) hash(a netip.Addr, credential string) uint64 {
	return maphash.Comparable(f.seed, sentFrom{network(a), credential})
}

// wait returns how long a caller has to wait before it may try a credential; 0 if it may now. A credential that
// worked from there lately is not delayed by others behind the same address.
func (f *failures) wait(a netip.Addr, credential string, now time.Time) time.Duration {
	f.mu.RLock()
	defer f.mu.RUnlock()
	until, known := f.until[network(a)]
	if !known {
		return 0
	}
	over := until.Sub(now) - time.Duration(f.atOnce-1)*failureEvery
	if over <= 0 || now.Before(f.good[f.hash(a, credential)]) {
		return 0
	}
	return over
}

// failed charges the caller for a wrong credential, once a minute for each: a program that continues with a revoked
// key, or a browser that sends an old cookie with every request, must not lock out others behind the same address.
// Guesses differ, and are all charged.
func (f *failures) failed(a netip.Addr, credential string, now time.Time) {
	h := f.hash(a, credential)
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.paid[h]) {
		return
	}
	if len(f.paid) >= maxGood {
		forget(f.paid, now)
	}
	f.paid[h] = now.Add(chargedFor)
	who := network(a)
	until := f.until[who]
	if until.Before(now) {
		until = now
	}
	if _, known := f.until[who]; !known && len(f.until) >= maxAddresses {
		forget(f.until, now)
	}
	f.until[who] = until.Add(failureEvery)
}

// worked records an accepted credential.
func (f *failures) worked(a netip.Addr, credential string, now time.Time) {
	h := f.hash(a, credential)
	f.mu.RLock()
	known := f.good[h].Sub(now) > goodFor/2
	f.mu.RUnlock()
	if known {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.good) >= maxGood {
		forget(f.good, now)
	}
	f.good[h] = now.Add(goodFor)
}

// isOver reports whether a cookie from there is known to have ended.
func (f *failures) isOver(a netip.Addr, cookie string, now time.Time) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.paid) > 0 && now.Before(f.paid[f.hash(a, cookie)])
}

// forget drops expired entries, and arbitrary ones if none has expired.
func forget[K comparable](m map[K]time.Time, now time.Time) {
	var last K
	dropped := false
	for k, until := range m {
		if last = k; !now.Before(until) {
			delete(m, k)
			dropped = true
		}
	}
	if !dropped {
		delete(m, last)
	}
}

// proven reports whether a credential has worked from there lately.
func (f *failures) proven(a netip.Addr, credential string, now time.Time) bool {
	if credential == "" {
		return false
	}
	h := f.hash(a, credential)
	f.mu.RLock()
	defer f.mu.RUnlock()
	return now.Before(f.good[h])
}

// probes reports whether a request only asks for the server's health.
func probes(r *http.Request) bool { return isProbe(r.URL.Path) }

func isProbe(path string) bool { return path == "/healthz" || path == "/health" || path == "/readyz" }

// prove limits the rate of callers without a credential that has worked from their address, before anything else is
// done for them.
func (s *Server) prove(r *http.Request, from netip.Addr) error {
	credential, now := r.Header.Get("Authorization"), time.Now()
	if cookie := s.cookie(r); cookie != "" {
		credential = cookie
	}
	if s.failures.proven(from, credential, now) {
		return nil
	}
	if wait := s.unproven.take(from, now); wait > 0 {
		err := &tooMany{wait: wait, unproven: true, most: s.cfg.Unproven}
		s.denials.note(r, from, credential, err)
		return err
	}
	return nil
}

// signIn returns the principal of a request, unless too many requests from there have failed to authenticate.
func (s *Server) signIn(r *http.Request, rt route, from netip.Addr) (p tenant.Principal, err error) {
	defer func() {
		if err != nil {
			s.denials.note(r, from, r.Header.Get("Authorization"), err)
		}
	}()
	credential, cookie, now := r.Header.Get("Authorization"), s.cookie(r), time.Now()
	if cookie != "" {
		credential = cookie
		if s.failures.isOver(from, cookie, now) {
			return tenant.Principal{}, access.ErrSignedOut
		}
	}
	if wait := s.failures.wait(from, credential, now); wait > 0 {
		return tenant.Principal{}, &tooMany{wait: wait}
	}
	p, err = s.who(r)
	if err != nil && rt.away && s.cfg.SignIns != nil && !refuses(err) {
		if known, ok := s.cfg.SignIns.Lately(r.Header.Get("Authorization"), cookie); ok {
			p, err = known, nil
		}
	}
	switch {
	case err == nil:
		s.failures.worked(from, credential, now)
	case refusesCredential(err):
		s.failures.failed(from, credential, now)
	}
	return p, err
}

// who returns the principal: by the header or, if that contains no key or token, by the cookie.
func (s *Server) who(r *http.Request) (tenant.Principal, error) {
	named := r.Header.Get("X-Tenant-ID")
	if value := s.cookie(r); value != "" {
		return s.cfg.SignIns.ByCookie(r.Context(), value, named)
	}
	return s.cfg.Authenticate(r.Context(), r.Header.Get("Authorization"), named)
}

// refusesCredential reports whether an error means that a credential is invalid.
func refusesCredential(err error) bool {
	return errors.Is(err, access.ErrUnknownKey) || errors.Is(err, access.ErrToken) || errors.Is(err, access.ErrSignedOut)
}

// refuses reports whether an error is about the request, rather than the store.
func refuses(err error) bool {
	return refusesCredential(err) || errors.Is(err, access.ErrNoCredential) || errors.Is(err, access.ErrTenant) || errors.Is(err, access.ErrNoTenant) || errors.Is(err, access.ErrKeys)
}

// tooMany is the error that too many sign-ins have failed or, for badges, that too many unknown ones were requested.
type tooMany struct {
	wait     time.Duration
	badges   bool
	unproven bool // too many requests without a credential that has worked
	most     int  // the limit; 0: failures allowed at once
}

// limit returns the name of the exceeded limit, as in the metrics.
func (t *tooMany) limit() string {
	if t.badges {
		return "unknown_badges"
	}
	if t.unproven {
		return "unproven_requests"
	}
	return "failed_sign_ins"
}

func (t *tooMany) Error() string {
	if t.badges {
		return fmt.Sprintf("Too many badges that there are not, or no more, were asked for from this address. Try again in %s.", t.wait.Round(time.Second))
	}
	if t.unproven {
		return fmt.Sprintf("Too many requests without a valid API key came from this address. Try again in %s.", max(t.wait.Round(time.Second), time.Second))
	}
	return fmt.Sprintf("Too many requests with an invalid API key or token came from this address. Try again in %s.", t.wait.Round(time.Second))
}

// meter takes one request out of the tenant's rate, reports that rate in the response header, and refuses one too
// many. The worker protocol and requests of the installation's operators do not count.
func (s *Server) meter(w http.ResponseWriter, r *http.Request, rt route, p tenant.Principal) error {
	if !rt.needs.Keyed() || rt.needs == tenant.Work || p.Role == tenant.Worker || p.Role == tenant.System {
		return nil
	}
	limit, a, err := s.service.TakeRequest(r.Context(), p)
	if err != nil && limit == 0 || limit < 0 {
		return err
	}
	h := w.Header()
	n := strconv.Itoa(limit)
	h.Set("RateLimit-Policy", `"requests";q=`+n+`;w=1`)
	h.Set("RateLimit", `"requests";r=`+strconv.Itoa(a.Left)+`;t=`+strconv.FormatInt(roundUp(a.Reset, time.Second), 10))
	return err
}
