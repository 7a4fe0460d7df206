package api

import (
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Archive serves the requests of operators about the archive.
type Archive struct {
	*mover.Office
	Place, Layout string
}

// archiveRoutes returns the routes for the archive.
func (s viewAPI) archiveRoutes() []route {
	return []route{
		{
			method: "GET", path: "/api/v1/admin/archive", needs: tenant.Run, group: "Operation", summary: "Read the state of the archive",
			detail: "Finished executions move to the archive when they are older than history.hot_days. 409 if archive.url is not set.",
			status: 200, answer: of[client.Archive](), handle: s.archive,
		},
		{
			method: "POST", path: "/api/v1/admin/archive/run", needs: tenant.Run, group: "Operation", summary: "Move what is due to the archive now",
			detail: "Also deletes files whose retention is over. The response does not wait for it. If another server is at it, that one goes on.",
			status: 202, answer: of[client.Archive](), handle: s.runArchive,
		},
		{
			method: "POST", path: "/api/v1/admin/archive/verify", needs: tenant.Run, group: "Operation", summary: "Compare archived files with the catalogue",
			detail: "Reads files whole, for some seconds: next says where to go on. After the last file it lists objects that the catalogue does not know.",
			body:   of[client.ArchiveVerify](), sample: `{}`, status: 200, answer: of[client.ArchiveCheck](), handle: s.verifyArchive,
		},
	}
}

var errNoArchive = refuse(http.StatusConflict, "no_archive", "This installation has no archive: archive.url is not set, and history stays in the database.")

func (s viewAPI) archive(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	q, err := parseQuery(r, nil)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	return s.replyArchive(w, r, 200)
}

func (s viewAPI) replyArchive(w http.ResponseWriter, r *http.Request, status int) error {
	a := s.cfg.Archive
	if a == nil {
		return errNoArchive
	}
	x, err := a.Status(r.Context())
	if err != nil {
		return err
	}
	return reply(w, status, wireArchive(a, x))
}

func wireArchive(a *Archive, x mover.Status) client.Archive {
	out := client.Archive{
		Place: a.Place, Layout: a.Layout, HotDays: a.Hot, LagSeconds: x.Lag.Seconds(), CheckedAt: instant(x.At), Moved: x.Written, ForeignFiles: list0(x.Foreign), Days: make([]client.ArchiveDay, len(x.Days)),
	}
	if x.Oldest != nil {
		out.OverdueSince = new(x.Oldest.Format(time.DateOnly))
	}
	if x.Day != nil {
		out.Moving = &client.ArchiveMove{Day: x.Day.Format(time.DateOnly), Step: x.Step, Rows: x.Rows}
	}
	if x.Error != "" {
		out.Error = new(x.Error)
	}
	for i, d := range x.Days {
		out.Days[i] = client.ArchiveDay{Day: d.Day.Format(time.DateOnly), Settled: d.Settled, Files: d.Files, Executions: d.Executions, LogLines: d.LogLines, Bytes: d.Bytes}
	}
	return out
}

func (s viewAPI) runArchive(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err == nil {
		err = decodeAny(data, &struct{}{})
	}
	if err != nil {
		return err
	}
	if s.cfg.Archive == nil {
		return errNoArchive
	}
	if s.cfg.Archive.Wake == nil {
		return refuse(http.StatusConflict, "no_scheduler", "This server does not move history. Ask one with the role scheduler.")
	}
	if err := s.service.Noted(r.Context(), p, "archive.run", "archive", "", ""); err != nil {
		return err
	}
	s.cfg.Archive.Wake()
	return s.replyArchive(w, r, 202)
}

func (s viewAPI) verifyArchive(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	var req client.ArchiveVerify
	data, err := body(w, r, maxBody)
	if err == nil {
		err = decodeAny(data, &req)
	}
	if err != nil {
		return err
	}
	if req.After != "" && blob.CheckName(req.After) != nil {
		return job.Invalids{{Field: "after", Value: job.Show(req.After), Want: "next of an earlier answer"}}
	}
	if s.cfg.Archive == nil {
		return errNoArchive
	}
	v, err := s.cfg.Archive.Verify(r.Context(), req.After)
	if err != nil {
		return err
	}
	out := client.ArchiveCheck{Files: v.Files, Bytes: v.Bytes, Next: v.Next, Problems: make([]client.ArchiveProblem, len(v.Problems))}
	for i, x := range v.Problems {
		out.Problems[i] = client.ArchiveProblem{File: x.File, Problem: x.Why}
	}
	return reply(w, 200, out)
}
