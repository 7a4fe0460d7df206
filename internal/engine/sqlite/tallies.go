package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	markTallySQL = `
		INSERT INTO tally_marks (server, number, at) VALUES (?, ?, ?)
		ON CONFLICT (server) DO UPDATE SET number = excluded.number, at = excluded.at WHERE number < excluded.number`
	keepTenantMinuteSQL = "INSERT OR REPLACE INTO tenant_minutes (tenant, at, server, counts) VALUES (?, ?, ?, ?)"

	monthSQL     = "SELECT days FROM job_months WHERE tenant = ? AND job = ? AND month = ?"
	keepMonthSQL = "INSERT OR REPLACE INTO job_months (tenant, job, month, days) VALUES (?, ?, ?, ?)"
	oldMonthsSQL = "DELETE FROM job_months WHERE tenant = ? AND job = ? AND month < ?"

	addFailureSQL = `
		INSERT INTO failures AS f (tenant, hour, fingerprint, job, failed, retried, first_at, last_at, execution) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, hour, fingerprint, job) DO UPDATE SET failed = f.failed + excluded.failed, retried = f.retried + excluded.retried,
			first_at = min(f.first_at, excluded.first_at), last_at = max(f.last_at, excluded.last_at),
			execution = CASE WHEN (excluded.failed > 0, excluded.last_at) >= (f.failed > 0, f.last_at) THEN excluded.execution ELSE f.execution END`
	nameFailureSQL = `
		INSERT INTO fingerprints AS f (tenant, fingerprint, seen_at, type, message, sample) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, fingerprint) DO UPDATE SET seen_at = excluded.seen_at WHERE f.seen_at < excluded.seen_at`

	oldTenantMinutesSQL = "DELETE FROM tenant_minutes WHERE (tenant, at, server) IN (SELECT tenant, at, server FROM tenant_minutes INDEXED BY tenant_minutes_age WHERE at < ? LIMIT ?)"
	oldDepthsSQL        = "DELETE FROM depths WHERE (tenant, at) IN (SELECT tenant, at FROM depths INDEXED BY depths_age WHERE at < ? LIMIT ?)"
	oldFailuresSQL      = "DELETE FROM failures WHERE (tenant, hour, fingerprint, job) IN (SELECT tenant, hour, fingerprint, job FROM failures INDEXED BY failures_age WHERE hour < ? LIMIT ?)"
	oldFingerprintsSQL  = "DELETE FROM fingerprints WHERE (tenant, fingerprint) IN (SELECT tenant, fingerprint FROM fingerprints INDEXED BY fingerprints_age WHERE seen_at < ? LIMIT ?)"
	idleMonthsSQL       = "DELETE FROM job_months WHERE (tenant, job, month) IN (SELECT tenant, job, month FROM job_months INDEXED BY job_months_age WHERE month < ? LIMIT ?)"
	oldMarksSQL         = "DELETE FROM tally_marks WHERE server IN (SELECT server FROM tally_marks INDEXED BY tally_marks_age WHERE at < ? LIMIT ?)"
)

// oldTallies lists what Tidy drops, and how long it is kept.
var oldTallies = map[string]time.Duration{
	oldTenantMinutesSQL: engine.TenantMinutesKept, oldDepthsSQL: engine.TenantMinutesKept, oldFailuresSQL: engine.FailuresKept,
	oldFingerprintsSQL: engine.FailuresKept + 24*time.Hour, oldMarksSQL: engine.MinutesKept,
}

// KeepTally stores what a server has counted, once.
func (s *upkeep) KeepTally(ctx context.Context, by engine.ServerID, number int64, t engine.Tally) error {
	return s.write(ctx, "keep tallies", func(c *conn, now int64) error {
		n, err := c.prepare(markTallySQL).id(by).int(number).int(now).exec()
		if err != nil || n == 0 {
			return err // it is there
		}
		for i := range t.Minutes {
			m := &t.Minutes[i]
			_, err := c.prepare(keepTenantMinuteSQL).text(string(m.Tenant)).int(m.At.Truncate(time.Minute).UnixMicro()).id(by).bytes(engine.EncodeMinute(m)).exec()
			if err != nil {
				return err
			}
		}
		for k, add := range engine.ByMonth(t.Days) {
			if err := addMonth(c, k, add); err != nil {
				return err
			}
		}
		for i := range t.Failures {
			if err := addFailure(c, &t.Failures[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// addMonth adds counts to those of a month. A new month replaces the oldest.
func addMonth(c *conn, k engine.MonthOf, add *engine.MonthDays) error {
	var days []byte
	found, err := c.prepare(monthSQL).text(string(k.Tenant)).id(k.Job).int(int64(k.Month)).first(func(r *row) error {
		days = r.bytes()
		return nil
	})
	if err != nil {
		return err
	}
	m, err := engine.DecodeMonth(days)
	if err != nil {
		return err
	}
	for day := range m {
		m[day].Add(add[day])
	}
	if _, err := c.prepare(keepMonthSQL).text(string(k.Tenant)).id(k.Job).int(int64(k.Month)).bytes(m.Encode()).exec(); err != nil || found {
		return err
	}
	_, err = c.prepare(oldMonthsSQL).text(string(k.Tenant)).id(k.Job).int(int64(k.Month - engine.MonthsKept + 1)).exec()
	return err
}

func addFailure(c *conn, f *engine.Failure) error {
	_, err := c.prepare(addFailureSQL).text(string(f.Tenant)).int(f.Hour.Truncate(time.Hour).UnixMicro()).bytes(f.Fingerprint[:]).id(f.Job).
		int(f.Failed).int(f.Retried).int(f.First.UnixMicro()).int(f.Last.UnixMicro()).id(f.Execution).exec()
	if err != nil || f.Message == "" && f.Type == "" {
		return err
	}
	_, err = c.prepare(nameFailureSQL).text(string(f.Tenant)).bytes(f.Fingerprint[:]).int(f.Hour.Truncate(time.Hour).UnixMicro()).
		text(string(f.Type)).text(f.Message).text(f.Sample).exec()
	return err
}
