package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := write(t, "listen = \"127.0.0.1:1\"\nroles = [\"api\", \"worker\"]\n[workers]\nmax_count = 20\npoll_interval_ms = 100\nlease_timeout_seconds = \"1m\"\n[scheduler]\nlook_ahead_seconds = 7\n")
	env := []string{"CARILLON_LISTEN=127.0.0.1:2", "CARILLON_WORKERS_MAX_COUNT=30", "CARILLON_LOG_LEVEL=", "OTHER=x"}
	c, err := Load(Default(), map[string]string{"listen": "127.0.0.1:3"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:3" || c.Workers.MaxCount != 30 || c.Workers.Poll != 100*time.Millisecond || c.Workers.Lease != time.Minute ||
		c.LookAhead != 7*time.Second || strings.Join(c.Roles, " ") != "api worker" || c.LogLevel != "info" || c.Workers.DefaultCount != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestEveryKeyTakesItsDefaultAndRefusesNonsense(t *testing.T) {
	good := map[string]string{
		"listen": ":8080", "data": "./x", "database": "postgres://h/x", "roles": "api", "bootstrap_key": strings.Repeat("k", 32),
		"store.app_role":  "carillon_app",
		"auth.jwt.issuer": "https://id.example.com/", "auth.jwt.audience": "carillon", "auth.jwt.jwks_url": "https://id.example.com/keys", "auth.jwt.allow": "10.0.0.0/8", "auth.failed_per_address": "10", "auth.unproven_per_second": "0", "workers.sessions_per_tenant": "10", "auth.jwt.tenant_claim": "t", "auth.jwt.role_claim": "r",
		"auth.jwt.secret": strings.Repeat("s", 32), "tls.cert": "c", "tls.key": "k", "tls.min_version": "1.2", "tls.client_ca": "ca", "tls.client_auth": "optional", "tls.ca": "ca", "auth.session_idle_seconds": "600", "auth.session_seconds": "8h",
		"bootstrap_worker_key": "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", "store.allow_async_commit": "true", "trusted_proxies": "10.0.0.0/8", "callbacks.allow": "10.0.0.0/8, 192.168.1.1,fd00::/8", "callbacks.breaker": "false", "callbacks.proxy": "https://proxy.example:3128", "callbacks.proxy_ca_file": "/etc/proxy.pem", "callbacks.proxy_credentials": "carillon:p:w", "callbacks.proxy_resolves": "true", "callbacks.https_only": "true", "callbacks.ports": "443, 8443", "callbacks.host_per_second": "10", "callbacks.host_concurrent": "0", "callbacks.breaker_failures": "3", "callbacks.first_byte_timeout_seconds": "30s", "log.level": "debug", "log.format": "json",
		"workers.default_count": "1", "workers.max_count": "8", "workers.poll_interval_ms": "250", "workers.lease_timeout_seconds": "30s",
		"workers.scale_interval_ms": "1s", "workers.drain_timeout_seconds": "30", "workers.poison_after": "5", "scheduler.look_ahead_seconds": "5", "scheduler.ownership_ttl_seconds": "5",
		"secrets.files": "./secrets", "secrets.cache_seconds": "30", "secrets.vault_address": "https://vault:8200", "secrets.vault_mount": "kv", "secrets.vault_prefix": "a/b", "secrets.vault_namespace": "team", "secrets.vault_ca_file": "ca.pem",
		"secrets.vault_auth": "approle", "secrets.vault_auth_path": "approle", "secrets.vault_token": "hvs.x", "secrets.vault_role": "r", "secrets.vault_credential_file": "f",
		"secrets.key_file": "keys", "secrets.key": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
		"commands.allow": "true", "commands.shared": "true", "commands.folder": "./x", "commands.user": "1000:1000", "commands.grace_seconds": "5s", "commands.max_output_kb": "1",
		"commands.max_open_files": "64", "commands.max_processes": "0", "commands.max_file_mb": "1", "commands.max_cpu_seconds": "60", "commands.max_memory_mb": "512", "commands.cache_mb": "0",
		"commands.unconfined": "true", "commands.risk_server": "true", "commands.paths": "/srv/app, /data", "commands.write_paths": "/data/out", "commands.network": "none", "commands.digests": "sha256:" + strings.Repeat("Ab", 32),
		"blobs.url": "s3://bucket/prefix?endpoint=https://s3.example.com&path_style=true", "blobs.spool": "./spool", "archive.url": "file:/srv/history", "archive.layout": "per-tenant", "artifacts.max_mb": "10", "artifacts.tenant_mb": "10", "store.migrate": "false", "scheduler.partitions": "64",
		"replicate.url": "file:/backup", "replicate.interval_ms": "1s", "replicate.snapshot_hours": "6", "replicate.keep_hours": "48", "replicate.spool_mb": "100",
		"backup.url": "file:/backup", "backup.every_hours": "6", "backup.keep": "3",
		"retry.max_retries": "0", "retry.backoff": "FIXED", "retry.initial_delay_ms": "5s", "retry.max_delay_ms": "5000",
		"metrics.listen": ":9090", "debug.pprof": "true", "tracing.endpoint": "https://otel.example.com:4318", "tracing.protocol": "grpc", "tracing.sample": "0.25", "tracing.parents": "follow", "tracing.headers": "x-key=1, y=2=3",
		"history.hot_days": "1", "history.warm_days": "1", "history.retention_days": "2",
	}
	one := maps.Clone(good) // these two go without each other
	delete(one, "secrets.key")
	delete(one, "auth.jwt.secret")
	delete(one, "replicate.url") // of PostgreSQL
	delete(one, "backup.url")
	if _, err := Load(Default(), good, nil, ""); err == nil {
		t.Error("taken: secrets.key_file and secrets.key")
	}
	if _, err := Load(Default(), one, nil, ""); err != nil {
		t.Errorf("refused: %v", err)
	}
	for _, k := range Keys {
		if good[k.Name] == "" {
			t.Errorf("%s is not tested", k.Name)
		}
		if k.Doc == "" || k.Want == "" {
			t.Errorf("%s has no words", k.Name)
		}
		if Variable(k.Name) != "CARILLON_"+strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_")) {
			t.Errorf("%s: variable %s", k.Name, Variable(k.Name))
		}
	}
	for key, bad := range map[string][]string{
		"listen": {"8080", "h:99999", "h:x"}, "database": {"sqlite:", "mysql://x", "x"}, "roles": {",", "cook"}, "bootstrap_key": {"short"},
		"store.app_role":           {strings.Repeat("x", 64)},
		"store.allow_async_commit": {"maybe"}, "callbacks.allow": {"10.0.0.0/33", "x"}, "callbacks.breaker": {"maybe"}, "callbacks.proxy": {"proxy:3128", "socks5://proxy:1080", "http://", "http://u:p@proxy:3128", "http://proxy/x"}, "callbacks.proxy_credentials": {"user", ":x"}, "callbacks.proxy_resolves": {"maybe"}, "callbacks.https_only": {"maybe"}, "callbacks.ports": {"0", "http", "65536"}, "callbacks.host_per_second": {"-1", "x"}, "callbacks.host_concurrent": {"-1", "x"}, "callbacks.breaker_failures": {"0", "x"}, "callbacks.first_byte_timeout_seconds": {"-1", "x", "86401"}, "log.level": {"loud"}, "log.format": {"xml"},
		"tls.min_version": {"1.1", "TLS13"}, "tls.client_auth": {"all"}, "commands.allow": {"perhaps"}, "commands.paths": {"srv/app", "/a,b"}, "commands.network": {"off"}, "commands.digests": {"abc", strings.Repeat("g", 64)}, "commands.grace_seconds": {"26", "x"}, "commands.max_output_kb": {"0"}, "archive.layout": {"none"}, "artifacts.max_mb": {"0", "x"}, "artifacts.tenant_mb": {"0", "x"},
		"workers.default_count": {"0", "x", "10001"}, "workers.poll_interval_ms": {"9", "2h", "x"}, "scheduler.look_ahead_seconds": {"0", "301", "-5s"},
	} {
		for _, v := range bad {
			_, err := Load(Default(), map[string]string{key: v}, nil, "")
			var wrong Mistakes
			if !errors.As(err, &wrong) || wrong[0].Key != key || wrong[0].Want == "" || !strings.HasPrefix(wrong[0].From, "flag --") {
				t.Errorf("%s = %q: got %v", key, v, err)
			}
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	file := write(t, "lisen = \"x\"\n[workers]\nmax_cuont = 1\ndefault_count = 9\n")
	_, err := Load(Default(), map[string]string{"database": "mysql://u:geheim@h/x", "tls.cert": "c"}, []string{"CARILLON_LOG_LEVEL=loud"}, file)
	var wrong Mistakes
	if !errors.As(err, &wrong) || len(wrong) != 6 {
		t.Fatalf("got %v", err)
	}
	for _, say := range []string{"lisen", "workers.max_cuont", "workers.default_count, which is 9", "log.level", "environment CARILLON_LOG_LEVEL", "database", "tls.key"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("it does not say %q:\n%v", say, err)
		}
	}
	if strings.Contains(err.Error(), "geheim") {
		t.Error("it shows a password")
	}
}

func FuzzFile(f *testing.F) {
	f.Add("listen = \"x\"\n[workers]\nmax_count = 3")
	f.Add("a = [1, [2]]\n[[b]]\nc = 1979-05-27")
	path := filepath.Join(f.TempDir(), "c.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Default(), nil, nil, path)
		var wrong Mistakes
		if err != nil && !errors.As(err, &wrong) {
			t.Errorf("got %T: %v", err, err)
		}
	})
}

func TestVaultSettingsGoTogether(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		fine bool
	}{
		{map[string]string{"secrets.vault_address": "https://vault:8200", "secrets.vault_token": "t"}, true},
		{map[string]string{"secrets.vault_address": "https://vault:8200", "secrets.vault_credential_file": "f"}, true},
		{map[string]string{"secrets.vault_address": "https://vault:8200", "secrets.vault_auth": "kubernetes", "secrets.vault_role": "r", "secrets.vault_credential_file": "f"}, true},
		{map[string]string{"secrets.vault_address": "https://vault:8200"}, false},
		{map[string]string{"secrets.vault_address": "https://vault:8200", "secrets.vault_token": "t", "secrets.vault_credential_file": "f"}, false},
		{map[string]string{"secrets.vault_address": "https://vault:8200", "secrets.vault_auth": "approle", "secrets.vault_role": "r"}, false},
		{map[string]string{"secrets.vault_address": "vault:8200", "secrets.vault_token": "t"}, false},
		{map[string]string{"secrets.vault_prefix": "../x"}, false},
		{map[string]string{"secrets.vault_mount": "a//b"}, false},
	} {
		if _, err := Load(Default(), c.set, nil, ""); (err == nil) != c.fine {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}

func TestProxySettings(t *testing.T) {
	if _, err := Load(Default(), map[string]string{"callbacks.proxy": "http://proxy:3128", "callbacks.proxy_ca_file": "ca.pem"}, nil, ""); err == nil || !strings.Contains(err.Error(), "callbacks.proxy_ca_file") {
		t.Errorf("certificates for a proxy over http: %v", err)
	}
	for alone, value := range map[string]string{"callbacks.proxy_credentials": "a:b", "callbacks.proxy_resolves": "true", "callbacks.proxy_ca_file": "ca.pem"} {
		if _, err := Load(Default(), map[string]string{alone: value}, nil, ""); err == nil || !strings.Contains(err.Error(), "callbacks.proxy") {
			t.Errorf("%s without a proxy: %v", alone, err)
		}
	}
	_, err := Load(Default(), map[string]string{"callbacks.proxy": "http://carillon:geheim@proxy:3128"}, nil, "")
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("a password in the URL: %v", err)
	}
	file := write(t, "carillon:geheim\n")
	c, err := Load(Default(), map[string]string{"callbacks.proxy": "http://proxy:3128"}, []string{"CARILLON_CALLBACKS_PROXY_CREDENTIALS_FILE=" + file}, "")
	if err != nil || c.Callbacks.ProxyCredentials != "carillon:geheim" {
		t.Errorf("out of a file: %+v, %v", c.Callbacks, err)
	}
}

func TestWhereToReplicate(t *testing.T) {
	for url, want := range map[string]string{
		"store:": "file:PATH", "ftp://x": "file:PATH", "s3://key:secret@bucket/x": "no credentials in the URL", "s3://B": "the name of a bucket", "file:": "file:PATH",
	} {
		_, err := Load(Default(), map[string]string{"replicate.url": url}, nil, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, given := range []map[string]string{
		{"replicate.url": "file:/backup", "database": "postgres://h/x"},
		{"backup.url": "file:/backup", "database": "postgres://h/x"},
		{"backup.url": "store:"},
		{"replicate.url": "file:/backup", "replicate.keep_hours": "2", "replicate.snapshot_hours": "3"},
	} {
		if _, err := Load(Default(), given, nil, ""); err == nil {
			t.Errorf("taken: %v", given)
		}
	}
	if _, err := Load(Default(), map[string]string{"replicate.url": "s3://bucket/x?region=eu-central-1", "database": "sqlite:x"}, nil, ""); err != nil {
		t.Error(err)
	}
}
