package api

import (
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// profilesPath ends with a slash, since the links of its page are relative to it, and go tool pprof expects it.
const profilesPath = "/debug/pprof/"

// observeRoutes returns the routes that observe this process; every process has them, whatever its roles.
func (s viewAPI) observeRoutes() []route {
	const group = "Operation"
	scrape := route{
		method: "GET", path: "/metrics", needs: tenant.Read, group: group, everywhere: true, summary: "Read the metrics of this process, for Prometheus",
		detail: "In the Prometheus text format. Metrics of the whole installation are the same on every server.",
		bytes:  true, status: 200, handle: s.metrics,
	}
	if s.cfg.MetricsOnly { // on a separate listener, which nobody else should reach
		scrape.needs = tenant.Open
	}
	rs := []route{
		scrape,
		{
			method: "GET", path: "/api/v1/admin/log-level", needs: tenant.Run, group: group, everywhere: true, summary: "Read the log level of this process",
			status: 200, answer: of[client.LogLevel](), handle: s.logLevel,
		},
		{
			method: "PUT", path: "/api/v1/admin/log-level", needs: tenant.Run, group: group, everywhere: true, summary: "Change the log level",
			detail: "Applies to the process that answers, until it stops.", body: of[client.LogLevel](), sample: `{"level": "debug"}`, status: 200, answer: of[client.LogLevel](), handle: s.setLogLevel,
		},
	}
	if s.cfg.Profiles {
		rs = append(rs,
			route{method: "GET", path: profilesPath + "{$}", needs: tenant.Run, everywhere: true, summary: "List the profiles", handle: s.profiles},
			route{method: "GET", path: profilesPath + "{name}", needs: tenant.Run, everywhere: true, summary: "A profile of this process, for go tool pprof", handle: s.profile},
		)
	}
	return rs
}

// kept reports whether a server that serves only some routes serves this one.
func (s *Server) kept(rt route) bool {
	switch {
	case s.cfg.Keyless && rt.needs.Keyed():
		return false
	case s.cfg.MetricsOnly:
		return rt.group == "Health" || rt.path == "/metrics"
	case s.cfg.HealthOnly:
		return rt.group == "Health" || rt.everywhere
	}
	return true
}

func (s viewAPI) metrics(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	if s.cfg.Metrics == nil {
		return refuse(404, "not_found", "This process has no metrics.")
	}
	s.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

func (s viewAPI) logLevel(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
	return reply(w, 200, client.LogLevel{Level: s.cfg.Log.Level()})
}

func (s viewAPI) setLogLevel(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.LogLevel
	if err := decode(data, &req); err != nil {
		return err
	}
	levels := []string{"debug", "info", "warn", "error"}
	if !slices.Contains(levels, req.Level) {
		return job.Invalids{{Field: "level", Value: job.Show(req.Level), Want: "one of debug, info, warn, error"}}
	}
	was := s.cfg.Log.Level()
	if err := s.service.Noted(r.Context(), p, "log.level", "log", was, req.Level); err != nil {
		return err
	}
	if err := s.cfg.Log.Set(req.Level); err != nil {
		return err
	}
	s.log.Warn("the log's level was changed", "from", was, "to", req.Level, "by", p.Name, "request_id", requestID(r))
	return reply(w, 200, client.LogLevel{Level: s.cfg.Log.Level()})
}

func (s viewAPI) profiles(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	pprof.Index(w, r)
	return nil
}

func (s viewAPI) profile(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	switch r.PathValue("name") {
	case "cmdline": // which may hold a key
		return nowhere
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Index(w, r)
	}
	return nil
}

// answering records the status of a response, and its trace.
type answering struct {
	http.ResponseWriter
	code  int
	trace string // "": none
}

func (a *answering) WriteHeader(code int) {
	if a.code == 0 && code >= 200 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *answering) Write(b []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// status returns the status of the response; for a client that went away, the one that nginx uses.
func (a *answering) status() int {
	if a.code == 0 {
		return 499
	}
	return a.code
}
