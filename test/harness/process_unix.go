//go:build unix

package harness

import "syscall"

// Freeze stops the process where it is; Thaw lets it continue.
func (p *Process) Freeze() { p.Helper(); p.Signal(syscall.SIGSTOP) }

// Thaw lets a process that was frozen continue.
func (p *Process) Thaw() { p.Helper(); p.Signal(syscall.SIGCONT) }
