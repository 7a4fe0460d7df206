package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// tallyLock is held while adding to shared tallies: months are read, changed and written, and failures update their
// rows in any order.
const tallyLock = 0x7a11

const (
	markTallySQL = `
		INSERT INTO tally_marks AS m (server, number, at) VALUES ($1, $2, now())
		ON CONFLICT (server) DO UPDATE SET number = EXCLUDED.number, at = now() WHERE m.number < EXCLUDED.number`
	keepTenantMinutesSQL = `
		INSERT INTO tenant_minutes (tenant, at, server, counts) SELECT tenant, at, $1, counts FROM unnest($2::text[], $3::timestamptz[], $4::bytea[]) m(tenant, at, counts)
		ON CONFLICT (tenant, at, server) DO UPDATE SET counts = EXCLUDED.counts`

	monthsSQL = `
		SELECT k.n::int, m.days FROM unnest($1::text[], $2::uuid[], $3::int4[]) WITH ORDINALITY k(tenant, job, month, n)
		CROSS JOIN LATERAL (SELECT days FROM job_months WHERE tenant = k.tenant AND job = k.job AND month = k.month OFFSET 0) m`
	keepMonthsSQL = `
		INSERT INTO job_months (tenant, job, month, days) SELECT tenant, job, month, days FROM unnest($1::text[], $2::uuid[], $3::int4[], $4::bytea[]) m(tenant, job, month, days)
		ON CONFLICT (tenant, job, month) DO UPDATE SET days = EXCLUDED.days`
	oldMonthsSQL = `
		DELETE FROM job_months m USING unnest($1::text[], $2::uuid[], $3::int4[]) k(tenant, job, month)
		WHERE m.tenant = ANY (ARRAY[k.tenant]) AND m.job = ANY (ARRAY[k.job]) AND m.month < k.month - $4`

	addFailuresSQL = `
		INSERT INTO failures AS f (tenant, hour, fingerprint, job, failed, retried, first_at, last_at, execution)
		SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bytea[], $4::uuid[], $5::int8[], $6::int8[], $7::timestamptz[], $8::timestamptz[], $9::uuid[])
		ON CONFLICT (tenant, hour, fingerprint, job) DO UPDATE SET failed = f.failed + EXCLUDED.failed, retried = f.retried + EXCLUDED.retried,
			first_at = least(f.first_at, EXCLUDED.first_at), last_at = greatest(f.last_at, EXCLUDED.last_at),
			execution = CASE WHEN (EXCLUDED.failed > 0, EXCLUDED.last_at) >= (f.failed > 0, f.last_at) THEN EXCLUDED.execution ELSE f.execution END`
	nameFailuresSQL = `
		INSERT INTO fingerprints AS f (tenant, fingerprint, seen_at, type, message, sample)
		SELECT DISTINCT ON (tenant, fingerprint) tenant, fingerprint, hour, type, message, sample
		FROM unnest($1::text[], $2::timestamptz[], $3::bytea[], $4::text[], $5::text[], $6::text[]) n(tenant, hour, fingerprint, type, message, sample)
		WHERE message <> '' OR type <> '' ORDER BY tenant, fingerprint, hour DESC
		ON CONFLICT (tenant, fingerprint) DO UPDATE SET seen_at = EXCLUDED.seen_at WHERE f.seen_at < EXCLUDED.seen_at`
)

// tidyMonthsSQL drops months of jobs that were inactive for so long that no new month replaced the oldest.
const (
	tidyMonthsSQL = `
		DELETE FROM job_months WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM job_months WHERE month < (extract(year FROM now() AT TIME ZONE 'UTC') * 12 + extract(month FROM now() AT TIME ZONE 'UTC') - 1)::int - $1
			ORDER BY month LIMIT $2 FOR UPDATE SKIP LOCKED))`
	tidiedMonths = 5_000
)

// tidyTalliesSQL drop what is old.
var tidyTalliesSQL = map[string]time.Duration{
	"DELETE FROM tenant_minutes WHERE at < now() - make_interval(secs => $1)":    engine.TenantMinutesKept,
	"DELETE FROM depths WHERE at < now() - make_interval(secs => $1)":            engine.TenantMinutesKept,
	"DELETE FROM failures WHERE hour < now() - make_interval(secs => $1)":        engine.FailuresKept,
	"DELETE FROM fingerprints WHERE seen_at < now() - make_interval(secs => $1)": engine.FailuresKept + 24*time.Hour,
	"DELETE FROM tally_marks WHERE at < now() - make_interval(secs => $1)":       engine.MinutesKept,
}

func tidyTallies(ctx context.Context, c *pgxpool.Conn) error {
	for sql, life := range tidyTalliesSQL {
		if _, err := c.Exec(ctx, sql, life.Seconds()); err != nil {
			return err
		}
	}
	_, err := c.Exec(ctx, tidyMonthsSQL, engine.MonthsKept-1, tidiedMonths)
	return err
}

// KeepTally keeps what a server has counted, once.
func (s *upkeep) KeepTally(ctx context.Context, by engine.ServerID, number int64, t engine.Tally) error {
	return s.write(ctx, "keep tallies", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			n, err := tx.Exec(ctx, markTallySQL, [16]byte(by), number)
			if err != nil || n.RowsAffected() == 0 {
				return err // it is there
			}
			if err := keepTenantMinutes(ctx, tx, by, t.Minutes); err != nil || len(t.Days)+len(t.Failures) == 0 {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))", tallyLock); err != nil {
				return err
			}
			if err := addMonths(ctx, tx, t.Days); err != nil {
				return err
			}
			return addFailures(ctx, tx, t.Failures)
		})
	})
}

func keepTenantMinutes(ctx context.Context, tx pgx.Tx, by engine.ServerID, ms []engine.TenantMinute) error {
	if len(ms) == 0 {
		return nil
	}
	tenants, ats, counts := texts(len(ms)), instants(len(ms)), byteas(len(ms))
	for i := range ms {
		tenants.text(string(ms[i].Tenant))
		ats.time(ms[i].At.Truncate(time.Minute))
		counts.bytes(engine.EncodeMinute(&ms[i]))
	}
	_, err := tx.Exec(ctx, keepTenantMinutesSQL, [16]byte(by), tenants, ats, counts)
	return err
}

// addMonths adds days to their months. A new month replaces the oldest.
func addMonths(ctx context.Context, tx pgx.Tx, days []engine.JobDay) error {
	if len(days) == 0 {
		return nil
	}
	by := engine.ByMonth(days)
	keys := make([]engine.MonthOf, 0, len(by))
	tenants, jobs, months := texts(len(by)), uuids(len(by)), ints(len(by))
	for k := range by {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b engine.MonthOf) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), slices.Compare(a.Job[:], b.Job[:]), cmp.Compare(a.Month, b.Month))
	})
	for _, k := range keys {
		tenants.text(string(k.Tenant))
		jobs.uuid(k.Job)
		months.int4(k.Month)
	}
	rows, _ := tx.Query(ctx, monthsSQL, tenants, jobs, months)
	known := 0
	var n int
	var data []byte
	_, err := pgx.ForEachRow(rows, []any{&n, &data}, func() error {
		known++
		was, err := engine.DecodeMonth(data)
		for day := range was {
			by[keys[n-1]][day].Add(was[day])
		}
		return err
	})
	if err != nil {
		return err
	}
	all := byteas(len(keys))
	for _, k := range keys {
		all.bytes(by[k].Encode())
	}
	if _, err := tx.Exec(ctx, keepMonthsSQL, tenants, jobs, months, all); err != nil || known == len(keys) {
		return err
	}
	_, err = tx.Exec(ctx, oldMonthsSQL, tenants, jobs, months, engine.MonthsKept-1)
	return err
}

func addFailures(ctx context.Context, tx pgx.Tx, fs []engine.Failure) error {
	if len(fs) == 0 {
		return nil
	}
	n := len(fs)
	tenants, hours, prints, jobs, failed, retried := texts(n), instants(n), byteas(n), uuids(n), bigints(n), bigints(n)
	first, last, executions, types, messages, samples := instants(n), instants(n), uuids(n), texts(n), texts(n), texts(n)
	for i := range fs {
		f := &fs[i]
		tenants.text(string(f.Tenant))
		hours.time(f.Hour.Truncate(time.Hour))
		prints.bytes(f.Fingerprint[:])
		jobs.uuid(f.Job)
		failed.int8(f.Failed)
		retried.int8(f.Retried)
		first.time(f.First)
		last.time(f.Last)
		executions.uuid(f.Execution)
		types.text(plain(string(f.Type)))
		messages.text(plain(f.Message))
		samples.text(plain(f.Sample))
	}
	if _, err := tx.Exec(ctx, addFailuresSQL, tenants, hours, prints, jobs, failed, retried, first, last, executions); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, nameFailuresSQL, tenants, hours, prints, types, messages, samples)
	return err
}
