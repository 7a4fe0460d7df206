package sign

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Whatever comes as the token of a callback, only one that was made under the key, for that execution, is taken.
func FuzzToken(f *testing.F) {
	tokens := NewTokens([]byte("0123456789abcdef0123456789abcdef"))
	lease := job.Lease{Execution: job.ExecutionID{1}, Token: 7}
	good := tokens.Make("acme", lease)
	for _, text := range []string{"", tokenPrefix, good, good[:len(good)-1], good + "A", good[:30] + "\r\n" + good[30:], NewTokens([]byte("x")).Make("acme", lease), tokens.Make("acme", job.Lease{Execution: job.ExecutionID{2}, Token: 7})} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		of, l, err := tokens.Check(lease.Execution, text)
		if err == nil && (text != good || of != "acme" || l != lease) || err != nil && !errors.Is(err, ErrToken) {
			t.Errorf("%q: %q, %+v, %v", text, of, l, err)
		}
	})
}

// Whatever is given as a signing secret, it is refused, or it signs.
func FuzzSecret(f *testing.F) {
	for _, text := range []string{"", secretPrefix, privatePrefix, secretPrefix + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", privatePrefix + "AAAA"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseSecret(text)
		if err == nil && key.Sign("id", time.Unix(1, 0), []byte("body")) == "" {
			t.Errorf("%q signs nothing", text)
		}
	})
}
