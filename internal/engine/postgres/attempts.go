package postgres

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// collectAttempts reads what leaseSQL returns, and puts each where it was asked
// for; first says when the first of each token may overrun. It reads the binary
// form itself: this is the widest row of the hot path.
func collectAttempts(rows pgx.Rows, n int, places map[job.ExecutionID]int) (all []job.Attempt, first map[job.Token]time.Time, err error) {
	defer rows.Close()
	first = map[job.Token]time.Time{}
	all = make([]job.Attempt, n)
	known := map[string]job.Target{} // one batch often has one target
	names := texter{}                // and few names and tenants
	count := 0
	for rows.Next() {
		r := reader{values: rows.RawValues()}
		a := job.Attempt{
			Lease: job.Lease{Execution: r.uuid(), Token: job.Token(r.int8())}, Job: r.uuid(), JobName: names.text(r.bytes()), Tenant: tenant.ID(names.text(r.bytes())),
			Trigger: job.Trigger(r.int2()), Number: r.int4(), MaxAttempts: r.int4(), ScheduledAt: r.time(), DueAt: r.time(), LeasedAt: r.time(), StartedAt: r.time(),
		}
		target := r.bytes()
		a.Payload = slices.Clone(r.bytes())
		within := time.Duration(r.int8()) * time.Millisecond
		if r.bad {
			return nil, nil, errUnexpected
		}
		t, ok := known[string(target)]
		if !ok {
			if t, err = engine.DecodeTarget(target); err != nil {
				return nil, nil, err
			}
			known[string(target)] = t
		}
		a.Target = t
		a.Target.Headers, a.Target.ExpectStatus = maps.Clone(t.Headers), slices.Clone(t.ExpectStatus)
		if within == 0 {
			within = unbound
		}
		if at, ok := first[a.Token]; !ok || a.LeasedAt.Add(within).Before(at) {
			first[a.Token] = a.LeasedAt.Add(within)
		}
		all[places[a.Execution]] = a
		count++
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	if count == n {
		return all, first, nil
	}
	return slices.DeleteFunc(all, func(a job.Attempt) bool { return a.Token == 0 }), first, nil
}

// unbound is when what has neither timeout is looked at again.
const unbound = time.Hour

// reader takes the values of a row apart, in order.
type reader struct {
	values [][]byte
	bad    bool
}

// fixed is the next value if it is of that size, else zeroes.
func (r *reader) fixed(size int) []byte {
	b := r.bytes()
	if len(b) != size {
		r.bad = true
		return make([]byte, size)
	}
	return b
}

// bytes is the next value, until the next row is read; nil for NULL.
func (r *reader) bytes() []byte {
	if len(r.values) == 0 {
		r.bad = true
		return nil
	}
	b := r.values[0]
	r.values = r.values[1:]
	return b
}

func (r *reader) uuid() [16]byte { return [16]byte(r.fixed(16)) }
func (r *reader) int2() int      { return int(int16(binary.BigEndian.Uint16(r.fixed(2)))) }
func (r *reader) int4() int      { return int(int32(binary.BigEndian.Uint32(r.fixed(4)))) }
func (r *reader) int8() int64    { return int64(binary.BigEndian.Uint64(r.fixed(8))) }

// int4OrZero reads NULL as zero.
func (r *reader) int4OrZero() int {
	if r.null() {
		return 0
	}
	return r.int4()
}

// int8OrZero reads NULL as zero.
func (r *reader) int8OrZero() int64 {
	if r.null() {
		return 0
	}
	return r.int8()
}

// null reports whether the next value is NULL, and passes it over.
func (r *reader) null() bool {
	if len(r.values) == 0 || r.values[0] != nil {
		return false
	}
	r.values = r.values[1:]
	return true
}

func (r *reader) time() time.Time { return time.UnixMicro(r.int8() + y2k).UTC() }
