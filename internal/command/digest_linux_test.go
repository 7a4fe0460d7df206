package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// shellDigest is the digest of the shell that scripts run in.
func shellDigest(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return digest(data)
}

// Only what is on the list runs: programs and scripts by their own digest, artifacts by theirs.
func TestOnlyListedProgramsRun(t *testing.T) {
	t.Parallel()
	bin, err := os.MkdirTemp("", "carillon-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(bin) })
	script, other := []byte("#!/bin/sh\necho \"\\\"$1\\\"\" > $CARILLON_RESULT\n"), []byte("#!/bin/sh\nexit 1\n")
	packed := []byte("#!/bin/sh\necho 5 > $CARILLON_RESULT\n")
	if err := errors.Join(os.Chmod(bin, 0o755), os.WriteFile(bin+"/listed", script, 0o755), os.WriteFile(bin+"/other", other, 0o755)); err != nil {
		t.Fatal(err)
	}
	r := runner(t, func(c *Config) {
		c.Digests = []string{shellDigest(t), digest(script), digest(packed)}
		c.Read = []string{bin}
		c.Artifacts = artifact.NewCache(filepath.Join(t.TempDir(), "cache"), 1<<20, func(_ context.Context, _ tenant.ID, id string) (io.ReadCloser, error) {
			for _, data := range [][]byte{packed, other} {
				if digest(data) == id {
					return io.NopCloser(bytes.NewReader(data)), nil
				}
			}
			return nil, artifact.ErrNotFound
		})
	})
	artifactOf := func(data []byte) client.Attempt {
		a := attempt()
		a.Execution.ArtifactID, a.TenantID = digest(data), "acme"
		return a
	}
	for _, tt := range []struct {
		name string
		a    client.Attempt
		want string
		why  string
	}{
		{"a program", shell(`echo 4 > $CARILLON_RESULT`), "4", ""},
		{"a script", attempt(bin+"/listed", "hello"), `"hello"`, ""},
		{"another script", attempt(bin + "/other"), "", digest(other)},
		{"another program", attempt("true"), "", "commands.digests does not list"},
		{"an artifact", artifactOf(packed), "5", ""},
		{"another artifact", artifactOf(other), "", "commands.digests does not list"},
		{"a folder", attempt("/usr/bin/"), "", "cannot be run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := r.Run(t.Context(), tt.a)
			var no *NotRun
			if tt.why != "" {
				if !errors.As(err, &no) || !strings.Contains(err.Error(), tt.why) {
					t.Errorf("%v, want an error for good with %q", err, tt.why)
				}
				return
			}
			if got := strings.TrimSpace(string(e.Result)); err != nil || got != tt.want {
				t.Errorf("%+v %s, %v; want %s", e, got, err, tt.want)
			}
		})
	}
}

// A program that changes all the time while it is looked at runs as it was listed, or not at all.
func TestAProgramCannotBeSwappedAfterTheCheck(t *testing.T) {
	t.Parallel()
	bin, err := os.MkdirTemp("", "carillon-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(bin) })
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("#\n", 20_000) // so that looking takes a while
	good, evil := []byte("#!/bin/sh\nexit 41\n"+pad), []byte("#!/bin/sh\nexit 42\n"+pad)
	path := filepath.Join(bin, "tool")
	put := func(data []byte) { // by rename and in place, in turn
		next := path + ".next"
		if err := errors.Join(os.WriteFile(next, data, 0o755), os.Rename(next, path)); err != nil {
			t.Error(err)
		}
	}
	put(good)
	r := runner(t, func(c *Config) { c.Digests, c.Read = []string{digest(good)}, []string{bin} })
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			put(evil)
			put(good)
			if i%2 == 0 {
				os.WriteFile(path, evil, 0o755)
				os.WriteFile(path, good, 0o755)
			}
		}
	}()
	ran, refused := 0, 0
	for range 30 {
		e, err := r.Run(t.Context(), attempt(path))
		switch {
		case e.Exit == 42:
			t.Error("it ran what was not listed")
		case err == nil && e.Exit == 41:
			ran++
		case err != nil:
			refused++
		}
	}
	close(stop)
	<-stopped
	if ran+refused == 0 {
		t.Errorf("%d ran, %d were refused", ran, refused)
	}
	if e, err := r.Run(t.Context(), attempt(path)); err != nil || e.Exit != 41 {
		t.Errorf("when nothing changes any more: %+v, %v", e, err)
	}
	t.Logf("%d ran, %d were refused", ran, refused)
}
