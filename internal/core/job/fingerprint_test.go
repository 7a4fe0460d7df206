package job

import (
	"strings"
	"testing"
)

func TestNormal(t *testing.T) {
	for message, want := range map[string]string{
		"":                                "",
		"answered 503":                    "answered <n>",
		"exit status 17":                  "exit status <n>",
		"worker-17 took 3.5s, of 10":      "worker-<n> took <n>s, of <n>",
		"since 2026-11-16T10:00:00.5Z":    "since <n>",
		"at 12:30 on 2026-11-16":          "at <n> on <n>",
		`no such user "bob smith"`:        "no such user <text>",
		"it doesn't work":                 "it doesn't work",
		"can't find 'x' in `y z`":         "can't find <text> in <text>",
		`an "open quote`:                  `an "open quote`,
		"dial tcp 10.0.0.1:443: refused":  "dial tcp <addr>: refused",
		"dial tcp [fe80::1]:443: refused": "dial tcp <addr>: refused",
		"version 1.2.3.4.5":               "version <n>",
		"[a] is a list":                   "[a] is a list",
		"job 0190a6c8-7b3e-7cc0-8a1b-0123456789ab is gone": "job <id> is gone",
		"address 0xDEADbeef":             "address <hex>",
		"commit 75733ec01 failed":        "commit <hex> failed",
		"facade deadbeef":                "facade deadbeef",
		"two\nlines\t and   more ":       "two lines and more",
		"Größe 12 überschritten":         "Größe <n> überschritten",
		"bad \xff byte":                  "bad \uFFFD byte",
		"shard_12 of host42.example.com": "shard_<n> of host<n>.example.com",
	} {
		if got := Normal(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
	if got := Normal(strings.Repeat("é", 400)); len(got) > maxNormal || !strings.HasSuffix(got, "é") {
		t.Errorf("cut to %d: %q", len(got), got[len(got)-4:])
	}
}

func FuzzNormal(f *testing.F) {
	f.Add("answered 503 from [::1]:80")
	f.Add(`"a" 'b`)
	f.Fuzz(func(t *testing.T, s string) {
		once := Normal(s)
		if strings.ContainsAny(once, "\n\x00") {
			t.Errorf("%q: %q", s, once)
		}
		_ = Literal(once)
	})
}

func TestFingerprint(t *testing.T) {
	of := func(kind ErrorType, status int, message string) Fingerprint {
		f, _ := (&Error{Type: kind, HTTPStatus: status, Message: message}).Fingerprint()
		return f
	}
	a := of(HTTPError, 503, "answered 503 after 12 ms")
	if a != of(HTTPError, 503, "answered 503 after 900 ms") {
		t.Error("a number makes another error")
	}
	for _, other := range []Fingerprint{of(HTTPError, 500, "answered 500 after 12 ms"), of(TimeoutError, 503, "answered 503 after 12 ms"), of(HTTPError, 503, "answered")} {
		if a == other {
			t.Error("another error has the same fingerprint")
		}
	}
	if back, err := ParseFingerprint(a.String()); err != nil || back != a {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "12", "zz", strings.Repeat("a", 18)} {
		if _, err := ParseFingerprint(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if f, _ := (*Error)(nil).Fingerprint(); f == (Fingerprint{}) {
		t.Error("no error has the zero fingerprint")
	}
}

func TestLiteral(t *testing.T) {
	for normal, want := range map[string]string{
		"answered <n>": "answered", "<n> of <n>": "", "dial tcp <addr>: connection refused": ": connection refused", "plain": "plain", "": "",
	} {
		if got := Literal(normal); got != want {
			t.Errorf("%q: %q, want %q", normal, got, want)
		}
	}
}
