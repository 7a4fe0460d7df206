package cli

import (
	"path"
	"strings"
)

// headline returns the first line of an error's message and, if a stack follows, the first frame of the user's own
// code.
func headline(message string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(message), "\n")
	if !more {
		return first
	}
	function := ""
	for l := range strings.Lines(rest) {
		l = strings.TrimRight(l, "\r\n")
		at, indented := strings.CutPrefix(l, "\t")
		if !indented {
			function = l
			continue
		}
		place, _, _ := strings.Cut(at, " ")
		if i := strings.LastIndexByte(function, '('); i > 0 {
			function = function[:i]
		}
		if strings.Contains(place, ".go:") && function != "" && !library(function) {
			return first + " (in " + path.Base(function) + ", " + path.Base(place) + ")"
		}
	}
	return first + " …"
}

// library reports whether a function in a stack belongs to the runtime or to Carillon's worker library.
func library(function string) bool {
	for _, p := range []string{"runtime.", "runtime/", "internal/runtime/", "reflect.", "panic", "github.com/carillon-jobs/carillon/worker."} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}
