package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// fit migrates the schema, or, if the settings forbid that, checks that it is up to date.
func (r *running) fit(ctx context.Context, store engine.Store) error {
	if !r.Config.Migrate {
		return store.CheckSchema(ctx)
	}
	err := r.whenAlone(ctx, store)
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // it was told to stop meanwhile
	case errors.Is(err, engine.ErrConflict):
		return fmt.Errorf("bring the schema up to date: %w; stop them and start this one again, or run 'carillon migrate up --force' of this version; nothing was changed", err)
	case err != nil:
		return fmt.Errorf("bring the schema up to date: %w; nothing was changed", err)
	}
	return upToDate(ctx, store)
}

func upToDate(ctx context.Context, store engine.Store) error {
	if err := store.Migrate(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}

const aloneEvery = 500 * time.Millisecond

// aloneWithin returns how long a starting server waits for others to stop. One that was killed disappears sooner.
func (r *running) aloneWithin() time.Duration {
	return max(15*time.Second, r.Config.OwnershipTTL+5*time.Second)
}

// whenAlone waits for servers that are incompatible with the schema to stop, as they do in a restart, and returns
// ErrConflict if they do not. It also waits for a store that does not answer yet.
func (r *running) whenAlone(ctx context.Context, store engine.Schema) error {
	told := false
	return r.patiently(ctx, func() error { return alone(ctx, store) }, func(err error) bool {
		busy := errors.Is(err, engine.ErrConflict)
		if busy && !told {
			told = true
			r.log.Info("waiting for servers to stop", "because", err, "at_most", r.aloneWithin())
		}
		return busy
	})
}

// whenAnswered retries f until the store answers, as it may not be up yet when a server starts.
func (r *running) whenAnswered(ctx context.Context, f func() error) error {
	return r.patiently(ctx, f, func(error) bool { return false })
}

// patiently retries f while the store does not answer, or while its error is temporary, for as long as a start may
// take.
func (r *running) patiently(ctx context.Context, f func() error, goesBy func(error) bool) error {
	within := r.aloneWithin()
	for begun := time.Now(); ; {
		err := f()
		silent := errors.Is(err, engine.ErrUnavailable)
		if !silent && !goesBy(err) || time.Since(begun) >= within {
			return err
		}
		if silent {
			r.log.Warn("waiting for the store", "because", err, "at_most", within)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(aloneEvery):
		}
	}
}

// Steps lists the applied and the pending steps of a database. It changes nothing, and a server may have it open.
func Steps(ctx context.Context, c config.Config) ([]engine.Step, error) {
	if path, ok := strings.CutPrefix(c.Database, "sqlite:"); ok {
		return sqlite.Steps(ctx, path)
	}
	store, err := OpenStore(ctx, c.Database, StoreOptions{AllowAsyncCommit: c.AllowAsyncCommit, AppRole: c.AppRole})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Steps(ctx)
}

// MigrateUp applies the pending steps, and returns them. Without force it fails with ErrConflict if one of them is
// incompatible with older servers and such servers are running.
func MigrateUp(ctx context.Context, c config.Config, force bool) (did []engine.Step, err error) {
	store, err := OpenStore(ctx, c.Database, StoreOptions{AllowAsyncCommit: c.AllowAsyncCommit, AppRole: c.AppRole})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	before, err := store.Steps(ctx)
	if err != nil {
		return nil, err
	}
	if !force {
		switch err := alone(ctx, store); {
		case err != nil && !errors.Is(err, engine.ErrConflict):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w; stop them (a killed one counts for a few more seconds), or continue anyway with --force; nothing was changed", err)
		}
	}
	failed := store.Migrate(ctx)
	after, err := store.Steps(ctx)
	for i, s := range after {
		if err == nil && !s.At.IsZero() && (i >= len(before) || before[i].At.IsZero()) {
			did = append(did, s)
		}
	}
	return did, errors.Join(failed, err)
}

// alone returns ErrConflict, naming the servers, if a pending step requires all servers to be stopped and some are
// running.
func alone(ctx context.Context, store engine.Schema) error {
	shared, ok := store.(engine.Present)
	if !ok {
		return nil
	}
	hosts, err := shared.Present(ctx) // before the steps: a server that has just applied them may be running
	if err != nil || len(hosts) == 0 {
		return err
	}
	steps, err := store.Steps(ctx)
	i := slices.IndexFunc(steps, func(s engine.Step) bool { return s.At.IsZero() && !s.Rolling })
	if err != nil || i < 0 {
		return err
	}
	return fmt.Errorf("%w: step %04d (%s) requires all servers to be stopped; running: %s", engine.ErrConflict, steps[i].Version, steps[i].Name, strings.Join(hosts, ", "))
}

// retry returns the default retry policy in the settings.
func retry(r config.Retry) job.RetryPolicy {
	return job.RetryPolicy{MaxRetries: r.MaxRetries, Backoff: job.Backoff(r.Backoff), InitialDelay: r.Initial, MaxDelay: r.Max}
}
