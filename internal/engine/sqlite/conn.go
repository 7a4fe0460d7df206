package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Time limits of a call, including the wait for a connection.
const (
	writePatience = time.Minute // for ten thousand jobs on a slow disk; a caller with less time sets its own
	readPatience  = 15 * time.Second
	busyTimeout   = 5 * time.Second
)

// conn is a connection; whoever took it from its pool has it exclusively.
type conn struct {
	*sqlite.Conn
	stmts     map[string]*stmt
	committed func() // called after the current commit
	back      setBack
	edges     *bool // any job depends on another; nil: not known yet
}

func openConn(path string, flags sqlite.OpenFlags, pragmas ...string) (*conn, error) {
	on, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: on, stmts: map[string]*stmt{}}
	on.SetBusyTimeout(busyTimeout)
	for _, p := range pragmas {
		if _, err := c.prepare("PRAGMA " + p).exec(); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	if err := register(on); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// variableLimit finds limits that are a variable. SQLite plans by their values, and compiles the statement anew each time they are
// bound; of a sum it does not know the value.
var variableLimit = regexp.MustCompile(`\bLIMIT ([?$]\d*)`)

// prepare prepares a statement once, and reuses it from then on; every text it is given comes from this package.
func (c *conn) prepare(sql string) *stmt {
	if q, ok := c.stmts[sql]; ok {
		q.in = 0
		return q
	}
	on, err := c.Prepare(variableLimit.ReplaceAllString(sql, "LIMIT 0 + $1"))
	if err != nil {
		return &stmt{err: err}
	}
	q := &stmt{conn: c.Conn, on: on, row: row{on: on}}
	c.stmts[sql] = q
	return q
}

// write runs f in a transaction of the connection that writes.
func (s *database) write(ctx context.Context, doing string, f func(c *conn, now int64) error) error {
	if !s.ready.Load() {
		return s.unready(doing)
	}
	return s.alter(ctx, writePatience, doing, func(c *conn) error {
		now, by := s.clock.read()
		if by != 0 {
			if err := shift(c, now, by); err != nil {
				return err
			}
			now += by
			c.committed = func() { s.follow(c, now, by) }
		}
		return f(c, now)
	})
}

// alter is write, whether or not the schema is there. It does not commit into a file that is gone.
func (s *database) alter(ctx context.Context, patience time.Duration, doing string, f func(*conn) error) error {
	defer s.wrote()
	return s.run(ctx, s.writer, patience, doing, "BEGIN IMMEDIATE", func(c *conn) error {
		if err := f(c); err != nil {
			return err
		}
		return s.watch.glance()
	})
}

// look runs f on a connection that reads, all of it in one snapshot.
func (s *database) look(ctx context.Context, doing string, f func(c *conn) error) error {
	if !s.ready.Load() {
		return s.unready(doing)
	}
	return s.run(ctx, s.readers, readPatience, doing, "BEGIN", f)
}

func (s *database) run(ctx context.Context, pool chan *conn, patience time.Duration, doing, begin string, f func(*conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := s.take(ctx, pool)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer func() { pool <- c }() // which has room: c came from it
	c.committed = nil
	if err = c.transact(ctx, begin, f); err == nil && c.committed != nil {
		c.committed()
	}
	if err == nil && s.tap != nil && pool == s.writer {
		s.tap.committed()
	}
	s.watch.judge(err)
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull {
		s.full.Store(true)
	}
	return translate(ctx, doing, err)
}

// exclusively prepares, takes the writing connection, and prepares the rest and acts while nobody writes. Where the rest
// cannot be prepared without a wait, it begins again. It returns false if the store was closed meanwhile.
func (s *database) exclusively(prepare func(alone bool) bool, act func()) bool {
	for {
		prepare(false)
		select {
		case <-s.closed:
			return false
		case w := <-s.writer:
			ready := prepare(true)
			if ready {
				act()
			}
			s.writer <- w // which has room: w came from it
			if ready {
				return true
			}
		}
	}
}

// take waits for a connection.
func (s *database) take(ctx context.Context, pool chan *conn) (*conn, error) {
	select {
	case <-s.closed:
		return nil, errClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c := <-pool:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closed:
		return nil, errClosed
	}
}

// transact runs f in a transaction, which the end of ctx interrupts until it is about to commit, and not after.
func (c *conn) transact(ctx context.Context, begin string, f func(*conn) error) (err error) {
	c.SetInterrupt(ctx.Done())
	committed := false
	defer func() {
		c.SetInterrupt(nil)
		if !committed && !c.AutocommitEnabled() {
			_, _ = c.prepare("ROLLBACK").exec() // its error does not matter: without a COMMIT nothing is kept
		}
	}()
	if _, err := c.prepare(begin).exec(); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	c.SetInterrupt(nil)
	_, err = c.prepare("COMMIT").exec()
	committed = err == nil
	return err
}

// unready returns why nothing can be done: the store is closed, or its schema is not this version's.
func (s *database) unready(doing string) error {
	select {
	case <-s.closed:
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, errClosed)
	default:
		return fmt.Errorf("%s: %w; start this version of carillon once; it brings the schema up to date", doing, engine.ErrSchema)
	}
}

// now returns the store's clock, in its stored form.
func (s *database) now() int64 {
	now, _ := s.clock.read()
	return now
}

// follow adopts the machine's clock again, which was set and shows now; everything that counts from a moment has
// moved with it.
func (s *database) follow(c *conn, now, by int64) {
	s.clock.ahead.Add(by)
	s.alarms.Store(nil)
	if c.back = (setBack{}); by < 0 {
		c.back = setBack{-by, now + behindStep.Microseconds()}
	}
}
