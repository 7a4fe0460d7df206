package app

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/config"
)

func TestTheIssuersKeysAreReadThroughTheGuard(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}
	}))
	t.Cleanup(issuer.Close)
	local := strings.Replace(issuer.URL, "127.0.0.1", "localhost", 1)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		name, configured, asked string
		allow                   []netip.Prefix
		blocked                 bool
	}{
		{"an address that is named outright", issuer.URL, issuer.URL, nil, false},
		{"localhost", local, local, nil, false},
		{"a name that leads to loopback", "https://id.example.com/keys", local, nil, true},
		{"the same, allowed", "https://id.example.com/keys", local, loopback, false},
		{"another address than the one named", "https://10.0.0.1/keys", issuer.URL, nil, true},
		{"a metadata service in an allowed range", "https://id.example.com/keys", "http://169.254.169.254/", []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}, true},
	} {
		resp, err := issuerClient(config.JWT{KeysURL: c.configured, Allow: c.allow}).Get(c.asked)
		if err == nil {
			resp.Body.Close()
		}
		if blocked := err != nil && strings.Contains(err.Error(), "may not reach"); blocked != c.blocked || !blocked && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	resp, err := issuerClient(config.JWT{KeysURL: issuer.URL}).Get(issuer.URL + "/elsewhere")
	if err != nil || resp.StatusCode != http.StatusFound {
		t.Errorf("a redirect: %v, %v", resp, err)
	}
}
