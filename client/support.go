package client

import (
	"context"
	"time"
)

// SupportBundle describes a server for support: no payloads, no results, no secrets.
type SupportBundle struct {
	MadeAt    time.Time        `json:"made_at"`
	Version   string           `json:"version"`
	Go        string           `json:"go"`
	Platform  string           `json:"platform"`
	Host      string           `json:"host"`
	StartedAt time.Time        `json:"started_at"`
	Roles     []string         `json:"roles"`
	Store     string           `json:"store" doc:"The database, without its credentials."`
	Ready     bool             `json:"ready"`
	NotReady  *string          `json:"not_ready" doc:"Why the server is not ready."`
	Process   SupportProcess   `json:"process"`
	Settings  []SupportSetting `json:"settings" doc:"Secrets are not shown."`
	Tenants   *int             `json:"tenants"`
	Status    *QueueStatus     `json:"status"`
	Sizes     *StoreSizes      `json:"sizes"`
	LogLevel  string           `json:"log_level"`
	Log       []string         `json:"log" doc:"The last lines of this server's log, the latest last."`
	Metrics   string           `json:"metrics" doc:"In Prometheus' text format."`
	Missing   []string         `json:"missing" doc:"What could not be read, and why."`
}

// SupportProcess describes the resources that a server uses.
type SupportProcess struct {
	CPUs        int   `json:"cpus"`
	Goroutines  int   `json:"goroutines"`
	HeapBytes   int64 `json:"heap_bytes"`
	MemoryBytes int64 `json:"memory_bytes" doc:"Memory obtained from the operating system."`
	Collections int64 `json:"collections" doc:"Garbage collections since the start."`
}

// SupportSetting is the value of a setting.
type SupportSetting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Changed bool   `json:"changed" doc:"Whether it differs from the default."`
}

// SupportBundle reads the support bundle of the server that answers. It needs the role system.
func (c *Client) SupportBundle(ctx context.Context) (SupportBundle, error) {
	return get[SupportBundle](ctx, c, "/admin/support")
}

// StoreSizes describes how much space the stored data takes.
type StoreSizes struct {
	Bytes     int64       `json:"bytes" doc:"Size of the whole database."`
	FreeBytes int64       `json:"free_bytes" doc:"How much of that is free and will be reused; 0 if unknown."`
	Tables    []TableSize `json:"tables"`
}

// TableSize is the size of a table.
type TableSize struct {
	Name           string `json:"name"`
	Rows           int64  `json:"rows"`
	RowsIsEstimate bool   `json:"rows_is_estimate,omitempty" doc:"The count is an estimate (PostgreSQL) or a minimum (SQLite)."`
	Bytes          *int64 `json:"bytes" doc:"Size with indexes; null if only a full scan would tell."`
}

// StoreSizes reads how much space the stored data takes. It needs the role system.
func (c *Client) StoreSizes(ctx context.Context) (StoreSizes, error) {
	return get[StoreSizes](ctx, c, "/admin/sizes")
}
