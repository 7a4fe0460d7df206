package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Migration is one numbered step of a schema, forward only.
type Migration struct {
	Version int
	Name    string
	SQL     string
	Sum     string // hex SHA-256 of the text
}

// Migrations reads the steps in a folder of files named NNNN_what_it_does.sql, in order. A number that is missing is that
// of a change that is not in this version.
func Migrations(fsys fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var ms []Migration
	for _, name := range names {
		digits, rest, ok := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		v, err := strconv.Atoi(digits)
		if last := len(ms) - 1; !ok || err != nil || v < 1 || last >= 0 && v <= ms[last].Version {
			return nil, fmt.Errorf("migration %s: want a file named NNNN_what_it_does.sql, with a number of its own", name)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		ms = append(ms, Migration{Version: v, Name: strings.ReplaceAll(rest, "_", " "), SQL: string(text), Sum: hex.EncodeToString(sum[:])})
	}
	return ms, nil
}

// Applied is a step that a database has had.
type Applied struct {
	Version int
	Sum     string
}

// PendingMigrations is what is left to apply. A step that was applied with another text is an error; a
// database that is ahead, because a newer version runs beside this one, is not.
func PendingMigrations(all []Migration, done []Applied) ([]Migration, error) {
	applied := make(map[int]string, len(done))
	for _, d := range done {
		applied[d.Version] = d.Sum
	}
	var pending []Migration
	for _, m := range all {
		sum, ok := applied[m.Version]
		switch {
		case !ok:
			pending = append(pending, m)
		case sum != m.Sum:
			return nil, fmt.Errorf("migration %04d (%s) was applied with another text than this version has: %w", m.Version, m.Name, ErrSchema)
		}
	}
	return pending, nil
}
