//go:build failpoint && unix

package failpoint

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

var (
	mu    sync.Mutex
	rules map[string]rule // guarded by mu
	hits  map[string]int  // guarded by mu
	owed  map[string]int  // guarded by mu: errors with which places after a commit are still to fail
)

// Arm sets a specification, replacing an earlier one.
func Arm(spec string) error {
	rs, err := parse(spec)
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	rules, hits, owed = rs, map[string]int{}, map[string]int{}
	return nil
}

// Hit performs the requested action at the place.
func Hit(name string) error {
	r, n, ok := due(name)
	if !ok {
		return nil
	}
	// For the test that waits for it; before the action, which may be the last.
	fmt.Fprintf(os.Stderr, "failpoint %s: %s (hit %d)\n", name, r.action, n)
	switch r.action {
	case kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	case stop:
		pause(r.length)
	case sleep:
		time.Sleep(r.length)
	case fail:
		return fmt.Errorf("%s: %w", name, ErrInjected)
	}
	return nil
}

// Set reports whether something is to happen at one of the places, so that code that has no such place on its way can
// take a way that has it. Where nothing is to happen, the tests run what users run.
func Set(names ...string) bool {
	mu.Lock()
	defer mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool { _, ok := rules[name]; return ok })
}

// due counts the hit and returns its action.
func due(name string) (r rule, n int, ok bool) {
	mu.Lock()
	defer mu.Unlock()
	if owed[name] > 0 {
		owed[name]--
		return rule{action: fail}, hits[name] + 1, true
	}
	r, ok = rules[name]
	if !ok {
		return r, 0, false
	}
	hits[name]++
	n = hits[name]
	if n < r.first || n > r.last {
		return r, n, false
	}
	if r.action == commitThenError {
		owed[commits[name]]++
	}
	return r, n, true
}

// pause stops the whole process. A stopped process cannot wake itself, so a child does.
func pause(d time.Duration) {
	pid := os.Getpid()
	waker := exec.Command("/bin/sh", "-c", fmt.Sprintf("sleep %.3f; kill -CONT %d", d.Seconds(), pid))
	if err := waker.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "failpoint: not stopping, since nothing would wake this process: %v\n", err)
		return
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	_ = waker.Wait()
}
