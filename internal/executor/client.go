package executor

import (
	"net/http"
	"time"
)

// Client makes requests of the server's own, such as for an issuer's keys, to the addresses that the guard lets through. It
// follows no redirects and uses no proxy.
func (g Guard) Client(timeout time.Duration) *http.Client {
	d := newDialer(Config{AllowLoopback: g.AllowLoopback, AllowCIDRs: g.AllowCIDRs})
	return &http.Client{
		Transport: newTransport(d, timeout), Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
