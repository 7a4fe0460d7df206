package engine

import (
	"encoding/json"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Charge is what was used of a bucket.
type Charge struct {
	Bucket string
	Rate   job.Rate
	N      int           // 0: only to see
	Ago    time.Duration // when the first of it was used: since then the bucket has been filling again
}

// CountAge returns how long a count of active jobs stays valid: counting takes time that grows with it.
func CountAge(jobs int64) time.Duration {
	return min(time.Duration(jobs)*20*time.Microsecond, 30*time.Second)
}

// EncodeOverrides is the stored form of what an operator has set for a tenant; "" for nothing.
func EncodeOverrides(o tenant.Overrides) string {
	if o == (tenant.Overrides{}) {
		return ""
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic("engine: overrides cannot be encoded: " + err.Error()) // numbers only
	}
	return string(data)
}

// DecodeOverrides reads it. What a later version has written beside is passed over.
func DecodeOverrides(s string) (o tenant.Overrides, err error) {
	if s != "" {
		err = json.Unmarshal([]byte(s), &o)
	}
	return o, err
}
