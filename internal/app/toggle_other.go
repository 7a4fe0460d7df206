//go:build !unix

package app

// toggles does nothing where there is no SIGUSR1.
func (r *running) toggles() {}
