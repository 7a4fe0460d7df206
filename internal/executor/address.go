package executor

import (
	"fmt"
	"net/netip"
)

// Guard decides which addresses callbacks may reach: public ones, and those that an operator allows.
type Guard struct {
	AllowLoopback bool           // 127.0.0.0/8 and ::1, nothing else
	AllowCIDRs    []netip.Prefix // a metadata service must be allowed by its exact address
}

// BlockedError is the error that an address may not be reached.
type BlockedError struct {
	Addr netip.Addr
	Why  string // as in "a private address"
	Own  bool   // it is this host's, or may be, and no list can allow it
}

func (b *BlockedError) Error() string {
	return fmt.Sprintf("%s is %s, which callbacks may not reach", b.Addr, b.Why)
}

// Check returns a *BlockedError unless callbacks may reach addr.
func (g Guard) Check(addr netip.Addr) error {
	a := addr.Unmap().WithZone("")
	r := rangeOf(a)
	if r.why == "" || g.allows(a, r) {
		return nil
	}
	return &BlockedError{Addr: a, Why: r.why, Own: a.IsUnspecified()}
}

func (g Guard) allows(a netip.Addr, r reason) bool {
	if a.IsUnspecified() { // systems treat it as this host, whatever a wide prefix is meant for
		return false
	}
	if g.AllowLoopback && a.IsLoopback() {
		return true
	}
	for _, p := range g.AllowCIDRs {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		// A wide prefix is meant for the hosts in it, not for their credentials.
		if p.Contains(a) && (!r.metadata || p.IsSingleIP()) {
			return true
		}
	}
	return false
}

// reason is why an address is blocked; the zero reason means that it is not.
type reason struct {
	why      string
	metadata bool // it serves a cloud's credentials
}

// metadata lists the services that give a cloud's credentials to any caller.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"): true, // AWS, Azure, Google, OpenStack and most others
	netip.MustParseAddr("169.254.170.2"):   true, // AWS ECS
	netip.MustParseAddr("169.254.170.23"):  true, // AWS EKS
	netip.MustParseAddr("168.63.129.16"):   true, // Azure's host agent
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle
	netip.MustParseAddr("fd00:ec2::254"):   true, // AWS
	netip.MustParseAddr("fd00:ec2::23"):    true, // AWS EKS
	netip.MustParseAddr("fd20:ce::254"):    true, // Google
}

// ranges lists the blocked ranges: IANA's special-purpose registries, except for the few entries that are ordinary
// public services.
var ranges = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's shared address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmarking address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},

	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // Teredo, benchmarking, ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address"},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	compatible    = netip.MustParsePrefix("::/96")
)

// rangeOf returns why an unmapped address without a zone is blocked.
func rangeOf(a netip.Addr) reason {
	if !a.IsValid() {
		return reason{why: "no address"}
	}
	if metadata[a] {
		return reason{"a cloud's metadata service", true}
	}
	for _, r := range ranges {
		if r.prefix.Contains(a) {
			return reason{why: r.why}
		}
	}
	if a.Is4() {
		return reason{}
	}
	// With a translator in between, the embedded address is the one that is reached.
	b := a.As16()
	switch {
	case sixToFour.Contains(a):
		return embedded([4]byte(b[2:6]), "the 6to4 form of ")
	case nat64.Contains(a):
		return embedded([4]byte(b[12:16]), "the NAT64 form of ")
	case compatible.Contains(a):
		if r := embedded([4]byte(b[12:16]), "the IPv4-compatible form of "); r.why != "" {
			return r
		}
	}
	if !globalUnicast.Contains(a) {
		return reason{why: "a reserved address"}
	}
	return reason{}
}

func embedded(b [4]byte, form string) reason {
	r := rangeOf(netip.AddrFrom4(b))
	if r.why != "" {
		r.why = form + r.why
	}
	return r
}
