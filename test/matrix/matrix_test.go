package matrix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/internals anew")

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// source is all of the Go files of a folder that a pattern names.
func source(dir, pattern string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, pattern))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		all.Write(b)
	}
	return all.String(), nil
}

// each finds the tests that run something on each store.
var each = regexp.MustCompile(`\b([Ss]tores|EmptyStores|storetest\.Each|onBoth|places)\(t, |each\(t, |"sqlite".*\n(?s:.*)"postgres"|"postgres".*\n(?s:.*)"sqlite"`)

// find says what is wrong with the name of a test. With both, the test must run on each store.
func (x Test) find(both bool) error {
	name, sub, _ := strings.Cut(x.Name, "/")
	if x.Package == conformance {
		src, err := source(x.Package, "*.go")
		if err != nil {
			return err
		}
		if !strings.Contains(src, fmt.Sprintf("{%q, ", name)) {
			return fmt.Errorf("the conformance suite has no group %q", name)
		}
		if sub != "" && !strings.Contains(src, fmt.Sprintf("t.Run(%q", sub)) {
			return fmt.Errorf("the conformance suite has no case %q", sub)
		}
		return nil
	}
	src, err := source(x.Package, "*_test.go")
	if err != nil {
		return err
	}
	kind := "(t *testing.T)"
	if strings.HasPrefix(name, "Fuzz") {
		kind = "(f *testing.F)"
	}
	_, body, found := strings.Cut(src, "\nfunc "+name+kind+" {\n")
	if !found {
		return fmt.Errorf("%s has no test %s", x.Package, name)
	}
	body, _, _ = strings.Cut(body, "\n}\n")
	if both && !each.MatchString(body) {
		return fmt.Errorf("%s in %s does not run on each store", name, x.Package)
	}
	if sub == "sqlite" || sub == "postgres" {
		if !each.MatchString(body) {
			return fmt.Errorf("%s in %s has no part for %s", name, x.Package, sub)
		}
		return nil
	}
	if name == "TestPoints" {
		if src, err = source("internal/failpoint", "*.go"); err != nil {
			return err
		}
	}
	if sub != "" && !strings.Contains(src, fmt.Sprintf("%q", sub)) {
		return fmt.Errorf("%s in %s has no part %q", name, x.Package, sub)
	}
	return nil
}

// wrong says what is wrong with a row.
func (r Row) wrong() (errs []error) {
	for _, x := range r.Both {
		errs = append(errs, x.find(true))
	}
	for _, x := range slices.Concat(r.SQLite, r.Postgres, r.Plain) {
		errs = append(errs, x.find(false))
	}
	covered := len(r.Both) > 0 || len(r.SQLite) > 0 && len(r.Postgres) > 0
	none := len(r.Both)+len(r.SQLite)+len(r.Postgres)+len(r.Plain) == 0
	switch {
	case !covered && r.Why == "":
		errs = append(errs, fmt.Errorf("a store has no test, and the row does not say why"))
	case covered && r.Why != "":
		errs = append(errs, fmt.Errorf("both stores have a test, and yet it says why one has none: %s", r.Why))
	case none && r.Missing == "":
		errs = append(errs, fmt.Errorf("it has no test and does not say what is missing"))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// Every fault of the list has tests that exist, on both stores, or says why not.
func TestEveryFaultHasATest(t *testing.T) {
	const faults = 46
	for i, r := range Rows {
		if r.Number != i+1 {
			t.Errorf("row %d stands where %d belongs", r.Number, i+1)
		}
		for _, err := range r.wrong() {
			t.Errorf("row %d (%s): %v", r.Number, r.Fault, err)
		}
	}
	if len(Rows) != faults {
		t.Errorf("there are %d rows, want %d", len(Rows), faults)
	}
}

// The check itself turns red.
func TestAWrongRowIsNoticed(t *testing.T) {
	good := Row{Number: 1, Both: in("test/faults", "TestPoints/api.beforeCommit")}
	if errs := good.wrong(); len(errs) != 0 {
		t.Errorf("a good row: %v", errs)
	}
	for what, r := range map[string]Row{
		"a test that does not exist":     {Both: in("test/faults", "TestNothing")},
		"a test on one store only":       {Both: in("internal/engine/sqlite", "TestFullDisk")},
		"a point that does not exist":    {Both: in("test/faults", "TestPoints/api.never")},
		"a group that does not exist":    {Both: suite("nothing")},
		"a case that does not exist":     {Both: suite("finish/nothing")},
		"one store and no reason":        {SQLite: in("internal/engine/sqlite", "TestFullDisk")},
		"no test, and nothing missing":   {Why: "because"},
		"a reason for what is not so":    {Both: good.Both, Why: "because"},
		"a part for a store that is not": {SQLite: in("internal/engine/sqlite", "TestFullDisk/sqlite"), Why: "because"},
	} {
		if len(r.wrong()) == 0 {
			t.Errorf("%s: nothing is said", what)
		}
	}
}

// names returns how the document names tests.
func names(ts []Test) string {
	var all []string
	for _, x := range ts {
		short := x.Package[strings.LastIndex(x.Package, "/")+1:]
		if x.Package == conformance {
			short = "suite"
		}
		all = append(all, fmt.Sprintf("%s `%s`", short, x.Name))
	}
	return strings.Join(all, ", ")
}

// cell is a row's tests as the document shows them.
func (r Row) cell() string {
	var all []string
	for _, part := range []struct {
		label string
		tests []Test
	}{{"both", r.Both}, {"SQLite", r.SQLite}, {"PostgreSQL", r.Postgres}, {"no store", r.Plain}} {
		if len(part.tests) > 0 {
			all = append(all, "**"+part.label+"** "+names(part.tests))
		}
	}
	return strings.Join(all, "<br>")
}

// The table in docs/internals/proof.md is that of the code.
func TestTheDocsListTheRows(t *testing.T) {
	var table strings.Builder
	fmt.Fprint(&table, "| row | fault | tests | why not on both stores | not proved |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range Rows {
		fmt.Fprintf(&table, "| %d | %s | %s | %s | %s |\n", r.Number, r.Fault, r.cell(), r.Why, r.Missing)
	}
	written(t, "faults", table.String(), "test/matrix/table.go")
}

// pages are the documents with tables that this package writes, by what they are called there.
var pages = map[string]string{"faults": "proof.md", "review": "review.md"}

// written checks that the named part of a document is what the code says; -update writes it.
func written(t *testing.T, part, text, source string) {
	t.Helper()
	begins := "<!-- " + part + ": begin, written by go test ./test/matrix -update -->\n"
	ends := "<!-- " + part + ": end -->\n"
	path := filepath.Join(root, "docs", "internals", pages[part])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begins)
	was, after, also := strings.Cut(rest, ends)
	if !ok || !also {
		t.Fatalf("%s has no place for the table, between %q and %q", path, begins, ends)
	}
	if text == was {
		return
	}
	if !*update {
		t.Fatalf("what %s says is not what %s says: go test ./test/matrix -update writes it", path, source)
	}
	if err := os.WriteFile(path, []byte(before+begins+text+ends+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
