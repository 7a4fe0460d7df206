package bench

import (
	"errors"
	"testing"
)

func TestStolenTicksAreRead(t *testing.T) {
	for in, want := range map[string]int64{
		"cpu  1 2 3 4 5 6 7 2363171 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n": 2363171,
		"cpu  1 2 3 4 5 6 7 8":       8,
		"cpu  1 2 3":                 0,
		"intr 1 2 3 4 5 6 7 8 9 10":  0,
		"":                           0,
		"cpu  1 2 3 4 5 6 7 x 0 0\n": 0,
	} {
		if got := parseStolen([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

func TestWhatFailsIsNotMeasuredAgain(t *testing.T) {
	calls, broken := 0, errors.New("broken")
	if n, err := undisturbed(t.Context(), func() error { calls++; return broken }); n != 0 || !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%d times, %v, %d calls", n, err, calls)
	}
}
