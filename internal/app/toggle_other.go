//go:build !unix

package app

// toggles does nothing: there is no SIGUSR1.
func (r *running) toggles() {}
