package config

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/config.md")

func TestReferenceIsFresh(t *testing.T) {
	const file = "../../docs/reference/config.md"
	if *update {
		if err := os.MkdirAll("../../docs/reference", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	has, err := os.ReadFile(file)
	if err != nil || string(has) != Reference() {
		t.Errorf("docs/reference/config.md is not what the table of keys says (%v); run make docs-config", err)
	}
}

func TestTheExampleIsTheDefaults(t *testing.T) {
	c, all, err := Explain(Default(), nil, nil, write(t, Example()))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if k, _ := byName(s.Name); s.Value != k.Default() {
			t.Errorf("%s: got %q, want %q", s.Name, s.Value, k.Default())
		}
		if s.Value != "" && !strings.Contains(s.From, "c.toml, line ") {
			t.Errorf("%s comes from %q", s.Name, s.From)
		}
	}
	if c.Workers != Default().Workers {
		t.Errorf("got %+v", c.Workers)
	}
}

func TestWhereASettingComesFrom(t *testing.T) {
	file := write(t, "# one\nlisten = \"127.0.0.1:1\"\n\n[workers]\nmax_count = 9\ndefault_count = 3\n[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\nsecret = \"0123456789012345678901234567890123456789\"\n")
	env := []string{"CARILLON_WORKERS_MAX_COUNT=10", "CARILLON_DATABASE=postgres://u:geheim@h/x?sslpassword=geheim"}
	_, all, err := Explain(Default(), map[string]string{"listen": ":3"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Setting{}
	for _, s := range all {
		got[s.Name] = s
		if strings.Contains(s.Value, "geheim") || strings.Contains(s.Value, "0123456789") {
			t.Errorf("%s shows a secret: %s", s.Name, s.Value)
		}
	}
	for name, want := range map[string][2]string{
		"listen": {":3", "flag --listen"}, "workers.max_count": {"10", "environment CARILLON_WORKERS_MAX_COUNT"}, "workers.default_count": {"3", "c.toml, line 6"},
		"workers.scale_interval_ms": {"1000", "default"}, "database": {"postgres://u:xxxxx@h/x?sslpassword=xxxxx", "environment CARILLON_DATABASE"}, "auth.jwt.secret": {hidden, "c.toml, line 10"},
	} {
		if s := got[name]; s.Value != want[0] || !strings.HasSuffix(s.From, want[1]) {
			t.Errorf("%s: got %q from %q, want %q", name, s.Value, s.From, want)
		}
	}
}

func TestMistakesOfFiles(t *testing.T) {
	for _, c := range []struct{ text, key, want, from string }{
		{"\nlisten = 8080\n", "listen", "text in quotes, not as a number", "line 2"},
		{"[workers]\nmax_count = \"9\"\n", "workers.max_count", "a number without quotes, not as text", "line 2"},
		{"[workers]\n\n\nmax_cuont = 9\n", "workers.max_cuont", "perhaps workers.max_count", "line 4"},
		{"max_count = 9\n", "max_count", "workers.max_count, which stands in the table [workers]", "line 1"},
		{"[worker]\nmax_count = 9\n", "worker.max_count", "perhaps workers.max_count", "line 2"},
		{"[retry]\nquick = true\n", "retry.quick", "of [retry] there are retry.max_retries", "line 2"},
		{"zzzzzzzz = 1\n", "zzzzzzzz", "there are listen, data", "line 1"},
		{"[callbacks]\nbreaker = \"true\"\n", "callbacks.breaker", "true or false without quotes, not as text", "line 2"},
		{"roles = [1]\n", "roles", "not as a list of something else than texts", "line 1"},
		{"workers = { max_count = 0 }\n", "workers.max_count", "from 1 to 10000", "line 1"},
		{"listen = { a = {} }\n", "listen.a", "perhaps listen", "line 1"},
		{"bootstrap_key = \"0123456789012345678901234567890123456789\"\n", "bootstrap_key", "CARILLON_BOOTSTRAP_KEY", "line 1"},
		{"databse = \"postgres://u:0123456789@h/x\"\n", "databse", "perhaps database", "line 1"},
		{"[auth.jwt]\nsecrt = \"01234567890123456789\"\n", "auth.jwt.secrt", "perhaps auth.jwt.secret", "line 2"},
		{"[zzz]\napi_token = \"01234567890123456789\"\n", "zzz.api_token", "a key that exists", "line 2"},
		{"[scheduler]\npartitions = 128\n", "scheduler.partitions", "64", "line 2"},
		{"[history]\nhot_days = 100\n", "history.warm_days", "at least history.hot_days, which is 100", "as set or by default"},
		{"[retry]\nmax_delay_ms = 10\n", "retry.max_delay_ms", "at least retry.initial_delay_ms, which is 1000", "as set or by default"},
		{"[artifacts]\nmax_mb = 900\ntenant_mb = 800\n", "artifacts.tenant_mb", "at least artifacts.max_mb", "as set or by default"},
		{"[artifacts]\nmax_mb = 1025\n", "artifacts.max_mb", "at most 1024, which store: (blobs.url) takes", "as set or by default"},
		{"[blobs]\nurl = \"/srv/blobs\"\n", "blobs.url", "file:PATH", "as set or by default"},
		{"[blobs]\nurl = \"s3://AKIA:0123456789@bucket\"\n", "blobs.url", "AWS_ACCESS_KEY_ID", "as set or by default"},
		{"[blobs]\nurl = \"s3://bucket?secret_key=0123456789\"\n", "blobs.url", "credentials come from the environment", "as set or by default"},
		{"listen = \n", "config", "valid TOML", "line 1"},
		{"listen = \"a\"\nlisten = \"b\"\n", "config", "valid TOML", "line 2"},
	} {
		_, err := Load(Default(), nil, nil, write(t, c.text))
		var wrong Mistakes
		if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Key != c.key || !strings.Contains(wrong[0].Want, c.want) || !strings.Contains(wrong[0].From, c.from) {
			t.Errorf("%q: got %v, want %s, %s, %s", c.text, err, c.key, c.want, c.from)
		}
		if strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%q: it shows a secret", c.text)
		}
	}
}

func TestEveryKeyHasOneFlagAndVariable(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys {
		for _, name := range []string{k.Flag(), k.Variable()} {
			if other := seen[name]; name != "" && other != "" {
				t.Errorf("%s is of %s and %s", name, other, k.Name)
			}
			seen[name] = k.Name
		}
	}
	for _, name := range Idle {
		if _, ok := byName(name); !ok {
			t.Errorf("%s is no key", name)
		}
	}
}

func TestStrangers(t *testing.T) {
	got := Strangers([]string{"CARILLON_WORKER_MAX_COUNT=3", "CARILLON_TOKEN=x", "CARILLON_LISTEN=:1", "HOME=/"})
	if len(got) != 1 || got[0] != "CARILLON_WORKER_MAX_COUNT is no setting; perhaps CARILLON_WORKERS_MAX_COUNT is meant" {
		t.Errorf("got %q", got)
	}
}
