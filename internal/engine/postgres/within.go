package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// Within is the part of the store that works in somebody else's transaction: its changes take effect if and when that
// commits.
type Within struct {
	engine.Store // nil: all else is not for this
	tx           pgx.Tx
	at           time.Time
}

// OtherVersion means that a schema lacks what this version of the program relies on, or is not Carillon's.
type OtherVersion struct {
	Has  int // 0: there is none
	Want int
}

func (v *OtherVersion) Error() string {
	if v.Has == 0 {
		return fmt.Sprintf("there is no Carillon schema here; want version %d", v.Want)
	}
	return fmt.Sprintf("the schema has version %d; want %d, or one that came after it", v.Has, v.Want)
}

func (v *OtherVersion) Unwrap() error { return engine.ErrSchema }

// ErrProtocol means that a connection uses a protocol in which arrays cannot be sent.
var ErrProtocol = errors.New("the connection uses the simple protocol, or guesses types; want a default_query_exec_mode of cache_statement, cache_describe or describe_exec")

// In calls f with the store as it is within a transaction, whose tables are in a schema. It leaves the transaction's
// settings as they were. If it fails, the transaction continues as if it had not been called, unless its connection
// broke.
func In(ctx context.Context, tx pgx.Tx, schema string, f func(*Within) error) error {
	c := tx.Conn()
	switch c.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec:
		return ErrProtocol
	}
	defer borrowArrays(c)()
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		w := &Within{tx: tx}
		var path string
		err := tx.QueryRow(ctx, "SELECT clock_timestamp(), current_setting('search_path'), set_config('search_path', quote_ident($1), true)", schema).Scan(at(&w.at), &path, new(string))
		if err != nil {
			return err
		}
		if err := w.check(ctx); err != nil {
			return err
		}
		if err := f(w); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", path)
		return err
	})
}

// borrowArrays registers our arrays with a foreign connection, and returns a function that undoes it.
func borrowArrays(c *pgx.Conn) (undo func()) {
	m := c.TypeMap()
	var was []*pgtype.Type
	for _, oid := range []uint32{
		pgtype.UUIDArrayOID, pgtype.Int2ArrayOID, pgtype.Int4ArrayOID, pgtype.Int8ArrayOID, pgtype.TimestamptzArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
		pgtype.BoolArrayOID,
	} {
		if t, ok := m.TypeForOID(oid); ok {
			was = append(was, t)
		}
	}
	registerArrays(c)
	return func() {
		for _, t := range was {
			m.RegisterType(t)
		}
	}
}

// check reports whether this version of the program can write to the schema: it has everything that this version
// knows, and later steps declare themselves compatible.
func (w *Within) check(ctx context.Context) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	v := &OtherVersion{Want: all[len(all)-1].Version}
	done, err := readSteps(ctx, w.tx)
	if err != nil {
		return err
	}
	if n := len(done); n > 0 {
		v.Has = done[n-1].Version
	}
	pending, err := engine.PendingMigrations(all, done)
	if err != nil {
		return errors.Join(v, err)
	}
	if len(pending) > 0 {
		return v
	}
	return nil
}

// Now returns the instant at which it began, by the store's clock.
func (w *Within) Now() time.Time { return w.at.UTC() }

// HasTenant reports whether a tenant exists.
func (w *Within) HasTenant(ctx context.Context, t tenant.ID) (bool, error) {
	return sqlstore.HasTenant(transaction{ctx: ctx, c: w.tx}, t)
}

// CreateJobs stores each creation completely or not at all, and answers in their order.
func (w *Within) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	out := make([]engine.Created, 0, len(cs))
	for i := range cs { // each may be a repeat of one stored before it
		// Not paged: roles other than the tables' owner may not COPY into them, because of row-level security.
		b := batch{all: cs[i : i+1], chosen: []int{0}, out: make([]engine.Created, 1)}
		if err := b.lookAll(ctx, w.tx, w.tx.Conn()); err != nil {
			return nil, translate("create jobs", err)
		}
		out = append(out, b.out[0])
	}
	return out, nil
}

// Job finds one job.
func (w *Within) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	return findJob(ctx, w.tx, t, ref)
}

// Calendar finds one calendar.
func (w *Within) Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	return sqlstore.Calendar(transaction{ctx: ctx, c: w.tx}, t, name)
}

// LackSecrets returns the names that no person has defined.
func (w *Within) LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error) {
	return sqlstore.LackSecrets(transaction{ctx: ctx, c: w.tx}, t, names)
}

// Notify wakes the servers when the transaction commits.
func (w *Within) Notify(ctx context.Context) error { return Wake(ctx, w.tx) }

// Wake wakes the servers: at once, or with the commit if it is called within a transaction.
func Wake(ctx context.Context, c interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}) error {
	_, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", channel, "enqueue")
	return err
}
