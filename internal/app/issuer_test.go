package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

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
		resp, err := issuerClient(config.JWT{KeysURL: c.configured, Allow: c.allow}, config.Callbacks{}).Get(c.asked)
		if err == nil {
			resp.Body.Close()
		}
		if blocked := err != nil && strings.Contains(err.Error(), "may not reach"); blocked != c.blocked || !blocked && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	resp, err := issuerClient(config.JWT{KeysURL: issuer.URL}, config.Callbacks{}).Get(issuer.URL + "/elsewhere")
	if err != nil || resp.StatusCode != http.StatusFound {
		t.Errorf("a redirect: %v, %v", resp, err)
	}
}

// The rules for ports and https hold for the issuer, too, unless the settings name its address.
func TestTheIssuersKeysAreReadByTheRulesForCallbacks(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(issuer.Close)
	local := strings.Replace(issuer.URL, "127.0.0.1", "localhost", 1)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	const far = "https://id.example.com/keys"
	for _, c := range []struct {
		name, configured, asked string
		allow                   []netip.Prefix
		rules                   config.Callbacks
		refused                 string
	}{
		{"a port of another service", far, "http://93.184.215.14:25/", nil, config.Callbacks{}, "port 25"},
		{"a port that is not listed", far, "https://93.184.215.14:8443/", nil, config.Callbacks{Ports: []int{443}}, "callbacks.ports"},
		{"plain http", far, "http://93.184.215.14/", nil, config.Callbacks{HTTPSOnly: true}, "callbacks.https_only"},
		{"all of it, at an address that is named", issuer.URL, issuer.URL, nil, config.Callbacks{Ports: []int{443}, HTTPSOnly: true}, ""},
		{"at localhost", local, local, nil, config.Callbacks{Ports: []int{443}, HTTPSOnly: true}, ""},
		{"in a range that is allowed", far, issuer.URL, loopback, config.Callbacks{Ports: []int{443}, HTTPSOnly: true}, ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // what is refused is never dialled
		r, err := http.NewRequestWithContext(ctx, "GET", c.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := issuerClient(config.JWT{KeysURL: c.configured, Allow: c.allow}, c.rules).Do(r)
		if err == nil {
			resp.Body.Close()
		}
		cancel()
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
