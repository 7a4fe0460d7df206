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
	// scratch makes an empty throwaway place beside what the URL names, which it leaves alone, and what removes it.
	scratch func(ctx context.Context, url string) (place string, remove func(context.Context) error, err error)
}{
	{"sqlite:", openSQLite, scratchSQLite},
	{"postgres://", openPostgres, postgres.Scratch},
	{"postgresql://", openPostgres, postgres.Scratch},
}

// StoreOptions are an operator's options for a store.
type StoreOptions struct {
	AllowAsyncCommit bool
	AppRole          string // of PostgreSQL: the role of servers, where it is not the tables' owner
	Log              *slog.Logger
}

func openSQLite(ctx context.Context, url string, _ StoreOptions) (engine.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: strings.TrimPrefix(url, "sqlite:")})
}

func openPostgres(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	return postgres.Open(ctx, postgres.Config{URL: url, AllowAsyncCommit: o.AllowAsyncCommit, AppRole: o.AppRole, Logger: o.Log})
}

// DevDatabase is the store of 'carillon dev' in a data folder.
func DevDatabase(data string) string { return "sqlite:" + filepath.Join(data, "carillon.db") }

// errNoEngine says that a URL names no store that there is.
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
