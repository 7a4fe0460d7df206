// Package config holds the settings of a process: one struct with its defaults, one table of keys, and one order of
// sources: flag before environment before file before default.
//
// A key has the same name everywhere: workers.max_count in the file's [workers] table, CARILLON_WORKERS_MAX_COUNT in
// the environment. All mistakes are reported at once, with key, value and what would be valid. The package only reads
// settings; app gives parts their own small Config, never this one.
package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is every setting.
type Config struct {
	Listen           string
	Data             string
	Database         string
	Roles            []string
	BootstrapKey     string
	BootstrapWorker  string
	JWT              JWT
	SessionIdle      time.Duration // how long a browser stays signed in without a request
	Session          time.Duration // and in any case
	TLSCert          string
	TLSKey           string
	TLSMin           string // 1.2 or 1.3
	TLSClientCA      string // the CA of client certificates; empty: none are requested
	TLSClientAuth    string // OptionalCert or WorkerCert
	TLSCA            string // of a worker: the CA of servers' certificates; empty: those that the system trusts
	AllowAsyncCommit bool
	AppRole          string // the role of servers on PostgreSQL, if it is not the owner
	TrustedProxies   []netip.Prefix
	FailedPerAddress int // failed credentials allowed from one address at once
	UnprovenRate     int // requests a second from one address without a credential that has worked from there; 0: unlimited
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
	SecretsFiles     string        // folder of a secret backend; empty: none
	SecretsCache     time.Duration // how long a value of a backend is cached
	Vault            Vault
	Commands         Commands
	Artifacts        Artifacts
	Blobs            Blobs
	Archive          Archive
	Replicate        Replicate
	Backup           Backup
	Migrate          bool
	Partitions       int
	Retry            Retry
	History          History
	Metrics          Metrics
	Tracing          Tracing
	Pprof            bool
}

// Who must show a certificate.
const (
	OptionalCert = "optional"
	WorkerCert   = "workers"
)

// Metrics is the [metrics] table.
type Metrics struct {
	Listen string // empty: only where the API is
}

// Tracing is the [tracing] table.
type Tracing struct {
	Endpoint string // empty: there is none
	Protocol string
	Sample   string // a number from 0 to 1
	Parents  string // link, follow or ignore
	Headers  string // NAME=VALUE, separated by commas
}

// Share returns the share of traces to send.
func (t Tracing) Share() float64 {
	f, _ := strconv.ParseFloat(t.Sample, 64) // it was checked
	return f
}

// Pairs returns the headers by name.
func (t Tracing) Pairs() map[string]string {
	if t.Headers == "" {
		return nil
	}
	out := map[string]string{}
	for pair := range strings.SplitSeq(t.Headers, ",") {
		name, value, _ := strings.Cut(pair, "=")
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out
}

// JWT is the [auth.jwt] table: whose tokens are accepted, if any.
type JWT struct {
	Issuer      string
	Audience    string
	KeysURL     string
	Secret      string
	TenantClaim string
	RoleClaim   string
	Allow       []netip.Prefix // private ranges in which the issuer may be
}

// On reports whether tokens are accepted.
func (j JWT) On() bool { return j.Issuer != "" }

// Vault is the secret backend in HashiCorp Vault: the keys that begin with vault_ in the [secrets] table.
type Vault struct {
	Address    string // empty: none
	Mount      string
	Prefix     string
	Namespace  string
	CAFile     string
	Auth       string
	AuthPath   string
	Token      string
	Role       string
	Credential string
}

// The ways to sign in to Vault.
const (
	VaultToken      = "token"
	VaultAppRole    = "approle"
	VaultKubernetes = "kubernetes"
)

// Commands is the [commands] table.
type Commands struct {
	Allow     bool
	Shared    bool
	Folder    string // empty: one in the system's temporary folder
	User      string
	Grace     time.Duration
	OutputKB  int
	Files     int
	Processes int
	FileMB    int
	CPU       time.Duration
	MemoryMB  int
	CacheMB   int

	RiskServer bool // in a process that holds the store
	Unconfined bool
	Paths      []string
	WritePaths []string
	Network    string   // HostNetwork or NoNetwork
	Digests    []string // lower-case hex; none: any program
}

// The networks of commands.
const (
	HostNetwork = "host"
	NoNetwork   = "none"
)

// Artifacts is the [artifacts] table.
type Artifacts struct {
	MaxMB    int
	TenantMB int
}

// Blobs is the [blobs] table.
type Blobs struct {
	URL   string // as package location reads it
	Spool string // empty: beside an embedded store, or the system's folder for temporary files
}

// Archive is the [archive] table.
type Archive struct {
	URL    string // as package location reads it; empty: history stays in the store
	Layout string // of files: shared or per-tenant
}

// ArchiveLayouts lists the layouts of archived files.
var ArchiveLayouts = []string{"shared", "per-tenant"}

// Replicate is the [replicate] table: the continuous backup of the embedded store.
type Replicate struct {
	URL       string // as package location reads it; empty: off
	Interval  time.Duration
	Snapshots time.Duration
	Keep      time.Duration
	SpoolMB   int
}

// Backup is the [backup] table: scheduled backups of the embedded store.
type Backup struct {
	URL   string // as package location reads it; empty: off
	Every time.Duration
	Keep  int
}

// Workers is the [workers] table.
type Workers struct {
	DefaultCount int
	MaxCount     int
	Poll         time.Duration
	Lease        time.Duration
	Scale        time.Duration
	Drain        time.Duration
	Sessions     int // of a tenant at one server
}

// Callbacks is the [callbacks] table, except for what may be reached.
type Callbacks struct {
	Breaker         bool
	BreakerFailures int
	FirstByte       time.Duration // how long a response may take to begin; 0: as long as the attempt

	Proxy            string // URL of an HTTP proxy; "": none
	ProxyCredentials string // USER:PASSWORD
	ProxyCA          string // file with the CA of the proxy's certificate; "": those that the system trusts
	ProxyResolves    bool   // the proxy is given names

	HTTPSOnly      bool
	Ports          []int // none: all but those of other services
	HostPerSecond  int   // calls to a host that a process starts per second; 0: unlimited
	HostConcurrent int   // calls to a host at once; 0: unlimited
}

// Retry is the [retry] table: the retry policy of jobs that set none.
type Retry struct {
	MaxRetries int
	Backoff    string
	Initial    time.Duration
	Max        time.Duration
}

// History is the [history] table, in days.
type History struct {
	Hot       int
	Warm      int
	Retention int
}

// Default returns the default settings.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080", Data: "./carillon-data", Roles: slices.Clone(Roles), LogLevel: "info", LogFormat: "text",
		Workers: Workers{
			DefaultCount: 2, MaxCount: 8, Poll: 250 * time.Millisecond, Lease: 30 * time.Second, Scale: time.Second, Drain: 30 * time.Second, Sessions: 5000,
		},
		TLSMin: "1.3", TLSClientAuth: WorkerCert,
		JWT:              JWT{TenantClaim: "tenant_id", RoleClaim: "role"},
		FailedPerAddress: 30, UnprovenRate: 200,
		SessionIdle: time.Hour, Session: 12 * time.Hour,
		Callbacks: Callbacks{Breaker: true, BreakerFailures: 5, HostPerSecond: 500, HostConcurrent: 256},
		LookAhead: 5 * time.Second, SecretsCache: 15 * time.Second, Vault: Vault{Mount: "secret", Prefix: "carillon", Auth: VaultToken},
		OwnershipTTL: 5 * time.Second, PoisonAfter: 3,
		Commands:  Commands{User: "nobody", Grace: 10 * time.Second, OutputKB: 10 << 10, Files: 1024, Processes: 256, FileMB: 1024, CacheMB: 2048, Network: HostNetwork},
		Artifacts: Artifacts{MaxMB: 256, TenantMB: 10_240},
		Blobs:     Blobs{URL: "store:"},
		Archive:   Archive{Layout: "shared"},
		Replicate: Replicate{Interval: 500 * time.Millisecond, Snapshots: 24 * time.Hour, Keep: 72 * time.Hour, SpoolMB: 1024},
		Backup:    Backup{Every: 24 * time.Hour, Keep: 14},
		Migrate:   true, Partitions: 64,
		Retry:   Retry{MaxRetries: 3, Backoff: "EXPONENTIAL", Initial: time.Second, Max: time.Minute},
		History: History{Hot: 7, Warm: 90, Retention: 365},
		Tracing: Tracing{Protocol: "http", Sample: "1", Parents: "link"},
	}
}
