package cli

import (
	"path"
	"strings"
)

// headline is the first line of an error's message and, where a stack follows, the first frame of it that is the user's own.
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

// library reports whether a function of a stack is the runtime's or that of Carillon's own worker.
func library(function string) bool {
	for _, p := range []string{"runtime.", "runtime/", "internal/runtime/", "reflect.", "panic", "github.com/carillon-jobs/carillon/worker."} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}
