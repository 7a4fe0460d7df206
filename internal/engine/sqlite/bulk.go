package sqlite

import (
	"strings"
)

// Many rows are written with one statement if many come at once: running a statement costs about as much as a row.
// Statements have one of a few sizes, so that few are prepared; if there are fewer rows than the statement takes, the
// rest are NULL, which no id is.
const (
	bulk = 64 // rows of a statement
	few  = 8  // rows of a small one
)

// size returns how many rows the statement for n takes; if n is 1, single rows are as fast.
func size(n int) int {
	if n <= few {
		return few
	}
	return bulk
}

// list repeats a text n times, separated by commas.
func list(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}

// sized is a statement in both sizes.
type sized struct{ bulk, few string }

// inSizes makes a statement of each size from the text before and after the repeated part.
func inSizes(before, text, after string) sized {
	return sized{bulk: before + list(text, bulk) + after, few: before + list(text, few) + after}
}

// of returns the statement for n rows.
func (s *sized) of(n int) string {
	if size(n) == few {
		return s.few
	}
	return s.bulk
}

// upTo returns the largest statement for at most n rows, and how many it takes; one takes one.
func (s *sized) upTo(n int, one string) (sql string, takes int) {
	switch {
	case n >= bulk:
		return s.bulk, bulk
	case n >= few:
		return s.few, few
	}
	return one, 1
}

// nulls binds n NULLs.
func (q *stmt) nulls(n int) *stmt {
	for range n {
		q.null()
	}
	return q
}
