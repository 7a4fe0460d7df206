package sqlite

import (
	"strings"
)

// Rows are written many to a statement where many come at once: running one has a price of its own, about that of a row.
// Statements have one of few sizes, so that few are prepared; where fewer rows come than one takes, the rest are NULL,
// which no id is.
const (
	bulk = 64 // rows of a statement
	few  = 8  // rows of a small one
)

// size returns how many rows the statement for n takes; one by one is as fast where n is 1.
func size(n int) int {
	if n <= few {
		return few
	}
	return bulk
}

// list is n times the text, with commas.
func list(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}

// sized is a statement in both sizes.
type sized struct{ bulk, few string }

// inSizes makes a statement of what stands before and after so many times the text.
func inSizes(before, text, after string) sized {
	return sized{bulk: before + list(text, bulk) + after, few: before + list(text, few) + after}
}

// of is the statement for n rows.
func (s *sized) of(n int) string {
	if size(n) == few {
		return s.few
	}
	return s.bulk
}

// upTo is the largest statement for n rows or fewer that has no room for more, and how many it takes; one takes one.
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
