//go:build !linux

package peer

import "net/netip"

// Known reports whether this system reveals the owners of connections.
const Known = false

// owner returns unknown: systems other than Linux do not tell.
func owner(_, _ netip.AddrPort) (uid int, ok bool) { return 0, false }
