package executor

import (
	"errors"
	"net/http"
	"net/netip"
	"time"
)

// Rules are the rules for callbacks about ports and https.
type Rules struct {
	Ports     []int // none: all but those of other services
	HTTPSOnly bool
}

var errPlain = errors.New("only https may be used for it (callbacks.https_only)")

// Client returns an HTTP client for the server's own requests, such as for an issuer's keys. It reaches addresses
// that the guard allows, under the rules for callbacks, from which addresses listed in the guard are exempt. It
// follows no redirects and uses no proxy.
func (g Guard) Client(timeout time.Duration, r Rules) *http.Client {
	d := newDialer(Config{AllowLoopback: g.AllowLoopback, AllowCIDRs: g.AllowCIDRs, Ports: r.Ports})
	d.spare = true
	t := newTransport(d, timeout)
	if r.HTTPSOnly {
		plain := *d
		plain.secure = true
		t.DialContext = plain.dial
	}
	return &http.Client{
		Transport: t, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// lists reports whether an operator has listed an address, public or not.
func (g Guard) lists(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return g.allows(a, rangeOf(a))
}
