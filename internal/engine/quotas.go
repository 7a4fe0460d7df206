package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Quotas are what is counted for tenants that may not have and do as much as they like.
//
// Of such a tenant a row counts its active jobs. Whatever creates jobs under a limit (Creation.Most) locks that row, adds
// to it and stores its jobs in one commit, so that no two creations together go over. Nothing is taken off when a job is
// over: that would cost every finish a row. Instead CountJobs counts anew, which a creation that was refused as Over asks
// for before it is refused to its caller. So the row may be too high for a while, never too low.
type Quotas interface {
	// CountJobs counts the active jobs of a tenant anew, and keeps the number; one that was kept less than CountAge of it
	// ago is answered as it is. Active is a job that has an instant planned, or an execution that is not over.
	CountJobs(ctx context.Context, t tenant.ID) (int64, error)
	// Charge adds what was used to buckets, also where that is more than they hold, and answers, in order, in what time
	// each is full again by the store's clock. Each bucket is named once. It is for those who have counted by themselves
	// and tell the others; Draw is for those who ask first.
	Charge(ctx context.Context, cs []Charge) ([]time.Duration, error)
}

// Charge is what was used of a bucket.
type Charge struct {
	Bucket string
	Rate   job.Rate
	N      int           // 0: only to see
	Ago    time.Duration // when the first of it was used: since then the bucket has been filling again
}

// CountAge is for how long a count of active jobs is good: counting takes time that grows with it.
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
