package secret

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// Hidden is shown in place of hidden values.
const Hidden = "[redacted]"

// Credential reports whether a header of that name carries a credential.
func Credential(header string) bool {
	lower := strings.ToLower(header)
	switch lower {
	case "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey":
		return true
	}
	for _, part := range []string{"token", "secret", "password", "api-key", "apikey", "credential", "signature"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	if !strings.HasSuffix(lower, "key") {
		return false
	}
	return slices.ContainsFunc([]string{"auth", "access", "account", "admin", "function", "master", "private", "service", "subscription"}, func(part string) bool { return strings.Contains(lower, part) })
}

// WantKey describes what to do if there is no key.
const WantKey = "a server that can encrypt: make a key with 'openssl rand -base64 32', and set secrets.key_file or CARILLON_SECRETS_KEY"

// Hide seals the credentials in a job's headers and variables and replaces them by references. It returns the secrets
// to store with the job. was is the job's target before, if there was one: its hidden values that are no longer used
// are returned as unused.
func (v *Vault) Hide(j *job.Job, was *job.Target, asOf time.Time) (sealed []engine.Secret, unused []string, err error) {
	if was == nil {
		was = &job.Target{}
	}
	h := hiding{v: v, j: j, asOf: asOf}
	headers := h.in("headers", j.Target.Headers, was.Headers, HidesHeader, headerName)
	env := h.in("env", j.Target.Env, was.Env, HidesVariable, variableName)
	switch {
	case h.err != nil:
		return nil, nil, h.err
	case len(h.wrong) > 0:
		return nil, nil, h.wrong
	}
	j.Target.Headers, j.Target.Env = headers, env
	unused = append(gone(was.Headers, headers), gone(was.Env, env)...)
	slices.Sort(unused)
	return h.sealed, unused, nil
}

// hiding seals the credentials of one job.
type hiding struct {
	v      *Vault
	j      *job.Job
	asOf   time.Time
	sealed []engine.Secret
	wrong  job.Invalids
	err    error
}

// in returns values in which references replace literal credentials.
func (h *hiding) in(field string, values, was map[string]string, hides func(name, value string) bool, name func(job.ID, string) string) map[string]string {
	out, copied := values, false
	for _, of := range names(values) {
		value := values[of]
		if value == "" || !hides(of, value) || Managed(value) != "" {
			continue
		}
		if !h.v.CanSeal() {
			if was[of] != value { // otherwise it was stored in the clear before, and is unchanged
				h.wrong.Add(fmt.Sprintf("execution.%s[%q]", field, job.Show(of)), "(not shown)", WantKey+"; or another name or value, since this is a credential; or a reference such as ${secret:name}")
			}
			continue
		}
		text, _ := expand(value, func(string) (string, error) { return "", nil }) // it has no references, perhaps $${secret:
		s, err := h.v.seal(engine.Secret{Tenant: h.j.Tenant, Name: name(h.j.ID, of), Job: h.j.ID, CreatedAt: h.asOf, UpdatedAt: h.asOf}, text)
		if err != nil {
			h.err = err
			return values
		}
		if !copied {
			out, copied = maps.Clone(values), true
		}
		out[of] = opening + s.Name + "}"
		h.sealed = append(h.sealed, s)
	}
	return out
}

// gone lists the managed secrets of old values that the new ones do not have.
func gone(was, now map[string]string) []string {
	have := map[string]bool{}
	for _, value := range now {
		have[Managed(value)] = true
	}
	var out []string
	for _, value := range was {
		if name := Managed(value); name != "" && !have[name] {
			out = append(out, name)
		}
	}
	return out
}

// place returns the associated data of a sealed value.
func place(s engine.Secret) string { return "secret\x00" + string(s.Tenant) + "\x00" + s.Name }

// seal completes a secret with its sealed value.
func (v *Vault) seal(s engine.Secret, value string) (engine.Secret, error) {
	sealed, err := v.ring.Seal(place(s), []byte(value))
	if err != nil {
		return s, err
	}
	s.Sealed, s.Key = sealed, seal.KeyOf(sealed)
	return s, nil
}
