package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Migration is one numbered step of a schema, forward only.
type Migration struct {
	Version int
	Name    string
	SQL     string
	Sum     string // hex SHA-256 of the text
	Oldest  int    // a server that knows the steps up to this one works with the database after this step
}

// oldest is the line of a step that says which servers may keep running when it is applied: those that know the steps
// up to that number. A step without it is one that all servers must know.
var oldest = regexp.MustCompile(`(?m)^-- works with: ([0-9]{4})$`)

// Migrations reads the steps in a folder of files named NNNN_what_it_does.sql, in order and without gaps.
func Migrations(fsys fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var ms []Migration
	for i, name := range names {
		digits, rest, ok := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		v, err := strconv.Atoi(digits)
		if !ok || err != nil || v != i+1 {
			return nil, fmt.Errorf("migration %s: want a file named %04d_what_it_does.sql", name, i+1)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		m := Migration{Version: v, Name: strings.ReplaceAll(rest, "_", " "), SQL: string(text), Sum: hex.EncodeToString(sum[:]), Oldest: v}
		if said := oldest.FindSubmatch(text); said != nil {
			if m.Oldest, err = strconv.Atoi(string(said[1])); err != nil || m.Oldest < 1 || m.Oldest >= v {
				return nil, fmt.Errorf("migration %s works with: want the number of a step before it", name)
			}
		}
		ms = append(ms, m)
	}
	return ms, nil
}

// Applied is a step that was applied to a database.
type Applied struct {
	Version int
	Name    string
	Sum     string
	Oldest  int // see Migration
	At      time.Time
}

// PendingMigrations returns the steps left to apply. It fails with ErrSchema if this version may not change the
// database: see Foreign.
func PendingMigrations(all []Migration, done []Applied) ([]Migration, error) {
	if err := Foreign(all, done); err != nil {
		return nil, err
	}
	applied := map[int]bool{}
	for _, d := range done {
		applied[d.Version] = true
	}
	var pending []Migration
	for _, m := range all {
		if !applied[m.Version] {
			pending = append(pending, m)
		}
	}
	return pending, nil
}

// Foreign returns why a database does not fit this version: a step was applied with another text, or the database has
// a newer step that does not declare itself compatible with this version.
func Foreign(all []Migration, done []Applied) error {
	known := make(map[int]Migration, len(all))
	for _, m := range all {
		known[m.Version] = m
	}
	for _, d := range done {
		m, ok := known[d.Version]
		switch {
		case ok && d.Sum != m.Sum:
			return fmt.Errorf("migration %04d (%s) was applied with another text than this version has: %w", m.Version, m.Name, ErrSchema)
		case !ok && d.Oldest > len(all):
			return fmt.Errorf("%w: the database is newer than this carillon, which knows migrations up to %04d: it has had %04d (%s), with which this version cannot work; want a newer carillon, or a backup from before that migration",
				ErrSchema, len(all), d.Version, d.Name)
		}
	}
	return nil
}

// Outdated returns the steps a database lacks before this version can work with it; nil: none.
func Outdated(all []Migration, done []Applied) error {
	pending, err := PendingMigrations(all, done)
	if err != nil || len(pending) == 0 {
		return err
	}
	return fmt.Errorf("%w: it has %d migrations of %d, the next is %04d (%s); run 'carillon migrate up' of this version, or start it without --migrate=false, once; either brings the schema up to date",
		ErrSchema, len(all)-len(pending), len(all), pending[0].Version, pending[0].Name)
}

// Step is a migration, as known to a database and to this version.
type Step struct {
	Version int
	Name    string
	SQL     string    // "": this version does not know it
	At      time.Time // zero: it was not applied
	Rolling bool      // servers that do not know it may keep running
}

// Steps lists the applied and the pending steps of a database, in order.
func Steps(all []Migration, done []Applied) []Step {
	var out []Step
	applied := map[int]Applied{}
	for _, d := range done {
		applied[d.Version] = d
	}
	for _, m := range all {
		out = append(out, Step{Version: m.Version, Name: m.Name, SQL: m.SQL, At: applied[m.Version].At, Rolling: m.Oldest < m.Version})
		delete(applied, m.Version)
	}
	for _, d := range done {
		if _, unknown := applied[d.Version]; unknown {
			out = append(out, Step{Version: d.Version, Name: d.Name, At: d.At, Rolling: d.Oldest < d.Version})
		}
	}
	return out
}

// Schema describes a store's schema, even if it is not yet this version's.
type Schema interface {
	// Steps lists the applied steps, and those that Migrate would apply.
	Steps(ctx context.Context) ([]Step, error)
	// CheckSchema returns nil if the store is ready for use. It returns ErrSchema, with what to do, if Migrate would
	// have to apply something, or could not.
	CheckSchema(ctx context.Context) error
}
