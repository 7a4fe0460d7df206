package cli

import (
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// Certificates come from flags, before the environment, before the context.
func TestWhereCertificatesComeFrom(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"CARILLON_SERVER", "CARILLON_TOKEN", "CARILLON_CONTEXT", "CARILLON_CLIENT_CERT", "CARILLON_CLIENT_KEY", "CARILLON_CLIENT_CA"} {
		t.Setenv(name, "")
	}
	kept := contexts{Current: "prod"}
	kept.put(storedContext{Name: "prod", Servers: []string{"https://carillon.example"}, Cert: "/kept.crt", Key: "/kept.key", CA: "/kept-ca.crt"})
	if err := kept.save(); err != nil {
		t.Fatal(err)
	}
	where := func(s session) client.TLS {
		t.Helper()
		p, err := s.where()
		if err != nil {
			t.Fatal(err)
		}
		return p.tls
	}
	if got, want := where(session{}), (client.TLS{Cert: "/kept.crt", Key: "/kept.key", CA: "/kept-ca.crt"}); got != want {
		t.Errorf("from the context: %+v", got)
	}
	t.Setenv("CARILLON_CLIENT_CERT", "env.crt")
	t.Setenv("CARILLON_CLIENT_KEY", "env.key")
	if got, want := where(session{}), (client.TLS{Cert: "env.crt", Key: "env.key", CA: "/kept-ca.crt"}); got != want {
		t.Errorf("from the environment: %+v", got)
	}
	if got, want := where(session{tls: client.TLS{Cert: "f.crt", Key: "f.key", CA: "f-ca.crt"}}), (client.TLS{Cert: "f.crt", Key: "f.key", CA: "f-ca.crt"}); got != want {
		t.Errorf("from flags: %+v", got)
	}
	if got, want := where(session{servers: []string{"https://other.example"}}), (client.TLS{Cert: "env.crt", Key: "env.key"}); got != want {
		t.Errorf("another server gets the context's: %+v", got)
	}
	s := session{output: "table", tls: client.TLS{Cert: "/none.crt", Key: "/none.key"}}
	if _, err := s.client(); err == nil {
		t.Error("a certificate that is not there is taken")
	}
}
