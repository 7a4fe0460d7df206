package secret

import (
	"maps"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// HidesHeader reports whether a header's value is not shown: a credential, unless it is a reference by a name.
func HidesHeader(name, value string) bool { return Credential(name) && !Refers(value) }

// HidesVariable reports whether a variable's value is not shown: one whose name says that it is a credential, or a URL with a password.
func HidesVariable(name, value string) bool {
	return (Variable(name) || Managed(value) != "" || passwordInURL(value)) && !Refers(value)
}

// Keep is a definition with the credentials that it leaves hidden put back from the one that it replaces. They are removed
// instead, and listed by field, where the job would take them somewhere else; why says how.
func Keep(d, was job.Definition) (out job.Definition, dropped []string, why string) {
	headers := marked(d.Target.Headers, was.Target.Headers, HidesHeader)
	env := marked(d.Target.Env, was.Target.Env, HidesVariable)
	if len(headers)+len(env) == 0 {
		return d, nil, ""
	}
	out = d
	out.Target.Headers, out.Target.Env = filled(d.Target.Headers, was.Target.Headers, headers), filled(d.Target.Env, was.Target.Env, env)
	if why = job.Moved(&was, &out, Variable); why == "" {
		return out, nil, ""
	}
	for _, name := range headers {
		delete(out.Target.Headers, name)
		dropped = append(dropped, "execution.headers."+name)
	}
	for _, name := range env {
		delete(out.Target.Env, name)
		dropped = append(dropped, "execution.env."+name)
	}
	out.Target.Headers, out.Target.Env = some(out.Target.Headers), some(out.Target.Env)
	return out, dropped, why
}

// some is a map, or nil for an empty one, as stores give it back.
func some(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// marked lists the credentials that a map leaves as they were in an older one, in order: by the mark for what is not shown, or by the
// reference that stands for the value in the store, which anybody can guess.
func marked(values, was map[string]string, hides func(name, value string) bool) (out []string) {
	for _, name := range names(values) {
		old, ok := was[name]
		if left := values[name] == Hidden || values[name] == old && Managed(old) != ""; ok && left && hides(name, old) {
			out = append(out, name)
		}
	}
	return out
}

// filled is a copy of a map with some values of an older one.
func filled(values, was map[string]string, some []string) map[string]string {
	if len(some) == 0 {
		return values
	}
	out := maps.Clone(values)
	for _, name := range some {
		out[name] = was[name]
	}
	return out
}

// HiddenVariables lists the variables of a target whose values are not shown.
func HiddenVariables(t *job.Target) []string {
	return slices.DeleteFunc(names(t.Env), func(name string) bool { return !HidesVariable(name, t.Env[name]) })
}
