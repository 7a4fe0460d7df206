package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Roles lists the roles of a server process.
var Roles = []string{"api", "scheduler", "worker"}

// The kinds of values, as a file writes them.
const (
	Text   = "text"
	Number = "number"
	Span   = "duration" // a number of its unit, or text such as "1m30s"
	Truth  = "boolean"
	List   = "list" // of strings, or one string with commas
)

// Key is one setting: its name, its purpose, and how it is read and shown.
type Key struct {
	Name    string
	Doc     string
	Want    string
	Kind    string
	Secret  bool                           // it is never shown
	EnvOnly bool                           // not allowed in files, which others may read
	set     func(c *Config, v string) bool // returns false if v is invalid
	get     func(c *Config) string
}

// Flag returns the flag of a key; "" if it has none because other users of a machine could read it.
func (k Key) Flag() string {
	if k.EnvOnly || k.Secret && k.Name != "database" {
		return ""
	}
	switch k.Name { // what reads better
	case "callbacks.allow":
		return "allow-callback"
	case "commands.allow":
		return "allow-commands"
	case "store.allow_async_commit":
		return "allow-async-commit"
	case "store.migrate":
		return "migrate"
	case "replicate.url":
		return "replicate"
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// Variable returns the environment variable of a key.
func (k Key) Variable() string { return Variable(k.Name) }

// FileVariable returns the environment variable that names a file with the value of a secret; "" if there is none.
func (k Key) FileVariable() string {
	if !k.Secret || k.Name == "secrets.key" { // its file is a separate setting
		return ""
	}
	return k.Variable() + "_FILE"
}

// Variable returns the environment variable of a key.
func Variable(key string) string {
	return "CARILLON_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Default returns the default of the key, as a file would write it.
func (k Key) Default() string {
	c := Default()
	return k.get(&c)
}

// Keys lists every setting.
var Keys = []Key{
	text("listen", "address to listen on", "an address such as 127.0.0.1:8080 or :8080", address, func(c *Config) *string { return &c.Listen }),
	text("data", "folder of the embedded store (dev)", "a path", some, func(c *Config) *string { return &c.Data }),
	secret(text("database", "where to store the data (serve)", "sqlite:PATH or postgres://USER@HOST:PORT/NAME", database, func(c *Config) *string { return &c.Database })),
	list("roles", "roles of this process (serve)", "one or more of api, scheduler, worker",
		func(c *Config, v string) bool { return roles(v, &c.Roles) },
		func(c *Config) []string { return c.Roles }),
	envOnly(text("bootstrap_key", "the first API key; without it, the first start creates and prints one", "32 characters or more", long, func(c *Config) *string { return &c.BootstrapKey })),
	envOnly(text("bootstrap_worker_key", "an API key with the role worker for all tenants, created at start if it does not exist; a revoked one stays revoked", "32 characters or more", long, func(c *Config) *string { return &c.BootstrapWorker })),

	text("auth.jwt.issuer", "the issuer (claim iss) whose tokens are accepted in addition to API keys", "the issuer's name, usually a URL", some, func(c *Config) *string { return &c.JWT.Issuer }),
	text("auth.jwt.audience", "what the claim aud of these tokens must contain", "a name, such as the address of this installation", some, func(c *Config) *string { return &c.JWT.Audience }),
	text("auth.jwt.jwks_url", "where the issuer publishes its keys, for RS256, ES256 and EdDSA", "a URL", webAddress, func(c *Config) *string { return &c.JWT.KeysURL }),
	secret(text("auth.jwt.secret", "instead of jwks_url: the shared secret for HS256", "32 characters or more", long, func(c *Config) *string { return &c.JWT.Secret })),
	list("auth.jwt.allow", "private address ranges that the issuer may be in; not needed if jwks_url names an address or localhost", "ranges such as 10.0.0.0/8",
		func(c *Config, v string) bool { return prefixes(v, &c.JWT.Allow) }, func(c *Config) []string { return shown(c.JWT.Allow) }),
	text("auth.jwt.tenant_claim", "the claim that names the tenant", "a claim's name", some, func(c *Config) *string { return &c.JWT.TenantClaim }),
	text("auth.jwt.role_claim", "the claim that names the role: viewer, operator, admin or worker", "a claim's name", some, func(c *Config) *string { return &c.JWT.RoleClaim }),

	length("auth.session_idle_seconds", "how long a browser stays signed in without a request", 300, 2_592_000, time.Second, func(c *Config) *time.Duration { return &c.SessionIdle }),
	length("auth.session_seconds", "how long a browser stays signed in at most, even if it is used", 300, 2_592_000, time.Second, func(c *Config) *time.Duration { return &c.Session }),

	count("auth.failed_per_address", "how many credentials an address may fail with at once, before it must wait 2 s for each", 1, 10_000, func(c *Config) *int { return &c.FailedPerAddress }),
	count("auth.unproven_per_second", "requests per second from one address without a credential that has worked from there, with a burst of ten times as many; 0: no limit", 0, 1_000_000, func(c *Config) *int { return &c.UnprovenRate }),

	text("tls.cert", "certificate file for https; for a worker: its client certificate", "a path", some, func(c *Config) *string { return &c.TLSCert }),
	text("tls.key", "key file for tls.cert", "a path", some, func(c *Config) *string { return &c.TLSKey }),
	oneOf("tls.min_version", "oldest version of TLS that a server accepts", []string{"1.2", "1.3"}, func(c *Config) *string { return &c.TLSMin }),
	text("tls.client_ca", "file of CA certificates to verify clients with (mutual TLS); empty: clients need none", "a path", some, func(c *Config) *string { return &c.TLSClientCA }),
	oneOf("tls.client_auth", "who must present a certificate if tls.client_ca is set: workers, or nobody (optional); a certificate that is presented must be valid", []string{OptionalCert, WorkerCert}, func(c *Config) *string { return &c.TLSClientAuth }),
	text("tls.ca", "for a worker: file of CA certificates to verify servers with; empty: the system's CAs", "a path", some, func(c *Config) *string { return &c.TLSCA }),

	truth("store.allow_async_commit", "start even if the database may lose acknowledged work in a crash", func(c *Config) *bool { return &c.AllowAsyncCommit }),
	text("store.app_role", "PostgreSQL, for 'carillon migrate up': the role that servers run with, if it does not own the tables; it gets the grants that servers need", "a role's name", func(v string) bool { return len(v) <= 63 }, func(c *Config) *string { return &c.AppRole }),
	truth("store.migrate", "migrate the schema at start; if false, a server refuses an older schema", func(c *Config) *bool { return &c.Migrate }),

	text("secrets.key_file", "file of keys that encrypt secrets, one per line, the first for new secrets; only its owner may read it", "a path", some, func(c *Config) *string { return &c.SecretsKeyFile }),
	envOnly(text("secrets.key", "the keys themselves, separated by commas", "32 random bytes in base64, as openssl rand -base64 32 prints", func(v string) bool { return len(v) >= 44 }, func(c *Config) *string { return &c.SecretsKey })),

	text("secrets.files", "folder of the secret backend 'files', with a folder per tenant and a file per secret; empty: off", "a path", some, func(c *Config) *string { return &c.SecretsFiles }),
	length("secrets.cache_seconds", "how long a value from a secret backend is cached", 0, 3600, time.Second, func(c *Config) *time.Duration { return &c.SecretsCache }),
	text("secrets.vault_address", "address of HashiCorp Vault, for the secret backend 'vault'; empty: off", "an address such as https://vault.internal:8200", webAddress, func(c *Config) *string { return &c.Vault.Address }),
	text("secrets.vault_mount", "mount path of Vault's key-value store (version 2)", "a path such as secret", vaultPath, func(c *Config) *string { return &c.Vault.Mount }),
	text("secrets.vault_prefix", "prefix of paths in Vault; the tenant's id follows it", "a path such as carillon", vaultPath, func(c *Config) *string { return &c.Vault.Prefix }),
	text("secrets.vault_namespace", "namespace of Vault Enterprise; empty: none", "a namespace such as team-a", vaultPath, func(c *Config) *string { return &c.Vault.Namespace }),
	text("secrets.vault_ca_file", "file of CA certificates (PEM) to verify Vault with, instead of the system's", "a path", some, func(c *Config) *string { return &c.Vault.CAFile }),
	oneOf("secrets.vault_auth", "how to authenticate to Vault", []string{VaultToken, VaultAppRole, VaultKubernetes}, func(c *Config) *string { return &c.Vault.Auth }),
	text("secrets.vault_auth_path", "mount path of the authentication method; empty: its name", "a path such as approle", vaultPath, func(c *Config) *string { return &c.Vault.AuthPath }),
	envOnly(text("secrets.vault_token", "the token, for secrets.vault_auth = token", "a token of Vault", some, func(c *Config) *string { return &c.Vault.Token })),
	text("secrets.vault_role", "the role_id for approle, or the role for kubernetes", "a role", some, func(c *Config) *string { return &c.Vault.Role }),
	text("secrets.vault_credential_file", "file of the secret_id for approle, or of the service account's token for kubernetes; for token, a file with the token, such as Vault Agent writes", "a path", some, func(c *Config) *string { return &c.Vault.Credential }),

	list("trusted_proxies", "address ranges of proxies whose X-Forwarded-For header is trusted", "ranges such as 10.0.0.0/8",
		func(c *Config, v string) bool { return prefixes(v, &c.TrustedProxies) }, func(c *Config) []string { return shown(c.TrustedProxies) }),
	list("callbacks.allow", "private address ranges that callbacks may reach", "ranges such as 10.0.0.0/8",
		func(c *Config, v string) bool { return prefixes(v, &c.CallbacksAllow) },
		func(c *Config) []string { return shown(c.CallbacksAllow) }),
	truth("callbacks.breaker", "postpone calls to hosts that are down (circuit breaker)", func(c *Config) *bool { return &c.Callbacks.Breaker }),
	count("callbacks.breaker_failures", "how many calls to a host must fail in a row before the circuit breaker opens", 1, 1000, func(c *Config) *int { return &c.Callbacks.BreakerFailures }),
	text("callbacks.proxy", "HTTP proxy for callbacks (CONNECT); addresses in callbacks.allow are called directly", "a URL such as http://proxy.example:3128, without user, password and path", proxyAddress, func(c *Config) *string { return &c.Callbacks.Proxy }),
	envOnly(text("callbacks.proxy_credentials", "user name and password for the proxy", "USER:PASSWORD", credentials, func(c *Config) *string { return &c.Callbacks.ProxyCredentials })),
	text("callbacks.proxy_ca_file", "for an https proxy: file of CA certificates (PEM) to verify it with, instead of the system's", "a path", some, func(c *Config) *string { return &c.Callbacks.ProxyCA }),
	truth("callbacks.proxy_resolves", "send host names to the proxy and let it decide which addresses are allowed; if false, Carillon resolves and checks them", func(c *Config) *bool { return &c.Callbacks.ProxyResolves }),
	truth("callbacks.https_only", "refuse callbacks over plain http", func(c *Config) *bool { return &c.Callbacks.HTTPSOnly }),
	list("callbacks.ports", "ports that callbacks may use; empty: all except those of well-known other services, such as 25, which browsers refuse too", "ports such as 443 and 8443",
		func(c *Config, v string) bool { return ports(v, &c.Callbacks.Ports) }, func(c *Config) []string { return shownInts(c.Callbacks.Ports) }),
	count("callbacks.host_per_second", "how many calls per second a process starts to one host, except hosts that callbacks.allow lists by address; 0: no limit", 0, 1_000_000, func(c *Config) *int { return &c.Callbacks.HostPerSecond }),
	count("callbacks.host_concurrent", "how many calls a process makes to one host at once, except hosts that callbacks.allow lists by address; 0: no limit", 0, 1_000_000, func(c *Config) *int { return &c.Callbacks.HostConcurrent }),
	length("callbacks.first_byte_timeout_seconds", "how long a target may take to start its response; 0: as long as the attempt may run", 0, 86_400, time.Second, func(c *Config) *time.Duration { return &c.Callbacks.FirstByte }),

	truth("commands.allow", "accept and run command jobs: anyone who can change jobs can then run programs on the workers (dev: true)", func(c *Config) *bool { return &c.Commands.Allow }),
	truth("commands.shared", "let workers that serve all tenants run commands, although a worker does not isolate tenants", func(c *Config) *bool { return &c.Commands.Shared }),
	truth("commands.risk_server", "run commands in the server process itself: a command that breaks out of its confinement can then take over the whole installation", func(c *Config) *bool { return &c.Commands.RiskServer }),
	truth("commands.unconfined", "run commands even if nothing confines them: they can then read all that this process can, such as the database and its keys", func(c *Config) *bool { return &c.Commands.Unconfined }),
	list("commands.paths", "files and folders that confined commands may read and run, in addition to the system's", "absolute paths",
		func(c *Config, v string) bool { return paths(v, &c.Commands.Paths) }, func(c *Config) []string { return c.Commands.Paths }),
	list("commands.write_paths", "files and folders that confined commands may change, in addition to their own", "absolute paths",
		func(c *Config, v string) bool { return paths(v, &c.Commands.WritePaths) }, func(c *Config) []string { return c.Commands.WritePaths }),
	oneOf("commands.network", "the network of commands: the machine's (host) or an empty one (none)", []string{HostNetwork, NoNetwork}, func(c *Config) *string { return &c.Commands.Network }),
	list("commands.digests", "SHA-256 of the programs and artifacts that may be run; empty: any", "digests of 64 hexadecimal digits, as sha256sum prints them",
		func(c *Config, v string) bool { return digests(v, &c.Commands.Digests) }, func(c *Config) []string { return c.Commands.Digests }),
	text("commands.folder", "folder for commands' scratch folders and downloaded artifacts; empty: the system's temporary folder", "a path", some, func(c *Config) *string { return &c.Commands.Folder }),
	text("commands.user", "user that commands run as if the worker is root", "a user's name, or UID:GID", some, func(c *Config) *string { return &c.Commands.User }),
	length("commands.grace_seconds", "how long a cancelled command may take to stop before it is killed; after a timeout or on shutdown at most 3 s", 0, 25, time.Second, func(c *Config) *time.Duration { return &c.Commands.Grace }),
	count("commands.max_output_kb", "how much output of an attempt is kept", 1, 1<<20, func(c *Config) *int { return &c.Commands.OutputKB }),
	count("commands.max_open_files", "how many files a command may have open; 0: as many as the worker", 0, 1<<20, func(c *Config) *int { return &c.Commands.Files }),
	count("commands.max_processes", "how many processes a command may add to those of its user; 0: no limit", 0, 1_000_000, func(c *Config) *int { return &c.Commands.Processes }),
	count("commands.max_file_mb", "how large a file a command may write; 0: no limit", 0, 1<<20, func(c *Config) *int { return &c.Commands.FileMB }),
	length("commands.max_cpu_seconds", "how much CPU time each process of a command may use; 0: no limit", 0, 604_800, time.Second, func(c *Config) *time.Duration { return &c.Commands.CPU }),
	count("commands.max_memory_mb", "how much memory a command may use: all its processes together if it has a control group, otherwise the address space of each; 0: no limit", 0, 1<<24, func(c *Config) *int { return &c.Commands.MemoryMB }),
	count("commands.cache_mb", "how much space a worker's cache of artifacts may use", 0, 1<<24, func(c *Config) *int { return &c.Commands.CacheMB }),

	text("blobs.url", "where artifacts are stored: store: in the database; file:PATH in a folder that all servers of a database share; s3://BUCKET/PREFIX?endpoint=URL in a bucket, with credentials from the environment",
		"store:, file:PATH or s3://BUCKET/PREFIX?endpoint=URL", some, func(c *Config) *string { return &c.Blobs.URL }),
	text("blobs.spool", "folder for uploads of artifacts until they are complete; empty: one beside the embedded store, or with PostgreSQL the system's temporary folder", "a path", some, func(c *Config) *string { return &c.Blobs.Spool }),
	text("archive.url", "where days of history move when they are older than history.hot_days: file:PATH in a folder that all servers of a database share; s3://BUCKET/PREFIX?endpoint=URL in a bucket, with credentials from the environment; empty: they stay in the store",
		"file:PATH or s3://BUCKET/PREFIX?endpoint=URL", some, func(c *Config) *string { return &c.Archive.URL }),
	oneOf("archive.layout", "whether an archived file has executions of several tenants (shared), or of one (per-tenant): choose per-tenant if tenants must be deletable apart", ArchiveLayouts, func(c *Config) *string { return &c.Archive.Layout }),
	count("artifacts.max_mb", "how large an artifact may be", 1, 16_384, func(c *Config) *int { return &c.Artifacts.MaxMB }),
	count("artifacts.tenant_mb", "how large all artifacts of a tenant may be in total", 1, 1<<24, func(c *Config) *int { return &c.Artifacts.TenantMB }),

	text("replicate.url", "where to keep a continuous backup of the embedded store, at most about a second behind: file:PATH or s3://BUCKET/PREFIX?endpoint=URL, with credentials from the environment; empty: off",
		"file:PATH or s3://BUCKET/PREFIX?endpoint=URL", some, func(c *Config) *string { return &c.Replicate.URL }),
	length("replicate.interval_ms", "how often changes are shipped there", 100, 60_000, time.Millisecond, func(c *Config) *time.Duration { return &c.Replicate.Interval }),
	length("replicate.snapshot_hours", "how often all of the store is shipped, so that a restore need not replay more", 1, 8760, time.Hour, func(c *Config) *time.Duration { return &c.Replicate.Snapshots }),
	length("replicate.keep_hours", "how far back the store can be restored; what only older instants need is deleted", 1, 87_600, time.Hour, func(c *Config) *time.Duration { return &c.Replicate.Keep }),
	count("replicate.spool_mb", "how much may wait on the disk while the place cannot be reached; beyond that the backup begins anew once it can", 64, 1<<24, func(c *Config) *int { return &c.Replicate.SpoolMB }),

	text("backup.url", "where to store backups of the embedded store at intervals, each complete in itself: file:PATH or s3://BUCKET/PREFIX?endpoint=URL, with credentials from the environment; empty: off",
		"file:PATH or s3://BUCKET/PREFIX?endpoint=URL", some, func(c *Config) *string { return &c.Backup.URL }),
	length("backup.every_hours", "how often a backup is stored there", 1, 8760, time.Hour, func(c *Config) *time.Duration { return &c.Backup.Every }),
	count("backup.keep", "how many backups of this store to keep there; older ones are deleted", 1, 10_000, func(c *Config) *int { return &c.Backup.Keep }),

	oneOf("log.level", "lowest level to log", []string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.LogLevel }),
	oneOf("log.format", "log format", []string{"text", "json"}, func(c *Config) *string { return &c.LogFormat }),

	text("metrics.listen", "second address, which serves /metrics without a credential; empty: off", "an address such as :9090 or 127.0.0.1:9090", address, func(c *Config) *string { return &c.Metrics.Listen }),
	truth("debug.pprof", "serve profiles of the process at /debug/pprof/, to the role system", func(c *Config) *bool { return &c.Pprof }),

	text("tracing.endpoint", "where to send traces (OTLP); empty: off", "the URL of a collector, such as http://localhost:4318", webAddress, func(c *Config) *string { return &c.Tracing.Endpoint }),
	oneOf("tracing.protocol", "protocol of the collector", []string{"http", "grpc"}, func(c *Config) *string { return &c.Tracing.Protocol }),
	fraction("tracing.sample", "share of traces to send", func(c *Config) *string { return &c.Tracing.Sample }),
	oneOf("tracing.parents", "what to do with a caller's traceparent: link joins the caller's trace but applies tracing.sample; follow also lets the caller decide whether to sample; ignore does neither", []string{"link", "follow", "ignore"}, func(c *Config) *string { return &c.Tracing.Parents }),
	secret(text("tracing.headers", "headers to send with each batch, such as a key", "NAME=VALUE, separated by commas", pairs, func(c *Config) *string { return &c.Tracing.Headers })),

	count("workers.default_count", "slots of the worker pool in this process at start", 1, 10_000, func(c *Config) *int { return &c.Workers.DefaultCount }),
	count("workers.max_count", "most slots of the worker pool in this process; at least workers.default_count", 1, 10_000, func(c *Config) *int { return &c.Workers.MaxCount }),
	length("workers.poll_interval_ms", "how often waiting workers poll the store if nothing wakes them", 10, 60_000, time.Millisecond, func(c *Config) *time.Duration { return &c.Workers.Poll }),
	length("workers.lease_timeout_seconds", "lease time: how long a worker may be silent before its executions go to others", 3, 3600, time.Second, func(c *Config) *time.Duration { return &c.Workers.Lease }),
	length("workers.scale_interval_ms", "how often the worker pool adjusts its number of slots", 10, 600_000, time.Millisecond, func(c *Config) *time.Duration { return &c.Workers.Scale }),
	length("workers.drain_timeout_seconds", "how long a shutdown waits for running executions", 1, 3600, time.Second, func(c *Config) *time.Duration { return &c.Workers.Drain }),
	count("workers.sessions_per_tenant", "how many worker sessions a tenant may have at one server", 1, 1_000_000, func(c *Config) *int { return &c.Workers.Sessions }),
	count("workers.poison_after", "how many workers an execution may lose within an hour before it ends as POISON", 1, 1000, func(c *Config) *int { return &c.PoisonAfter }),

	count("scheduler.partitions", "how many partitions the work is divided into; fixed in this version", 64, 64, func(c *Config) *int { return &c.Partitions }),
	length("scheduler.look_ahead_seconds", "how far ahead executions are prepared; they never run early", 1, 300, time.Second, func(c *Config) *time.Duration { return &c.LookAhead }),
	length("scheduler.ownership_ttl_seconds", "how long a server that stops responding keeps its partitions", 2, 60, time.Second, func(c *Config) *time.Duration { return &c.OwnershipTTL }),

	count("retry.max_retries", "default number of retries, for jobs that set none", 0, 100, func(c *Config) *int { return &c.Retry.MaxRetries }),
	oneOf("retry.backoff", "default backoff", []string{"FIXED", "LINEAR", "EXPONENTIAL"}, func(c *Config) *string { return &c.Retry.Backoff }),
	length("retry.initial_delay_ms", "default delay before the first retry", 0, 86_400_000, time.Millisecond, func(c *Config) *time.Duration { return &c.Retry.Initial }),
	length("retry.max_delay_ms", "default longest delay between retries; at least retry.initial_delay_ms", 0, 86_400_000, time.Millisecond, func(c *Config) *time.Duration { return &c.Retry.Max }),

	count("history.hot_days", "how long finished executions stay in the store, after the day on which they finished, if archive.url is set", 1, 36_500, func(c *Config) *int { return &c.History.Hot }),
	count("history.warm_days", "how long they stay quickly searchable after that; at least history.hot_days", 1, 36_500, func(c *Config) *int { return &c.History.Warm }),
	countOrAll("history.retention_days", "how long they are kept in total, for every tenant that has no limit of its own and no shorter one by its tier", 1, 36_500, "for ever", func(c *Config) *int { return &c.History.Retention }),
}

// Idle lists the settings that this version validates but does not use yet.
var Idle = []string{"history.warm_days"}

// byName finds a key.
func byName(name string) (Key, bool) {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return Keys[i], true
}

func text(name, doc, want string, ok func(string) bool, at func(*Config) *string) Key {
	return Key{
		Name: name, Doc: doc, Want: want, Kind: Text,
		set: func(c *Config, v string) bool {
			if ok(v) {
				*at(c) = v
			}
			return ok(v)
		},
		get: func(c *Config) string { return *at(c) },
	}
}

func oneOf(name, doc string, of []string, at func(*Config) *string) Key {
	return text(name, doc, "one of "+strings.Join(of, ", "), func(v string) bool { return slices.Contains(of, v) }, at)
}

func secret(k Key) Key  { k.Secret = true; return k }
func envOnly(k Key) Key { k.Secret, k.EnvOnly = true, true; return k }

func truth(name, doc string, at func(*Config) *bool) Key {
	return Key{
		Name: name, Doc: doc, Want: "true or false", Kind: Truth,
		set: func(c *Config, v string) bool { return boolean(v, at(c)) },
		get: func(c *Config) string { return strconv.FormatBool(*at(c)) },
	}
}

func fraction(name, doc string, at func(*Config) *string) Key {
	k := text(name, doc, "a number from 0 to 1", func(v string) bool {
		f, err := strconv.ParseFloat(v, 64)
		return err == nil && f >= 0 && f <= 1
	}, at)
	k.Kind = Number
	return k
}

func count(name, doc string, least, most int, at func(*Config) *int) Key {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if least == most {
		want = strconv.Itoa(least)
	}
	return Key{
		Name: name, Doc: doc, Want: want, Kind: Number,
		set: func(c *Config, v string) bool { return number(v, least, most, at(c)) },
		get: func(c *Config) string { return strconv.Itoa(*at(c)) },
	}
}

// countOrAll is count for a number that may also be -1.
func countOrAll(name, doc string, least, most int, all string, at func(*Config) *int) Key {
	k := count(name, doc, least, most, at)
	k.Want += ", or -1: " + all
	set := k.set
	k.set = func(c *Config, v string) bool { return set(c, v) || number(v, -1, -1, at(c)) }
	return k
}

func length(name, doc string, least, most int, unit time.Duration, at func(*Config) *time.Duration) Key {
	return Key{
		Name: name, Doc: doc, Want: fmt.Sprintf("a whole number from %d to %d, or a duration such as %v", least, most, time.Duration(most)*unit), Kind: Span,
		set: func(c *Config, v string) bool { return span(v, least, most, unit, at(c)) },
		get: func(c *Config) string {
			d := *at(c)
			if d%unit == 0 {
				return strconv.FormatInt(int64(d/unit), 10)
			}
			return d.String()
		},
	}
}

func list(name, doc, want string, set func(*Config, string) bool, get func(*Config) []string) Key {
	return Key{Name: name, Doc: doc, Want: want, Kind: List, set: set, get: func(c *Config) string { return strings.Join(get(c), ",") }}
}

func shown(ps []netip.Prefix) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return out
}

func some(v string) bool { return v != "" }

// vaultPath reports whether a text is a path of Vault.
func vaultPath(v string) bool {
	for part := range strings.SplitSeq(strings.Trim(v, "/"), "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "?#% ") {
			return false
		}
	}
	return true
}

func long(v string) bool { return len(v) >= 32 }

func pairs(v string) bool {
	for pair := range strings.SplitSeq(v, ",") {
		if name, _, ok := strings.Cut(pair, "="); !ok || strings.TrimSpace(name) == "" {
			return false
		}
	}
	return true
}
