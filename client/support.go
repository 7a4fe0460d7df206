package client

import (
	"context"
	"time"
)

// SupportBundle is what someone who helps from afar wants to know of a server: no payloads, no results, no secrets.
type SupportBundle struct {
	MadeAt    time.Time        `json:"made_at"`
	Version   string           `json:"version"`
	Go        string           `json:"go"`
	Platform  string           `json:"platform"`
	Host      string           `json:"host"`
	StartedAt time.Time        `json:"started_at"`
	Roles     []string         `json:"roles"`
	Store     string           `json:"store" doc:"Which database, without its credentials."`
	Ready     bool             `json:"ready"`
	NotReady  *string          `json:"not_ready" doc:"Why it is not."`
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

// SupportProcess is how much of the machine a server uses.
type SupportProcess struct {
	CPUs        int   `json:"cpus"`
	Goroutines  int   `json:"goroutines"`
	HeapBytes   int64 `json:"heap_bytes"`
	MemoryBytes int64 `json:"memory_bytes" doc:"That it has of the system."`
	Collections int64 `json:"collections" doc:"Of garbage, since the start."`
}

// SupportSetting is what a setting is.
type SupportSetting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Changed bool   `json:"changed" doc:"It is not the default."`
}

// SupportBundle reads what someone who helps from afar wants to know of the server that answers. It needs the role system.
func (c *Client) SupportBundle(ctx context.Context) (SupportBundle, error) {
	return get[SupportBundle](ctx, c, "/admin/support")
}

// StoreSizes is how much room what is stored takes up.
type StoreSizes struct {
	Bytes     int64       `json:"bytes" doc:"Of the whole database."`
	FreeBytes int64       `json:"free_bytes" doc:"Of these, what is empty and will be used again; 0 where that is not known."`
	Tables    []TableSize `json:"tables"`
}

// TableSize is how large a table is.
type TableSize struct {
	Name           string `json:"name"`
	Rows           int64  `json:"rows"`
	RowsIsEstimate bool   `json:"rows_is_estimate,omitempty" doc:"There are about so many (PostgreSQL), or at least so many (SQLite)."`
	Bytes          *int64 `json:"bytes" doc:"With its indexes; null where only a read of everything would tell."`
}

// StoreSizes reads how much room what is stored takes up. It needs the role system.
func (c *Client) StoreSizes(ctx context.Context) (StoreSizes, error) {
	return get[StoreSizes](ctx, c, "/admin/sizes")
}
