package client

// Problem is an error answer, as application/problem+json.
type Problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code" doc:"Stable; for programs."`
	Errors    []FieldProblem `json:"errors,omitempty"`
	RequestID string         `json:"request_id"`
}

// FieldProblem says which field is wrong, what it was, and what would be right.
type FieldProblem struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Want  string `json:"want"`
}

// CodeStaleToken is the code of a problem that says that the lease an attempt was claimed under is lost.
const CodeStaleToken = "stale_token"
