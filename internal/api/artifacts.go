package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	maxUploads = 8 // at once; more are turned away

	// Transfers may take long, but must not stall.
	artifactDeadline = 15 * time.Minute
	standstill       = 30 * time.Second
)

func (s settingsAPI) putArtifact(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	control := http.NewResponseController(w)
	tooLarge := func(limit int64) error {
		return refuse(413, "too_large", fmt.Sprintf("The artifact is larger than %d bytes.", limit),
			client.FieldProblem{Value: sizeOf(r), Want: fmt.Sprintf("at most %d bytes; artifacts.max_mb sets it", limit)})
	}
	if limit := s.cfg.MaxArtifact; limit > 0 && r.ContentLength > limit {
		return tooLarge(limit) // before anything of it is read
	}
	release, err := s.uploads.take(p.Tenant, "too_many_uploads", "uploads")
	if err != nil {
		return err
	}
	defer release()
	k, err := s.service.PutArtifact(r.Context(), p, &moving{control, r.Body}, r.ContentLength)
	var large *artifact.TooLarge
	var cut *brokenOff
	switch {
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	case errors.As(err, &cut):
		return refuse(400, "unreadable_body", "The body could not be read to its end.")
	case err != nil:
		return err
	}
	status := 201
	if k.Known {
		status = 200
	}
	control.SetWriteDeadline(time.Now().Add(standstill)) // if it cannot be set, the server's own applies
	w.Header().Set("Location", "/api/v1/artifacts/"+k.ID)
	return reply(w, status, client.Artifact{ArtifactID: k.ID, Size: k.Size})
}

// moving reads a body that must not stall.
type moving struct {
	control *http.ResponseController
	r       io.Reader
}

func (m *moving) Read(p []byte) (int, error) {
	m.control.SetReadDeadline(time.Now().Add(standstill))
	n, err := m.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &brokenOff{err}
	}
	return n, err
}

// brokenOff is the error that a body ended early.
type brokenOff struct{ error }

func (s settingsAPI) deleteArtifact(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if !job.ValidArtifact(id) {
		return engine.ErrNotFound
	}
	k, err := s.service.DeleteArtifact(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, client.Artifact{ArtifactID: k.ID, Size: k.Size})
}

func (s settingsAPI) getArtifact(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if !job.ValidArtifact(id) {
		return engine.ErrNotFound
	}
	b, err := s.service.Artifact(r.Context(), p, id)
	if err != nil {
		return err
	}
	defer b.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+id+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.FormatInt(b.Size(), 10))
	out, stop := s.watch(r, p, tenant.Fetch).outlet(w, standstill)
	defer stop()
	buf := make([]byte, 256<<10)
	for {
		n, err := b.Read(buf)
		_, gone := out.Write(buf[:n])
		if out.refused.Load() {
			panic(http.ErrAbortHandler)
		}
		if gone != nil || r.Context().Err() != nil || errors.Is(err, io.EOF) {
			return nil // the caller has gone, or has everything
		}
		if err != nil {
			s.log.Error("an artifact could not be read", "request_id", requestID(r), "artifact_id", id, "error", err)
			panic(http.ErrAbortHandler) // the response has begun; only breaking the connection shows that it is incomplete
		}
	}
}
