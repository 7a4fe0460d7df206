//go:build linux && !amd64 && !arm64

package minder

// There is no filter for this architecture.
const (
	auditArch = 0
	x32       = 0
)

var deniedHere []uintptr
