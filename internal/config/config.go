// Package config is the settings of a process: one struct with its defaults,
// one table of keys, and one way to fill it: flag before environment before
// file before default.
//
// A key is written the same everywhere: workers.max_count in the file's
// [workers] table, CARILLON_WORKERS_MAX_COUNT in the environment. Everything
// that is wrong is told at once, with key, value and what would be right. The
// package reads settings, it starts nothing; parts are given their own small
// Config by app, never this one.
package config

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Config is every setting.
type Config struct {
	Listen           string
	Data             string
	Database         string
	Roles            []string
	BootstrapKey     string
	JWT              JWT
	TLSCert          string
	TLSKey           string
	AllowAsyncCommit bool
	CallbacksAllow   []netip.Prefix
	Callbacks        Callbacks
	LogLevel         string
	LogFormat        string
	Workers          Workers
	LookAhead        time.Duration
	OwnershipTTL     time.Duration
	PoisonAfter      int
	SecretsKeyFile   string
	SecretsKey       string
	Commands         Commands
	Artifacts        Artifacts
}

// JWT is the [auth.jwt] table: whose tokens are accepted, if any.
type JWT struct {
	Issuer      string
	Audience    string
	KeysURL     string
	Secret      string
	TenantClaim string
	RoleClaim   string
}

// On reports whether tokens are accepted.
func (j JWT) On() bool { return j.Issuer != "" }

// Commands is the [commands] table.
type Commands struct {
	Allow     bool
	Shared    bool
	Folder    string // empty: one of the system's for temporary files
	User      string
	Grace     time.Duration
	OutputKB  int
	Files     int
	Processes int
	FileMB    int
	CPU       time.Duration
	MemoryMB  int
	CacheMB   int
}

// Artifacts is the [artifacts] table.
type Artifacts struct {
	Folder   string // empty: in the data folder
	MaxMB    int
	TenantMB int
}

// Workers is the [workers] table.
type Workers struct {
	DefaultCount int
	MaxCount     int
	Poll         time.Duration
	Lease        time.Duration
	Scale        time.Duration
	Drain        time.Duration
}

// Callbacks is the [callbacks] table, but for what may be reached.
type Callbacks struct {
	Breaker         bool
	BreakerFailures int
	FirstByte       time.Duration // for which an answer may take to begin; 0: as long as the attempt
}

// Default is the settings that nobody changed.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080", Data: "./carillon-data", Roles: slices.Clone(Roles), LogLevel: "info", LogFormat: "text",
		Workers: Workers{
			DefaultCount: 2, MaxCount: 8, Poll: 250 * time.Millisecond, Lease: 30 * time.Second, Scale: time.Second, Drain: 30 * time.Second,
		},
		JWT:       JWT{TenantClaim: "tenant_id", RoleClaim: "role"},
		Callbacks: Callbacks{Breaker: true, BreakerFailures: 5},
		LookAhead: 5 * time.Second, OwnershipTTL: 5 * time.Second, PoisonAfter: 3,
		Commands:  Commands{User: "nobody", Grace: 10 * time.Second, OutputKB: 10 << 10, Files: 1024, Processes: 256, FileMB: 1024, CacheMB: 2048},
		Artifacts: Artifacts{MaxMB: 256, TenantMB: 10_240},
	}
}

// Roles are what a server process may do.
var Roles = []string{"api", "scheduler", "worker"}

// Key is one setting: its name, what it is for, and how it is read.
type Key struct {
	Name string
	Doc  string
	Want string
	set  func(c *Config, v string) bool // false: v is not what is wanted
}

// Keys lists every setting.
var Keys = []Key{
	{"listen", "address to listen on", "an address such as 127.0.0.1:8080 or :8080", func(c *Config, v string) bool { c.Listen = v; return address(v) }},
	{"data", "folder of the embedded store (dev)", "a path", func(c *Config, v string) bool { c.Data = v; return v != "" }},
	{"database", "where the data is kept (serve)", "sqlite:PATH or postgres://USER@HOST:PORT/NAME", func(c *Config, v string) bool { c.Database = v; return database(v) }},
	{"roles", "what this process does, parted by commas", "one or more of api, scheduler, worker", func(c *Config, v string) bool { c.Roles = words(v); return roles(c.Roles) }},
	{"bootstrap_key", "the first API key, instead of one made up (environment only)", "32 characters or more", func(c *Config, v string) bool { c.BootstrapKey = v; return len(v) >= 32 }},
	{"auth.jwt.issuer", "whose tokens are accepted beside API keys: their claim iss", "the issuer's name, usually a URL", func(c *Config, v string) bool { c.JWT.Issuer = v; return v != "" }},
	{"auth.jwt.audience", "what their claim aud must hold", "a name, such as the address of this installation", func(c *Config, v string) bool { c.JWT.Audience = v; return v != "" }},
	{"auth.jwt.jwks_url", "where the issuer publishes its keys, for RS256, ES256 and EdDSA", "a URL", func(c *Config, v string) bool { c.JWT.KeysURL = v; return webAddress(v) }},
	{"auth.jwt.secret", "instead of jwks_url: the secret of HS256 (environment or file)", "32 characters or more", func(c *Config, v string) bool { c.JWT.Secret = v; return len(v) >= 32 }},
	{"auth.jwt.tenant_claim", "the claim that names the tenant", "a claim's name", func(c *Config, v string) bool { c.JWT.TenantClaim = v; return v != "" }},
	{"auth.jwt.role_claim", "the claim that names the role: viewer, operator, admin or worker", "a claim's name", func(c *Config, v string) bool { c.JWT.RoleClaim = v; return v != "" }},
	{"tls.cert", "certificate file for https", "a path", func(c *Config, v string) bool { c.TLSCert = v; return v != "" }},
	{"tls.key", "key file for https", "a path", func(c *Config, v string) bool { c.TLSKey = v; return v != "" }},
	{"store.allow_async_commit", "start although the database may lose acknowledged work in a crash", "true or false", func(c *Config, v string) bool { return boolean(v, &c.AllowAsyncCommit) }},
	{"callbacks.allow", "address ranges that callbacks may reach although they are private, parted by commas", "ranges such as 10.0.0.0/8", func(c *Config, v string) bool { return prefixes(v, &c.CallbacksAllow) }},
	{"secrets.key_file", "file of the keys that secrets are encrypted under, one a line, the first for what is new; only its owner may read it", "a path", func(c *Config, v string) bool { c.SecretsKeyFile = v; return v != "" }},
	{"secrets.key", "the keys themselves, parted by commas (environment only)", "32 random bytes in base64, as openssl rand -base64 32 prints", func(c *Config, v string) bool { c.SecretsKey = v; return len(v) >= 44 }},
	{"callbacks.breaker", "put off calls of hosts that are down", "true or false", func(c *Config, v string) bool { return boolean(v, &c.Callbacks.Breaker) }},
	{"callbacks.breaker_failures", "how many calls of a host fail in a row before more are put off", "a whole number from 1 to 1000", func(c *Config, v string) bool { return number(v, 1, 1000, &c.Callbacks.BreakerFailures) }},
	{"callbacks.first_byte_timeout_seconds", "how long a target may take to begin its answer; 0: as long as the attempt may last", "a whole number from 0 to 86400", func(c *Config, v string) bool { return span(v, 0, 86400, time.Second, &c.Callbacks.FirstByte) }},
	{"commands.allow", "accept and run jobs of the target command", "true or false", func(c *Config, v string) bool { return boolean(v, &c.Commands.Allow) }},
	{"commands.shared", "let workers that serve every tenant run commands, though tenants are not kept apart in one", "true or false", func(c *Config, v string) bool { return boolean(v, &c.Commands.Shared) }},
	{"commands.folder", "where commands have their scratch folders and workers keep artifacts", "a path", func(c *Config, v string) bool { c.Commands.Folder = v; return v != "" }},
	{"commands.user", "whom commands run as where the worker is root", "a user's name, or UID:GID", func(c *Config, v string) bool { c.Commands.User = v; return v != "" }},
	{"commands.grace_seconds", "how long a command that is cancelled may take to end before it is killed; past a timeout or a stop at most 3 s", "a whole number from 0 to 25", func(c *Config, v string) bool { return span(v, 0, 25, time.Second, &c.Commands.Grace) }},
	{"commands.max_output_kb", "how much output of an attempt is kept", "a whole number from 1 to 1048576", func(c *Config, v string) bool { return number(v, 1, 1<<20, &c.Commands.OutputKB) }},
	{"commands.max_open_files", "how many files a command may have open; 0: as many as the worker", "a whole number from 0 to 1048576", func(c *Config, v string) bool { return number(v, 0, 1<<20, &c.Commands.Files) }},
	{"commands.max_processes", "how many processes a command may add to those of its user; 0: any number", "a whole number from 0 to 1000000", func(c *Config, v string) bool { return number(v, 0, 1_000_000, &c.Commands.Processes) }},
	{"commands.max_file_mb", "how large a file a command may write; 0: any size", "a whole number from 0 to 1048576", func(c *Config, v string) bool { return number(v, 0, 1<<20, &c.Commands.FileMB) }},
	{"commands.max_cpu_seconds", "how much processor time a process of a command may use; 0: any", "a whole number from 0 to 604800", func(c *Config, v string) bool { return span(v, 0, 604_800, time.Second, &c.Commands.CPU) }},
	{"commands.max_memory_mb", "how much address space a process of a command may have; 0: any", "a whole number from 0 to 16777216", func(c *Config, v string) bool { return number(v, 0, 1<<24, &c.Commands.MemoryMB) }},
	{"commands.cache_mb", "how much of downloaded artifacts a worker keeps", "a whole number from 0 to 16777216", func(c *Config, v string) bool { return number(v, 0, 1<<24, &c.Commands.CacheMB) }},
	{"artifacts.folder", "where artifacts are kept (default: in the data folder); servers over one database share it", "a path", func(c *Config, v string) bool { c.Artifacts.Folder = v; return v != "" }},
	{"artifacts.max_mb", "how large an artifact may be", "a whole number from 1 to 16384", func(c *Config, v string) bool { return number(v, 1, 16_384, &c.Artifacts.MaxMB) }},
	{"artifacts.tenant_mb", "how large all artifacts of a tenant may be together", "a whole number from 1 to 16777216", func(c *Config, v string) bool { return number(v, 1, 1<<24, &c.Artifacts.TenantMB) }},
	{"log.level", "least level to log", "one of debug, info, warn, error", func(c *Config, v string) bool {
		c.LogLevel = v
		return slices.Contains([]string{"debug", "info", "warn", "error"}, v)
	}},
	{"log.format", "form of the log", "text or json", func(c *Config, v string) bool { c.LogFormat = v; return v == "text" || v == "json" }},
	{"workers.default_count", "slots of the pool in this process to begin with", "a whole number from 1 to 10000", func(c *Config, v string) bool { return number(v, 1, 10_000, &c.Workers.DefaultCount) }},
	{"workers.max_count", "slots of the pool in this process at the most", "a whole number from 1 to 10000, at least workers.default_count", func(c *Config, v string) bool { return number(v, 1, 10_000, &c.Workers.MaxCount) }},
	{"workers.poll_interval_ms", "how often waiting workers look into the store when no wake-up came", "a whole number from 10 to 60000", func(c *Config, v string) bool { return span(v, 10, 60_000, time.Millisecond, &c.Workers.Poll) }},
	{"workers.lease_timeout_seconds", "how long a worker may be silent before its executions go to others", "a whole number from 3 to 3600", func(c *Config, v string) bool { return span(v, 3, 3600, time.Second, &c.Workers.Lease) }},
	{"workers.scale_interval_ms", "how often the number of slots is looked at", "a whole number from 10 to 600000", func(c *Config, v string) bool { return span(v, 10, 600_000, time.Millisecond, &c.Workers.Scale) }},
	{"workers.drain_timeout_seconds", "how long a stop waits for what runs", "a whole number from 1 to 3600", func(c *Config, v string) bool { return span(v, 1, 3600, time.Second, &c.Workers.Drain) }},
	{"workers.poison_after", "how many workers an execution may lose within an hour before it ends as POISON", "a whole number from 1 to 1000", func(c *Config, v string) bool { return number(v, 1, 1000, &c.PoisonAfter) }},
	{"scheduler.ownership_ttl_seconds", "how long a server that no longer answers keeps its partitions", "a whole number from 2 to 60", func(c *Config, v string) bool { return span(v, 2, 60, time.Second, &c.OwnershipTTL) }},
	{"scheduler.look_ahead_seconds", "how early executions are staged; they never run early", "a whole number from 1 to 300", func(c *Config, v string) bool { return span(v, 1, 300, time.Second, &c.LookAhead) }},
}

// Mistake is one setting that is wrong.
type Mistake struct {
	Key   string
	Value string
	Want  string
	From  string // where it was set: a flag, a variable, a file
}

// Mistakes is everything wrong with the settings.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, x := range m {
		lines[i] = fmt.Sprintf("%s = %q (%s): want %s", x.Key, x.Value, x.From, x.Want)
	}
	return strings.Join(lines, "\n")
}

// Load fills the settings: what flags say (by key) before the environment, before the file (path "" for
// none), before the given defaults.
func Load(base Config, flags map[string]string, env []string, path string) (Config, error) {
	c := base
	var wrong Mistakes
	file, err := readFile(path)
	if err != nil {
		return c, err
	}
	vars := map[string]string{}
	for _, e := range env {
		if name, v, ok := strings.Cut(e, "="); ok {
			vars[name] = v
		}
	}
	for _, k := range Keys {
		v, from, ok := "", "", false
		name := Variable(k.Name)
		if s, given := file[k.Name]; given {
			v, from, ok = s, "file "+path, true
			delete(file, k.Name)
		}
		if s, given := vars[name]; given && s != "" {
			v, from, ok = s, "environment "+name, true
		}
		if s, given := flags[k.Name]; given {
			v, from, ok = s, "flag", true
		}
		if ok && !k.set(&c, v) {
			if k.Name == "bootstrap_key" || k.Name == "database" || k.Name == "secrets.key" || k.Name == "auth.jwt.secret" {
				v = "(not shown)"
			}
			wrong = append(wrong, Mistake{k.Name, v, k.Want, from})
		}
	}
	for key, v := range file {
		wrong = append(wrong, Mistake{key, v, "a key that exists: " + near(key), "file " + path})
	}
	if c.Workers.MaxCount < c.Workers.DefaultCount {
		wrong = append(wrong, Mistake{"workers.max_count", strconv.Itoa(c.Workers.MaxCount), fmt.Sprintf("at least workers.default_count, which is %d", c.Workers.DefaultCount), "as set or by default"})
	}
	if c.SecretsKeyFile != "" && c.SecretsKey != "" {
		wrong = append(wrong, Mistake{"secrets.key_file", c.SecretsKeyFile, "secrets.key_file or secrets.key, not both", "as set"})
	}
	if j := c.JWT; (j.On() || j.Audience != "" || j.KeysURL != "" || j.Secret != "") && (!j.On() || j.Audience == "" || (j.KeysURL == "") == (j.Secret == "")) {
		wrong = append(wrong, Mistake{"auth.jwt.issuer", j.Issuer, "auth.jwt.issuer and auth.jwt.audience, and one of auth.jwt.jwks_url and auth.jwt.secret; or none of them", "as set"})
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		wrong = append(wrong, Mistake{"tls.key", c.TLSKey, "tls.cert and tls.key together, or neither", "as set"})
	}
	if len(wrong) > 0 {
		return c, wrong
	}
	return c, nil
}

// Variable is the environment variable of a key.
func Variable(key string) string {
	return "CARILLON_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// readFile reads a TOML file into values by dotted key.
func readFile(path string) (map[string]string, error) {
	out := map[string]string{}
	if path == "" {
		return out, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Mistakes{{"config", path, "a file that can be read: " + err.Error(), "flag"}}
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		return nil, Mistakes{{"config", path, "valid TOML: " + err.Error(), "flag"}}
	}
	flatten("", tree, out)
	return out, nil
}

func flatten(prefix string, tree map[string]any, out map[string]string) {
	for k, v := range tree {
		switch v := v.(type) {
		case map[string]any:
			flatten(prefix+k+".", v, out)
		case []any:
			parts := make([]string, len(v))
			for i, x := range v {
				parts[i] = fmt.Sprint(x)
			}
			out[prefix+k] = strings.Join(parts, ",")
		default:
			out[prefix+k] = fmt.Sprint(v)
		}
	}
}

// near names the keys of the same table, or all.
func near(key string) string {
	table, _, _ := strings.Cut(key, ".")
	var same, all []string
	for _, k := range Keys {
		all = append(all, k.Name)
		if strings.HasPrefix(k.Name, table+".") {
			same = append(same, k.Name)
		}
	}
	if len(same) > 0 {
		return strings.Join(same, ", ")
	}
	return strings.Join(all, ", ")
}
