//go:build unix

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

// smallDisk is a folder with its own few megabytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := newFolder(t)
	if err := mount(dir, size); err != nil {
		t.Skipf("a disk of its own needs Linux and the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill takes all the room that is left in a folder; what it returns gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{64 << 10, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// The disk of the store is full: what cannot be kept is refused with 503 and when to come again, readiness says so, nothing
// that was acknowledged is lost, and when there is room again everything continues by itself (row 17).
func TestTheDiskIsFull(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a small disk is made with tmpfs")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := smallDisk(t, "24m")
		fullDisk(t, "sqlite:"+filepath.Join(dir, "c.db"), dir)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dir := smallDisk(t, "48m")
		db := newServer(t, newFolder(t)) // after the disk, so that it ends first
		fullDisk(t, db.databaseOn(dir), dir)
	})
}

func fullDisk(t *testing.T, where, dir string) {
	in := install(t, where, "api,scheduler")
	s := in.serve("")
	in.work("")
	finish := make(chan struct{})
	in.target.OnArrival(func(harness.Arrival) error { <-finish; return nil })
	in.load(6)
	harness.Eventually(t, 20*time.Second, "an arrival", func() bool { return len(in.target.Seen()) > 0 })
	in.told()
	free := fill(t, dir)

	// What fits into what the store had taken already is still accepted.
	large := in.body(`, "description": "` + strings.Repeat("large ", 300) + `"`)
	harness.Eventually(t, 40*time.Second, "a refusal", func() bool {
		in.create(large)
		<-time.After(10 * time.Millisecond)
		return in.refused() > 0
	})
	ready := func() int { code, _, _ := s.Ask("GET", "/readyz", ""); return code }
	if code := ready(); code != 503 {
		t.Errorf("/readyz answers %d on a full disk", code)
	}
	if code, _, err := s.Ask("GET", "/api/v1/jobs", ""); code != 200 {
		t.Errorf("reading answers %d, %v on a full disk", code, err)
	}
	close(finish) // the results come while there may be no room for them
	<-time.After(time.Second)
	if code := ready(); code != 503 {
		t.Errorf("/readyz answers %d on a disk that is still full", code)
	}
	free()
	harness.Eventually(t, 30*time.Second, "it to be ready again", func() bool { return ready() == 200 })
	in.settle(history{})
}

// Where nothing is written, too, /readyz says within 4 s that the disk is full, and that it no longer is.
func TestAFullDiskIsNamedWithinFourSeconds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a small disk is made with tmpfs")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := smallDisk(t, "24m")
		fullAtRest(t, "sqlite:"+filepath.Join(dir, "c.db"), dir)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dir := smallDisk(t, "48m")
		db := newServer(t, newFolder(t))
		fullAtRest(t, db.databaseOn(dir), dir)
	})
}

func fullAtRest(t *testing.T, where, dir string) {
	in := install(t, where, "api,scheduler")
	s := in.serve("")
	harness.Eventually(t, 20*time.Second, "it to be ready", s.Ready)
	for range 2 {
		free := fill(t, dir)
		said := ""
		harness.Eventually(t, 4*time.Second, "/readyz to name the full disk", func() bool {
			code, text, err := s.Ask("GET", "/readyz", "")
			said = text
			return err == nil && code == 503
		})
		if !strings.Contains(said, "disk is full") {
			t.Errorf("/readyz says %s", said)
		}
		free()
		harness.Eventually(t, 4*time.Second, "it to be ready again", s.Ready)
	}
}

// refused returns how often a client was sent away for now.
func (c *clients) refused() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.made {
		n += x.refused
	}
	return n
}
