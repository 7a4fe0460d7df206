// Package behind is for tests: a database that reads in one transaction and writes in the next, as if no lock held a run in between.
package behind

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// DB changes runs by what it read a transaction before.
type DB struct {
	sqlstore.RunDB
	Between func() // is called when it has read, and before it writes
}

// WriteRuns implements sqlstore.RunDB. What is read first is read in a transaction of its own.
func (d DB) WriteRuns(ctx context.Context, doing string, f func(sqlstore.RunTx) error) error {
	t := &late{ctx: ctx, db: d.RunDB, doing: doing, wants: make(chan struct{}), tx: make(chan sqlstore.RunTx)}
	done := make(chan error, 1)
	go func() { done <- f(t) }()
	select {
	case err := <-done: // it wrote nothing
		return err
	case <-t.wants:
	}
	d.Between()
	return d.RunDB.WriteRuns(ctx, doing, func(tx sqlstore.RunTx) error {
		t.tx <- tx
		return <-done
	})
}

// late is a transaction that begins with the first statement after ReadAll.
type late struct {
	ctx   context.Context
	db    sqlstore.RunDB
	doing string
	wants chan struct{} // closed when somebody waits for tx
	tx    chan sqlstore.RunTx
	begun sqlstore.RunTx
}

func (t *late) it() sqlstore.RunTx {
	if t.begun == nil {
		close(t.wants)
		t.begun = <-t.tx
	}
	return t.begun
}

func (t *late) ReadAll(qs ...sqlstore.Query) (now time.Time, err error) {
	err = t.db.WriteRuns(t.ctx, t.doing, func(tx sqlstore.RunTx) (err error) {
		now, err = tx.ReadAll(qs...)
		return err
	})
	return now, err
}

func (t *late) WriteAll(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	return t.it().WriteAll(statements, executions)
}

func (t *late) AddParked(e *job.Execution) (job.Token, error) { return t.it().AddParked(e) }

func (t *late) WriteLast(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	return t.it().WriteLast(statements, executions)
}

func (t *late) Conclude(fs []job.Finish, qs ...sqlstore.Query) ([]job.Verdict, time.Time, error) {
	return t.it().Conclude(fs, qs...)
}

func (t *late) FinishExecutions(fs []job.Finish) ([]sqlstore.Finished, error) {
	return t.it().FinishExecutions(fs)
}

func (t *late) CancelExecutions(of tenant.ID, ids []job.ExecutionID, reason string) ([]engine.Ended, error) {
	return t.it().CancelExecutions(of, ids, reason)
}

func (t *late) ReleaseExecution(of tenant.ID, id job.ExecutionID) (job.Ready, bool, error) {
	return t.it().ReleaseExecution(of, id)
}

func (t *late) Now() (time.Time, error)                     { return t.it().Now() }
func (t *late) Exec(sql string, args ...any) (int64, error) { return t.it().Exec(sql, args...) }
func (t *late) ExecEach(sql string, rows [][]any) error     { return t.it().ExecEach(sql, rows) }
func (t *late) LockTable(name string) error                 { return t.it().LockTable(name) }
func (t *late) LockTenant(of tenant.ID) error               { return t.it().LockTenant(of) }
func (t *late) Record(e *audit.Entry) error                 { return t.it().Record(e) }
func (t *late) Settled() (int64, error)                     { return t.it().Settled() }
func (t *late) Query(f func(sqlstore.Row) error, sql string, args ...any) error {
	return t.it().Query(f, sql, args...)
}

func (t *late) Claim(of tenant.ID, i *engine.Idempotency) (engine.Created, bool, error) {
	return t.it().Claim(of, i)
}
