package executor

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Proxy is an HTTP proxy that connects for callbacks (CONNECT). The zero value is none.
//
// The rules for addresses, ports and https apply as without it: names are resolved here, each address is checked, and
// the proxy is asked for a checked address, so it never sees a name. Addresses that an operator allows although they
// are private are connected to directly.
type Proxy struct {
	URL         *url.URL       // http or https, host and port
	Credentials string         // USER:PASSWORD; "": none
	CAs         *x509.CertPool // CA of an https proxy's certificate; nil: those that the system trusts
	Resolves    bool           // the proxy is given names, and alone decides which addresses they may lead to
}

// proxyTries limits how many addresses of a host the proxy is asked for.
const proxyTries = 4

// proxyError means that the proxy did not connect.
type proxyError struct {
	err    error // nil: it answered
	asked  bool  // it was reached
	status int   // its answer
}

func (e *proxyError) Error() string {
	if e.err != nil {
		return "egress proxy: " + e.err.Error()
	}
	return fmt.Sprintf("egress proxy: it answered %d", e.status)
}

func (e *proxyError) Unwrap() error { return e.err }

// viaProxy connects to a host like dial, but through the proxy.
func (d *dialer) viaProxy(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", port, err)
	}
	var all []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		all = []netip.Addr{literal}
	} else if d.proxy.Resolves && !ours(host) {
		if err := checkPort(d.ports, uint16(n)); err != nil {
			return nil, err
		}
		return d.tunnel(ctx, address)
	} else if all, err = d.resolver().LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	open, err := d.checked(host, uint16(n), all)
	if err != nil {
		return nil, err
	}
	for i, to := range open {
		var conn net.Conn
		try, stop := ctx, func() {}
		if at, ok := ctx.Deadline(); ok && i < len(open)-1 {
			try, stop = context.WithTimeout(ctx, time.Until(at)/2)
		}
		if d.guard.named(to.Addr().String()) {
			conn, err = d.direct(try, network, to.String())
		} else {
			conn, err = d.tunnel(try, to.String())
		}
		stop()
		if err == nil {
			return conn, nil
		}
		if p, ok := errors.AsType[*proxyError](err); ok && !p.asked {
			break // another address needs the same proxy
		}
	}
	return nil, err
}

// checked returns the allowed addresses of a host, or why there are none.
func (d *dialer) checked(host string, port uint16, all []netip.Addr) ([]netip.AddrPort, error) {
	var open []netip.AddrPort
	var blocked *BlockedError
	for _, a := range all {
		to := netip.AddrPortFrom(a.Unmap(), port)
		err := d.check(to.String())
		if b, ok := errors.AsType[*BlockedError](err); ok {
			if blocked == nil {
				blocked = b
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if open = append(open, to); len(open) == proxyTries {
			break
		}
	}
	switch {
	case len(open) > 0:
		return open, nil
	case blocked != nil:
		return nil, &blockedDial{BlockedError: blocked, host: host}
	}
	return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
}

func (d *dialer) resolver() *net.Resolver {
	if d.net.Resolver != nil {
		return d.net.Resolver
	}
	return net.DefaultResolver
}

// ours reports whether a name is always resolved here: localhost, and what a lenient resolver treats as an address,
// such as 0x7f.1.
func ours(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return last == "localhost" || err == nil || strings.Trim(last, "0123456789") == ""
}

// tunnel asks the proxy to connect to a host and port.
func (d *dialer) tunnel(ctx context.Context, target string) (_ net.Conn, err error) {
	conn, err := d.toProxy(ctx)
	if err != nil {
		return nil, &proxyError{err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = &proxyError{err: context.Cause(ctx), asked: true}
		}
		if err != nil {
			_ = conn.Close() // it is of no use either way
		}
	}()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"User-Agent": {"Carillon"}}}
	if who := d.proxy.Credentials; who != "" {
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(who)))
	}
	if err := req.Write(conn); err != nil {
		return nil, &proxyError{err: err, asked: true}
	}
	in := bufio.NewReader(io.LimitReader(conn, maxHeaderBytes))
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &proxyError{err: err, asked: true}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &proxyError{status: resp.StatusCode, asked: true}
	}
	if in.Buffered() > 0 {
		return nil, &proxyError{err: errors.New("the host speaks before it is spoken to"), asked: true}
	}
	return conn, nil
}

// toProxy connects to the proxy. An operator has named it, so it may be anywhere.
func (d *dialer) toProxy(ctx context.Context) (net.Conn, error) {
	u := d.proxy.URL
	n := net.Dialer{Timeout: connectTimeout, Resolver: d.net.Resolver}
	conn, err := n.DialContext(ctx, "tcp", hostport(u))
	if err != nil || u.Scheme != "https" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, RootCAs: cmp.Or(d.proxy.CAs, d.tls.RootCAs)})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it is of no use either way
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// unproxied returns the outcome of a call for which the proxy did not connect. It does not reveal where the proxy is:
// the tenant's users read it.
func (c *call) unproxied(p *proxyError) client.Outcome {
	to := excerpt(hostport(c.url))
	status := strings.TrimSpace(fmt.Sprintf("%d %s", p.status, http.StatusText(p.status)))
	switch {
	case p.err != nil && p.asked && isTimeout(p.err):
		return failed(typeTimeout, true, fmt.Sprintf("the egress proxy (callbacks.proxy) did not connect to %s in time", to))
	case p.err != nil && p.asked:
		return failed(proxyClass(p.err), true, fmt.Sprintf("the egress proxy (callbacks.proxy) did not connect to %s: %s", to, proxyCause(p.err)))
	case p.err != nil:
		return failed(proxyClass(p.err), true, "could not connect to the egress proxy (callbacks.proxy): "+proxyCause(p.err))
	case p.status == http.StatusProxyAuthRequired:
		return failed(typeInternal, true, fmt.Sprintf("the egress proxy (callbacks.proxy) refused to connect to %s: %s; it wants other credentials, or does not allow this host", to, status))
	case p.status == http.StatusForbidden:
		return failed(typeBlocked, false, fmt.Sprintf("the egress proxy (callbacks.proxy) does not allow calls to %s: %s", to, status))
	case p.status == http.StatusGatewayTimeout:
		return failed(typeTimeout, true, fmt.Sprintf("the egress proxy (callbacks.proxy) could not connect to %s: %s", to, status))
	case p.status >= http.StatusInternalServerError:
		return failed(typeRefused, true, fmt.Sprintf("the egress proxy (callbacks.proxy) could not connect to %s: %s", to, status))
	}
	return failed(typeInternal, true, fmt.Sprintf("the egress proxy (callbacks.proxy) did not connect to %s: it answered %s", to, status))
}

func proxyClass(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return typeDNS
	}
	if _, ok := errors.AsType[*handshakeError](err); ok {
		return typeTLS
	}
	return class(err)
}

// proxyCause describes why the proxy cannot be used, without its address.
func proxyCause(err error) string {
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return dnsText(d)
	}
	if h, ok := errors.AsType[*handshakeError](err); ok {
		if v, ok := errors.AsType[*tls.CertificateVerificationError](h); ok {
			return "its certificate is not valid: " + certificateText(v)
		}
		return "the TLS handshake failed"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && !isTimeout(err) {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return errno.Error()
		}
		return excerpt(op.Err.Error())
	}
	if isReset(err) {
		return "it closed the connection"
	}
	return plainCause(err)
}
