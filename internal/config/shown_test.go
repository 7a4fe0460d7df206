package config

import (
	"slices"
	"strings"
	"testing"
)

func TestNoSecretIsShown(t *testing.T) {
	c := Default()
	c.Database = "postgres://u:db%40word@h/x?sslpassword=other-word&application_name=carillon&options=of-mine"
	c.BootstrapKey, c.BootstrapWorker, c.JWT.Secret, c.SecretsKey = "first-canary", "second-canary", "third-canary", "key-one,key-two"
	c.Tracing.Headers, c.Tracing.Endpoint = "x-key=fourth-canary,Authorization=Bearer fifth-canary", "https://u:sixth-canary@otel.example/v1?token=seventh%2Fcanary"
	c.JWT.KeysURL = "https://example.com/keys?key=eighth"
	var all strings.Builder
	for _, s := range Shown(c) {
		all.WriteString(s.Name + "=" + s.Value + "\n")
	}
	for _, bad := range []string{"word", "canary", "key-one", "key-two", "seventh", "eighth"} {
		if strings.Contains(all.String(), bad) {
			t.Errorf("%s is shown:\n%s", bad, all.String())
		}
	}
	for _, good := range []string{"listen=127.0.0.1:8080\n", "u:xxxxx@otel.example/v1\n", "https://example.com/keys\n"} {
		if !strings.Contains(all.String(), good) {
			t.Errorf("%s is not shown:\n%s", good, all.String())
		}
	}
	secrets := Secrets(c)
	for _, want := range []string{"db@word", "db%40word", "other-word", "first-canary", "second-canary", "third-canary", "key-one", "key-two", "fourth-canary", "fifth-canary", "sixth-canary", "seventh/canary", "seventh%2Fcanary", "eighth", "of-mine"} {
		if !slices.Contains(secrets, want) {
			t.Errorf("%s is not among the secrets %q", want, secrets)
		}
	}
	if slices.Contains(secrets, "carillon") {
		t.Errorf("what is in many a message is among the secrets %q", secrets)
	}
}
