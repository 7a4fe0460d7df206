package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// HidesHeader reports whether a header's value is hidden: a credential, unless it is a reference by name.
func HidesHeader(name, value string) bool { return Credential(name) && !Refers(value) }

// HidesVariable reports whether a variable's value is hidden: one whose name indicates a credential, or a URL with a
// password.
func HidesVariable(name, value string) bool {
	return (Variable(name) || Managed(value) != "" || passwordInURL(value)) && !Refers(value)
}

// Keep returns a definition in which the credentials that it leaves hidden are restored from the one that it
// replaces. Credentials that the job would take somewhere else are removed instead, and listed by field; why gives
// the reason.
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

// Opened returns a target in which the values of its hidden credentials replace the references to them, to be sealed
// again for another job. An error about a value is job.Invalids.
func (v *Vault) Opened(ctx context.Context, t tenant.ID, target job.Target) (job.Target, error) {
	var wrong job.Invalids
	open := func(field string, in map[string]string) (map[string]string, error) {
		out := in
		for _, of := range names(in) {
			name := Managed(in[of])
			if name == "" {
				continue
			}
			k, err := kept{}, error(seal.ErrNoKey)
			if v.CanSeal() {
				k, err = v.keep(ctx, t, name)
			}
			switch {
			case errors.Is(err, engine.ErrNotFound), errors.Is(err, seal.ErrNoKey), errors.Is(err, seal.ErrUnknownKey), errors.Is(err, seal.ErrDamaged):
				wrong.Add(fmt.Sprintf("execution.%s[%q]", field, job.Show(of)), Hidden, "the value itself: the stored one is gone, or cannot be opened with the keys that the server has")
			case err != nil:
				return nil, err
			default:
				out = filled(out, map[string]string{of: strings.ReplaceAll(k.text, opening, "$"+opening)}, []string{of})
			}
		}
		return out, nil
	}
	headers, err := open("headers", target.Headers)
	if err != nil {
		return target, err
	}
	env, err := open("env", target.Env)
	if err != nil {
		return target, err
	}
	target.Headers, target.Env = headers, env
	return target, wrong.Err()
}

// schemes begin credentials in headers, and are not credentials themselves.
var schemes = []string{"apikey", "aws4-hmac-sha256", "basic", "bearer", "digest", "dpop", "gnap", "hawk", "hoba", "key", "negotiate", "oauth", "privatetoken", "sharedkey", "token", "vapid"}

// shortText is the maximum length of text beside expressions that does not count as a credential.
const shortText = 5

// Exposed reports whether a credential that holds {{ expressions }}, and is therefore shown as written, contains more
// than these, references to secrets, a scheme such as Bearer, and names such as those of cookies.
func Exposed(value string) bool {
	const filled = "\x00" // in place of parts that are not literal
	var written strings.Builder
	for {
		before, after, ok := strings.Cut(value, "{{")
		written.WriteString(before)
		if !ok {
			break
		}
		written.WriteString(filled)
		if _, value, ok = strings.Cut(after, "}}"); !ok {
			break
		}
	}
	text, _ := expand(written.String(), func(string) (string, error) { return filled, nil })
	for i, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t;,:&\"'", c) }) {
		if name, of, ok := strings.Cut(word, "="); ok && name != "" && strings.Trim(of, "=") != "" {
			word = of
		}
		word = strings.ReplaceAll(word, filled, "")
		if len(word) > shortText && !(i == 0 && slices.Contains(schemes, strings.ToLower(word))) {
			return true
		}
	}
	return false
}

// some returns a map, or nil for an empty one, as stores return it.
func some(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// marked lists, in order, the credentials that a map leaves as they were in an older one: marked as hidden, or by the
// reference to the stored value, which anybody can guess.
func marked(values, was map[string]string, hides func(name, value string) bool) (out []string) {
	for _, name := range names(values) {
		old, ok := was[name]
		if left := values[name] == Hidden || values[name] == old && Managed(old) != ""; ok && left && hides(name, old) {
			out = append(out, name)
		}
	}
	return out
}

// filled returns a copy of a map with some values of an older one.
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

// HiddenVariables lists the variables of a target whose values are hidden.
func HiddenVariables(t *job.Target) []string {
	return slices.DeleteFunc(names(t.Env), func(name string) bool { return !HidesVariable(name, t.Env[name]) })
}
