package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/carillon-jobs/carillon/client"
)

// unanswered returns the outcome of a call that got no complete response.
func (c *call) unanswered(ctx context.Context, err error) client.Outcome {
	if ctx.Err() != nil {
		o := ended(ctx, c.attempt)
		if o.Error.Type == typeTimeout {
			o.Error.Message = fmt.Sprintf("%s did not answer %s", c, within(c.attempt))
		}
		return o
	}
	if p, ok := errors.AsType[*proxyError](err); ok {
		return c.unproxied(p)
	}
	if b, ok := errors.AsType[*blockedDial](err); ok {
		return failed(typeBlocked, b.partial, blockedText(b))
	}
	if p, ok := errors.AsType[*BlockedPortError](err); ok {
		return failed(typeBlocked, false, p.Error())
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return failed(typeDNS, true, fmt.Sprintf("could not resolve %s: %s", excerpt(c.url.Hostname()), dnsText(d)))
	}
	if h, ok := errors.AsType[*handshakeError](err); ok {
		return c.insecure(h)
	}
	cause := plainCause(err)
	text := fmt.Sprintf("%s got no answer: %s", c, cause)
	if strings.Contains(err.Error(), "timeout awaiting response headers") { // net/http has no type for it
		return failed(typeTimeout, true, fmt.Sprintf("%s did not begin to answer in time (callbacks.first_byte_timeout_seconds)", c))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		text = fmt.Sprintf("could not connect to %s: %s", c.place(op), cause)
	}
	return failed(class(err), true, text)
}

// class names what went wrong on the network.
func class(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case isTimeout(err):
		return typeTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return typeRefused
	case isReset(err):
		return typeReset
	case op != nil && op.Op == "remote error": // crypto/tls reports an alert after the handshake this way
		return typeTLS
	}
	return typeInternal
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func isReset(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, ok := errors.AsType[streamError](err)
	return ok
}

// streamError stands for net/http's own error of a reset HTTP/2 stream, which
// converts itself to any type of these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (s streamError) Error() string { return fmt.Sprintf("HTTP/2 stream reset with code %d", s.Code) }

// insecure returns the outcome of a call whose TLS handshake failed. What the target's certificate shows will be the
// same next time; a broken handshake may not be.
func (c *call) insecure(h *handshakeError) client.Outcome {
	host := excerpt(hostport(c.url))
	if isTimeout(h) {
		return failed(typeTimeout, true, fmt.Sprintf("the TLS handshake with %s timed out", host))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](h); ok && c.secure {
		return failed(typeTLS, false, fmt.Sprintf("%s does not speak TLS, and callbacks go over https only: the target must speak TLS at this port, or the callback URL name another port", host))
	} else if ok {
		return failed(typeTLS, false, fmt.Sprintf("%s does not speak TLS; the callback URL may have to begin with http://", host))
	}
	if v, ok := errors.AsType[*tls.CertificateVerificationError](h); ok {
		return failed(typeTLS, false, fmt.Sprintf("the certificate of %s is not valid: %s", host, certificateText(v)))
	}
	return failed(typeTLS, true, fmt.Sprintf("the TLS handshake with %s failed: %s", host, plainCause(h.err)))
}

func certificateText(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "it is signed by an unknown authority"
	}
	if i, ok := errors.AsType[x509.CertificateInvalidError](err); ok && i.Reason == x509.Expired {
		return "it has expired or is not valid yet"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another host"
	}
	return excerpt(strings.TrimPrefix(err.Error(), "tls: failed to verify certificate: "))
}

func blockedText(b *blockedDial) string {
	text := b.Error()
	if b.host != b.Addr.String() {
		text = fmt.Sprintf("the address %s of %s is %s, which callbacks may not reach", b.Addr, excerpt(b.host), b.Why)
	}
	if b.partial {
		text += ", and its other addresses could not be reached"
	}
	if !b.Own {
		text += fmt.Sprintf("; an operator can allow it with --allow-callback %s", netip.PrefixFrom(b.Addr, b.Addr.BitLen()))
	}
	return text
}

func dnsText(d *net.DNSError) string {
	switch {
	case d.IsNotFound:
		return "no such host"
	case d.IsTimeout:
		return "the name server did not answer in time"
	}
	return excerpt(d.Err)
}

// place returns where a dial went, by name and by address if these differ.
func (c *call) place(op *net.OpError) string {
	named := hostport(c.url)
	if op.Addr == nil || op.Addr.String() == named {
		return excerpt(named)
	}
	return excerpt(fmt.Sprintf("%s (%s)", named, op.Addr))
}

// plainCause returns the innermost reason in a few words.
func plainCause(err error) string {
	switch {
	case isTimeout(err):
		return "timed out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was complete"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if s, ok := errors.AsType[streamError](err); ok {
		return s.Error()
	}
	return excerpt(strings.TrimPrefix(err.Error(), "net/http: "))
}

// excerpt makes untrusted text fit for a message: one line, and not too long.
func excerpt(s string) string {
	const most = 300
	var b strings.Builder
	for _, r := range s {
		if control(r) || r == '\n' || r == '\r' || r == '\t' {
			r = '\ufffd'
		}
		if b.Len() > most {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
