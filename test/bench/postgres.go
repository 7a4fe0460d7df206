package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
)

// openPostgres makes two fresh databases with the same tables, one for each probe.
func openPostgres(ctx context.Context, server string) (contest, error) {
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		return contest{}, err
	}
	var version string
	err = errors.Join(admin.QueryRow(ctx, "SHOW server_version").Scan(&version), admin.Close(ctx))
	if err != nil {
		return contest{}, err
	}
	var urls []string
	var removes []func(context.Context) error
	for range 2 {
		place, remove, err := postgres.Scratch(ctx, server)
		if err != nil {
			return contest{}, err
		}
		urls, removes = append(urls, place), append(removes, remove)
		store, err := postgres.Open(ctx, postgres.Config{URL: place})
		if err != nil {
			return contest{}, err
		}
		if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil {
			return contest{}, err
		}
	}
	store, err := postgres.Open(ctx, postgres.Config{URL: urls[0]})
	if err != nil {
		return contest{}, err
	}
	beside, err := pgx.Connect(ctx, urls[0])
	if err != nil {
		return contest{}, err
	}
	return contest{
		name: "PostgreSQL " + version,
		product: &product{
			store: store,
			empty: func(ctx context.Context) error { return forget(ctx, beside) },
		},
		raw: &rawPostgres{url: urls[1]},
		close: func() error {
			err := errors.Join(store.Close(), beside.Close(ctx))
			for _, remove := range removes {
				err = errors.Join(err, remove(ctx))
			}
			return err
		},
	}, nil
}

func forget(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "TRUNCATE jobs, live, leases, executions, attempts, sessions, idempotency, job_stats, job_durations CASCADE")
	if err == nil {
		_, err = c.Exec(ctx, "CHECKPOINT")
	}
	return err
}

// rawPostgres is the life of a job in bare SQL: COPY, a batched update, a delete that feeds an insert.
type rawPostgres struct{ url string }

type rawJob struct{ job, id [16]byte }

func (p *rawPostgres) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, err
	}
	for _, off := range []string{"enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"} {
		if _, err := c.Exec(ctx, "SET "+off+" = off"); err != nil {
			return nil, err
		}
	}
	_, err = c.Exec(ctx, "SET plan_cache_mode = force_generic_plan")
	return c, err
}

var (
	rawSpec   = []byte(`{"r":3,"b":"EXPONENTIAL","i":1000000000,"x":60000000000}`)
	rawTarget = []byte(`{"k":"simulate","t":300000000000,"w":"noop"}`)
)

func (p *rawPostgres) insert(ctx context.Context, c *pgx.Conn, n int) ([]rawJob, error) {
	jobs := make([]rawJob, n)
	for i := range jobs {
		id := uuid.Must(uuid.NewV7())
		jobs[i] = rawJob{id, id} // like the own fire of a one-off job
	}
	now := time.Now()
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"jobs"},
			[]string{"created_at", "updated_at", "max_attempts", "revision", "state", "kind", "part", "priority", "id", "tenant", "name", "spec", "target", "payload"},
			pgx.CopyFromSlice(n, func(i int) ([]any, error) {
				return []any{now, now, 4, 1, 1, 1, int(jobs[i].job[15] & 63), 5, jobs[i].job, "default", "bench", rawSpec, rawTarget, payload}, nil
			}))
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"live"},
			[]string{"lane", "due_at", "scheduled_at", "nonce", "max_attempts", "part", "priority", "trigger", "tally", "id", "job", "tenant", "class"},
			pgx.CopyFromSlice(n, func(i int) ([]any, error) {
				part := int(jobs[i].job[15] & 63)
				return []any{engine.LaneNumber(job.Partition(part), tenant.Default, "simulate"), now, now, 0, 4, part, 5, 1, false, jobs[i].id, jobs[i].job, "default", "simulate"}, nil
			}))
		return err
	})
	return jobs, err
}

const (
	rawClaim = `
		WITH t AS MATERIALIZED (SELECT nextval('tokens') AS token), c AS (
			UPDATE live v SET lease = t.token, leased_at = now(), started_at = now(), attempt = v.attempt + 1, worker = $2
			FROM t, unnest($1::uuid[]) u(id), jobs j
			WHERE v.id = u.id AND v.lease <= 0 AND v.due_at <= now() AND j.tenant = v.tenant AND j.id = v.job
			RETURNING v.id, v.lease, j.name, j.target, j.payload
		), d AS (INSERT INTO leases (lease, worker, at, ids) SELECT lease, $2, now(), array_agg(id) FROM c GROUP BY lease)
		SELECT id, lease, name, target, payload FROM c`
	rawFinish = `
		WITH gone AS (
			DELETE FROM live v USING unnest($1::uuid[], $2::int8[]) f(id, token) WHERE v.id = f.id AND v.lease = f.token
			RETURNING v.id, v.tenant, v.job, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.attempt, v.tries, v.lost, v.max_attempts, v.priority, v.part, v.worker, v.tally, f.token
		)
		INSERT INTO executions (id, tenant, job, status, trigger, scheduled_at, due_at, started_at, finished_at, attempt, tries, lost, max_attempts, priority, part, worker, token, tally)
		SELECT id, tenant, job, 10, trigger, scheduled_at, due_at, started_at, now(), attempt, tries, lost, max_attempts, priority, part, worker, token, tally FROM gone`
)

// rawLeased is one claimed batch.
type rawLeased struct {
	ids    [][16]byte
	tokens []int64
}

var rawWorker = [16]byte(uuid.New())

func collectRaw(rows pgx.Rows, err error) (l rawLeased, _ error) {
	if err != nil {
		return l, err
	}
	var id [16]byte
	var token int64
	var name string
	var target, payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &token, &name, &target, &payload}, func() error {
		l.ids, l.tokens = append(l.ids, id), append(l.tokens, token)
		return nil
	})
	return l, err
}

func idsOf(jobs []rawJob) [][16]byte {
	ids := make([][16]byte, len(jobs))
	for i, j := range jobs {
		ids[i] = j.id
	}
	return ids
}

func (p *rawPostgres) phases(ctx context.Context, s settings) (r rates, err error) {
	c, err := p.connect(ctx)
	if err != nil {
		return r, err
	}
	defer c.Close(ctx)
	if err := forget(ctx, c); err != nil {
		return r, err
	}
	var batches [][]rawJob
	began := time.Now()
	for done := 0; done < s.jobs; done += s.batch {
		jobs, err := p.insert(ctx, c, min(s.batch, s.jobs-done))
		if err != nil {
			return r, err
		}
		batches = append(batches, jobs)
	}
	r.insert = perSecond(s.jobs, began)
	var leased []rawLeased
	began = time.Now()
	for _, b := range batches {
		l, err := collectRaw(c.Query(ctx, rawClaim, idsOf(b), rawWorker))
		if err != nil {
			return r, err
		}
		leased = append(leased, l)
	}
	r.claim = perSecond(s.jobs, began)
	began = time.Now()
	ended := 0
	for _, l := range leased {
		tag, err := c.Exec(ctx, rawFinish, l.ids, l.tokens)
		if err != nil {
			return r, err
		}
		ended += int(tag.RowsAffected())
	}
	r.finish = perSecond(s.jobs, began)
	if ended != s.jobs {
		return r, fmt.Errorf("the raw probe ended %d of %d", ended, s.jobs)
	}
	return r, nil
}

// life inserts on one connection while another finishes each batch in the commit that claims the next.
func (p *rawPostgres) life(ctx context.Context, s settings) (float64, error) {
	in, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer in.Close(ctx)
	work, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer work.Close(ctx)
	if err := forget(ctx, in); err != nil {
		return 0, err
	}
	batches := make(chan []rawJob, s.jobs/s.batch+1)
	failed := make(chan error, 1)
	began := time.Now()
	go func() {
		defer close(batches)
		for done := 0; done < s.jobs; done += s.batch {
			jobs, err := p.insert(ctx, in, min(s.batch, s.jobs-done))
			if err != nil {
				failed <- err
				return
			}
			batches <- jobs
		}
	}()
	ended := 0
	var before rawLeased
	step := func(next []rawJob) error {
		b := &pgx.Batch{}
		var now rawLeased
		if len(before.ids) > 0 {
			b.Queue(rawFinish, before.ids, before.tokens)
		}
		if len(next) > 0 {
			b.Queue(rawClaim, idsOf(next), rawWorker)
		}
		r := work.SendBatch(ctx, b)
		if len(before.ids) > 0 {
			tag, err := r.Exec()
			if err != nil {
				return err
			}
			ended += int(tag.RowsAffected())
		}
		if len(next) > 0 {
			var err error
			if now, err = collectRaw(r.Query()); err != nil {
				return err
			}
		}
		before = now
		return r.Close()
	}
	for jobs := range batches {
		if err := step(jobs); err != nil {
			return 0, err
		}
	}
	if err := step(nil); err != nil {
		return 0, err
	}
	select {
	case err := <-failed:
		return 0, err
	default:
	}
	if ended != s.jobs {
		return 0, fmt.Errorf("the raw probe ended %d of %d", ended, s.jobs)
	}
	return perSecond(s.jobs, began), nil
}
