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
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// refusal is an error that this package makes itself.
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

// table is what each error becomes. The detail is the error's own text unless one is given here.
var table = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{access.ErrNoCredential, 401, "unauthorized", "A credential is needed: send Authorization: Bearer <API key or token>."},
	{access.ErrUnknownKey, 401, "unauthorized", "The API key is unknown, expired or revoked."},
	{access.ErrSignedOut, 401, "unauthorized", "You are not signed in, or no longer: sign in again."},
	{access.ErrToken, 401, "unauthorized", "The token is not accepted: it has expired, is of another issuer or audience, names no tenant or role, or its signature is wrong."},
	{access.ErrKeys, 503, "unavailable", "Whoever issues the tokens cannot be asked for its keys just now. Try again, or use an API key."},
	{access.ErrTenant, 403, "forbidden", "X-Tenant-ID names another tenant than the credential's."},
	{access.ErrNoTenant, 404, "not_found", "X-Tenant-ID names a tenant that does not exist."},
	{service.ErrForbidden, 403, "forbidden", ""},
	{service.ErrKeyReused, 422, "idempotency_key_reused", "This idempotency key was used with another request in the last 24 hours; send a new key."},
	{engine.ErrNotFound, 404, "not_found", "There is no such job, execution, worker, operation, calendar, secret, artifact, rule, key, sign-in or tenant."},
	{engine.ErrSession, 409, "session_ended", "The worker's session has ended, or never was; register again."},
	{sign.ErrToken, 401, "unauthorized", "This needs the Carillon-Callback-Token of the execution's callback: send Authorization: Bearer <token>."},
	{dispatch.ErrStale, 409, "stale_token", "The lease is lost, or was never this worker's: nothing was kept. Stop working on this execution."},
	{dispatch.ErrStopped, 503, "unavailable", "The server is stopping. Turn to another, or come again."},
	{engine.ErrConflict, 409, "conflict", "Another request changed the same thing at the same time. Look at it and try again."},
	{engine.ErrUnavailable, 503, "unavailable", "The store cannot be reached just now; nothing was stored unless a later request with the same idempotency key shows so. Try again."},
	{engine.ErrSchema, 503, "unavailable", "The store's schema is not ready."},
	{context.DeadlineExceeded, 503, "unavailable", "The store did not answer in time. Try again."},
}

// problem is what an error becomes on the wire, and whether it is our fault.
func problem(err error) (p client.Problem, ours bool) {
	var r *refusal
	var syntax *strictjson.Error
	var invalid job.Invalids
	var taken *service.KeyTaken
	var notDone *service.NotDone
	var revised *service.Revised
	var over *service.OverQuota
	var ahead *dispatch.Ahead
	var many *tooMany
	switch {
	case errors.As(err, &r):
		return made(r.status, r.code, r.detail, r.fields...), false
	case errors.As(err, &syntax):
		return malformed(syntax), false
	case errors.As(err, &invalid):
		fields := make([]client.FieldProblem, len(invalid))
		for i, v := range invalid {
			fields[i] = client.FieldProblem{Field: v.Field, Value: v.Value, Want: v.Want}
		}
		return made(422, "invalid", "The request is understood but cannot be done as it is: "+say(fields), fields...), false
	case errors.As(err, &taken):
		return made(409, "key_taken", fmt.Sprintf("The key %q belongs to another job of this tenant.", taken.Key),
			client.FieldProblem{Field: "key", Value: taken.Key, Want: "a key that no other job has"}), false
	case errors.As(err, &notDone):
		return made(409, "cannot_"+notDone.What, notDone.Why), false
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
		return made(412, "revision_mismatch", fmt.Sprintf("The job has revision %d by now: someone else changed it. Read it, and send If-Match: %d.", revised.Is, revised.Is),
			client.FieldProblem{Field: "If-Match", Value: fmt.Sprint(revised.Want), Want: fmt.Sprint(revised.Is)}), false
	case errors.As(err, &ahead):
		return made(422, "invalid", fmt.Sprintf("Lines are missing before these: the log of this attempt has %d so far.", ahead.Have),
			client.FieldProblem{Field: "offset", Want: fmt.Sprintf("at most %d", ahead.Have)}), false
	case errors.Is(err, engine.ErrCursor):
		return made(400, "invalid_parameter", "The cursor is not one that this list gave.",
			client.FieldProblem{Field: "cursor", Want: "next_cursor of an earlier page, or nothing for the first"}), false
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
	return made(500, "internal", "Something went wrong here; the request id tells the operator where."), true
}

func made(status int, code, detail string, fields ...client.FieldProblem) client.Problem {
	return client.Problem{
		Type: "urn:carillon:problem:" + code, Title: http.StatusText(status), Status: status, Detail: detail, Code: code, Errors: fields,
	}
}

func malformed(e *strictjson.Error) client.Problem {
	fields := make([]client.FieldProblem, len(e.Problems))
	for i, p := range e.Problems {
		fields[i] = client.FieldProblem{Field: p.Field, Value: p.Value, Want: p.Want}
	}
	code, lead := "invalid_body", "The body does not have the right form: "
	if e.Syntax {
		code, lead = "malformed_json", "The body is not valid JSON: "
	}
	return made(400, code, lead+e.Error(), fields...)
}

// say tells the first problems of a list in a sentence.
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

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		switch r.Context().Err() {
		case context.Canceled:
			return // the caller has gone
		case context.DeadlineExceeded: // and what the request began was stopped
			err = context.DeadlineExceeded
		}
	}
	p, ours := problem(err)
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
