package enginetest

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// pastSecrets is about what secrets were before.
func pastSecrets(t *testing.T, h Harness) {
	f := open(t, h)
	were := func() (out []string) {
		t.Helper()
		for _, x := range must(f.PastSecrets(f.ctx, tenant.Default, 10)) {
			if x.Tenant != tenant.Default || x.Name != "db" || x.Key == "" || x.UpdatedAt.IsZero() {
				t.Errorf("%+v", x)
			}
			out = append(out, string(x.Sealed))
		}
		return out
	}
	expect := func(when string, want ...string) {
		t.Helper()
		got := were()
		if len(got) != len(want) {
			t.Fatalf("%s: %q, want %q", when, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
	}
	must(f.PutSecret(f.ctx, f.secret("db", "one"), 9))
	expect("the first value")
	must(f.PutSecret(f.ctx, f.secret("db", "two"), 9))
	expect("the second value", "one")
	x := must(f.Secret(f.ctx, tenant.Default, "db"))
	again := x
	again.Key, again.Sealed = "k9", []byte("two, sealed anew")
	if err := f.ResealSecret(f.ctx, again, x.Sealed); err != nil {
		t.Fatal(err)
	}
	expect("sealed anew", "one")
	if err := f.DeleteSecret(f.ctx, tenant.Default, "db"); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "two, sealed anew", "one")
	if got := must(f.PastSecrets(f.ctx, tenant.Default, 1)); len(got) != 1 || string(got[0].Sealed) != "two, sealed anew" {
		t.Errorf("the latest: %+v", got)
	}
	if got := must(f.PastSecrets(f.ctx, "other", 10)); len(got) != 0 {
		t.Errorf("another tenant's: %+v", got)
	}
	must(f.Tidy(f.ctx))
	expect("tidied, and too young to go", "two, sealed anew", "one")
}
