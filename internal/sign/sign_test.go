package sign_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// The vectors that the libraries of Standard Webhooks publish.
func TestSignatureVectors(t *testing.T) {
	for _, c := range []struct{ secret, id, body, want string }{
		{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`, "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="},
		{"whsec_" + base64.StdEncoding.EncodeToString([]byte("1234567890123456789012345678")), "msg", "", "v1,"},
	} {
		key, err := sign.ParseSecret(c.secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := key.Sign(c.id, time.Unix(1614265330, 0), []byte(c.body)); !strings.HasPrefix(got, c.want) || len(got) != 47 && got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestSecrets(t *testing.T) {
	for _, a := range sign.Algorithms() {
		made := sign.NewSecret(a)
		if _, err := sign.ParseSecret(made); err != nil || made == sign.NewSecret(a) || sign.AlgorithmOf(sign.Public(made)) != a {
			t.Errorf("%s: made %s: %v", a, made, err)
		}
	}
	if made := sign.NewSecret(sign.HMAC); len(made) != len("whsec_")+44 || sign.Public(made) != made[:10] {
		t.Errorf("made %s, of which is shown %s", made, sign.Public(made))
	}
	const private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	if got := sign.Public(private); got != "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=" {
		t.Errorf("the public key is %s", got)
	}
	halves := strings.Replace(private, "Jp4AJ", "Jp4AA", 1) // which do not belong together
	text := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for secret, ok := range map[string]bool{text(23): false, text(24): true, text(64): true, text(65): false, "": false, strings.TrimPrefix(text(32), "whsec_"): false, "whsec_%%": false, private: true, private[:60]: false, halves: false, sign.Public(private): false} {
		if _, err := sign.ParseSecret(secret); (err == nil) != ok {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestTokens(t *testing.T) {
	tokens, others := sign.NewTokens([]byte("one key")), sign.NewTokens([]byte("another"))
	l := job.Lease{Execution: job.ExecutionID{1}, Token: 1 << 40}
	text := tokens.Make("acme", l)
	if of, got, err := tokens.Check(l.Execution, text); err != nil || of != "acme" || got != l {
		t.Errorf("got %v, %v, %v", of, got, err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, "cct_"))
	for i := range raw {
		bent := append([]byte(nil), raw...)
		bent[i] ^= 1
		if _, _, err := tokens.Check(l.Execution, "cct_"+base64.RawURLEncoding.EncodeToString(bent)); !errors.Is(err, sign.ErrToken) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for name, check := range map[string]func() error{
		"another execution": func() error { _, _, err := tokens.Check(job.ExecutionID{2}, text); return err },
		"another key":       func() error { _, _, err := others.Check(l.Execution, text); return err },
		"empty":             func() error { _, _, err := tokens.Check(l.Execution, ""); return err },
		"short":             func() error { _, _, err := tokens.Check(l.Execution, "cct_AAAA"); return err },
		"cut off":           func() error { _, _, err := tokens.Check(l.Execution, text[:len(text)-1]); return err },
	} {
		if err := check(); !errors.Is(err, sign.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// shared is a store of one value.
type shared struct{ value []byte }

func (s *shared) Share(_ context.Context, _ string, value []byte) ([]byte, error) {
	if s.value == nil {
		s.value = value
	}
	return s.value, nil
}

func ring(t *testing.T) *seal.Ring {
	t.Helper()
	keys, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	r, err := seal.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// All servers, and the same after a restart, take each other's tokens.
func TestServersShareTheKeyOfTokens(t *testing.T) {
	sealing := ring(t)
	for name, r := range map[string]*seal.Ring{"sealed": sealing, "without a key": nil} {
		var store shared
		l := job.Lease{Execution: job.ExecutionID{1}, Token: 5}
		first, err := sign.LoadTokens(t.Context(), &store, r)
		if err != nil {
			t.Fatal(err)
		}
		second, err := sign.LoadTokens(t.Context(), &store, sealing) // a key may be configured later
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := second.Check(l.Execution, first.Make("t", l)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "sealed" {
			if _, err := sign.LoadTokens(t.Context(), &store, (*seal.Ring)(nil)); !errors.Is(err, seal.ErrNoKey) {
				t.Errorf("the key is gone: %v", err)
			}
		}
	}
}

// kept is a store of secrets that counts how often it is asked.
type kept struct {
	list  []engine.SigningSecret
	err   error
	asked int
}

func (k *kept) SigningSecrets(context.Context, tenant.ID) ([]engine.SigningSecret, error) {
	k.asked++
	return k.list, k.err
}

// hands is a clock that the test moves.
type hands struct{ at time.Time }

func (h *hands) Now() time.Time { return h.at }

func TestStep(t *testing.T) {
	sealing, clk := ring(t), &hands{time.Unix(1_700_000_000, 0)}
	secret := func(id string, until time.Time) (string, engine.SigningSecret) {
		text := sign.NewSecret(sign.HMAC)
		sealed, err := sealing.Seal(sign.Place("acme", id), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return text, engine.SigningSecret{Tenant: "acme", ID: id, Sealed: sealed, ExpiresAt: until}
	}
	fresh, first := secret("b", time.Time{})
	old, second := secret("a", clk.at.Add(10*time.Second))
	store := &kept{list: []engine.SigningSecret{first, second}}
	secrets, tokens := sign.NewSecrets(store, sealing, clk), sign.NewTokens([]byte("k"))
	step := sign.Step(secrets, tokens, clk)
	a := job.Attempt{Lease: job.Lease{Execution: job.ExecutionID{9}, Token: 3}, Tenant: "acme", Target: job.Target{Kind: job.HTTP}}
	do := func(method, payload string) (map[string]string, string) {
		t.Helper()
		out := client.Attempt{ExecutionID: a.Execution.String(), Payload: []byte(payload), Execution: client.Target{Method: method}}
		if err := step(t.Context(), a, &out); err != nil {
			t.Fatal(err)
		}
		return out.CallbackHeaders, string(out.Payload)
	}
	signature := func(secret, body string) string {
		key, _ := sign.ParseSecret(secret)
		return key.Sign(a.Execution.String(), clk.at, []byte(body))
	}
	h, body := do("POST", `{ "a" : "<b c>" }`)
	if body != `{"a":"<b c>"}` {
		t.Errorf("the body became %s", body)
	}
	if h["webhook-id"] != a.Execution.String() || h["webhook-timestamp"] != "1700000000" || h["webhook-signature"] != signature(fresh, body)+" "+signature(old, body) {
		t.Errorf("headers %v", h)
	}
	if of, l, err := tokens.Check(a.Execution, h["Carillon-Callback-Token"]); err != nil || of != "acme" || l != a.Lease {
		t.Errorf("token: %v, %v, %v", of, l, err)
	}
	again, _ := do("POST", "{}")
	if len(h["traceparent"]) != 55 || h["traceparent"][:35] != "00-09000000000000000000000000000000" || again["traceparent"] == h["traceparent"] {
		t.Errorf("traces %s, %s", h["traceparent"], again["traceparent"])
	}
	for _, method := range []string{"GET", "HEAD"} {
		if h, _ := do(method, "{}"); h["webhook-signature"] != signature(fresh, "")+" "+signature(old, "") {
			t.Errorf("%s: %v", method, h)
		}
	}
	if store.asked != 1 {
		t.Errorf("the store was asked %d times", store.asked)
	}
	clk.at = clk.at.Add(4900 * time.Millisecond)
	store.list = store.list[:1] // the old one was revoked
	if h, body := do("DELETE", "{}"); h["webhook-signature"] != signature(fresh, body) || store.asked != 2 {
		t.Errorf("%v, asked %d times", h, store.asked)
	}
	store.list = nil
	secrets.Forget("acme")
	if h, _ := do("POST", "{}"); h["webhook-signature"] != "" || h["webhook-id"] == "" {
		t.Errorf("without secrets: %v", h)
	}
	store.list = []engine.SigningSecret{first}
	store.list[0].Sealed = []byte("damaged")
	secrets.Forget("acme")
	out := client.Attempt{}
	var no *delivery.Refusal
	if err := step(t.Context(), a, &out); !errors.As(err, &no) || !no.Retryable || out.CallbackHeaders != nil {
		t.Errorf("a damaged secret: %v", err)
	}
	store.err = engine.ErrUnavailable
	secrets.Forget("acme")
	if err := step(t.Context(), a, &out); !errors.Is(err, engine.ErrUnavailable) || errors.As(err, &no) {
		t.Errorf("the store is away: %v", err)
	}
	a.Target.Kind = job.Simulate
	if err := step(t.Context(), a, &out); err != nil || out.CallbackHeaders != nil {
		t.Errorf("another target: %v, %v", out.CallbackHeaders, err)
	}
}

// What has ended by its time signs no more, whether it was read again or not.
func TestExpiredSecretsDoNotSign(t *testing.T) {
	sealing, now := ring(t), time.Unix(1_700_000_000, 0)
	sealed, err := sealing.Seal(sign.Place("acme", "a"), []byte(sign.NewSecret(sign.HMAC)))
	if err != nil {
		t.Fatal(err)
	}
	s := sign.NewSecrets(&kept{list: []engine.SigningSecret{{Tenant: "acme", ID: "a", Sealed: sealed, ExpiresAt: now.Add(time.Second)}}}, sealing, &hands{now})
	for at, want := range map[time.Duration]int{0: 1, 2 * time.Second: 0} {
		if keys, err := s.Keys(t.Context(), "acme", now.Add(at)); err != nil || len(keys) != want {
			t.Errorf("after %v: %d keys, %v", at, len(keys), err)
		}
	}
}
