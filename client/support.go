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
