package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// engines lists every store by the scheme of its URL.
var engines = []struct {
	scheme string
	open   func(ctx context.Context, url string, o StoreOptions) (engine.Store, error)
	// scratch makes an empty temporary place beside the one that the URL names, which it leaves alone, and returns a
	// function that removes it.
	scratch func(ctx context.Context, url string) (place string, remove func(context.Context) error, err error)
}{
	{"sqlite:", openSQLite, scratchSQLite},
	{"postgres://", openPostgres, postgres.Scratch},
	{"postgresql://", openPostgres, postgres.Scratch},
}

// StoreOptions are an operator's options for a store.
type StoreOptions struct {
	AllowAsyncCommit bool
	AppRole          string // of PostgreSQL: the role of servers, if it does not own the tables
	Log              *slog.Logger
	Tap              *sqlite.Tap // of the embedded store; nil: none
}

func openSQLite(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: strings.TrimPrefix(url, "sqlite:"), Tap: o.Tap})
}

func openPostgres(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	return postgres.Open(ctx, postgres.Config{URL: url, AllowAsyncCommit: o.AllowAsyncCommit, AppRole: o.AppRole, Logger: o.Log})
}

// DevDatabase returns the URL of the store of 'carillon dev' in a data folder.
func DevDatabase(data string) string { return "sqlite:" + filepath.Join(data, "carillon.db") }

// errNoEngine means that a URL names no known store.
var errNoEngine = errors.New("the database URL has no known scheme; want sqlite:PATH or postgres://…")

// OpenStore opens the store that a URL names.
func OpenStore(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	for _, e := range engines {
		if strings.HasPrefix(url, e.scheme) {
			return e.open(ctx, url, o)
		}
	}
	return nil, errNoEngine
}
