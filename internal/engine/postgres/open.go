package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// Config holds the options of Open.
type Config struct {
	URL              string // postgres://user:password@host:port/database, or the key=value form
	ApplicationName  string // as pg_stat_activity shows it; "" for carillon
	AllowAsyncCommit bool   // accept a server that may lose acknowledged commits
	HotConns         int    // 0: 6
	ReadConns        int    // 0: 8
	AppRole          string // the role to which Migrate grants what servers need; "": servers own the tables
	Logger           *slog.Logger
}

// Store is the store over one PostgreSQL database.
type Store struct {
	sqlstore.Settings
	sqlstore.Runs
	sqlstore.Forgetting
	*database

	jobs     // definitions: create, find, change, delete, run again
	leases   // firings, leases and their results, bundles
	sessions // workers, and what they held
	reads    // executions, logs and counts for people
	servers  // ownership of partitions, and notifications between servers
	upkeep   // what keeps the tables small
}

// database is the connections to one database, and cached state.
type database struct {
	hot, read *pgxpool.Pool
	open      func(ctx context.Context, conns int, settings ...map[string]string) (*pgxpool.Pool, error)
	size      struct{ hot, read int } // connections of each
	wall      atomic.Pointer[wall]
	admin     *pgx.ConnConfig // for separate connections: migrations
	about     string
	log       *slog.Logger           // may be nil
	lineage   atomic.Pointer[string] // of the database, as last recognized
	name      string                 // the name that signs its notifications
	app       string                 // the role that servers run with; "": the same
	noCopy    atomic.Bool            // row-level security, even if ineffective, keeps it from COPY
	ready     atomic.Bool            // the schema is known to be this version's
	full      atomic.Bool            // a write found the disk full, and none has succeeded since
	// roomAt is when a ping last found room on the disk.
	roomAt atomic.Pointer[time.Time]
	// swept is the token up to which Tidy has examined the directory: long-held leases must not keep it from later
	// ones.
	swept atomic.Int64
	// walked is the execution up to which it has looked for remains of deletions.
	walked atomic.Pointer[[16]byte]
	// revised is the revision of a job up to which it has looked for those of deleted jobs.
	revised atomic.Pointer[revisionOf]
	// drawn is the bucket up to which it has looked for full ones.
	drawn atomic.Pointer[string]
	// logged is the execution up to which it has examined the logs.
	logged  atomic.Pointer[[16]byte]
	dropped atomic.Pointer[string] // the table up to which it has looked for empty ones of past days
	decided horizon
	watch   watch
	pulse   pulse
	dues    atomic.Int64 // how many jobs the last query found due
	memo    engine.Memo  // of due jobs

	perBundle atomic.Int64 // the average number of executions in recently read bundles
	packsAll  bool         // whatever may be in a bundle is, even alone; for tests
}

// Each of these holds the methods of one subject. All share the database.
type (
	jobs     struct{ *database }
	leases   struct{ *database }
	sessions struct{ *database }
	reads    struct{ *database }
	servers  struct{ *database }
	upkeep   struct{ *database }
)

var _ engine.Store = (*Store)(nil)

const oldestVersion = 150000

// connectTime limits how long a connection may take to open; the package's tests wait longer.
var connectTime = 3 * time.Second

// Open connects to the database and checks that its commits are durable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	base, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errBadURL
	}
	cc := base.ConnConfig
	if cfg.ApplicationName != "" {
		cc.RuntimeParams["application_name"] = cfg.ApplicationName
	} else if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "carillon"
	}
	cc.RuntimeParams["timezone"] = "UTC"
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTime
	}
	where := net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port)))
	srv, err := inspect(ctx, cc)
	if err != nil {
		return nil, translate("open PostgreSQL at "+where, err)
	}
	if err := srv.check(cfg.AllowAsyncCommit); err != nil {
		return nil, fmt.Errorf("open PostgreSQL at %s: %w", where, err)
	}
	if cfg.Logger != nil && (srv.commit == "off" || srv.fsync == "off") {
		cfg.Logger.WarnContext(ctx, "PostgreSQL may lose what it has acknowledged, and store.allow_async_commit accepts that",
			"synchronous_commit", srv.commit, "fsync", srv.fsync)
	}

	d := &database{admin: cc.Copy(), log: cfg.Logger, name: newName(), app: cfg.AppRole, about: fmt.Sprintf("PostgreSQL %s at %s, database %s", srv.version, where, cc.Database)}
	s := &Store{sqlstore.New(settings{d}), sqlstore.NewRuns(settings{d}), sqlstore.NewForgetting(settings{d}), d, jobs{d}, leases{d}, sessions{d}, reads{d}, servers{d}, upkeep{d}}
	s.perBundle.Store(job.Bundle)
	s.pulse.cfg = cc.Copy()
	durable := map[string]string{}
	if !cfg.AllowAsyncCommit && srv.commit != "remote_apply" {
		durable["synchronous_commit"] = "on" // whatever is set for a role or database
	}
	s.size.hot, s.size.read = or(cfg.HotConns, 6), or(cfg.ReadConns, 8)
	s.open = func(ctx context.Context, conns int, settings ...map[string]string) (*pgxpool.Pool, error) {
		connected := s.recognize
		if slices.ContainsFunc(settings, func(m map[string]string) bool { return m["role"] != "" }) {
			connected = func(context.Context, *pgx.Conn) error { return nil } // it draws no tokens
		}
		return pool(ctx, base, conns, connected, append(settings, durable)...)
	}
	if s.hot, err = s.open(ctx, s.size.hot, hotSettings); err != nil {
		return nil, translate("open PostgreSQL at "+where, err)
	}
	if s.read, err = s.open(ctx, s.size.read, readSettings); err != nil {
		s.hot.Close()
		return nil, translate("open PostgreSQL at "+where, err)
	}
	return s, nil
}

func or(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

func pool(ctx context.Context, base *pgxpool.Config, conns int, connected func(context.Context, *pgx.Conn) error, settings ...map[string]string) (*pgxpool.Pool, error) {
	c := base.Copy()
	c.MaxConns = int32(conns)
	for _, m := range settings {
		maps.Copy(c.ConnConfig.RuntimeParams, m)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerArrays(conn)
		return connected(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// server holds what Open asks a server about itself.
type server struct {
	number            int
	version           string
	commit, fsync     string
	encoding          string
	standby, readOnly bool
}

func inspect(ctx context.Context, cc *pgx.ConnConfig) (server, error) {
	ctx, cancel := context.WithTimeout(ctx, max(patience, cc.ConnectTimeout)) // which may be what the URL says
	defer cancel()
	var v server
	c, err := pgx.ConnectConfig(ctx, cc.Copy())
	if err != nil {
		return v, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	err = c.QueryRow(ctx, `
		SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
			current_setting('server_encoding'), pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool`).
		Scan(&v.number, &v.version, &v.commit, &v.fsync, &v.encoding, &v.standby, &v.readOnly)
	return v, err
}

func (v server) check(allowAsync bool) error {
	switch {
	case v.number < oldestVersion:
		return fmt.Errorf("the server is version %s; want 15 or later", v.version)
	case v.standby:
		return errors.New("the server is a standby (pg_is_in_recovery() is true); want the primary")
	case v.readOnly:
		return errors.New("default_transaction_read_only is on; want off, for this role and database")
	case v.encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; want UTF8", v.encoding)
	case v.commit == "off" && !allowAsync:
		return errors.New("synchronous_commit is off, so that a crash may lose jobs that were acknowledged; want on (or set store.allow_async_commit to accept the loss)")
	case v.fsync == "off" && !allowAsync:
		return errors.New("fsync is off, so that a crash may destroy the database; want on (or set store.allow_async_commit to accept the loss)")
	}
	return nil
}

// Describe returns the server's version, address and database.
func (s *Store) Describe() string { return s.about }

// Backend returns the id of one of the server's processes, as the server knows it.
func (s *Store) Backend(ctx context.Context) (pid int, err error) {
	err = s.look(ctx, "ask for a process of the server", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	})
	return pid, err
}

// Now returns the server's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var t time.Time
	err := s.ask(ctx, "read the clock", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&t)
	})
	return t.UTC(), err
}

// Ping reports whether the server answers, takes writes and has this version's schema. It also checks now and then, and
// after a write that found the disk full, whether there is room.
func (s *Store) Ping(ctx context.Context) error {
	last := s.roomAt.Load()
	if s.full.Load() || last == nil || time.Since(*last) >= roomEvery {
		if err := s.ask(ctx, "ping", room); isCode(err, diskFull) {
			s.full.Store(true) // checked at each ping until there is room
			return fmt.Errorf("ping: %w: %w", engine.ErrNoRoom, err)
		} else if err == nil {
			now := time.Now()
			s.roomAt.Store(&now)
			s.full.Store(false)
		} // otherwise something else is wrong, and what follows tells
	}
	return s.ask(ctx, "ping", func(ctx context.Context, c *pgxpool.Conn) error {
		var standby, readOnly bool
		if err := c.QueryRow(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool").Scan(&standby, &readOnly); err != nil {
			return err
		}
		switch {
		case standby:
			return fmt.Errorf("%w: it is a standby, or recovers", engine.ErrReadOnly)
		case readOnly:
			return fmt.Errorf("%w: default_transaction_read_only is on", engine.ErrReadOnly)
		}
		return s.check(ctx, c) // always: a newer version running beside this one may have changed it
	})
}

// roomEvery is how often a ping checks for space if no write has failed. Probes give up after some 5 s.
const roomEvery = 3 * time.Second

// room fails if there is no room for a megabyte where the database's tables are. The rows go to a temporary file, as
// they exceed what may be in memory: no table and no log is written, and nothing is left behind.
func room(ctx context.Context, c *pgxpool.Conn) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for _, sql := range []string{"SET LOCAL work_mem = '64kB'", "SET LOCAL temp_tablespaces = ''", "SELECT count(*) FROM generate_series(1, 50000)"} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all connections once their current calls are done.
func (s *Store) Close() error {
	s.pulse.close()
	s.hot.Close()
	s.read.Close()
	if w := s.wall.Load(); w != nil && w.hot != nil {
		w.hot.Close()
		w.read.Close()
	}
	return nil
}
