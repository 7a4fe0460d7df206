package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dashboard"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// Authenticate returns the principal of a request, from its Authorization and X-Tenant-ID headers.
type Authenticate func(ctx context.Context, authorization, tenantID string) (tenant.Principal, error)

// Config holds the dependencies of the HTTP server.
type Config struct {
	Service  *service.Service
	Dispatch *dispatch.Dispatcher // for workers outside this process
	Delivery *delivery.Pipeline   // what they are given
	Secrets  *secret.Vault        // removes secrets from what workers report; nil: there are none
	Tokens   *sign.Tokens         // tokens with which targets complete executions
	Feed     *feed.Hub            // changes for live streams; nil: none are sent
	// Authenticate is nil if there is no sign-in. Then every caller is the local principal, and only requests to a
	// loopback name are answered.
	Authenticate Authenticate
	Local        *Local                      // without sign-in: who may use the server; nil: everyone on the machine
	SignIns      *access.Authenticator       // signs browsers in; nil: no sign-in
	Failures     int                         // failed sign-ins allowed from one address at once; 0: 30
	Unproven     int                         // requests a second from one address without a credential that has worked from there; 0: unlimited
	Sessions     int                         // maximum worker sessions of a tenant at this server; 0: 5000
	Proxies      []netip.Prefix              // proxies whose X-Forwarded-For is trusted
	Ready        func(context.Context) error // returns nil when everything the server needs is available
	HealthOnly   bool                        // serve nothing but health and diagnostics
	MetricsOnly  bool                        // serve nothing but health and metrics, without authentication
	Keyless      bool                        // serve nothing that needs a credential: this process cannot check any
	Metrics      *telemetry.Metrics          // metrics of this process; nil: none
	Tracer       *telemetry.Tracer           // nil: there is none
	Log          *telemetry.Log              // a log with a settable level; nil: none
	Profiles     bool                        // serve profiles of the process
	Support      *Support                    // what a support bundle says about the process; nil: nothing
	Demo         bool                        // serve the demonstration target
	Warnings     func() []string             // what is wrong although the server is ready; nil: nothing ever
	MaxArtifact  int64                       // bytes of an artifact
	Archive      *Archive                    // nil: history stays in the store
	Shared       bool                        // workers that serve every tenant may run commands
	WorkerCerts  bool                        // workers must show a certificate (mutual TLS)
	Retry        job.RetryPolicy             // policy of jobs that set none; zero: job.DefaultRetry
	Version      string
	Logger       *slog.Logger
}

// Server serves the HTTP API.
type Server struct {
	cfg     Config
	service *service.Service
	log     *slog.Logger
	mux     *http.ServeMux
	routes  []route

	page       func() ([]byte, error) // for people
	documented func() []byte          // for programs

	failures  *failures
	unproven  *unproven
	denials   *denials
	sessions  *sessions
	badges    *showing
	followers *seats        // one for each stream
	exports   *seats        // one for each export
	uploads   *seats        // one for each upload of an artifact
	stopping  chan struct{} // closed when streams should end
	stop      sync.Once
}

// Each of these handles the requests about one subject, with the server's dependencies.
type (
	jobAPI       struct{ *Server }
	executionAPI struct{ *Server }
	workerAPI    struct{ *Server }
	accessAPI    struct{ *Server }
	settingsAPI  struct{ *Server }
	viewAPI      struct{ *Server }
)

// Stop ends the streams, which would outlast the shutdown of the HTTP server.
func (s *Server) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// New returns the handler of all routes.
func New(cfg Config) *Server {
	if cfg.Feed == nil {
		cfg.Feed = feed.NewHub()
	}
	if cfg.Retry == (job.RetryPolicy{}) {
		cfg.Retry = job.DefaultRetry
	}
	s := &Server{
		cfg: cfg, service: cfg.Service, log: cfg.Logger, mux: http.NewServeMux(), failures: newFailures(cfg.Failures), badges: newShowing(cfg.Failures), followers: newSeats(maxFollowers), exports: newSeats(maxExports), uploads: newSeats(maxUploads), stopping: make(chan struct{}),
	}
	s.unproven = newUnproven(cfg.Unproven)
	s.denials = newDenials(cfg.Logger, cfg.Metrics, func(ctx context.Context, e audit.Entry) error { return cfg.Service.Denied(ctx, e) })
	life := time.Minute
	if cfg.Dispatch != nil {
		life = cfg.Dispatch.LeaseTTL()
	}
	s.sessions = newSessions(cfg.Sessions, life)
	s.page, s.documented = sync.OnceValues(viewAPI{s}.renderDocs), sync.OnceValue(func() []byte { return encoded(viewAPI{s}.document()) })
	s.routes = s.table()
	s.routes = slices.DeleteFunc(s.routes, func(rt route) bool { return !s.kept(rt) })
	for _, rt := range s.routes {
		s.mux.Handle(rt.method+" "+rt.path, s.guard(rt))
	}
	return s
}

// deadline limits the time of a request, except of long polls.
const (
	deadline     = 30 * time.Second
	waitDeadline = maxWait + 10*time.Second

	profileDeadline = 100 * time.Second // less than the time allowed for writing a response
)

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := sane(r.Header.Get("X-Request-ID"))
	if id == "" {
		id = uuid.NewString()
	}
	limit := deadline
	if strings.HasSuffix(r.URL.Path, "/claim") {
		limit = waitDeadline
	} else if strings.HasSuffix(r.URL.Path, "/logs") && follows(r) || strings.HasSuffix(r.URL.Path, "/events/stream") {
		limit = followDeadline
	}
	if strings.HasPrefix(r.URL.Path, "/api/v1/artifacts") {
		limit = artifactDeadline
	} else if strings.HasSuffix(r.URL.Path, ":export") {
		limit = exportDeadline
	} else if strings.HasPrefix(r.URL.Path, profilesPath) {
		limit = profileDeadline
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), idKey{}, id), limit)
	defer cancel()
	r = r.WithContext(ctx)
	out, route := &answering{ResponseWriter: w}, noRoute
	w = out
	defer func(began time.Time) { s.answered(r, route, out, time.Since(began)) }(time.Now())
	h := w.Header()
	h.Set("X-Request-ID", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.TLS != nil && hasName(r.Host) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.Error("a request panicked", "request_id", id, "method", r.Method, "path", pathOf(r), "panic", p, "stack", string(debug.Stack()))
			s.fail(w, r, fmt.Errorf("panic: %v", p))
		}
	}()
	if s.cfg.Authenticate == nil && !localName(r.Host) {
		s.fail(w, r, refuse(403, "forbidden_host", "Without sign-in, only requests to localhost, 127.0.0.1 or [::1] are answered."))
		return
	}
	if err := crossOrigin.Check(r); err != nil {
		s.fail(w, r, refuse(403, "cross_origin", "Pages of other sites cannot make changes here."))
		return
	}
	if s.cfg.Authenticate == nil && (!sameOrigin(r) || elsewhere(r)) {
		s.fail(w, r, refuse(403, "cross_origin", "Without sign-in, requests from pages of other sites are refused."))
		return
	}
	if s.takeToken(w, r) {
		return
	}
	if path.Clean(r.URL.Path) != r.URL.Path && r.URL.Path != profilesPath || !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) {
		s.fail(w, r, nowhere)
		return
	}
	_, pattern := s.mux.Handler(r)
	if pattern == "" || pattern == "GET "+dashboard.AdminParts {
		if to := s.meant(r); to != "" {
			http.Redirect(w, r, to, http.StatusPermanentRedirect)
			return
		}
	}
	if pattern == "" {
		s.lost(w, r)
		return
	}
	route = pattern
	s.mux.ServeHTTP(w, r)
}

// noRoute labels requests that match no route.
const noRoute = "none"

// quiet reports whether a request repeats often, such as health checks and heartbeats, and is counted rather than
// logged.
func quiet(r *http.Request) bool {
	p := r.URL.Path
	return p == "/metrics" || isProbe(p) || strings.HasPrefix(p, "/api/v1/workers/") || strings.HasPrefix(p, "/docs")
}

// answered counts a response and, if everything is logged, logs it; refusals have been logged before.
func (s *Server) answered(r *http.Request, route string, out *answering, took time.Duration) {
	code := out.status()
	s.cfg.Metrics.Answered(route, code)
	if code >= 400 || quiet(r) || !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	s.log.Debug("a request was answered", "request_id", requestID(r), "method", r.Method, "path", pathOf(r), "route", route, "status", code, "ms", took.Milliseconds(), "trace_id", out.trace)
}

var crossOrigin = http.NewCrossOriginProtection()

type idKey struct{}

func requestID(r *http.Request) string {
	id, _ := r.Context().Value(idKey{}).(string)
	return id
}

// sane accepts a caller's own request id if it is short and plain.
func sane(id string) string {
	if len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return id
}

// localName reports whether a Host header names this machine's loopback.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// hasName reports whether a Host header is a name at the default port: a browser that is told to use only TLS for a
// name does so at all its ports, which may belong to other programs.
func hasName(host string) bool {
	if h, port, err := net.SplitHostPort(host); err == nil {
		if host = h; port != "443" {
			return false
		}
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil && !localName(host)
}

// sameOrigin reports whether a request does not claim to come from a page of another site.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// meant returns the API address for a request at the root that matches no screen, such as /api/v1/series for /series;
// "" if there is none.
func (s *Server) meant(r *http.Request) string {
	const api = "/api/v1"
	if strings.HasPrefix(r.URL.Path, "/api/") || dashboard.AdminPart(r.URL.Path) {
		return ""
	}
	to := &url.URL{Path: api + r.URL.Path, RawQuery: r.URL.RawQuery}
	if r.URL.RawPath != "" {
		to.RawPath = api + r.URL.RawPath
	}
	other := r.Clone(r.Context())
	other.URL = to
	if _, pattern := s.mux.Handler(other); pattern == "" {
		return ""
	}
	return to.String()
}

// lost handles requests that match no route.
func (s *Server) lost(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := s.mux.Handler(other); pattern != "" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.fail(w, r, refuse(405, "method_not_allowed", fmt.Sprintf("%s does not go with this path; it takes %s.", r.Method, strings.Join(allowed, ", "))))
		return
	}
	switch {
	case s.cfg.HealthOnly || s.cfg.MetricsOnly:
		s.fail(w, r, refuse(404, "not_found", "There is nothing at this path: this process serves only health and metrics, not the API."))
	case navigates(r):
		dashboard.Built().Page(w, r, http.StatusNotFound)
	default:
		s.fail(w, r, nowhere)
	}
}

var nowhere = refuse(404, "not_found", "There is nothing at this path; /docs lists what there is.")

// guard passes a request to its route if its credential has the permission.
func (s *Server) guard(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, from := tenant.Local(), s.caller(r)
		if s.cfg.Authenticate != nil && s.unproven != nil && !probes(r) {
			if err := s.prove(r, from); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		if rt.needs.Keyed() && s.cfg.Authenticate != nil {
			var err error
			if p, err = s.signIn(r, rt, from); err != nil {
				if errors.Is(err, access.ErrSignedOut) {
					s.unsetCookies(w, r)
				}
				s.fail(w, r, err)
				return
			}
		} else if err := s.admits(rt, r); err != nil {
			s.fail(w, r, err)
			return
		} else if named := r.Header.Get("X-Tenant-ID"); rt.needs.Keyed() && named != "" && tenant.ID(named) != p.Tenant {
			s.fail(w, r, refuse(403, "forbidden", fmt.Sprintf("There is no tenant %q here: without sign-in the only tenant is \"default\".", job.Show(named))))
			return
		}
		r, done := s.traced(w, r, rt)
		defer done()
		if p.Asked = requestID(r); from.IsValid() {
			p.From = from.String()
		}
		if err := s.meter(w, r, rt, p); err != nil {
			s.fail(w, r, err)
			return
		}
		if !p.Role.Allows(rt.needs) {
			s.fail(w, r, refuse(403, "forbidden", fmt.Sprintf("This needs the permission %q, which the role %q does not have.", rt.needs, p.Role)))
			return
		}
		if rt.needs == tenant.Work && s.cfg.WorkerCerts && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			s.fail(w, r, refuse(403, "certificate_required", "Workers of this server must present a client certificate (mutual TLS). Start them with --tls-cert and --tls-key, without a proxy that terminates TLS."))
			return
		}
		if p.Role != tenant.System && confinedTo(rt.needs) {
			r = r.WithContext(engine.Confine(r.Context(), p.Tenant))
		}
		if err := rt.handle(w, r, p); err != nil {
			s.fail(w, r, err)
		}
	})
}

// admits returns why a server without sign-in refuses a request, or nil.
func (s *Server) admits(rt route, r *http.Request) error {
	if !rt.needs.Keyed() || s.cfg.Local == nil {
		return nil
	}
	return s.cfg.Local.admits(r)
}

// traced begins the span of a request once it is authenticated, so that nobody else can create spans.
func (s *Server) traced(w http.ResponseWriter, r *http.Request, rt route) (_ *http.Request, done func()) {
	out, ok := w.(*answering)
	if !ok || quiet(r) {
		return r, func() {}
	}
	r, end := s.cfg.Tracer.Request(r, rt.method+" "+rt.path)
	if end == nil {
		return r, func() {}
	}
	out.trace = telemetry.TraceID(r.Context())
	return r, func() { end(out.status()) }
}

// confinedTo reports whether a request with the permission concerns one tenant. All do, except the worker protocol,
// in which workers of many tenants share commits, and requests about the installation.
func confinedTo(p tenant.Permission) bool {
	return p == tenant.Read || p == tenant.Write || p == tenant.Manage || p == tenant.Fetch
}

// reply writes a value as a JSON response.
func reply(w http.ResponseWriter, status int, v any) error {
	return replyRaw(w, status, encoded(v))
}

func replyRaw(w http.ResponseWriter, status int, data []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data) // an error here means that the caller has gone
	return nil
}

// encoded returns a wire type as JSON.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("api: an answer cannot be encoded: " + err.Error())
	}
	return append(data, '\n')
}
