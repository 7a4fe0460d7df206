package app

import (
	"net/netip"
	"strings"
	"testing"
)

func TestTheGreetingEndsWithWhatComesNext(t *testing.T) {
	for name, x := range map[string]struct {
		g    greeting
		want []string
		not  []string
	}{
		"dev": {
			greeting{Dev: true, Address: "127.0.0.1:8080", Roles: []string{"api"}, Embedded: "d/carillon.db"},
			[]string{"carillon worker --server http://127.0.0.1:8080 --capacity 50 --allow-callback 127.0.0.0/8 --allow-callback ::1/128\n", "carillon move --database sqlite:d/carillon.db --to postgres://", "carillon serve --database sqlite:d/carillon.db"},
			[]string{"carillon key create"},
		},
		"dev, with its token": {
			greeting{Dev: true, Pages: true, Address: "127.0.0.1:8080", Roles: []string{"api"}, Token: "t0ken", TokenFile: "/d/dev-token"},
			[]string{"Open      http://127.0.0.1:8080/?token=t0ken\n", "Token     in /d/dev-token", "curl -s http://127.0.0.1:8080/api/v1/jobs"},
			[]string{"Authorization"},
		},
		"dev, where nobody is known": {
			greeting{Dev: true, Address: "127.0.0.1:8080", Roles: []string{"api"}, Token: "t0ken", TokenFile: "/d/dev-token", Unknown: true},
			[]string{`curl -s -H "Authorization: Bearer $(cat '/d/dev-token')" http://127.0.0.1:8080/api/v1/jobs`}, nil,
		},
		"serve": {
			greeting{Address: "carillon.example:443", TLS: true, Roles: []string{"api", "scheduler"}, Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
			[]string{"carillon worker --server https://carillon.example:443 --token $CARILLON_TOKEN --capacity 50 --allow-callback 10.1.0.0/16\n", "carillon key create NAME --role operator"},
			[]string{"carillon move"},
		},
		"a scheduler alone": {greeting{Address: "127.0.0.1:8080", Roles: []string{"scheduler"}}, []string{"Ctrl-C"}, []string{"carillon worker", "carillon key"}},
	} {
		var b strings.Builder
		greet(&b, x.g)
		for _, w := range x.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", name, w, b.String())
			}
		}
		for _, w := range x.not {
			if strings.Contains(b.String(), w) {
				t.Errorf("%s: %q in\n%s", name, w, b.String())
			}
		}
	}
}
