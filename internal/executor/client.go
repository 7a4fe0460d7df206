package executor

import (
	"errors"
	"net/http"
	"net/netip"
	"time"
)

// Rules are those of callbacks for ports and https.
type Rules struct {
	Ports     []int // none: all but those of other services
	HTTPSOnly bool
}

var errPlain = errors.New("only https may be used for it (callbacks.https_only)")

// Client makes requests of the server's own, such as for an issuer's keys, to the addresses that the guard lets through and by the rules
// for callbacks. Addresses that the guard names are spared these rules. It follows no redirects and uses no proxy.
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

// lists reports whether an operator has named an address, be it public or not.
func (g Guard) lists(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return g.allows(a, rangeOf(a))
}
