package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// OpenScratch opens an empty, migrated store in a temporary place beside the one that a URL names, which is never
// opened. remove closes and deletes it.
func OpenScratch(ctx context.Context, url string) (store engine.Store, remove func(context.Context) error, err error) {
	for _, e := range engines {
		if !strings.HasPrefix(url, e.scheme) {
			continue
		}
		place, clear, err := e.scratch(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		if store, err = e.open(ctx, place, StoreOptions{}); err != nil {
			return nil, nil, errors.Join(err, clear(context.WithoutCancel(ctx)))
		}
		remove = func(ctx context.Context) error { return errors.Join(store.Close(), clear(ctx)) }
		if err := store.Migrate(ctx); err != nil {
			return nil, nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
		}
		return store, remove, nil
	}
	return nil, nil, errNoEngine
}

// scratchSQLite makes a folder beside the file that the URL names, so that it is on the same disk; "sqlite:" alone
// means the working folder.
func scratchSQLite(_ context.Context, url string) (place string, remove func(context.Context) error, err error) {
	beside := filepath.Dir(strings.TrimPrefix(url, "sqlite:"))
	dir, err := os.MkdirTemp(beside, ".carillon-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("create a temporary folder in %s: %w", beside, err)
	}
	return "sqlite:" + filepath.Join(dir, "bench.db"), func(context.Context) error { return os.RemoveAll(dir) }, nil
}
