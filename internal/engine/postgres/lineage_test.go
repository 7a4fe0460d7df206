package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// epochNow is the epoch that the next token is drawn from.
func epochNow(t *testing.T, s *Store) int64 {
	t.Helper()
	return engine.EpochOf(one[int64](t, direct(t, s), "SELECT last_value FROM tokens"))
}

// Tokens begin a new epoch, once, where the database turns out to be another than it was, before any connection is used.
func TestANewHistoryBeginsANewEpoch(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	before := epochNow(t, s)
	s.hot.Reset()
	if _, err := s.Now(t.Context()); err != nil || epochNow(t, s) != before {
		t.Fatalf("the same database: epoch %d became %d, %v", before, epochNow(t, s), err)
	}
	kept := one[string](t, direct(t, s), "SELECT convert_from(value, 'UTF8') FROM installation WHERE name = 'lineage'")
	if n := strings.Count(kept, "/"); n != 2 || strings.Contains(kept, "//") {
		t.Errorf("kept is %q", kept)
	}

	restored(t, s)
	var others []*Store
	for range 4 {
		o := must[*Store](t)(Open(t.Context(), Config{URL: s.admin.ConnString()}))
		t.Cleanup(func() { _ = o.Close() })
		others = append(others, o)
	}
	var wg sync.WaitGroup
	for _, o := range others {
		for range 3 {
			wg.Go(func() {
				if _, err := o.Now(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	after := epochNow(t, s)
	if after <= before {
		t.Errorf("a restored database draws from epoch %d, as before", after)
	}
	first := one[int64](t, direct(t, s), "SELECT last_value FROM tokens")
	others[0].hot.Reset()
	if _, err := others[0].Now(t.Context()); err != nil || one[int64](t, direct(t, s), "SELECT last_value FROM tokens") != first {
		t.Errorf("it began another epoch, or %v", err)
	}
}

// restored makes a database look as one that pg_restore has made again, with the tokens of a backup.
func restored(t *testing.T, s *Store) {
	t.Helper()
	exec(t, direct(t, s), "CREATE SEQUENCE again START 1099511627776 MINVALUE 1099511627776 CACHE 1; DROP SEQUENCE tokens; ALTER SEQUENCE again RENAME TO tokens")
}

// A role that may not begin an epoch draws no tokens of an old one: it says who can mend that, and continues when that is done.
func TestARoleThatMayNotBeginAnEpoch(t *testing.T) {
	t.Parallel()
	postgrestest.Exec(t, postgrestest.Server(t), `DO $$ BEGIN CREATE ROLE carillon_test_epoch LOGIN PASSWORD 'x' NOINHERIT; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	where := postgrestest.URL(t)
	migrate := func() *Store {
		t.Helper()
		s := must[*Store](t)(Open(t.Context(), Config{URL: where, AppRole: "carillon_test_epoch"}))
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	owner := migrate()
	u := must[*url.URL](t)(url.Parse(where))
	u.User = url.UserPassword("carillon_test_epoch", "x")
	s := must[*Store](t)(Open(t.Context(), Config{URL: u.String()}))
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := epochNow(t, owner)
	restored(t, owner)
	exec(t, direct(t, owner), "GRANT USAGE, SELECT ON SEQUENCE tokens TO carillon_test_epoch")
	s.hot.Reset()
	if _, err := s.Now(t.Context()); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "carillon migrate up") {
		t.Errorf("got %v", err)
	}
	migrate()
	if _, err := s.Now(t.Context()); err != nil || epochNow(t, owner) <= before {
		t.Errorf("after the owner has migrated: epoch %d, %v", epochNow(t, owner), err)
	}
	exec(t, direct(t, owner), "UPDATE installation SET value = 'another' WHERE name = 'lineage'")
	now := epochNow(t, owner)
	s.lineage.Store(nil)
	s.hot.Reset()
	if err := s.recognize(context.Background(), direct(t, s)); err != nil || epochNow(t, owner) <= now {
		t.Errorf("a role that may: epoch %d, %v", epochNow(t, owner), err)
	}
}
