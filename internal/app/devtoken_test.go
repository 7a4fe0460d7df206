package app

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain keeps the tokens of the servers that tests start out of the settings of whoever runs them.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "carillon-app-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Setenv("XDG_CONFIG_HOME", dir)
		return m.Run()
	}())
}

// The token of a server that was killed goes with the next start; that of one that listens stays, and so does what is no token.
func TestTokensOfServersThatAreGoneArePruned(t *testing.T) {
	live, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	dir := t.TempDir()
	name := func(l net.Listener) string { return strings.ReplaceAll(l.Addr().String(), ":", "_") }
	for _, f := range []string{name(live), name(gone), "192.0.2.1_80", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prune(dir)
	for f, stays := range map[string]bool{name(live): true, name(gone): false, "192.0.2.1_80": true, "notes": true} {
		if _, err := os.Stat(filepath.Join(dir, f)); (err == nil) != stays {
			t.Errorf("%s: %v, to stay: %v", f, err, stays)
		}
	}
}
