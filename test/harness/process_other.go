//go:build !unix

package harness

// Freeze skips the test: a process cannot be stopped here.
func (p *Process) Freeze() { p.Helper(); p.Skip("processes cannot be stopped on this system") }

// Thaw does nothing, since nothing was frozen.
func (p *Process) Thaw() {}
