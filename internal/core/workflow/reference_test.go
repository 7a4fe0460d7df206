package workflow

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/expression"
)

// TestReferenceOfExpressions evaluates the examples of the reference, and looks for each function among them.
func TestReferenceOfExpressions(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(page), "## Operators")
	examples, _, _ = strings.Cut(examples, "## In payloads")
	doc := regexp.MustCompile("read the input `(.*)`").FindStringSubmatch(examples)
	if doc == nil {
		t.Fatal("the page names no input")
	}
	input, err := expression.Decode(json.RawMessage(doc[1]))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	rows := regexp.MustCompile("(?m)^\\| `(.+?)` \\| `(.+?)` \\|").FindAllStringSubmatch(examples, -1)
	for _, row := range rows {
		p, err := scope.Compile(row[1])
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
			continue
		}
		v, err := p.Value(map[string]any{"run": map[string]any{"input": input}})
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
			continue
		}
		if got, err := encode(v); err != nil || string(got) != row[2] {
			t.Errorf("%s is %s (%v), but the page says %s", row[1], got, err, row[2])
		}
		if name, _, call := strings.Cut(row[1], "("); call {
			shown[name] = true
		}
	}
	_, err = scope.Compile("nope()")
	if err == nil {
		t.Fatal("nope() compiles")
	}
	_, all, _ := strings.Cut(err.Error(), "there are ")
	if got, want := slices.Sorted(maps.Keys(shown)), strings.Split(all, ", "); !slices.Equal(got, want) {
		t.Errorf("functions on the page: %v\nfunctions there are: %v", got, want)
	}
	if len(rows) < 25 {
		t.Errorf("%d examples", len(rows))
	}
}
