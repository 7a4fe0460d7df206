package engine

import (
	"encoding/json"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Charge is the usage of a bucket.
type Charge struct {
	Bucket string
	Rate   job.Rate
	N      int           // 0: only to see
	Ago    time.Duration // when the first of it was used: the bucket has been refilling since
}

// CountAge returns how long a count of active jobs stays valid: counting takes longer the more there are.
func CountAge(jobs int64) time.Duration {
	return min(time.Duration(jobs)*20*time.Microsecond, 30*time.Second)
}

// EncodeOverrides returns the stored form of a tenant's overrides; "" for none.
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

// DecodeOverrides decodes the stored form. It ignores fields that a later version has added.
func DecodeOverrides(s string) (o tenant.Overrides, err error) {
	if s != "" {
		err = json.Unmarshal([]byte(s), &o)
	}
	return o, err
}
