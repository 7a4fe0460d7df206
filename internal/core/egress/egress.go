// Package egress decides from the scheme and the port of a URL whether callbacks may go there.
//
// Servers ask it when a URL is stored, so that the user learns of a refusal at once. Workers ask it again for each
// connection, when names have been resolved and addresses can be checked, too. It never resolves a name.
package egress

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// otherServices lists ports at which no web server is expected and an HTTP request could do harm: those that browsers
// refuse (WHATWG Fetch, "bad port"), without 0.
var otherServices = map[int]bool{
	1: true, 7: true, 9: true, 11: true, 13: true, 15: true, 17: true, 19: true, 20: true, 21: true, 22: true, 23: true, 25: true, 37: true, 42: true, 43: true, 53: true, 69: true, 77: true, 79: true, 87: true, 95: true,
	101: true, 102: true, 103: true, 104: true, 109: true, 110: true, 111: true, 113: true, 115: true, 117: true, 119: true, 123: true, 135: true, 137: true, 139: true, 143: true, 161: true, 179: true, 389: true, 427: true,
	465: true, 512: true, 513: true, 514: true, 515: true, 526: true, 530: true, 531: true, 532: true, 540: true, 548: true, 554: true, 556: true, 563: true, 587: true, 601: true, 636: true, 989: true, 990: true, 993: true, 995: true,
	1719: true, 1720: true, 1723: true, 2049: true, 3659: true, 4045: true, 4190: true, 5060: true, 5061: true, 6000: true, 6566: true, 6665: true, 6666: true, 6667: true, 6668: true, 6669: true, 6679: true, 6697: true, 10080: true,
}

// RefusePort returns why a port may not be called, or "" if it may. It must be in the list; without a list it must
// not belong to another service.
func RefusePort(allowed []int, port int) (why string) {
	switch {
	case slices.Contains(allowed, port):
		return ""
	case len(allowed) > 0:
		return "it is not listed in callbacks.ports"
	case otherServices[port]:
		return "it belongs to another service than HTTP; an operator can allow it with callbacks.ports"
	}
	return ""
}

// Rules restrict where callbacks may go.
type Rules struct {
	HTTPSOnly bool  // the server's callbacks must use https
	Ports     []int // none: all but those of other services

	// Named lists private ranges that an operator allows. Without a list of ports they may be called at every port.
	Named    []netip.Prefix
	Loopback bool // and so is this host
}

// Unknown is the rules of servers whose settings are not available: only a tenant's own rules refuse anything.
func Unknown() Rules {
	return Rules{Named: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, Loopback: true}
}

// Tenant holds the callback rules of one tenant.
type Tenant struct {
	HTTPSOnly bool
	Named     []netip.Prefix // private ranges for it alone
}

// Problem describes what is wrong with a URL. Value contains only its non-secret part.
type Problem struct{ Value, Want string }

// Refuse returns why a URL may not be called, or nil if it may, as far as the URL shows. It loads the tenant only if
// needed. It ignores texts that are not URLs.
func (r Rules) Refuse(raw string, of func() (Tenant, error)) (*Problem, error) {
	if rest, ok := strings.CutPrefix(raw, "https://"); ok && len(r.Ports) == 0 {
		if host := rest[:cmp.Or(strings.IndexAny(rest, "/?#")+1, len(rest)+1)-1]; !strings.Contains(host, ":") {
			return nil, nil // most are so, and there may be thousands in one request
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, nil
	}
	scheme := strings.ToLower(u.Scheme)
	shown := scheme + "://" + u.Host
	if scheme == "http" {
		if r.HTTPSOnly {
			return &Problem{shown, "a URL that begins with https://: this server makes no callbacks over plain http (callbacks.https_only)"}, nil
		}
		t, err := of()
		if err != nil {
			return nil, err
		}
		if t.HTTPSOnly {
			return &Problem{shown, "a URL that begins with https://: callbacks of this tenant go over https only (callbacks_https_only)"}, nil
		}
	}
	port := map[string]int{"http": 80, "https": 443}[scheme]
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil {
			return nil, nil
		}
	}
	why := RefusePort(r.Ports, port)
	if why == "" {
		return nil, nil
	}
	if len(r.Ports) > 0 {
		return &Problem{shown, fmt.Sprintf("a URL with one of the ports %s: this server makes callbacks to no others (callbacks.ports)", list(r.Ports))}, nil
	}
	if r.spares(u.Hostname(), r.Named) {
		return nil, nil
	}
	t, err := of()
	if err != nil || r.spares(u.Hostname(), t.Named) {
		return nil, err
	}
	return &Problem{shown, fmt.Sprintf("a URL with another port: callbacks may not go to port %d, because %s", port, why)}, nil
}

// spares reports whether a host may be in one of the ranges that are allowed at every port. The addresses of a name
// are known only when it is dialled.
func (r Rules) spares(host string, named []netip.Prefix) bool {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return len(named) > 0 || r.Loopback
	}
	a = a.Unmap().WithZone("")
	return r.Loopback && a.IsLoopback() || slices.ContainsFunc(named, func(p netip.Prefix) bool { return p.Contains(a) })
}

func list(ports []int) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = strconv.Itoa(p)
	}
	return strings.Join(out, ", ")
}
