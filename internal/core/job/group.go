package job

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// GroupKey names a group in its tenant.
type GroupKey int64

// Group is a set of executions that share limits: those of one job, or those with one value of the concurrency key,
// of whatever job. Each execution carries the limits of its own job. The zero Group has none.
type Group struct {
	Key  GroupKey
	Max  int // run at once; 0: any number
	Rate Rate
}

// Rate limits how many executions may start in a period: Count per Per on average, and Burst at once. The zero Rate
// is no limit.
type Rate struct {
	Count int
	Per   time.Duration
	Burst int
}

// IsZero reports whether there is no limit.
func (r Rate) IsZero() bool { return r.Count == 0 }

// Interval returns the time between two starts at the steady rate, rounded up to whole microseconds, in which stores
// count, so that it never exceeds the rate.
func (r Rate) Interval() time.Duration {
	count := time.Duration(max(r.Count, 1))
	exact := (r.Per + count - 1) / count
	return max((exact+time.Microsecond-1)/time.Microsecond, 1) * time.Microsecond
}

func (r Rate) String() string {
	if r.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%d in %s, %d at once", r.Count, r.Per, r.Burst)
}

// DefaultBurst returns the burst of a rate that sets none: a tenth of a second's worth.
func (r Rate) DefaultBurst() int {
	return max(1, int(100*time.Millisecond*time.Duration(r.Count)/max(r.Per, 1)))
}

// GroupOf returns the group of a job's executions: by the value of its concurrency key, or by the job itself. It is
// the zero Group if the definition sets no limit.
func (j *Job) GroupOf(value string) Group {
	if j.ConcurrencyKey == "" && (j.MaxConcurrent > 0 || !j.Rate.IsZero()) {
		value = j.ID.String()
	}
	return j.Definition.GroupOf(j.Tenant, value)
}

// GroupOf returns the group of a tenant's executions of the definition: by a value of its concurrency key or, if it
// has none, by the given job id.
func (d *Definition) GroupOf(t tenant.ID, value string) Group {
	if d.MaxConcurrent == 0 && d.Rate.IsZero() {
		return Group{}
	}
	return Group{Key: groupKey(t, d.ConcurrencyKey, value), Max: d.MaxConcurrent, Rate: d.Rate}
}

// groupKey folds the FNV-1a hash of 128 bits of the texts, each preceded by its length. It does not use hash/fnv,
// which would allocate for every job of a bulk creation.
func groupKey(t tenant.ID, expression, value string) GroupKey {
	high, low := uint64(0x6c62272e07bb0142), uint64(0x62b821756295c58d)
	for _, part := range [3]string{string(t), expression, value} {
		for shift := 56; shift >= 0; shift -= 8 {
			high, low = hashed(high, low, byte(uint64(len(part))>>shift))
		}
		for i := range len(part) {
			high, low = hashed(high, low, part[i])
		}
	}
	k := GroupKey(high ^ low)
	if expression != "" {
		return k | sharedKey
	}
	if k &^= sharedKey; k == 0 {
		k = 2
	}
	return k
}

// sharedKey is the bit of a key that marks one from an expression, rather than a job's own.
const sharedKey GroupKey = 1

// Shared reports whether executions of several jobs may have the key, each with the limits of its own job.
func (k GroupKey) Shared() bool { return k&sharedKey != 0 }

func hashed(high, low uint64, b byte) (uint64, uint64) {
	low ^= uint64(b)
	more, less := bits.Mul64(0x13b, low)
	return more + low<<24 + 0x13b*high, less
}

// Partition returns the single partition of the group's executions, so that its owner counts them all.
func (g Group) Partition() Partition { return Partition(uint64(g.Key) * mixer >> 58) }

// Limit is a limit over all executions of a tenant, or over those of one of its queues.
type Limit struct {
	Tenant tenant.ID
	Queue  string // empty: the whole tenant
	Max    int    // run at once; 0: any number
	Rate   Rate
	Pause  Pause // of a queue: none of its executions start
}

// Pause keeps the executions of a queue from starting; the zero Pause is none.
type Pause struct {
	At     time.Time
	Until  time.Time // zero: until it is resumed
	By     string
	Reason string
}

// IsZero reports whether there is no pause.
func (p Pause) IsZero() bool { return p.At.IsZero() }

// Holds reports whether the pause lasts at an instant.
func (p Pause) Holds(now time.Time) bool {
	return !p.IsZero() && (p.Until.IsZero() || now.Before(p.Until))
}

// IsZero reports whether it limits nothing.
func (l Limit) IsZero() bool { return l.Max == 0 && l.Rate.IsZero() }

// Slower returns the slower of two rates, with the smaller burst.
func (r Rate) Slower(o Rate) Rate {
	if r.IsZero() || o.IsZero() {
		if r.IsZero() {
			return o
		}
		return r
	}
	out := r
	if o.Interval() > r.Interval() {
		out = o
	}
	out.Burst = min(r.Burst, o.Burst)
	return out
}

// QuotaLimits returns the rate that a quota gives a tenant as a limit, if it gives one.
func QuotaLimits(t tenant.ID, q tenant.Quota) []Limit {
	if q.ExecutionsPerMinute == tenant.NoLimit {
		return nil
	}
	return []Limit{{Tenant: t, Rate: Rate{Count: q.ExecutionsPerMinute, Per: time.Minute, Burst: q.ExecutionsBurst}}}
}

// Both combines configured limits with the rates that quotas give tenants: if a tenant has both, the slower one
// applies.
func Both(set, quotas []Limit) []Limit {
	if len(quotas) == 0 {
		return set
	}
	out := make([]Limit, len(set), len(set)+len(quotas))
	copy(out, set)
	at := make(map[tenant.ID]int, len(set))
	for i, l := range out {
		if l.Queue == "" {
			at[l.Tenant] = i
		}
	}
	for _, q := range quotas {
		if i, ok := at[q.Tenant]; ok {
			out[i].Rate = out[i].Rate.Slower(q.Rate)
		} else {
			out = append(out, q)
		}
	}
	return out
}
