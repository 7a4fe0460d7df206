package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// The SQLSTATEs that this package acts on.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	checkViolation       = "23514" // also: no partition for the row
	undefinedTable       = "42P01"
	diskFull             = "53100"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014" // also: statement_timeout
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
)

const retries = 3

// write runs f on a connection of the hot path, and again if the database aborted it to resolve a conflict.
func (s *database) write(ctx context.Context, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	pool, f := s.within(ctx, s.hot, f)
	err := s.run(ctx, pool, false, doing, f)
	if isCode(err, diskFull) {
		s.full.Store(true)
	}
	return err
}

// ask runs f, which only reads, on a connection of the hot path.
func (s *database) ask(ctx context.Context, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	pool, f := s.within(ctx, s.hot, f)
	return s.run(ctx, pool, true, doing, f)
}

// look runs f, which only reads, on a connection for reading.
func (s *database) look(ctx context.Context, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	pool, f := s.within(ctx, s.read, f)
	return s.run(ctx, pool, true, doing, f)
}

// run runs f, and retries if that is safe: always if the database aborted it to resolve a conflict, and read-only
// calls once if the connection was dead. Whatever ended that connection has probably ended the others, so all are
// reopened.
func (s *database) run(ctx context.Context, pool *pgxpool.Pool, reads bool, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, done := s.pulse.guard(ctx)
	defer done()
	err := attempt(ctx, pool, reads, doing, f)
	if err == nil {
		s.pulse.answered()
	}
	return explain(ctx, doing, err)
}

func attempt(ctx context.Context, pool *pgxpool.Pool, reads bool, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	for try := 0; ; try++ {
		err := pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return f(ctx, c) })
		if reads && ctx.Err() == nil && dropped(err) {
			reads = false
			pool.Reset()
			err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return f(ctx, c) })
		}
		if try == retries || !(isCode(err, serializationFailure) || isCode(err, deadlockDetected)) {
			return translate(doing, err)
		}
		select {
		case <-ctx.Done():
			return translate(doing, err)
		case <-time.After(time.Duration((1 + rand.Float64()) * float64(int(5*time.Millisecond)<<try))):
		}
	}
}

// hitting runs f, one statement that commits by itself, with a failpoint before its commit.
func hitting(ctx context.Context, c *pgx.Conn, name string, f func() error) error {
	if !failpoint.Set(name) {
		return f()
	}
	return pgx.BeginFunc(ctx, c, func(pgx.Tx) error {
		if err := f(); err != nil {
			return err
		}
		return failpoint.Hit(name)
	})
}

// dropped reports whether the connection ended, with or without a message of the server.
func dropped(err error) bool {
	var connect *pgconn.ConnectError
	if err == nil || errors.As(err, &connect) {
		return false
	}
	return isCode(err, adminShutdown) || isCode(err, crashShutdown) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || pgconn.SafeToRetry(err) && !pgconn.Timeout(err)
}

func isCode(err error, code string) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && p.Code == code
}

// translate adds what was being done, and maps the driver's errors to those that callers know.
func translate(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
	case isCode(err, queryCanceled), isCode(err, lockNotAvailable): // a timeout of the server: it answers, but not this
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrTooSlow, err)
	case isCode(err, undefinedTable):
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrSchema, err)
	case unavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unavailable reports whether the server is unreachable, shutting down, full or too slow.
func unavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	var p *pgconn.PgError
	if errors.As(err, &p) {
		switch p.Code {
		case serializationFailure, deadlockDetected, lockNotAvailable, queryCanceled,
			"25P03", // idle_in_transaction_session_timeout
			"25006": // read only: a standby, or about to become one
			return true
		}
		// connection, resources, shutdown, input and output
		for _, class := range []string{"08", "53", "57P", "58"} {
			if strings.HasPrefix(p.Code, class) {
				return true
			}
		}
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, puddle.ErrClosedPool) || pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}
