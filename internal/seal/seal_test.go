package seal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/seal"
)

func ring(t *testing.T, keys ...string) *seal.Ring {
	t.Helper()
	parsed, err := seal.ParseKeys(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := seal.NewRing(parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSealAndOpen(t *testing.T) {
	r := ring(t, seal.NewKey())
	for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long"), 20_000)} {
		a, err := r.Seal("acme/db", plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(plain) > 3 && bytes.Contains(a, plain[:4]) {
			t.Error("the text shows")
		}
		if got, err := r.Open("acme/db", a); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("opened: %d bytes, %v; want %d", len(got), err, len(plain))
		}
		if b, _ := r.Seal("acme/db", plain); bytes.Equal(a, b) {
			t.Error("sealed twice, it is the same: a nonce was used twice")
		}
		if _, err := r.Open("other/db", a); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("opened for another place: %v", err)
		}
		for i := range a[:min(len(a), 60)] {
			bad := bytes.Clone(a)
			bad[i] ^= 1
			if _, err := r.Open("acme/db", bad); err == nil {
				t.Fatalf("opened with byte %d changed", i)
			}
		}
		for i := range min(len(a), 40) {
			if _, err := r.Open("acme/db", a[:i]); err == nil {
				t.Fatalf("opened with %d bytes", i)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	old, fresh := seal.NewKey(), seal.NewKey()
	was, err := ring(t, old).Seal("a", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	both := ring(t, "# the new one first", fresh, "", old)
	if got, err := both.Open("a", was); err != nil || string(got) != "text" || both.Current(was) {
		t.Errorf("under the old key: %q, %v, current %v", got, err, both.Current(was))
	}
	now, err := both.Seal("a", []byte("text"))
	if err != nil || !both.Current(now) {
		t.Errorf("sealed under the first: %v, current %v", err, both.Current(now))
	}
	if _, err := ring(t, fresh).Open("a", was); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("without the old key: %v", err)
	}
}

func TestNoKey(t *testing.T) {
	var none *seal.Ring
	if _, err := none.Seal("a", nil); !errors.Is(err, seal.ErrNoKey) {
		t.Error(err)
	}
	if _, err := none.Open("a", nil); !errors.Is(err, seal.ErrNoKey) {
		t.Error(err)
	}
	for _, bad := range []string{"", "# nothing", "c2hvcnQ=", "not base64 at all!"} {
		if keys, err := seal.ParseKeys(bad); err == nil {
			t.Errorf("%q was read as %d keys", bad, len(keys))
		} else if strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	if _, err := seal.NewRing([]byte("short")); err == nil {
		t.Error("a short key was taken")
	}
}
