package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

var errClosed = errors.New("the store is closed")

// translate adds what was being done, and maps the driver's errors to those that callers know.
func translate(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	code := sqlite.ErrCode(err).ToPrimary()
	if code == sqlite.ResultInterrupt && ctx.Err() != nil {
		err = ctx.Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errClosed), errors.Is(err, errGone), errors.Is(err, errUnsure), errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, err)
	case code == sqlite.ResultConstraint:
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrConflict, err)
	case code == sqlite.ResultCorrupt:
		return fmt.Errorf("%s: the database file is damaged; restore it from a backup: %w", doing, err)
	case code == sqlite.ResultNotADB:
		return fmt.Errorf("%s: the file is not an SQLite database, or is encrypted: %w", doing, err)
	case code == sqlite.ResultFull:
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrNoRoom, err)
	case code == sqlite.ResultReadOnly:
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrReadOnly, err)
	case unavailable(code):
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unavailable reports whether the file cannot be read or written for now: it is busy, or the disk fails.
func unavailable(code sqlite.ResultCode) bool {
	switch code {
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultIOErr, sqlite.ResultInterrupt,
		sqlite.ResultCantOpen, sqlite.ResultNoMem, sqlite.ResultProtocol:
		return true
	default:
		return false
	}
}
