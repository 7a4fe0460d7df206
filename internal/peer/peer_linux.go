package peer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Known reports whether this system reveals the owners of connections.
const Known = true

// owner returns who owns the socket of an established connection from one address to another.
func owner(from, to netip.AddrPort) (uid int, ok bool) {
	uid, err := diagnose(from, to)
	if err != nil {
		uid, err = scan("/proc/net", from, to)
	}
	if err != nil || uid == overflow() {
		return 0, false
	}
	return uid, true
}

var (
	errNobody = errors.New("no process has the socket open")
	errAnswer = errors.New("the kernel's answer is not about the socket")
)

// overflow is the id that stands for users that this process cannot name.
func overflow() int {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return n
		}
	}
	return 65534
}

// The parts of netlink's sock_diag that are used: see sock_diag(7).
const (
	diagFamily  = 20 // SOCK_DIAG_BY_FAMILY
	headerSize  = 16
	requestSize = 56
	answerSize  = 72
	listening   = 10
)

// diagnose asks for one socket over netlink.
func diagnose(from, to netip.AddrPort) (int, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	limit := syscall.NsecToTimeval(time.Second.Nanoseconds())
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		return 0, err
	}
	if err := syscall.Sendto(fd, request(from, to), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	b := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, err
	}
	return answered(b[:n], from, to)
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return syscall.AF_INET
	}
	return syscall.AF_INET6
}

// request is the question for the socket that has one address and is connected to another.
func request(from, to netip.AddrPort) []byte {
	b := make([]byte, headerSize+requestSize)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], diagFamily)
	binary.NativeEndian.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	q := b[headerSize:]
	q[0], q[1] = family(from.Addr()), syscall.IPPROTO_TCP
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // any state
	binary.BigEndian.PutUint16(q[8:], from.Port())
	binary.BigEndian.PutUint16(q[10:], to.Port())
	copy(q[12:28], from.Addr().AsSlice())
	copy(q[28:44], to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // no cookie
	return b
}

// answered reads the owner from an answer. The kernel also finds a listener at the address, if the connection is
// gone.
func answered(b []byte, from, to netip.AddrPort) (int, error) {
	if len(b) < headerSize+answerSize || binary.NativeEndian.Uint16(b[4:]) != diagFamily {
		return 0, errAnswer // an error, such as that there is none
	}
	a := b[headerSize:]
	if a[1] == listening || binary.BigEndian.Uint16(a[4:]) != from.Port() || binary.BigEndian.Uint16(a[6:]) != to.Port() {
		return 0, errAnswer
	}
	if binary.NativeEndian.Uint32(a[68:]) == 0 {
		return 0, errNobody
	}
	return int(binary.NativeEndian.Uint32(a[64:])), nil
}

// scan looks through the tables of sockets for the connection.
func scan(folder string, from, to netip.AddrPort) (int, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(folder + "/" + table)
		if err != nil {
			continue
		}
		uid, err := scanTable(bufio.NewScanner(f), from, to)
		f.Close()
		if !errors.Is(err, errAnswer) {
			return uid, err
		}
	}
	return 0, errAnswer
}

func scanTable(lines *bufio.Scanner, from, to netip.AddrPort) (int, error) {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] == "0A" || !stands(f[1], from) || !stands(f[2], to) {
			continue
		}
		if f[9] == "0" {
			return 0, errNobody
		}
		return strconv.Atoi(f[7])
	}
	return 0, errAnswer
}

// stands reports whether a field, such as 0100007F:1F90, is an address: words in the machine's byte order, then the
// port.
func stands(field string, want netip.AddrPort) bool {
	host, port, ok := strings.Cut(field, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, bad := hex.DecodeString(host)
	if !ok || err != nil || bad != nil || uint16(n) != want.Port() || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return ok && a.Unmap() == want.Addr()
}
