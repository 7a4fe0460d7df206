// Package peer determines which user of this machine is at the other end of a
// TCP connection over loopback, by asking the kernel who owns that end's socket.
//
// A socket that its owner has closed counts as nobody's: kernels report such a
// one as root's. What cannot be determined is unknown, never guessed.
package peer

import (
	"net"
	"net/netip"
	"sync"
)

// Conn determines who is at the other end of a connection. It asks once.
type Conn struct {
	local, remote netip.AddrPort
	find          func() (uid int, ok bool)
}

// Of returns a Conn for a connection.
func Of(c net.Conn) *Conn {
	p := &Conn{local: addressOf(c.LocalAddr()), remote: addressOf(c.RemoteAddr())}
	p.find = sync.OnceValues(func() (int, bool) {
		if !p.local.Addr().IsLoopback() || !p.remote.Addr().IsLoopback() || p.local.Addr().Is4() != p.remote.Addr().Is4() {
			return 0, false
		}
		return owner(p.remote, p.local)
	})
	return p
}

// UID returns the id of the user at the other end; ok is false if it is unknown.
func (c *Conn) UID() (uid int, ok bool) {
	if c == nil {
		return 0, false
	}
	return c.find()
}

func addressOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
