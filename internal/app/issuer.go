package app

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/executor"
)

// issuerClient asks a token issuer for its keys. It reaches public addresses by the rules for callbacks (callbacks.ports and
// callbacks.https_only). It also reaches, without these, the ranges that auth.jwt.allow names, and what jwks_url names outright: an address, or localhost.
func issuerClient(j config.JWT, c config.Callbacks) *http.Client {
	guard := executor.Guard{AllowCIDRs: slices.Clone(j.Allow)}
	if u, err := url.Parse(j.KeysURL); err == nil {
		host := strings.ToLower(u.Hostname())
		if a, err := netip.ParseAddr(host); err == nil {
			a = a.Unmap().WithZone("")
			guard.AllowCIDRs = append(guard.AllowCIDRs, netip.PrefixFrom(a, a.BitLen()))
		}
		guard.AllowLoopback = host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return guard.Client(access.KeysWait, executor.Rules{Ports: c.Ports, HTTPSOnly: c.HTTPSOnly})
}
