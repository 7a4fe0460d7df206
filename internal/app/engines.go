package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// engines lists every store by the scheme of its URL.
var engines = []struct {
	scheme string
	open   func(ctx context.Context, url string, o StoreOptions) (engine.Store, error)
}{
	{"sqlite:", func(ctx context.Context, url string, _ StoreOptions) (engine.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: strings.TrimPrefix(url, "sqlite:")})
	}},
	{"postgres://", openPostgres},
	{"postgresql://", openPostgres},
}

// StoreOptions is what an operator may ask of a store.
type StoreOptions struct {
	AllowAsyncCommit bool
}

func openPostgres(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	return postgres.Open(ctx, postgres.Config{URL: url, AllowAsyncCommit: o.AllowAsyncCommit})
}

// OpenStore opens the store that a URL names.
func OpenStore(ctx context.Context, url string, o StoreOptions) (engine.Store, error) {
	for _, e := range engines {
		if strings.HasPrefix(url, e.scheme) {
			return e.open(ctx, url, o)
		}
	}
	return nil, fmt.Errorf("the database URL has no known scheme; want sqlite:PATH or postgres://…")
}
