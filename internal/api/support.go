package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Support holds what a process adds to a support bundle.
type Support struct {
	Settings  []client.SupportSetting // as they may be shown
	Secrets   []string                // texts to remove from bundles wherever they occur
	Host      string
	Store     string
	Roles     []string
	StartedAt time.Time
}

// supportRoutes returns the routes for support.
func (s viewAPI) supportRoutes() []route {
	return []route{{
		method: "GET", path: "/api/v1/admin/support", needs: tenant.Run, group: "Operation", everywhere: true, away: true, summary: "Create a support bundle",
		detail: "Holds the version, settings, health, counts, metrics and last 500 log lines of the process that answers. It contains no secrets, payloads or results; the log may name jobs and tenants. missing lists what could not be read. While the store is down you still get a bundle, with a system key or sign-in that this server has seen in the last 15 minutes.",
		status: 200, answer: of[client.SupportBundle](), handle: s.support,
	}, {
		method: "GET", path: "/api/v1/admin/sizes", needs: tenant.Run, group: "Operation", summary: "Read the size of the database",
		detail: "Sizes of the database and of the tables that grow. The quota history_days of each tenant sets how long history is kept.",
		status: 200, answer: of[client.StoreSizes](), handle: s.storeSizes,
	}}
}

func (s viewAPI) storeSizes(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, nil)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	x, err := s.service.Sizes(r.Context(), p)
	if err != nil {
		return err
	}
	return reply(w, 200, wireSizes(x))
}

func wireSizes(x engine.Sizes) client.StoreSizes {
	out := client.StoreSizes{Bytes: x.Bytes, FreeBytes: x.Free, Tables: make([]client.TableSize, len(x.Tables))}
	for i, t := range x.Tables {
		out.Tables[i] = client.TableSize{Name: t.Name, Rows: t.Rows.Count, RowsIsEstimate: t.Rows.Estimate}
		if t.Bytes >= 0 {
			out.Tables[i].Bytes = new(t.Bytes)
		}
	}
	return out
}

// supportWait limits how long each part of a bundle may wait for the store.
const supportWait = 5 * time.Second

func (s viewAPI) support(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, nil)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	known := s.cfg.Support
	if known == nil {
		known = &Support{}
	}
	conceal := newConcealer(known.Secrets, known.Settings)
	hide := conceal.text
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	out := client.SupportBundle{
		MadeAt: time.Now().UTC(), Version: s.cfg.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Host: known.Host, StartedAt: known.StartedAt.UTC(), Roles: list0(known.Roles), Store: hide(known.Store),
		Process:  client.SupportProcess{CPUs: runtime.GOMAXPROCS(0), Goroutines: runtime.NumGoroutine(), HeapBytes: int64(mem.HeapAlloc), MemoryBytes: int64(mem.Sys), Collections: int64(mem.NumGC)},
		Settings: make([]client.SupportSetting, len(known.Settings)), LogLevel: s.cfg.Log.Level(), Log: []string{}, Missing: []string{},
	}
	for i, x := range known.Settings {
		x.Value = hide(x.Value)
		out.Settings[i] = x
	}
	for _, line := range s.cfg.Log.Recent() {
		out.Log = append(out.Log, conceal.line(line))
	}
	part := func(name string, read func(context.Context) error) {
		ctx, cancel := context.WithTimeout(r.Context(), supportWait)
		defer cancel()
		if err := read(ctx); err != nil {
			out.Missing = append(out.Missing, hide(name+": "+err.Error()))
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	err = s.cfg.Ready(ctx)
	cancel()
	if out.Ready = err == nil; err != nil {
		out.NotReady = new(hide(err.Error()))
	}
	part("tenants", func(ctx context.Context) error {
		all, err := s.service.Tenants(ctx, p)
		if err == nil {
			out.Tenants = new(len(all))
		}
		return err
	})
	part("status", func(ctx context.Context) error {
		st, err := s.status(ctx, p, time.Hour)
		if err == nil {
			out.Status = &st
		}
		return err
	})
	part("sizes", func(ctx context.Context) error {
		x, err := s.service.Sizes(ctx, p)
		if err == nil {
			out.Sizes = new(wireSizes(x))
		}
		return err
	})
	part("metrics", func(ctx context.Context) error {
		if s.cfg.Metrics == nil {
			return fmt.Errorf("this process counts nothing")
		}
		var text textWriter
		ask, err := http.NewRequestWithContext(ctx, "GET", "/metrics", nil)
		if err != nil {
			return err
		}
		s.cfg.Metrics.ServeHTTP(&text, ask)
		if text.status >= 400 {
			return fmt.Errorf("%d: %s", text.status, strings.TrimSpace(text.String()))
		}
		out.Metrics = conceal.looks(text.String()) // its names are the product's
		return nil
	})
	part("audit", func(ctx context.Context) error { return s.service.BundleRead(ctx, p, known.Host) })
	s.log.Info("a support bundle was made", "by", p.Name, "request_id", requestID(r))
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="carillon-support-%s.json"`, out.MadeAt.Format("20060102T150405Z")))
	return reply(w, 200, out)
}

// textWriter writes a response as text.
type textWriter struct {
	bytes.Buffer
	header http.Header
	status int
}

func (w *textWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *textWriter) WriteHeader(status int) { w.status = status }
