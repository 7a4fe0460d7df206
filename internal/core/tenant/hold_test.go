package tenant

import "testing"

func TestHeldBy(t *testing.T) {
	a, b := [16]byte{1}, [16]byte{2}
	hs := []Hold{{ID: "1", Tenant: "acme", Job: a}, {ID: "2", Tenant: "beta"}}
	for _, c := range []struct {
		of   ID
		job  [16]byte
		want string
	}{{"acme", a, "1"}, {"acme", b, ""}, {"acme", [16]byte{}, ""}, {"beta", a, "2"}, {"beta", [16]byte{}, "2"}, {"other", a, ""}} {
		if got, held := HeldBy(hs, c.of, c.job); got.ID != c.want || held != (c.want != "") {
			t.Errorf("%s %v: held by %q, want %q", c.of, c.job, got.ID, c.want)
		}
	}
}
