package matrix

import (
	"fmt"
	"strings"
	"testing"
)

// Every point of the review has tests that exist, or says what is missing.
func TestEveryPointOfTheReviewHasATest(t *testing.T) {
	for _, s := range Review {
		for _, p := range s.Points {
			for _, err := range p.wrong() {
				t.Errorf("%s (%s): %v", s.Name, p.Promise, err)
			}
		}
	}
}

// wrong says what is wrong with a point.
func (p Point) wrong() (errs []error) {
	for _, x := range p.Tests {
		if err := x.find(false); err != nil {
			errs = append(errs, err)
		}
	}
	if len(p.Tests) == 0 {
		errs = append(errs, fmt.Errorf("it has no test"))
	}
	return errs
}

// The check itself turns red.
func TestAWrongPointIsNoticed(t *testing.T) {
	for what, p := range map[string]Point{
		"a test that does not exist":        {Tests: in("internal/api", "TestNothing")},
		"a fuzz target that does not exist": {Tests: in("internal/expression", "FuzzNothing")},
		"a case that does not exist":        {Tests: suite("reap/nothing")},
		"no test":                           {Missing: "all of it"},
	} {
		if len(p.wrong()) == 0 {
			t.Errorf("%s: nothing is said", what)
		}
	}
}

// The tables in docs/internals/review.md are those of the code.
func TestTheDocsListTheReview(t *testing.T) {
	var text strings.Builder
	for _, s := range Review {
		fmt.Fprintf(&text, "\n## %s\n\n| promise | tests | not proved |\n| --- | --- | --- |\n", s.Name)
		for _, p := range s.Points {
			fmt.Fprintf(&text, "| %s | %s | %s |\n", p.Promise, names(p.Tests), p.Missing)
		}
	}
	text.WriteString("\n")
	written(t, "review", text.String(), "test/matrix/review.go")
}
