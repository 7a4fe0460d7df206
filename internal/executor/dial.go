package executor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	maxHeaderBytes   = 64 << 10
)

// dialer opens connections, and only to addresses that its guard allows.
type dialer struct {
	net   net.Dialer
	tls   *tls.Config
	guard Guard
	own   func() []netip.AddrPort // nil: none are refused
	ports []int                   // none: all but those of other services
	proxy Proxy                   // zero: connections are direct

	spare  bool // addresses listed in the guard are exempt from the rules for ports and https
	secure bool // no other address may be connected to, because it would be plain http
}

func newDialer(cfg Config) *dialer {
	d := &dialer{
		net:   net.Dialer{Timeout: connectTimeout, Resolver: cfg.Resolver},
		tls:   &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		guard: Guard{AllowLoopback: cfg.AllowLoopback, AllowCIDRs: cfg.AllowCIDRs}, ports: cfg.Ports, proxy: cfg.Proxy,
	}
	if !cfg.AllowLoopback {
		d.own = cfg.OwnAddrs
	}
	return d
}

// newTransport is for many calls to few hosts: connections are reused, and the environment is ignored.
func newTransport(d *dialer, firstByte time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // net/http would make it dial past the guard; see viaProxy
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		ResponseHeaderTimeout:  firstByte,
		DisableCompression:     true, // a small response must not unpack to a large one
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// blockedDial is the error that the guard refused a dial.
type blockedDial struct {
	*BlockedError
	host    string
	partial bool // the host has other addresses, which are allowed but were not reached
}

func (b *blockedDial) Unwrap() error { return b.BlockedError }

// handshakeError means that a connection was made, but the TLS handshake failed.
type handshakeError struct{ err error }

func (h *handshakeError) Error() string { return "TLS handshake: " + h.err.Error() }
func (h *handshakeError) Unwrap() error { return h.err }

// dial connects to one of the host's allowed addresses.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy.URL != nil {
		return d.viaProxy(ctx, network, address)
	}
	return d.direct(ctx, network, address)
}

// direct connects without a proxy.
func (d *dialer) direct(ctx context.Context, network, address string) (net.Conn, error) {
	var tried atomic.Bool // both address families may be dialled at once
	n := d.net
	n.ControlContext = func(_ context.Context, _, literal string, _ syscall.RawConn) error {
		if err := d.check(literal); err != nil {
			return err
		}
		tried.Store(true)
		return nil
	}
	conn, err := n.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if b, ok := errors.AsType[*BlockedError](err); ok {
		host, _, _ := net.SplitHostPort(address)
		return nil, &blockedDial{BlockedError: b, host: host, partial: tried.Load()}
	}
	return nil, err
}

func (d *dialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // it is of no use either way
		return nil, &handshakeError{err}
	}
	return conn, nil
}

// check checks a literal address and port just before connecting to it.
func (d *dialer) check(literal string) error {
	to, err := netip.ParseAddrPort(literal)
	if err != nil {
		return fmt.Errorf("check %q: %w", literal, err)
	}
	if err := d.guard.Check(to.Addr()); err != nil {
		return err
	}
	spared := d.spare && d.guard.lists(to.Addr())
	if d.secure && !spared {
		return errPlain
	}
	// Without a list of ports, an address that an operator has listed may be reached at every port.
	if !spared && (len(d.ports) > 0 || !d.guard.named(to.Addr().String())) {
		if err := checkPort(d.ports, to.Port()); err != nil {
			return err
		}
	}
	if d.own == nil {
		return nil
	}
	a := to.Addr().Unmap()
	for _, o := range d.own() {
		mine := o.Addr().Unmap()
		if o.Port() != to.Port() {
			continue
		}
		everywhere := !mine.IsValid() || mine.IsUnspecified()
		if mine.WithZone("") == a.WithZone("") || everywhere && local(a) {
			return &BlockedError{Addr: a, Why: "where Carillon itself listens", Own: true}
		}
	}
	return nil
}

// local reports whether a may be an address of this host.
func local(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, i := range all {
		if p, err := netip.ParsePrefix(i.String()); err == nil && p.Addr().Unmap().WithZone("") == a.WithZone("") {
			return true
		}
	}
	return false
}
