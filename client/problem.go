package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Problem is an error response, as application/problem+json. Calls return it as a *Problem: check it with errors.Is
// and the errors below, or by its code.
type Problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code" doc:"Stable; for programs."`
	Errors    []FieldProblem `json:"errors,omitempty"`
	Quota     *QuotaProblem  `json:"quota,omitempty" doc:"The tenant's quota that was exceeded, if any."`
	RequestID string         `json:"request_id"`

	// RetryAfter is how long the server asks to wait before the next try; 0 if it does not say.
	RetryAfter time.Duration `json:"-"`
}

// QuotaProblem names the exceeded quota, its limit, the current or requested amount and, for a rate, when to retry.
type QuotaProblem struct {
	Name         string `json:"name" doc:"The same name as in a tenant's quotas."`
	Limit        int64  `json:"limit"`
	Current      int64  `json:"current"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// FieldProblem names an invalid field, its value, and what would be valid.
type FieldProblem struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Want  string `json:"want"`
}

// CodeStaleToken is the code of the problem that an attempt's lease is lost.
const CodeStaleToken = "stale_token"

// The errors that a Problem may match.
var (
	ErrInvalid      = errors.New("the request cannot be done as it is")             // 400, 405, 413, 415, 422
	ErrUnauthorized = errors.New("the credential is missing or not accepted")       // 401
	ErrForbidden    = errors.New("the credential does not allow this")              // 403
	ErrNotFound     = errors.New("there is no such thing")                          // 404; also for another tenant's
	ErrConflict     = errors.New("its state, or a change of another, forbids this") // 409, 412
	ErrLimited      = errors.New("there were too many requests")                    // 429
	ErrUnavailable  = errors.New("no server answers just now")                      // 502, 503, 504, or no server answered
)

// Error returns the status, the code and the detail.
func (p *Problem) Error() string {
	s := fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail)
	if p.RequestID != "" {
		s += " (request " + p.RequestID + ")"
	}
	return s
}

// Is reports whether the problem matches an error of this package.
func (p *Problem) Is(target error) bool {
	switch p.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return target == ErrInvalid
	case http.StatusUnauthorized:
		return target == ErrUnauthorized
	case http.StatusForbidden:
		return target == ErrForbidden
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return target == ErrConflict
	case http.StatusTooManyRequests:
		return target == ErrLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return target == ErrUnavailable
	}
	return false
}

// away is an error of the connection to a server: nothing answered.
type away struct{ err error }

func (a *away) Error() string        { return a.err.Error() }
func (a *away) Unwrap() error        { return a.err }
func (a *away) Is(target error) bool { return target == ErrUnavailable }
