package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// A short run of everything that 'make bench' runs: it fails if a job is lost or doubled, never for being slow.
func TestShortRun(t *testing.T) {
	server := os.Getenv("CARILLON_TEST_POSTGRES")
	if server == "" {
		t.Fatal("CARILLON_TEST_POSTGRES names no server; run make test")
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	s := settings{jobs: 4000, batch: 500, engines: []string{"sqlite", "postgres"}, postgres: server, repeat: 1}
	if err := run(t.Context(), s, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SQLite 3", "PostgreSQL 1", "insert", "claim", "finish", "whole life", "lost 0, doubled 0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}
