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

// issuerClient requests a token issuer's keys. It reaches public addresses under the rules for callbacks
// (callbacks.ports and callbacks.https_only). It also reaches, regardless of these, the ranges in auth.jwt.allow, and
// an address or localhost that jwks_url names.
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
