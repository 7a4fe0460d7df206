package tenant

import "testing"

// What each role may do, written out: a role that gains something by accident shows here.
func TestRoles(t *testing.T) {
	all := []Permission{Open, Read, Write, Manage, Work, Scale, Run}
	for role, may := range map[Role][]bool{
		Viewer:   {true, true, false, false, false, false, false},
		Operator: {true, true, true, false, false, false, false},
		Admin:    {true, true, true, true, false, false, false},
		Worker:   {true, false, false, false, true, true, false},
		System:   {true, true, true, true, true, true, true},
		"":       {true, false, false, false, false, false, false},
		"root":   {true, false, false, false, false, false, false},
	} {
		for i, p := range all {
			if got := role.Allows(p); got != may[i] {
				t.Errorf("%q and %q: %v", role, p, got)
			}
		}
	}
	for _, p := range all {
		if p.Keyed() == (p == Open) {
			t.Errorf("%q needs a key: %v", p, p.Keyed())
		}
	}
	if Callback.Keyed() || !Role("").Allows(Callback) {
		t.Error("a callback token stands for itself")
	}
	if p := Local(); p.Tenant != Default || p.Role != System {
		t.Errorf("without sign-in: %+v", p)
	}
}
