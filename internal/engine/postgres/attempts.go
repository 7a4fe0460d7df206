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

// given holds leased attempts, in the order of the request.
type given struct {
	places map[job.ExecutionID]int
	all    []job.Attempt // by position; zero: not leased
	count  int
	first  map[job.Token]time.Time // when the first of each token may overrun

	members map[job.ExecutionID]memberTarget // nodes of which the runs were read with their lease
}

func newGiven(gs []engine.Grant) *given {
	n := 0
	for _, grant := range gs {
		n += len(grant.Executions)
	}
	g := &given{places: make(map[job.ExecutionID]int, n), all: make([]job.Attempt, n), first: map[job.Token]time.Time{}}
	n = 0
	for _, grant := range gs {
		for _, id := range grant.Executions {
			if _, ok := g.places[id]; !ok {
				g.places[id] = n
			}
			n++
		}
	}
	return g
}

// has reports whether an execution is leased.
func (g *given) has(id job.ExecutionID) bool { return g.all[g.places[id]].Token != 0 }

// take stores leased attempts at their requested positions, and skips those that were not leased.
func (g *given) take(l leased) {
	for i := range l.attempts {
		a := &l.attempts[i]
		if place, ok := g.places[a.Execution]; ok && g.all[place].Token == 0 {
			g.all[place] = *a
			g.count++
		}
	}
	maps.Copy(g.first, l.first)
}

// attempts returns those that are leased.
func (g *given) attempts() []job.Attempt {
	if g.count == len(g.all) {
		return g.all
	}
	return slices.DeleteFunc(g.all, func(a job.Attempt) bool { return a.Token == 0 })
}

// rest returns the grants with what they did not get.
func (g *given) rest(gs []engine.Grant) []engine.Grant {
	if g.count == 0 {
		return gs
	}
	return only(gs, func(id job.ExecutionID) bool { return !g.has(id) })
}

// only returns grants with some of their executions.
func only(gs []engine.Grant, wanted func(job.ExecutionID) bool) (out []engine.Grant) {
	for _, grant := range gs {
		var ids []job.ExecutionID
		for _, id := range grant.Executions {
			if wanted(id) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			out = append(out, engine.Grant{Worker: grant.Worker, Executions: ids})
		}
	}
	return out
}

// leased holds what one commit leases.
type leased struct {
	attempts []job.Attempt
	first    map[job.Token]time.Time // when the first of each token may overrun
}

// collectLeased reads the result of leaseSQL, up to n rows; more reads further columns of each. It decodes the binary
// form itself: this is the widest row of the hot path.
func collectLeased(rows pgx.Rows, err error, n int, more ...func(*reader)) (out leased, _ error) {
	if err != nil {
		return out, err
	}
	defer rows.Close()
	out = leased{make([]job.Attempt, 0, n), map[job.Token]time.Time{}}
	known := map[string]job.Target{} // one batch often has one target
	names := texter{}                // and few names and tenants
	for rows.Next() {
		r := reader{values: rows.RawValues()}
		a := job.Attempt{
			Lease: job.Lease{Execution: r.uuid(), Token: job.Token(r.int8())}, Job: r.uuid(), JobName: names.text(r.bytes()), Tenant: tenant.ID(names.text(r.bytes())),
			Trigger: job.Trigger(r.int2()), Number: r.int4(), MaxAttempts: r.int4(), ScheduledAt: r.time(), DueAt: r.time(), LeasedAt: r.time(), StartedAt: r.time(),
		}
		target := r.bytes()
		a.Payload = slices.Clone(r.bytes())
		within := time.Duration(r.int8()) * time.Millisecond
		for _, read := range more {
			read(&r)
		}
		if r.bad {
			return out, errUnexpected
		}
		t, ok := known[string(target)]
		if !ok {
			if t, err = engine.DecodeTarget(target); err != nil {
				return out, err
			}
			known[string(target)] = t
		}
		a.Target = t
		a.Target.Headers, a.Target.ExpectStatus = maps.Clone(t.Headers), slices.Clone(t.ExpectStatus)
		if within == 0 {
			within = unbound
		}
		if at, ok := out.first[a.Token]; !ok || a.LeasedAt.Add(within).Before(at) {
			out.first[a.Token] = a.LeasedAt.Add(within)
		}
		out.attempts = append(out.attempts, a)
	}
	return out, rows.Err()
}

// unbound is when an execution without timeouts is examined again.
const unbound = time.Hour

// reader reads the values of a row in order.
type reader struct {
	values [][]byte
	bad    bool
}

// fixed returns the next value if it has that size, else zeroes.
func (r *reader) fixed(size int) []byte {
	b := r.bytes()
	if len(b) != size {
		r.bad = true
		return make([]byte, size)
	}
	return b
}

// bytes returns the next value, valid until the next row is read; nil for NULL.
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

// uuids returns the next value, an array of ids without NULL.
func (r *reader) uuids() []job.ExecutionID {
	b := r.bytes()
	if len(b) < arrayHeader || (len(b)-arrayHeader)%20 != 0 {
		r.bad = true
		return nil
	}
	b = b[arrayHeader:]
	out := make([]job.ExecutionID, len(b)/20)
	for i := range out {
		out[i] = job.ExecutionID(b[i*20+4:])
	}
	return out
}

// groups returns the next value, an array of groups without NULL; nil for NULL.
func (r *reader) groups() []job.GroupKey {
	b := r.bytes()
	if b == nil {
		return nil
	}
	if len(b) < arrayHeader || (len(b)-arrayHeader)%12 != 0 {
		r.bad = true
		return nil
	}
	b = b[arrayHeader:]
	out := make([]job.GroupKey, len(b)/12)
	for i := range out {
		out[i] = job.GroupKey(binary.BigEndian.Uint64(b[i*12+4:]))
	}
	return out
}

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

// null reports whether the next value is NULL, and skips it.
func (r *reader) null() bool {
	if len(r.values) == 0 || r.values[0] != nil {
		return false
	}
	r.values = r.values[1:]
	return true
}

func (r *reader) time() time.Time { return time.UnixMicro(r.int8() + y2k).UTC() }
