package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// instant scans a timestamptz into UTC; NULL becomes the zero time.
type instant time.Time

func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i = instant{}
	if v.Valid {
		*i = instant(v.Time.UTC())
	}
	return nil
}

func at(t *time.Time) *instant { return (*instant)(t) }

// id scans a uuid; NULL becomes the zero id.
type id [16]byte

func (i *id) ScanUUID(v pgtype.UUID) error {
	*i = v.Bytes
	return nil
}

// text scans a text; NULL becomes the empty one.
type text string

func (t *text) ScanText(v pgtype.Text) error {
	*t = text(v.String)
	return nil
}

// digest scans a hash; NULL becomes the zero one.
type digest [32]byte

func (d *digest) ScanBytes(v []byte) error {
	*d = digest{}
	if v != nil && len(v) != len(d) {
		return fmt.Errorf("a hash of %d bytes", len(v))
	}
	copy(d[:], v)
	return nil
}

// number scans an integer of any width; NULL becomes zero.
type number[T ~int | ~int16 | ~int64 | ~uint8] struct{ to *T }

func (n number[T]) ScanInt64(v pgtype.Int8) error {
	*n.to = T(v.Int64)
	return nil
}

func num[T ~int | ~int16 | ~int64 | ~uint8](to *T) number[T] { return number[T]{to} }

// span scans a number of units of time; NULL becomes zero.
type span struct {
	to   *time.Duration
	unit time.Duration
}

func (s span) ScanInt64(v pgtype.Int8) error {
	*s.to = time.Duration(v.Int64) * s.unit
	return nil
}

// groupColumns lists the columns of live for groupTargets.
const groupColumns = "v.group_key, v.group_max, v.rate_count, v.rate_us, v.rate_burst"

func groupTargets(g *job.Group) []any {
	return []any{num(&g.Key), num(&g.Max), num(&g.Rate.Count), span{&g.Rate.Per, time.Microsecond}, num(&g.Rate.Burst)}
}

// readyColumns are the columns of live that collectReady reads.
const readyColumns = "v.id, v.tenant, v.part, v.class, v.priority, v.due_at, " + groupColumns

func readyTargets(r *job.Ready) []any {
	return append([]any{(*[16]byte)(&r.ID), (*string)(&r.Tenant), (*int16)(&r.Partition), (*string)(&r.Class), &r.Priority, at(&r.DueAt)}, groupTargets(&r.Group)...)
}

// collectReady decodes the binary form itself, like collectAttempts. Repeated texts are shared.
func collectReady(rows pgx.Rows, err error) ([]job.Ready, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []job.Ready
	known := texter{}
	for rows.Next() {
		r := reader{values: rows.RawValues()}
		out = append(out, known.ready(&r))
		if r.bad {
			return nil, errUnexpected
		}
	}
	return out, rows.Err()
}

var errUnexpected = errors.New("the server answered with rows that are not as expected")

// texter keeps one copy of each text.
type texter map[string]string

// ready reads readyColumns.
func (t texter) ready(r *reader) job.Ready {
	return job.Ready{
		ID: r.uuid(), Tenant: tenant.ID(t.text(r.bytes())), Partition: job.Partition(r.int2()), Class: job.Class(t.text(r.bytes())), Priority: r.int2(), DueAt: r.time(),
		Group: job.Group{Key: job.GroupKey(r.int8()), Max: r.int4OrZero(), Rate: job.Rate{Count: r.int4OrZero(), Per: time.Duration(r.int8OrZero()) * time.Microsecond, Burst: r.int4OrZero()}},
	}
}

func (t texter) text(b []byte) string {
	s, ok := t[string(b)]
	if !ok {
		s = string(b)
		t[s] = s
	}
	return s
}
