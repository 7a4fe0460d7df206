package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestRefuse(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	for _, c := range []struct {
		name  string
		url   string
		rules Rules
		of    Tenant
		value string // "": it may be called
		want  string
	}{
		{name: "plain http", url: "http://example.com/hook?token=s3cret"},
		{name: "https only", url: "https://example.com/", rules: Rules{HTTPSOnly: true}, of: Tenant{HTTPSOnly: true}},
		{name: "the server's", url: "http://example.com/hook?token=s3cret", rules: Rules{HTTPSOnly: true}, value: "http://example.com", want: "(callbacks.https_only)"},
		{name: "in capitals", url: "HTTP://example.com/", rules: Rules{HTTPSOnly: true}, value: "http://example.com", want: "(callbacks.https_only)"},
		{name: "the tenant's", url: "http://example.com:8080/", of: Tenant{HTTPSOnly: true}, value: "http://example.com:8080", want: "(callbacks_https_only)"},
		{name: "a port in the list", url: "https://example.com:8443/", rules: Rules{Ports: []int{443, 8443}}},
		{name: "the port of the scheme", url: "https://example.com/", rules: Rules{Ports: []int{443}}},
		{name: "not in the list", url: "http://example.com/", rules: Rules{Ports: []int{443, 8443}}, value: "http://example.com", want: "443, 8443"},
		{name: "not in the list, in a named range", url: "http://10.1.2.3/", rules: Rules{Ports: []int{443}, Named: private}, value: "http://10.1.2.3", want: "443"},
		{name: "another service's port", url: "https://example.com:22/", value: "https://example.com:22", want: "port 22"},
		{name: "any other port", url: "https://example.com:31337/"},
		{name: "a named address", url: "http://10.1.2.3:25/", rules: Rules{Named: private}},
		{name: "an address named for the tenant", url: "http://10.1.2.3:25/", of: Tenant{Named: private}},
		{name: "an address that is not named", url: "http://10.2.2.3:25/", rules: Rules{Named: private}, of: Tenant{Named: private}, value: "http://10.2.2.3:25", want: "port 25"},
		{name: "a name that may lead to a named address", url: "http://mail.internal:25/", of: Tenant{Named: private}},
		{name: "this host", url: "http://127.0.0.1:6000/", rules: Rules{Loopback: true}},
		{name: "this host elsewhere", url: "http://[::1]:6000/", value: "http://[::1]:6000", want: "port 6000"},
		{name: "settings that are not at hand", url: "http://example.com:22/", rules: Unknown()},
		{name: "an address, and settings that are not at hand", url: "http://[fd00::1]:22/", rules: Unknown()},
		{name: "the tenant's, and settings that are not at hand", url: "http://example.com/", rules: Unknown(), of: Tenant{HTTPSOnly: true}, value: "http://example.com", want: "(callbacks_https_only)"},
		{name: "no URL", url: "::", rules: Rules{HTTPSOnly: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := c.rules.Refuse(c.url, func() (Tenant, error) { return c.of, nil })
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				p = &Problem{}
			}
			if p.Value != c.value || !strings.Contains(p.Want, c.want) || (p.Want == "") != (c.value == "") {
				t.Errorf("got %+v, want the value %q and %q", p, c.value, c.want)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := (Rules{}).Refuse("http://example.com/", func() (Tenant, error) { return Tenant{}, broken }); !errors.Is(err, broken) {
		t.Errorf("a tenant that cannot be read: %v", err)
	}
}
