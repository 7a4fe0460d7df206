package peer

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair is both ends of a connection over loopback.
func pair(t *testing.T, network, address, dial string) (server, client net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("%s is not here: %v", address, err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	client, err = net.Dial("tcp", net.JoinHostPort(dial, port))
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

func TestOwnerOfAConnection(t *testing.T) {
	for _, x := range []struct{ network, listen, dial string }{{"tcp4", "127.0.0.1:0", "127.0.0.1"}, {"tcp6", "[::1]:0", "::1"}} {
		s, _ := pair(t, x.network, x.listen, x.dial)
		if uid, ok := Of(s).UID(); !ok || uid != os.Getuid() {
			t.Errorf("%s: %d, %v", x.listen, uid, ok)
		}
		from, to := addressOf(s.RemoteAddr()), addressOf(s.LocalAddr())
		if uid, err := diagnose(from, to); err != nil || uid != os.Getuid() {
			t.Errorf("%s, netlink: %d, %v", x.listen, uid, err)
		}
		if uid, err := scan("/proc/net", from, to); err != nil || uid != os.Getuid() {
			t.Errorf("%s, /proc: %d, %v", x.listen, uid, err)
		}
	}
}

// TestMappedOwner connects a socket of IPv6 to an address of IPv4.
func TestMappedOwner(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: ln.Addr().(*net.TCPAddr).Port, Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}); err != nil {
		t.Skip(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if uid, ok := Of(s).UID(); !ok || uid != os.Getuid() {
		t.Errorf("%d, %v", uid, ok)
	}
	if uid, err := scan("/proc/net", addressOf(s.RemoteAddr()), addressOf(s.LocalAddr())); err != nil || uid != os.Getuid() {
		t.Errorf("/proc: %d, %v", uid, err)
	}
}

// TestClosedSocketsAreNobodys: kernels report a socket that its owner has closed as root's.
func TestClosedSocketsAreNobodys(t *testing.T) {
	s, c := pair(t, "tcp4", "127.0.0.1:0", "127.0.0.1")
	c.Close()
	from, to := addressOf(s.RemoteAddr()), addressOf(s.LocalAddr())
	for until := time.Now().Add(5 * time.Second); ; {
		uid, ok := owner(from, to)
		if !ok {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("a closed socket is %d's", uid)
		}
	}
	if uid, err := scan("/proc/net", from, to); err == nil {
		t.Errorf("/proc: a closed socket is %d's", uid)
	}
}

// TestListenersAreNotConnections: where a connection is gone, the kernel answers with who listens at its address.
func TestListenersAreNotConnections(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := addressOf(ln.Addr())
	if uid, ok := owner(at, netip.MustParseAddrPort("127.0.0.1:1")); ok {
		t.Errorf("a listener is taken for a connection of %d", uid)
	}
}

func TestScanTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 11 1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1
   2: 0100007F:C351 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 1
   3: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 13 1`
	for from, want := range map[string]int{"127.0.0.1:50000": 1001, "127.0.0.1:50001": -1, "127.0.0.1:50002": 1002, "127.0.0.1:50003": -1, "127.0.0.1:8080": -1} {
		uid, err := scanTable(bufio.NewScanner(strings.NewReader(table)), netip.MustParseAddrPort(from), netip.MustParseAddrPort("127.0.0.1:8080"))
		if err != nil {
			uid = -1
		}
		if uid != want {
			t.Errorf("%s: %d, %v, want %d", from, uid, err, want)
		}
	}
	if _, ok := Of(&net.TCPConn{}).UID(); ok {
		t.Error("a connection without addresses has an owner")
	}
}
