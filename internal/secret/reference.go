package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// opening begins a reference; after another $ it is literal.
const opening = "${secret:"

const (
	wantReference = "a reference such as ${secret:name}, of 1 to 128 of a-z, 0-9, '.', '_' and '-', or ${secret:backend/path#field}; for the text itself write $${secret:"
	wantKnown     = "the name of a secret that exists; PUT /secrets/{name} makes one"
)

// scan splits a text into literals and references. Malformed references are passed to bad.
func scan(s string, plain func(string), ref func(name string), bad func(string)) {
	for {
		i := strings.Index(s, opening)
		if i < 0 {
			plain(s)
			return
		}
		rest := s[i+len(opening):]
		if i > 0 && s[i-1] == '$' {
			plain(s[:i-1])
			plain(opening)
			s = rest
			continue
		}
		plain(s[:i])
		name, after, ok := strings.Cut(rest, "}")
		if !ok || !job.ValidKey(name) && !isManaged(name) && !isExternal(name) {
			bad(opening + name)
			plain(opening)
			s = rest
			continue
		}
		ref(name)
		s = after
	}
}

// Refers reports whether a text names a secret by a name that a person gave.
func Refers(s string) bool {
	if !strings.Contains(s, opening) {
		return false
	}
	found := false
	scan(s, func(string) {}, func(name string) { found = found || !isManaged(name) }, func(string) {})
	return found
}

// Named reports whether an attempt names any secret, also a hidden credential of its job.
func Named(a *job.Attempt) bool {
	for _, in := range []map[string]string{a.Target.Headers, a.Target.Env} {
		for _, value := range in {
			if strings.Contains(value, opening) {
				return true
			}
		}
	}
	return bytes.Contains(a.Payload, []byte(opening))
}

// headerName returns the name of the secret that holds the credential in a job's header. No person can give a secret
// such a name.
func headerName(of job.ID, header string) string {
	return "~" + of.String() + "/" + strings.ToLower(header)
}

// variableName returns the name of the secret that holds the credential in a job's variable. No header has a name
// with a /.
func variableName(of job.ID, variable string) string {
	return "~" + of.String() + "/env/" + variable
}

func isManaged(name string) bool { return strings.HasPrefix(name, "~") }

// Managed returns the name of the managed secret that the value of a header or variable refers to; empty if none.
func Managed(value string) string {
	name, ok := strings.CutPrefix(value, opening+"~")
	if !ok || !strings.HasSuffix(name, "}") {
		return ""
	}
	return "~" + strings.TrimSuffix(name, "}")
}

// Reference is a place where a definition names a secret.
type Reference struct{ Field, Name string }

// Find lists the references of a definition, and returns what is wrong with them, except that they are unknown. was
// is the job's definition before, whose credentials may stay; nil for a new one.
func Find(d, was *job.Definition) (refs []Reference, v job.Invalids) {
	in := func(field, s string) {
		if strings.Contains(s, opening) {
			find(field, s, &refs, &v)
		}
	}
	no := func(field, s, want string) {
		if strings.Contains(s, opening) {
			v.Add(field, job.Show(s), want)
		}
	}
	t := &d.Target
	no("execution.callback_url", t.URL, "a URL without ${secret:…}: addresses are shown and logged; send secrets in a header or in the payload")
	for i, arg := range t.Command {
		no(fmt.Sprintf("execution.command[%d]", i), arg, "arguments without ${secret:…}: others on the machine see them; pass secrets in env")
	}
	for _, name := range names(t.Headers) {
		field, value := fmt.Sprintf("execution.headers[%q]", job.Show(name)), t.Headers[name]
		if value == Hidden && Credential(name) {
			v.Add(field, Hidden, "the value itself: "+Hidden+" stands for one that is not shown")
		}
		if kept := Managed(value); kept != "" && was != nil && was.Target.Headers[name] == value {
			continue
		}
		in(field, value)
	}
	for _, name := range names(t.Env) {
		field, value := fmt.Sprintf("execution.env[%q]", job.Show(name)), t.Env[name]
		if value == Hidden && (was == nil || was.Target.Env[name] != Hidden) {
			v.Add(field, Hidden, "the value itself: "+Hidden+" stands for one that is not shown")
		}
		if kept := Managed(value); kept != "" && was != nil && was.Target.Env[name] == value {
			continue
		}
		in(field, value)
	}
	more, wrong := FindIn("execution.payload", d.Payload)
	return append(refs, more...), append(v, wrong...)
}

// names returns the keys in order; most definitions have none, and then it allocates nothing.
func names(m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// FindIn lists the references of a payload.
func FindIn(field string, payload []byte) (refs []Reference, v job.Invalids) {
	if bytes.Contains(payload, []byte(opening)) {
		values(payload, func(s string) (string, bool) {
			find(field, s, &refs, &v)
			return "", false
		})
	}
	return refs, v
}

func find(field, s string, refs *[]Reference, v *job.Invalids) {
	bad := func(text string) { v.Add(field, text, wantReference) }
	scan(s, func(string) {}, func(name string) {
		if isManaged(name) {
			bad(opening + name + "}")
			return
		}
		if r := (Reference{field, name}); !slices.Contains(*refs, r) {
			*refs = append(*refs, r)
		}
	}, bad)
}

// Unknown returns the error that a reference names nothing.
func Unknown(r Reference) job.Invalid {
	return job.Invalid{Field: r.Field, Value: opening + r.Name + "}", Want: wantKnown}
}

// values calls change with each string value in a JSON document (not keys) that may be a reference, as it is written,
// and returns the document with the changed ones replaced. All other bytes stay.
func values(doc []byte, change func(raw string) (string, bool)) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		begin := i + 1
		for i = begin; i < len(doc) && doc[i] != '"'; i++ {
			if doc[i] == '\\' {
				i++
			}
		}
		if i >= len(doc) {
			break // it is no JSON
		}
		if !bytes.Contains(doc[begin:i], []byte(opening)) || isKey(doc[i+1:]) {
			continue
		}
		if text, ok := change(string(doc[begin:i])); ok {
			out = append(append(out, doc[done:begin]...), text...)
			done = i
		}
	}
	if out == nil {
		return doc
	}
	return append(out, doc[done:]...)
}

func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// expand returns a text with its references replaced.
func expand(s string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	var err error
	scan(s, func(t string) { b.WriteString(t) }, func(name string) {
		v, bad := value(name)
		if bad != nil && err == nil {
			err = bad
		}
		b.WriteString(v)
	}, func(string) {})
	return b.String(), err
}

// escape returns a text as it appears inside a JSON string.
func escape(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}
