package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// refusal is an error that this package creates itself.
type refusal struct {
	status int
	code   string
	detail string
	fields []client.FieldProblem
}

func (r *refusal) Error() string { return r.detail }

func refuse(status int, code, detail string, fields ...client.FieldProblem) error {
	return &refusal{status, code, detail, fields}
}

// table maps errors to responses. The detail is the error's own text unless one is given here.
var table = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{access.ErrNoCredential, 401, "unauthorized", "This needs a credential: send Authorization: Bearer <API key or token>."},
	{access.ErrUnknownKey, 401, "unauthorized", "The API key is unknown, expired or revoked."},
	{access.ErrSignedOut, 401, "unauthorized", "You are not signed in, or your sign-in has ended. Sign in again."},
	{access.ErrToken, 401, "unauthorized", "The token is not accepted: it has expired, comes from another issuer or is for another audience, names no tenant or role, or has a wrong signature."},
	{access.ErrKeys, 503, "unavailable", "The token issuer's keys cannot be fetched right now. Try again, or use an API key."},
	{access.ErrTenant, 403, "forbidden", "X-Tenant-ID names a tenant other than the credential's."},
	{access.ErrNoTenant, 404, "not_found", "X-Tenant-ID names a tenant that does not exist."},
	{service.ErrForbidden, 403, "forbidden", ""},
	{service.ErrKeyReused, 422, "idempotency_key_reused", "This idempotency key was used for a different request in the last 24 hours; send a new key."},
	{engine.ErrNotFound, 404, "not_found", "What the request names does not exist."},
	{engine.ErrSession, 409, "session_ended", "The worker's session has ended or never existed; register again."},
	{sign.ErrToken, 401, "unauthorized", "This needs the Carillon-Callback-Token of the execution's callback: send Authorization: Bearer <token>."},
	{dispatch.ErrStale, 409, "stale_token", "This worker does not hold the lease, or no longer does: nothing was stored. Stop working on this execution."},
	{service.ErrNoNode, 409, client.CodeNoNode, "The attempt is not a node of a workflow: it has no ancestors and no item."},
	{dispatch.ErrStopped, 503, "unavailable", "The server is stopping. Try another server, or try again later."},
	{engine.ErrConflict, 409, "conflict", "Another request changed this at the same time. Read it again, then retry."},
	{engine.ErrArchive, 503, "archive_unavailable", "Archived history cannot be read right now; the server's log has the reason. History of the last days can."},
	{engine.ErrUnavailable, 503, "unavailable", "The store cannot be reached right now, and the request may or may not have been stored. Retry with the same idempotency key."},
	{artifact.ErrUnavailable, 503, "unavailable", "The place where artifacts are stored cannot be used right now; the server's log has the reason."},
	{artifact.ErrNoRoom, 503, "unavailable", "There is no space left for artifacts."},
	{engine.ErrSchema, 503, "unavailable", "The store's schema is not ready."},
	{context.DeadlineExceeded, 503, "unavailable", "The store did not answer in time. Try again."},
}

// problem returns the problem document for an error, and whether the server is to blame.
func problem(err error) (p client.Problem, ours bool) {
	var r *refusal
	var syntax *strictjson.Error
	var invalid job.Invalids
	var taken *service.KeyTaken
	var notDone *service.NotDone
	var revised *service.Revised
	var used *engine.Used
	var held *engine.Held
	var over *service.OverQuota
	var conflict *workflow.Conflict
	var decided *workflow.Decided
	var noNode *service.NoNode
	var ahead *dispatch.Ahead
	var many *tooMany
	var refused *delivery.Refusal
	switch {
	case errors.As(err, &r):
		return made(r.status, r.code, r.detail, r.fields...), false
	case errors.As(err, &refused):
		return made(409, "not_started", "The attempt cannot begin, and has failed: "+refused.Error()), false
	case errors.As(err, &syntax):
		return malformed(syntax), false
	case errors.As(err, &invalid):
		fields := make([]client.FieldProblem, len(invalid))
		for i, v := range invalid {
			fields[i] = client.FieldProblem{Field: v.Field, Value: v.Value, Want: v.Want}
		}
		return made(422, "invalid", "The request is invalid: "+say(fields), fields...), false
	case errors.As(err, &taken):
		return made(409, "key_taken", fmt.Sprintf("The key %q belongs to another job of this tenant.", taken.Key),
			client.FieldProblem{Field: "key", Value: taken.Key, Want: "a key that no other job has"}), false
	case errors.As(err, &notDone):
		return made(409, "cannot_"+notDone.What, notDone.Why), false
	case errors.As(err, &conflict):
		return made(409, "cannot_"+strings.ReplaceAll(conflict.Act, " ", "_"), sentence(conflict.Error())), false
	case errors.As(err, &decided):
		return made(409, "already_decided", decided.Error()+"."), false
	case errors.As(err, &noNode):
		return made(404, "not_found", sentence(noNode.Error())), false
	case errors.As(err, &used):
		return usedBy(used), false
	case errors.As(err, &held):
		return heldBy(held), false
	case errors.As(err, &over):
		return overQuota(over), false
	case errors.As(err, &many):
		code, most := "too_many_failures", int64(failuresAtOnce)
		if many.unproven {
			code, most = "rate_limited", int64(many.most)
		}
		p := made(429, code, many.Error())
		p.Quota = &client.QuotaProblem{Name: many.limit(), Limit: most, Current: most + 1, RetryAfterMS: roundUp(many.wait, time.Millisecond)}
		return p, false
	case errors.As(err, &revised):
		return made(412, "revision_mismatch", fmt.Sprintf("The job is at revision %d: someone else changed it. Read it again, then send If-Match: %d.", revised.Is, revised.Is),
			client.FieldProblem{Field: "If-Match", Value: fmt.Sprint(revised.Want), Want: fmt.Sprint(revised.Is)}), false
	case errors.As(err, &ahead):
		return made(422, "invalid", fmt.Sprintf("Lines are missing before these: the log of this attempt has only %d.", ahead.Have),
			client.FieldProblem{Field: "offset", Want: fmt.Sprintf("at most %d", ahead.Have)}), false
	case errors.Is(err, engine.ErrCursor):
		return made(400, "invalid_parameter", "The cursor does not belong to this list.",
			client.FieldProblem{Field: "cursor", Want: "the next_cursor of the page before, or none for the first page"}), false
	}
	for _, row := range table {
		if errors.Is(err, row.err) {
			detail := row.detail
			if detail == "" {
				detail = err.Error()
			}
			return made(row.status, row.code, detail), row.status >= 500
		}
	}
	return made(500, "internal", "Something went wrong on the server; the operator can find the error in the log by the request id."), true
}

func made(status int, code, detail string, fields ...client.FieldProblem) client.Problem {
	return client.Problem{
		Type: "urn:carillon:problem:" + code, Title: http.StatusText(status), Status: status, Detail: detail, Code: code, Errors: fields,
	}
}

// sentence turns the text of an error into a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

func malformed(e *strictjson.Error) client.Problem {
	fields := make([]client.FieldProblem, len(e.Problems))
	for i, p := range e.Problems {
		fields[i] = client.FieldProblem{Field: p.Field, Value: p.Value, Want: p.Want}
	}
	code, lead := "invalid_body", "The body is not in the expected form: "
	if e.Syntax {
		code, lead = "malformed_json", "The body is not valid JSON: "
	}
	return made(400, code, lead+e.Error(), fields...)
}

// say describes the first problems in one sentence.
func say(fields []client.FieldProblem) string {
	const most = 3
	var parts []string
	for _, f := range fields[:min(len(fields), most)] {
		name := f.Field
		if name == "" {
			name = "the body"
		}
		if f.Value == "" {
			parts = append(parts, fmt.Sprintf("%s: want %s", name, f.Want))
		} else {
			parts = append(parts, fmt.Sprintf("%s is %q, want %s", name, f.Value, f.Want))
		}
	}
	if n := len(fields) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, "; ") + "."
}

// fail responds with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		switch r.Context().Err() {
		case context.Canceled:
			return // the caller has gone
		case context.DeadlineExceeded: // and the work for the request was stopped
			err = context.DeadlineExceeded
		}
	}
	p, ours := problem(err)
	if errors.Is(err, engine.ErrNotFound) && p.Status == http.StatusNotFound {
		p.Detail = absent(r)
	}
	p.RequestID = requestID(r)
	if p.Quota != nil {
		s.cfg.Metrics.Limited(p.Quota.Name)
	}
	switch {
	case ours && r.Context().Err() == nil:
		s.log.Error("a request failed", "request_id", p.RequestID, "method", r.Method, "path", pathOf(r), "status", p.Status, "error", err)
	default:
		s.log.Debug("a request was refused", "request_id", p.RequestID, "method", r.Method, "path", pathOf(r), "status", p.Status, "code", p.Code)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch p.Status {
	case 401:
		h.Set("WWW-Authenticate", `Bearer realm="carillon"`)
	case 429, 503:
		h.Set("Retry-After", retryAfter(p))
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}
