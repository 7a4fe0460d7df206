package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// peek runs f in a snapshot of an existing file, whoever has it open, and changes nothing.
func peek(ctx context.Context, path, doing string, f func(*conn) error) error {
	return peekWith(ctx, path, doing, f, readerPragmas...)
}

// peekWith is peek with other settings of the connection.
func peekWith(ctx context.Context, path, doing string, f func(*conn) error, pragmas ...string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	c, err := openConn(path, sqlite.OpenReadOnly, pragmas...)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer c.Close()
	return translate(ctx, doing, c.transact(ctx, "BEGIN", f))
}

// Steps lists the steps applied to a file, and the pending ones. A process may have it open.
func Steps(ctx context.Context, path string) (steps []engine.Step, err error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	err = peek(ctx, path, "read the steps of the schema of "+path, func(c *conn) error {
		done, err := readSteps(c)
		steps = engine.Steps(all, done)
		return err
	})
	return steps, err
}
