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

// Hidden stands for what is not shown.
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
	return false
}

// WantKey says what is missing where there is no key.
const WantKey = "a server that can encrypt: set secrets.key_file or CARILLON_SECRETS_KEY"

// literals names the headers that hold a credential as it is.
func literals(headers map[string]string) []string {
	var out []string
	for _, name := range names(headers) {
		if value := headers[name]; value != "" && Credential(name) && !Refers(value) && Managed(value) == "" {
			out = append(out, name)
		}
	}
	return out
}

// Hide seals the credentials in a job's headers and puts references in their place. It answers with what is to be stored
// with the job. was is the job's target before, if there was one: what of it was hidden and no longer is, is unused.
func (v *Vault) Hide(j *job.Job, was *job.Target, asOf time.Time) (sealed []engine.Secret, unused []string, err error) {
	if bare := literals(j.Target.Headers); len(bare) > 0 {
		var wrong job.Invalids
		headers := maps.Clone(j.Target.Headers)
		for _, header := range bare {
			if was != nil && was.Headers[header] == headers[header] && was.Headers[header] != "" {
				continue // stored in the clear before there was a key, and not changed now
			}
			if v == nil || v.ring == nil {
				wrong.Add(fmt.Sprintf("execution.headers[%q]", job.Show(header)), "(not shown)", WantKey+"; or another header, since this one carries a credential")
				continue
			}
			text, _ := expand(headers[header], func(string) (string, error) { return "", nil }) // it has no references, perhaps $${secret:
			s, err := v.seal(engine.Secret{Tenant: j.Tenant, Name: managedName(j.ID, header), Job: j.ID, CreatedAt: asOf, UpdatedAt: asOf}, text)
			if err != nil {
				return nil, nil, err
			}
			headers[header] = opening + s.Name + "}"
			sealed = append(sealed, s)
		}
		if len(wrong) > 0 {
			return nil, nil, wrong
		}
		j.Target.Headers = headers
	}
	if was != nil {
		unused = gone(was.Headers, j.Target.Headers)
	}
	return sealed, unused, nil
}

// gone lists the managed secrets of the old headers that the new ones do not have.
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
	slices.Sort(out)
	return out
}

// place is what a sealed value is bound to.
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
