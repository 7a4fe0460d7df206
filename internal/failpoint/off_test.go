//go:build !failpoint || !unix

package failpoint

import "testing"

func TestOff(t *testing.T) {
	if err := Arm(""); err != nil {
		t.Error(err)
	}
	if err := Arm("api.beforeTx=kill"); err == nil {
		t.Error("an ordinary build took a specification")
	}
	if Set(Points...) {
		t.Error("something is to happen")
	}
	if n := testing.AllocsPerRun(10, func() { _ = Hit("api.beforeTx") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
