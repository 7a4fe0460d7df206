package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Problem is an error answer, as application/problem+json. Calls return it as an error, as *Problem: what it is about is
// told by errors.Is with one of the errors below, or by its code.
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

// QuotaProblem says which quota says no, how much it allows, how much there is or would be, and, of a rate, when to try again.
type QuotaProblem struct {
	Name         string `json:"name" doc:"The same name as in a tenant's quotas."`
	Limit        int64  `json:"limit"`
	Current      int64  `json:"current"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// FieldProblem says which field is wrong, what it was, and what would be right.
type FieldProblem struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Want  string `json:"want"`
}

// CodeStaleToken is the code of a problem that says that the lease an attempt was claimed under is lost.
const CodeStaleToken = "stale_token"

// What a problem may be about.
var (
	ErrInvalid      = errors.New("the request cannot be done as it is")             // 400, 405, 413, 415, 422
	ErrUnauthorized = errors.New("the credential is missing or not accepted")       // 401
	ErrForbidden    = errors.New("the credential does not allow this")              // 403
	ErrNotFound     = errors.New("there is no such thing")                          // 404; also what belongs to another tenant
	ErrConflict     = errors.New("its state, or a change of another, forbids this") // 409, 412
	ErrLimited      = errors.New("there were too many requests")                    // 429
	ErrUnavailable  = errors.New("no server answers just now")                      // 502, 503, 504, and where nothing answered
)

// Error tells the status, the code and the detail.
func (p *Problem) Error() string {
	s := fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail)
	if p.RequestID != "" {
		s += " (request " + p.RequestID + ")"
	}
	return s
}

// Is reports whether the problem is about what an error of this package says.
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

// away is an error of the way to a server: nothing answered.
type away struct{ err error }

func (a *away) Error() string        { return a.err.Error() }
func (a *away) Unwrap() error        { return a.err }
func (a *away) Is(target error) bool { return target == ErrUnavailable }
