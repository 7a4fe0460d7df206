package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// openSQLite makes two fresh files with the same tables, one for each probe.
func openSQLite(ctx context.Context) (contest, error) {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return contest{}, err
	}
	path := func(kind string) string { return filepath.Join(dir, kind+".db") }
	raw, err := sqlite.Open(ctx, sqlite.Config{Path: path("raw")}) // for its tables only
	if err != nil {
		return contest{}, err
	}
	if err := errors.Join(raw.Migrate(ctx), raw.Close()); err != nil {
		return contest{}, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path("product")})
	if err != nil {
		return contest{}, err
	}
	if err := store.Migrate(ctx); err != nil {
		return contest{}, err
	}
	beside, err := connectSQLite(path("product"))
	if err != nil {
		return contest{}, err
	}
	bare, err := connectSQLite(path("raw"))
	if err != nil {
		return contest{}, err
	}
	var version string
	if err := one(bare, "SELECT sqlite_version()", func(s *zsqlite.Stmt) { version = s.ColumnText(0) }); err != nil {
		return contest{}, err
	}
	return contest{
		name: "SQLite " + version,
		product: &product{
			store: store,
			empty: func(context.Context) error { return forgetSQLite(beside) },
		},
		raw:   &rawSQLite{bare},
		close: func() error { return errors.Join(beside.Close(), bare.Close(), store.Close(), os.RemoveAll(dir)) },
	}, nil
}

func connectSQLite(path string) (*zsqlite.Conn, error) {
	c, err := zsqlite.OpenConn(path, zsqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	c.SetBlockOnBusy()
	for _, p := range []string{"journal_mode = WAL", "synchronous = FULL", "cache_size = -65536", "wal_autocheckpoint = 2000"} {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func one(c *zsqlite.Conn, sql string, read func(*zsqlite.Stmt)) error {
	return sqlitex.Execute(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *zsqlite.Stmt) error { read(s); return nil }})
}

func forgetSQLite(c *zsqlite.Conn) error {
	for _, table := range []string{"jobs", "live", "leases", "executions", "attempts", "sessions", "idempotency", "job_stats", "job_durations"} {
		if err := sqlitex.Execute(c, "DELETE FROM "+table, nil); err != nil {
			return err
		}
	}
	return sqlitex.Execute(c, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
}

// rawSQLite is the life of a job in bare SQL on one connection: prepared statements, one transaction a batch.
type rawSQLite struct{ c *zsqlite.Conn }

func (p *rawSQLite) tx(f func() error) error {
	if err := sqlitex.Execute(p.c, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, sqlitex.Execute(p.c, "ROLLBACK", nil))
	}
	return sqlitex.Execute(p.c, "COMMIT", nil)
}

func step(s *zsqlite.Stmt) error {
	_, err := s.Step()
	return errors.Join(err, s.Reset())
}

func (p *rawSQLite) insert(n int) ([]rawJob, error) {
	jobs := make([]rawJob, n)
	now := time.Now().UnixMicro()
	return jobs, p.tx(func() error {
		j := p.c.Prep(`INSERT INTO jobs (tenant, id, state, kind, priority, revision, created_at, updated_at, name, spec, target, payload) VALUES ('default', ?1, 1, 1, 5, 1, ?2, ?2, 'bench', ?3, ?4, ?5)`)
		l := p.c.Prep(`INSERT INTO live (id, due_at, scheduled_at, nonce, max_attempts, part, priority, trigger, job, tenant, class) VALUES (?1, ?2, ?2, 0, 4, ?3, 5, 1, ?4, 'default', 'simulate')`)
		for i := range jobs {
			id := uuid.Must(uuid.NewV7())
			jobs[i] = rawJob{id, id} // like the own fire of a one-off job
			j.BindBytes(1, jobs[i].job[:])
			j.BindInt64(2, now)
			j.BindBytes(3, rawSpec)
			j.BindBytes(4, rawTarget)
			j.BindBytes(5, payload)
			if err := step(j); err != nil {
				return err
			}
			l.BindBytes(1, jobs[i].id[:])
			l.BindInt64(2, now)
			l.BindInt64(3, int64(jobs[i].job[15]&63))
			l.BindBytes(4, jobs[i].job[:])
			if err := step(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// claim leases a batch under one token, and reads what a worker needs.
func (p *rawSQLite) claim(jobs []rawJob) (token int64, err error) {
	if err := one(p.c, "UPDATE tokens SET next = next + 1 RETURNING next", func(s *zsqlite.Stmt) { token = s.ColumnInt64(0) }); err != nil {
		return 0, err
	}
	now := time.Now().UnixMicro()
	u := p.c.Prep(`UPDATE live SET lease = ?2, worker = ?4, leased_at = ?3, started_at = coalesce(started_at, ?3), attempt = attempt + 1 WHERE id = ?1 AND lease <= 0 AND lease > -?2 AND hold = 0 AND due_at <= ?3`)
	r := p.c.Prep(`SELECT j.name, j.target, j.payload FROM live v JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job WHERE v.id = ?1`)
	ids := make([]byte, 0, 16*len(jobs))
	buf := make([]byte, 1024)
	for _, j := range jobs {
		u.BindBytes(1, j.id[:])
		u.BindInt64(2, token)
		u.BindInt64(3, now)
		u.BindBytes(4, rawWorker[:])
		if err := step(u); err != nil {
			return 0, err
		}
		r.BindBytes(1, j.id[:])
		if _, err := r.Step(); err != nil {
			return 0, err
		}
		_ = r.ColumnText(0)
		r.ColumnBytes(1, buf)
		r.ColumnBytes(2, buf)
		if err := r.Reset(); err != nil {
			return 0, err
		}
		ids = append(ids, j.id[:]...)
	}
	d := p.c.Prep(`INSERT INTO leases (lease, at, worker, ids) VALUES (?1, ?2, ?3, ?4)`)
	d.BindInt64(1, token)
	d.BindInt64(2, now)
	d.BindBytes(3, rawWorker[:])
	d.BindBytes(4, ids)
	return token, step(d)
}

func (p *rawSQLite) finish(jobs []rawJob, token int64) (ended int, err error) {
	h := p.c.Prep(`INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, worker, tenant)
		SELECT id, job, 10, lease, ?3, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, worker, tenant FROM live WHERE id = ?1 AND lease = ?2`)
	d := p.c.Prep(`DELETE FROM live WHERE id = ?1 AND lease = ?2`)
	now := time.Now().UnixMicro()
	for _, j := range jobs {
		h.BindBytes(1, j.id[:])
		h.BindInt64(2, token)
		h.BindInt64(3, now)
		if err := step(h); err != nil {
			return ended, err
		}
		d.BindBytes(1, j.id[:])
		d.BindInt64(2, token)
		if err := step(d); err != nil {
			return ended, err
		}
		ended += p.c.Changes()
	}
	return ended, nil
}

func (p *rawSQLite) phases(_ context.Context, s settings) (r rates, err error) {
	if err := forgetSQLite(p.c); err != nil {
		return r, err
	}
	var batches [][]rawJob
	began := time.Now()
	for done := 0; done < s.jobs; done += s.batch {
		jobs, err := p.insert(min(s.batch, s.jobs-done))
		if err != nil {
			return r, err
		}
		batches = append(batches, jobs)
	}
	r.insert = perSecond(s.jobs, began)
	tokens := make([]int64, len(batches))
	began = time.Now()
	for i, b := range batches {
		if err := p.tx(func() (err error) { tokens[i], err = p.claim(b); return err }); err != nil {
			return r, err
		}
	}
	r.claim = perSecond(s.jobs, began)
	began = time.Now()
	ended := 0
	for i, b := range batches {
		if err := p.tx(func() error { n, err := p.finish(b, tokens[i]); ended += n; return err }); err != nil {
			return r, err
		}
	}
	r.finish = perSecond(s.jobs, began)
	if ended != s.jobs {
		return r, fmt.Errorf("the raw probe ended %d of %d", ended, s.jobs)
	}
	return r, nil
}

// life inserts a batch, then finishes the one before in the commit that claims it: there is one writer.
func (p *rawSQLite) life(_ context.Context, s settings) (float64, error) {
	if err := forgetSQLite(p.c); err != nil {
		return 0, err
	}
	began := time.Now()
	ended := 0
	var before []rawJob
	var token int64
	for done := 0; done < s.jobs; done += s.batch {
		jobs, err := p.insert(min(s.batch, s.jobs-done))
		if err != nil {
			return 0, err
		}
		err = p.tx(func() error {
			n, err := p.finish(before, token)
			if err != nil {
				return err
			}
			ended += n
			token, err = p.claim(jobs)
			return err
		})
		if err != nil {
			return 0, err
		}
		before = jobs
	}
	if err := p.tx(func() error { n, err := p.finish(before, token); ended += n; return err }); err != nil {
		return 0, err
	}
	if ended != s.jobs {
		return 0, fmt.Errorf("the raw probe ended %d of %d", ended, s.jobs)
	}
	return perSecond(s.jobs, began), nil
}
