//go:build !unix

package app

// toggles does nothing if there is no SIGUSR1.
func (r *running) toggles() {}
