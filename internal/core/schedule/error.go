package schedule

import (
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Error describes an invalid part of a schedule, such as an expression or a zone, and its position.
type Error struct {
	Field    string // "day-of-week", "expression", "timezone", "day", "every", …
	Value    string // the invalid item, safe to show
	Position int    // of the item in the expression, in bytes from 1; 0 if there is none
	Want     string // what would be right
	Hint     string // what was probably meant; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %q", e.Field, e.Value)
	if e.Position > 0 {
		fmt.Fprintf(&b, " at position %d", e.Position)
	}
	fmt.Fprintf(&b, " is not valid; want %s", e.Want)
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

func wrong(field, value string, position int, want, hint string) *Error {
	return &Error{Field: field, Value: job.Show(value), Position: position, Want: want, Hint: hint}
}
