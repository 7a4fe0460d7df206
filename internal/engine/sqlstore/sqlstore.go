// Package sqlstore keeps settings in any SQL database: keys, secrets, calendars, rules, tenants, the audit log and
// the rest of engine.Settings. Each table has one implementation here, which every SQL engine embeds.
//
// Statements are written once, for PostgreSQL and SQLite alike. Where the two differ, the text marks both variants:
// see Dialect. Engines supply a DB, which runs the statements, and implement the hot path themselves.
//
// The package never opens a connection, creates no tables and decides no policy.
package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// DB runs functions within a database. It may call a function again after a failure, so a function starts from scratch.
type DB interface {
	// Read runs f, which only reads and which a person waits for.
	Read(ctx context.Context, doing string, f func(Tx) error) error
	// Ask runs f, which only reads and which running work waits for.
	Ask(ctx context.Context, doing string, f func(Tx) error) error
	// List runs f, which only reads, in one snapshot, and makes the database follow indexes in their order.
	List(ctx context.Context, doing string, f func(Tx) error) error
	// Write runs f in one transaction.
	Write(ctx context.Context, doing string, f func(Tx) error) error
}

// Tx runs statements. Arguments are strings, bytes, integers, floats, booleans, instants, ids and lists of strings or ids. A zero
// time.Time and a zero OptionalID are stored as NULL; nil bytes are stored as empty ones.
type Tx interface {
	// Now reads the store's clock.
	Now() (time.Time, error)
	// Exec runs a statement and returns how many rows it changed.
	Exec(sql string, args ...any) (changed int64, err error)
	// ExecEach runs a statement once for each list of arguments, in one round trip.
	ExecEach(sql string, rows [][]any) error
	// Query calls f for each row.
	Query(f func(Row) error, sql string, args ...any) error
	// LockTable makes other writers of a table wait until this transaction ends.
	LockTable(name string) error
	// LockTenant makes other writers that lock the same tenant wait until this transaction ends.
	LockTenant(t tenant.ID) error
	// Record stores an audit entry.
	Record(e *audit.Entry) error
	// Settled returns the number of the last audit entry before which none can appear any more.
	Settled() (int64, error)
	// Claim claims an idempotency key. If the key was used before, Claim returns the earlier answer.
	Claim(t tenant.ID, i *engine.Idempotency) (answered engine.Created, known bool, err error)
}

// Row scans the columns of one row, in order. NULL becomes the zero value; instants are in UTC.
type Row interface {
	Scan(into ...any) error
}

// OptionalID is an id that may be missing: the zero one is NULL.
type OptionalID [16]byte

// Settings implements engine.Settings.
type Settings struct {
	archive
	auditLog
	badges
	blobs
	calendars
	holds
	keys
	notices
	operations
	secrets
	signIns
	signing
	tallies
	tenants
	workflows
}

// Each of these keeps one kind of settings.
type (
	archive    struct{ db DB }
	auditLog   struct{ db DB }
	badges     struct{ db DB }
	blobs      struct{ db DB }
	calendars  struct{ db DB }
	holds      struct{ db DB }
	keys       struct{ db DB }
	notices    struct{ db DB }
	operations struct{ db DB }
	secrets    struct{ db DB }
	signIns    struct{ db DB }
	signing    struct{ db DB }
	tallies    struct{ db DB }
	tenants    struct{ db DB }
	workflows  struct{ db DB }
)

var _ engine.Settings = Settings{}

// New returns the settings of a database.
func New(db DB) Settings {
	return Settings{archive{db}, auditLog{db}, badges{db}, blobs{db}, calendars{db}, holds{db}, keys{db}, notices{db}, operations{db}, secrets{db}, signIns{db}, signing{db}, tallies{db}, tenants{db}, workflows{db}}
}

// all collects every row.
func all[T any](tx Tx, scan func(Row) (T, error), sql string, args ...any) (out []T, err error) {
	err = tx.Query(func(r Row) error {
		x, err := scan(r)
		out = append(out, x)
		return err
	}, sql, args...)
	return out, err
}

// one returns the first row, or engine.ErrNotFound.
func one[T any](tx Tx, scan func(Row) (T, error), sql string, args ...any) (T, error) {
	rows, err := all(tx, scan, sql, args...)
	if err == nil && len(rows) == 0 {
		err = engine.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0], nil
}

// value returns the single column of the first row, or the zero value if there is no row.
func value[T any](tx Tx, sql string, args ...any) (T, error) {
	v, err := one(tx, func(r Row) (v T, err error) { return v, r.Scan(&v) }, sql, args...)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	return v, err
}

// readAll collects every row that a reader asks for.
func readAll[T any](ctx context.Context, db DB, doing string, scan func(Row) (T, error), sql string, args ...any) (out []T, err error) {
	err = db.Read(ctx, doing, func(tx Tx) (err error) {
		out, err = all(tx, scan, sql, args...)
		return err
	})
	return out, err
}

// readOne returns the row that a reader asks for, or engine.ErrNotFound.
func readOne[T any](ctx context.Context, db DB, doing string, scan func(Row) (T, error), sql string, args ...any) (out T, err error) {
	err = db.Read(ctx, doing, func(tx Tx) (err error) {
		out, err = one(tx, scan, sql, args...)
		return err
	})
	return out, err
}

// record stores an audit entry, if there is one.
func record(tx Tx, e *audit.Entry) error {
	if e == nil {
		return nil
	}
	return tx.Record(e)
}

// write runs f in one transaction and stores an audit entry with it, if there is one.
func write(ctx context.Context, db DB, doing string, e *audit.Entry, f func(Tx) error) error {
	return db.Write(ctx, doing, func(tx Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return record(tx, e)
	})
}

// exec runs one statement in a transaction of its own.
func exec(ctx context.Context, db DB, doing string, e *audit.Entry, sql string, args ...any) error {
	return write(ctx, db, doing, e, func(tx Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	})
}

// execOne runs one statement in a transaction of its own and returns an error if no row changed.
func execOne(ctx context.Context, db DB, doing string, e *audit.Entry, otherwise error, sql string, args ...any) error {
	return write(ctx, db, doing, e, func(tx Tx) error {
		return changeOne(tx, otherwise, sql, args...)
	})
}

// changeOne runs a statement and returns an error if no row changed.
func changeOne(tx Tx, otherwise error, sql string, args ...any) error {
	n, err := tx.Exec(sql, args...)
	if err == nil && n == 0 {
		return otherwise
	}
	return err
}

// create claims an idempotency key, runs f and stores an audit entry, unless the key was used before.
func create(ctx context.Context, db DB, doing string, e *audit.Entry, t tenant.ID, i engine.Idempotency, f func(Tx) error) (out engine.Created, err error) {
	err = db.Write(ctx, doing, func(tx Tx) (err error) {
		var known bool
		if out, known, err = tx.Claim(t, &i); err != nil || known {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return record(tx, e)
	})
	if err != nil {
		return engine.Created{}, err
	}
	return out, nil
}

// Answer claims an idempotency key for a request that changed n things, with the answer made from n, and stores an
// audit entry if it changed any. If the key is known it returns engine.ErrAnswered, which rolls back the change.
func Answer(tx Tx, t tenant.ID, i engine.Idempotency, n int, answer func(n int) []byte, e *audit.Entry, out *engine.Created) error {
	if n > 0 {
		if err := record(tx, e); err != nil {
			return err
		}
	}
	if i.Key == "" {
		return nil
	}
	i.Answer = answer(n)
	answered, known, err := tx.Claim(t, &i)
	if err == nil && known {
		err = engine.ErrAnswered
	}
	*out = answered
	return err
}
