package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestOpenRefusesAServerThatForgets(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	s, err := Open(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	name := s.admin.Database
	c := direct(t, s)
	if !strings.Contains(s.Describe(), "PostgreSQL 1") || !strings.Contains(s.Describe(), name) {
		t.Errorf("described as %q", s.Describe())
	}
	setting := func(s *Store) (v string) {
		t.Helper()
		if err := s.hot.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	_ = s.Close()

	exec(t, c, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	_, err = Open(t.Context(), Config{URL: url})
	if err == nil || !strings.Contains(err.Error(), "synchronous_commit is off") || !strings.Contains(err.Error(), "want on") {
		t.Errorf("off: got %v", err)
	}
	var log bytes.Buffer
	s, err = Open(t.Context(), Config{URL: url, AllowAsyncCommit: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatalf("off, and allowed: %v", err)
	}
	if got := setting(s); got != "off" || !strings.Contains(log.String(), "may lose") {
		t.Errorf("off, and allowed: it is %q, the log says %q", got, log.String())
	}
	_ = s.Close()

	for set, want := range map[string]string{"local": "on", "remote_apply": "remote_apply"} {
		exec(t, c, "ALTER DATABASE "+name+" SET synchronous_commit = "+set)
		s, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatalf("%s: %v", set, err)
		}
		if got := setting(s); got != want {
			t.Errorf("%s: commits are %q, want %q", set, got, want)
		}
		_ = s.Close()
	}
	exec(t, c, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	if _, err = Open(t.Context(), Config{URL: url}); err == nil || !strings.Contains(err.Error(), "default_transaction_read_only is on") {
		t.Errorf("read only: got %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := server{number: 150004, version: "15.4", commit: "on", fsync: "on", encoding: "UTF8"}
	if err := good.check(false); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for name, change := range map[string]func(*server){
		"the server is version 14.9; want 15 or later": func(s *server) { s.number, s.version = 140009, "14.9" },
		"the server is a standby":                      func(s *server) { s.standby = true },
		"default_transaction_read_only is on":          func(s *server) { s.readOnly = true },
		"the database's encoding is LATIN1; want UTF8": func(s *server) { s.encoding = "LATIN1" },
		"synchronous_commit is off":                    func(s *server) { s.commit = "off" },
		"fsync is off":                                 func(s *server) { s.fsync = "off" },
	} {
		v := good
		change(&v)
		if err := v.check(false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
		forgets := v.commit == "off" || v.fsync == "off"
		if err := v.check(true); (err == nil) != forgets {
			t.Errorf("%s, and allowed: got %v", name, err)
		}
	}
}

func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String() // once it is closed, nothing answers there
	_ = l.Close()
	_, err = Open(t.Context(), Config{URL: "postgres://someone:hunter2@" + closed + "/db"})
	if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), closed) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("unreachable: got %v", err)
	}
	for _, url := range []string{
		"postgres://someone:hunter2@host:port/db", "postgres://someone:hunter2@%zz/", "host=x password=hunter2 port=y", "postgres://u:hunter2 @h/db?sslmode=wrong",
	} {
		if _, err := Open(t.Context(), Config{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	pg := func(code string) error { return fmt.Errorf("x: %w", &pgconn.PgError{Code: code}) }
	for _, err := range []error{
		pg("57P01"), pg("57P02"), pg("57P03"), pg("57014"), pg("53100"), pg("53300"), pg("08006"), pg("40001"), pg("40P01"), pg("55P03"), pg("25006"), pg("58030"),
		io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: errors.New("reset")}, &pgconn.ConnectError{},
	} {
		if got := translate("lease", err); !errors.Is(got, engine.ErrUnavailable) || !errors.Is(got, err) || !strings.HasPrefix(got.Error(), "lease: ") {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, code := range []string{"23505", "42601", "22021"} {
		if got := translate("lease", pg(code)); errors.Is(got, engine.ErrUnavailable) {
			t.Errorf("%s became %v", code, got)
		}
	}
	if got := translate("ping", pg("42P01")); !errors.Is(got, engine.ErrSchema) {
		t.Errorf("a missing table became %v", got)
	}
	if translate("x", nil) != nil {
		t.Error("nothing became an error")
	}
}
