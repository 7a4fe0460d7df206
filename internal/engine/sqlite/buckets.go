package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	bucketSQL = "SELECT full_us, step_us, burst FROM buckets WHERE bucket = ?"
	fillSQL   = "INSERT INTO buckets (bucket, full_us) VALUES (?, ?) ON CONFLICT (bucket) DO UPDATE SET full_us = excluded.full_us"
	drawSQL   = `INSERT INTO buckets (bucket, full_us, step_us, burst) VALUES (?, ?, ?, ?)
		ON CONFLICT (bucket) DO UPDATE SET full_us = excluded.full_us, step_us = excluded.step_us, burst = excluded.burst`
)

// Draw takes tokens out of buckets that fill at their rate, up to their burst, and answers in order.
func (s *leases) Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	if len(ds) == 0 {
		return nil, nil
	}
	asks := 0
	for i := range ds {
		asks += max(ds[i].N, 0)
	}
	out := make([]engine.Drawn, len(ds))
	all := func(c *conn, now int64) (err error) {
		for i := range ds {
			if out[i], err = draw(c, now, &ds[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if asks == 0 { // reading blocks nobody
		err = s.look(ctx, "look into buckets", func(c *conn) error { return all(c, s.now()) })
	} else {
		err = s.write(ctx, "draw from buckets", all)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// draw takes up to N tokens out of a bucket, which is stored as the instant at which it is full again, and its rate:
// each missing token is worth the rate's interval.
func draw(c *conn, now int64, d *engine.Draw) (engine.Drawn, error) {
	if d.Rate.IsZero() {
		return engine.Drawn{N: max(d.N, 0)}, nil
	}
	full, is := now, d.Rate.Pace()
	was := is
	_, err := c.prepare(bucketSQL).text(d.Bucket).first(func(r *row) error {
		full = r.int64()
		was = job.Pace{Step: r.int64(), Burst: r.int64()}
		full = is.Rescale(was, full, now)
		return nil
	})
	if err != nil {
		return engine.Drawn{}, err
	}
	missing := func() int64 { return (full - now + is.Step - 1) / is.Step }
	n := max(0, min(int64(d.N), is.Burst-missing()))
	full += n * is.Step
	if n > 0 || d.N > 0 && was != is {
		if _, err := c.prepare(drawSQL).text(d.Bucket).int(full).int(is.Step).int(is.Burst).exec(); err != nil {
			return engine.Drawn{}, err
		}
	}
	out := engine.Drawn{N: int(n)}
	if missing() >= is.Burst {
		out.Wait = time.Duration(full-now-(is.Burst-1)*is.Step) * time.Microsecond
	}
	return out, nil
}
