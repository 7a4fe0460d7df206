package client

// Problem is an error answer, as application/problem+json.
type Problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code" doc:"Stable; for programs."`
	Errors    []FieldProblem `json:"errors,omitempty"`
	Quota     *QuotaProblem  `json:"quota,omitempty" doc:"Where a quota of the tenant says no."`
	RequestID string         `json:"request_id"`
}

// QuotaProblem says which quota says no, how much it allows, how much there is or would be, and, of a rate, when to try again.
type QuotaProblem struct {
	Name         string `json:"name" doc:"As in quotas of a tenant."`
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
