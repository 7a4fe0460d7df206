//go:build !linux && !darwin

package cli

// room is not supported here.
func room(string) (free, all uint64, ok bool) { return 0, 0, false }
