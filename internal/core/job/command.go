package job

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a command.
const (
	maxArgs        = 1000
	maxArg         = 64 << 10
	maxVariables   = 200
	maxCommandSize = 512 << 10 // arguments and environment together
	maxPath        = 1024
)

// ValidArtifact reports whether s may be the id of an artifact: the SHA-256 of its content, 64 hex digits in lower case.
func ValidArtifact(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// BadPath returns what is wrong with the path of a file in an artifact, or "": it must be relative, clean, and not
// leave the folder.
func BadPath(p string) string {
	switch {
	case p == "" || len(p) > maxPath || !printable(p):
		return "is not a name: want 1 to 1024 bytes of UTF-8 without control characters"
	case strings.HasPrefix(p, "/"):
		return "is an absolute path"
	case strings.Contains(p, `\`):
		return "holds a backslash"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "leads out of its folder"
		}
	}
	if clean := path.Clean(p); clean == "." || strings.HasSuffix(p, "/") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "is not the path of a file"
	}
	return ""
}

func (t *Target) checkCommand(v *Invalids) {
	size := 0
	switch {
	case len(t.Command) == 0 && t.Artifact == "":
		v.Add("execution.command", "", "the program and its arguments as a list, such as [\"echo\", \"hello\"], or an artifact_id")
	case len(t.Command) > maxArgs:
		v.Add("execution.command", fmt.Sprintf("%d arguments", len(t.Command)), "at most 1000 arguments")
	}
	for i, a := range t.Command {
		size += len(a)
		switch {
		case i == 0 && t.Entrypoint == "" && strings.TrimSpace(a) == "":
			v.Add("execution.command[0]", a, "the program to run; no shell reads the list")
		case len(a) > maxArg || !plain(a):
			v.Add(fmt.Sprintf("execution.command[%d]", i), a, "at most 65536 bytes of UTF-8 without NUL")
		}
	}
	if t.Artifact != "" && !ValidArtifact(t.Artifact) {
		v.Add("execution.artifact_id", t.Artifact, "the artifact_id that PUT /artifacts returned: 64 hex digits in lower case")
	}
	switch {
	case t.Entrypoint != "" && t.Artifact == "":
		v.Add("execution.entrypoint", t.Entrypoint, "an artifact_id as well: the entrypoint is the program in the artifact")
	case t.Entrypoint != "":
		if bad := BadPath(t.Entrypoint); bad != "" {
			v.Add("execution.entrypoint", t.Entrypoint, "the path of a file in the artifact, such as bin/run; this "+bad)
		}
	}
	if len(t.Env) > maxVariables {
		v.Add("execution.env", fmt.Sprintf("%d variables", len(t.Env)), "at most 200 variables")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		size += len(name) + len(t.Env[name])
		field := fmt.Sprintf("execution.env[%q]", Show(name))
		switch {
		case !variableName(name):
			v.Add(field, name, "a name of letters, digits and '_', not beginning with a digit, of at most 128")
		case strings.HasPrefix(name, "CARILLON_"):
			v.Add(field, name, "another name: those that begin with CARILLON_ are set by Carillon")
		case len(t.Env[name]) > maxArg || !plain(t.Env[name]):
			v.Add(field, "(not shown)", "at most 65536 bytes of UTF-8 without NUL")
		}
	}
	if size > maxCommandSize {
		v.Add("execution.command", fmt.Sprintf("%d bytes", size), "at most 524288 bytes of arguments and environment together")
	}
}

// plain reports whether a text can be passed to a process.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func variableName(s string) bool {
	if s == "" || len(s) > 128 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
