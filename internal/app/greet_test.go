package app

import (
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
			[]string{"carillon worker --server http://127.0.0.1:8080 --token none --capacity 50\n", "carillon move --database sqlite:d/carillon.db --to postgres://", "carillon serve --database sqlite:d/carillon.db"},
			[]string{"carillon key create"},
		},
		"serve": {
			greeting{Address: "carillon.example:443", TLS: true, Roles: []string{"api", "scheduler"}},
			[]string{"carillon worker --server https://carillon.example:443 --token $CARILLON_KEY", "carillon key create NAME --role operator"},
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
