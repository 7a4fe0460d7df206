package executor

import (
	"errors"
	"net/netip"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	strict := Guard{}
	dev := Guard{AllowLoopback: true}
	lan := Guard{AllowCIDRs: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("fd12::/16"),
		netip.MustParsePrefix("::ffff:192.168.7.0/120"),
	}}
	wide := Guard{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	exact := Guard{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00:ec2::254/128")}}

	tests := []struct {
		guard Guard
		addr  string
		why   string // empty: may be reached
	}{
		{strict, "8.8.8.8", ""},
		{strict, "1.1.1.1", ""},
		{strict, "93.184.216.34", ""},
		{strict, "9.255.255.255", ""},
		{strict, "11.0.0.0", ""},
		{strict, "100.63.255.255", ""},
		{strict, "100.128.0.0", ""},
		{strict, "126.255.255.255", ""},
		{strict, "128.0.0.1", ""},
		{strict, "169.253.255.255", ""},
		{strict, "172.15.255.255", ""},
		{strict, "172.32.0.0", ""},
		{strict, "168.63.129.15", ""},
		{strict, "192.167.255.255", ""},
		{strict, "192.0.1.1", ""},
		{strict, "198.17.255.255", ""},
		{strict, "198.20.0.0", ""},
		{strict, "223.255.255.255", ""},
		{strict, "::ffff:8.8.8.8", ""},
		{strict, "2606:4700:4700::1111", ""},
		{strict, "2001:4860:4860::8888", ""},
		{strict, "2a00:1450:4001:81b::200e", ""},
		{strict, "64:ff9b::808:808", ""},
		{strict, "2002:808:808::1", ""},

		{strict, "127.0.0.1", "a loopback address"},
		{strict, "127.255.255.254", "a loopback address"},
		{strict, "::1", "a loopback address"},
		{strict, "::ffff:127.0.0.1", "a loopback address"},
		{strict, "::ffff:10.0.0.1", "a private address"},
		{strict, "0.0.0.0", "an unspecified address"},
		{strict, "0.1.2.3", "an unspecified address"},
		{strict, "::", "an unspecified address"},
		{strict, "10.0.0.0", "a private address"},
		{strict, "10.255.255.255", "a private address"},
		{strict, "172.16.0.1", "a private address"},
		{strict, "172.31.255.255", "a private address"},
		{strict, "192.168.1.1", "a private address"},
		{strict, "100.64.0.1", "a carrier's shared address"},
		{strict, "100.127.255.255", "a carrier's shared address"},
		{strict, "169.254.1.1", "a link-local address"},
		{strict, "169.254.169.254", "a cloud's metadata service"},
		{strict, "::ffff:169.254.169.254", "a cloud's metadata service"},
		{strict, "169.254.170.2", "a cloud's metadata service"},
		{strict, "168.63.129.16", "a cloud's metadata service"},
		{strict, "100.100.100.200", "a cloud's metadata service"},
		{strict, "192.0.0.192", "a cloud's metadata service"},
		{strict, "fd00:ec2::254", "a cloud's metadata service"},
		{strict, "192.0.0.8", "a reserved address"},
		{strict, "192.0.2.1", "a documentation address"},
		{strict, "198.51.100.7", "a documentation address"},
		{strict, "203.0.113.9", "a documentation address"},
		{strict, "198.18.0.1", "a benchmarking address"},
		{strict, "198.19.255.255", "a benchmarking address"},
		{strict, "192.88.99.1", "a reserved address"},
		{strict, "224.0.0.1", "a multicast address"},
		{strict, "239.255.255.250", "a multicast address"},
		{strict, "240.0.0.1", "a reserved address"},
		{strict, "255.255.255.255", "the broadcast address"},
		{strict, "fc00::1", "a private address"},
		{strict, "fdff:ffff::1", "a private address"},
		{strict, "fe80::1", "a link-local address"},
		{strict, "fe80::1%eth0", "a link-local address"},
		{strict, "::1%lo", "a loopback address"},
		{strict, "febf::1", "a link-local address"},
		{strict, "fec0::1", "a private address"},
		{strict, "ff02::1", "a multicast address"},
		{strict, "2001:db8::1", "a documentation address"},
		{strict, "3fff:1::1", "a documentation address"},
		{strict, "2001::1", "a reserved address"},
		{strict, "2001:2::1", "a reserved address"},
		{strict, "100::1", "a reserved address"},
		{strict, "4000::1", "a reserved address"},
		{strict, "64:ff9b::7f00:1", "the NAT64 form of a loopback address"},
		{strict, "64:ff9b::a9fe:a9fe", "the NAT64 form of a cloud's metadata service"},
		{strict, "64:ff9b::a00:1", "the NAT64 form of a private address"},
		{strict, "64:ff9b:1::808:808", "a reserved address"},
		{strict, "2002:7f00:1::1", "the 6to4 form of a loopback address"},
		{strict, "2002:c0a8:101::", "the 6to4 form of a private address"},
		{strict, "2002:a9fe:a9fe::", "the 6to4 form of a cloud's metadata service"},
		{strict, "::127.0.0.1", "the IPv4-compatible form of a loopback address"},
		{strict, "::10.0.0.1", "the IPv4-compatible form of a private address"},
		{strict, "::8.8.8.8", "a reserved address"},

		{dev, "127.0.0.1", ""},
		{dev, "127.9.9.9", ""},
		{dev, "::1", ""},
		{dev, "::ffff:127.0.0.1", ""},
		{dev, "10.0.0.1", "a private address"},
		{dev, "169.254.1.1", "a link-local address"},
		{dev, "169.254.169.254", "a cloud's metadata service"},
		{dev, "fe80::1%eth0", "a link-local address"},
		{dev, "0.0.0.0", "an unspecified address"},
		{dev, "64:ff9b::7f00:1", "the NAT64 form of a loopback address"},
		{dev, "2002:7f00:1::1", "the 6to4 form of a loopback address"},
		{dev, "::127.0.0.1", "the IPv4-compatible form of a loopback address"},

		{lan, "10.1.2.3", ""},
		{lan, "::ffff:10.1.2.3", ""},
		{lan, "fd12::5", ""},
		{lan, "fd12::5%eth1", ""},
		{lan, "192.168.7.9", ""},
		{lan, "192.168.8.9", "a private address"},
		{lan, "10.2.0.1", "a private address"},
		{lan, "127.0.0.1", "a loopback address"},
		{lan, "64:ff9b::a01:203", "the NAT64 form of a private address"},

		{wide, "127.0.0.1", ""},
		{wide, "fe80::1%eth0", ""},
		{wide, "64:ff9b::a00:1", ""},
		{wide, "169.254.169.254", "a cloud's metadata service"},
		{wide, "fd00:ec2::254", "a cloud's metadata service"},
		{wide, "64:ff9b::a9fe:a9fe", "the NAT64 form of a cloud's metadata service"},
		{wide, "0.0.0.0", "an unspecified address"},
		{wide, "::", "an unspecified address"},
		{exact, "169.254.169.254", ""},
		{exact, "fd00:ec2::254", ""},
		{exact, "169.254.169.253", "a link-local address"},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.guard.Check(netip.MustParseAddr(tt.addr)); err != nil {
			b, ok := errors.AsType[*BlockedError](err)
			if !ok {
				t.Fatalf("%s: got %T, want *BlockedError", tt.addr, err)
			}
			got = b.Why
		}
		if got != tt.why {
			t.Errorf("%s by %+v: got %q, want %q", tt.addr, tt.guard, got, tt.why)
		}
	}
	if err := wide.Check(netip.Addr{}); err == nil {
		t.Error("the zero address may be reached")
	}
}

func TestOwnAddressesAreRefused(t *testing.T) {
	t.Parallel()
	own := func(list ...string) func() []netip.AddrPort {
		return func() []netip.AddrPort {
			var all []netip.AddrPort
			for _, s := range list {
				all = append(all, netip.MustParseAddrPort(s))
			}
			return all
		}
	}
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	tests := []struct {
		cfg     Config
		to      string
		refused bool
	}{
		{Config{OwnAddrs: own("93.184.216.34:8080")}, "93.184.216.34:8080", true},
		{Config{OwnAddrs: own("93.184.216.34:8080")}, "[::ffff:93.184.216.34]:8080", true},
		{Config{OwnAddrs: own("93.184.216.34:8080")}, "93.184.216.34:8081", false},
		{Config{OwnAddrs: own("93.184.216.34:8080")}, "93.184.216.35:8080", false},
		{Config{OwnAddrs: own("10.0.0.1:8080"), AllowCIDRs: everything}, "10.0.0.1:8080", true},
		{Config{OwnAddrs: own("[fe80::1%eth0]:8080"), AllowCIDRs: everything}, "[fe80::1%1]:8080", true},
		{Config{OwnAddrs: own("0.0.0.0:8080"), AllowCIDRs: everything}, "127.0.0.1:8080", true},
		{Config{OwnAddrs: own("[::]:8080"), AllowCIDRs: everything}, "127.0.0.1:8080", true},
		{Config{OwnAddrs: own("[::]:8080"), AllowCIDRs: everything}, "93.184.216.34:8080", false},
		{Config{OwnAddrs: own("0.0.0.0:8080"), AllowCIDRs: everything}, "0.0.0.0:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowCIDRs: everything}, "0.0.0.0:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowCIDRs: everything}, "[::]:8080", true},
		{Config{OwnAddrs: own("[::1]:8080"), AllowCIDRs: everything}, "[::]:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowCIDRs: everything}, "[::ffff:0.0.0.0]:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8")}}, "0.0.0.0:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/32")}}, "0.0.0.0:8080", true},
		{Config{OwnAddrs: own("127.0.0.1:8080"), AllowLoopback: true}, "127.0.0.1:8080", false},
		{Config{AllowCIDRs: everything}, "127.0.0.1:8080", false},
		{Config{AllowCIDRs: everything}, "localhost:8080", true}, // not literal: refused rather than trusted
		{Config{AllowCIDRs: everything}, "", true},
	}
	for _, tt := range tests {
		if err := newDialer(tt.cfg).check(tt.to); (err != nil) != tt.refused {
			t.Errorf("%s: got %v, want refused %t", tt.to, err, tt.refused)
		}
	}
}
