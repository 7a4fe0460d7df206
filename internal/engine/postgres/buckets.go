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

// A bucket is the instant at which it is full again if nobody draws, and its refill rate. It holds as many tokens as
// a whole burst has steps left until that instant. A full bucket has no row, or one whose instant has passed; both
// mean the same.
const (
	// drawSQL locks the rows in order, so that concurrent draws share them; it uses the clock of the statement's
	// start, so a draw that had to wait counts too little time, never too much.
	drawSQL = `
		WITH old AS MATERIALIZED (
			SELECT d.bucket, d.want, d.step, d.burst, t.now, ` + rescaled + ` AS full_us, (b.step_us, b.burst) IS DISTINCT FROM (d.step, d.burst) AS anew
			FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[]) d(bucket, want, step, burst)
			CROSS JOIN LATERAL (SELECT full_us, step_us, burst FROM buckets WHERE bucket = d.bucket OFFSET 0 FOR UPDATE) b
			CROSS JOIN ` + nowMicros + `
		), drawn AS MATERIALIZED (
			SELECT bucket, step, burst, now, full_us, anew, least(want, greatest(0, (now + burst * step - full_us) / step)) AS got FROM old
		), kept AS (
			UPDATE buckets b SET full_us = d.full_us + d.got * d.step, step_us = d.step, burst = d.burst FROM drawn d WHERE b.bucket = ANY (ARRAY[d.bucket]) AND (d.got > 0 OR d.anew)
		)
		SELECT bucket, got, greatest(0, full_us + (got + 1 - burst) * step - now) FROM drawn`
	// rescaled is job.Pace.Rescale in SQL.
	rescaled = `CASE
			WHEN b.full_us <= t.now THEN t.now
			WHEN b.step_us IS NULL THEN least(b.full_us, t.now + d.burst * d.step)
			WHEN b.step_us = d.step AND b.burst = d.burst THEN least(b.full_us, t.now + d.burst * d.step)
			ELSE t.now + d.burst * d.step - least(d.burst * d.step, div(greatest(0, b.burst * b.step_us - (b.full_us - t.now))::numeric * d.step, b.step_us))::int8
		END`
	// peekSQL only reads.
	peekSQL = `
		SELECT d.bucket, 0::int8, greatest(0, ` + rescaled + ` + (1 - d.burst) * d.step - t.now)
		FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[]) d(bucket, want, step, burst)
		CROSS JOIN LATERAL (SELECT full_us, step_us, burst FROM buckets WHERE bucket = d.bucket OFFSET 0) b
		CROSS JOIN ` + nowMicros
	nowMicros     = `(SELECT (extract(epoch FROM now()) * 1000000)::int8 AS now) t`
	makeBucketSQL = `
		INSERT INTO buckets (bucket, full_us) SELECT bucket, 0 FROM unnest($1::text[]) d(bucket) ON CONFLICT (bucket) DO NOTHING`
)

// Draw takes tokens out of buckets, and answers in order. The name of a bucket may be a hash that reveals no tenant,
// so row-level security hides all of them: callers that only read bypass it, for the buckets that they name.
func (s *leases) Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	var draws, looks []engine.Draw
	for _, d := range ds {
		if d.N > 0 {
			draws = append(draws, d)
		} else {
			looks = append(looks, d)
		}
	}
	if len(draws) == 0 {
		ctx = engine.Unconfined(ctx)
	}
	got := make(map[string]engine.Drawn, len(ds)) // a bucket without a row has tokens for callers that only read
	err := s.write(ctx, "draw", func(ctx context.Context, c *pgxpool.Conn) error {
		clear(got)
		if err := draw(ctx, c, peekSQL, looks, got); err != nil {
			return err
		}
		left := draws
		for range races {
			if err := draw(ctx, c, drawSQL, left, got); err != nil {
				return err
			}
			left = slices.DeleteFunc(slices.Clone(left), func(d engine.Draw) bool { _, ok := got[d.Bucket]; return ok })
			if len(left) == 0 {
				return nil
			}
			if _, err := c.Exec(ctx, makeBucketSQL, drawArgs(left)[0]); err != nil {
				return err
			}
		}
		return engine.ErrConflict
	})
	if err != nil {
		return nil, err
	}
	out := make([]engine.Drawn, len(ds))
	for i, d := range ds {
		out[i] = got[d.Bucket]
	}
	return out, nil
}

// draw runs one of the two statements, and adds the result for each bucket that has a row.
func draw(ctx context.Context, c *pgxpool.Conn, sql string, ds []engine.Draw, got map[string]engine.Drawn) error {
	if len(ds) == 0 {
		return nil
	}
	rows, err := c.Query(ctx, sql, drawArgs(ds)...)
	if err != nil {
		return err
	}
	var bucket string
	var d engine.Drawn
	_, err = pgx.ForEachRow(rows, []any{&bucket, &d.N, span{&d.Wait, time.Microsecond}}, func() error {
		got[bucket] = d
		return nil
	})
	return err
}

func drawArgs(ds []engine.Draw) []any {
	ds = slices.Clone(ds)
	slices.SortFunc(ds, func(a, b engine.Draw) int { return cmp.Compare(a.Bucket, b.Bucket) })
	n := len(ds)
	names, wants, steps, bursts := texts(n), bigints(n), bigints(n), bigints(n)
	for _, d := range ds {
		b := d.Rate.Pace()
		names.text(d.Bucket)
		wants.int8(int64(d.N))
		steps.int8(b.Step)
		bursts.int8(b.Burst)
	}
	return []any{names, wants, steps, bursts}
}
