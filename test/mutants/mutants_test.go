package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	all    = flag.Bool("mutants.all", false, "run every mutant")
	only   = flag.String("mutants.only", "", "run the mutants whose names match")
	update = flag.Bool("update", false, "write the table of docs/internals/proof.md anew")
)

// root is the folder of the repository, as an absolute path.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// mutate is the source of a mutant's file with its fault in it.
func (m Mutant) mutate(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), m.From); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, and a mutant replaces what is there once: say in test/mutants/table.go what it is now", m.File, m.From, n)
	}
	return strings.Replace(string(b), m.From, m.To, 1), nil
}

// Every mutant fits the source as it is, and names a test that there is.
func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All {
		if names[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.mutate(root(t)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if m.From == m.To {
			t.Errorf("%s: it changes nothing", m.Name)
		}
		name, _, _ := strings.Cut(strings.Trim(m.Test, "^$"), "/")
		if found, err := declared(filepath.Join(root(t), m.Package), strings.Trim(name, "^$")); err != nil || !found {
			t.Errorf("%s: %s has no test %q: %v", m.Name, m.Package, m.Test, err)
		}
	}
	if len(All) < 40 {
		t.Errorf("there are %d mutants, and 40 are promised", len(All))
	}
}

// declared reports whether a folder has a test of that name.
func declared(dir, name string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return false, err
		}
		if strings.Contains(string(b), "\nfunc "+name+"(t *testing.T)") {
			return true, nil
		}
	}
	return false, nil
}

// Every mutant dies: the test that is to kill it passes without it, and fails with it.
func TestMutantsDie(t *testing.T) {
	if !*all && *only == "" {
		t.Skip("make mutants runs them: it takes some minutes")
	}
	named, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(slices.Clone(All), func(m Mutant) bool { return !named.MatchString(m.Name) })
	sound := map[string]bool{}
	for _, m := range chosen {
		if key := m.Package + " " + m.Test + " " + m.Args; !sound[key] {
			sound[key] = true
			if out, err := run(t, m, ""); err != nil {
				t.Fatalf("%s %s fails without any mutant: %v\n%s", m.Package, m.Test, err, out)
			}
		}
	}
	died := 0
	for _, m := range chosen {
		t.Run(m.Name, func(t *testing.T) {
			source, err := m.mutate(root(t))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
			table, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root(t), m.File): file}})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(file, []byte(source), 0o600), os.WriteFile(overlay, table, 0o600)); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			out, err := run(t, m, overlay)
			failed := failures.FindAllString(out, 3)
			switch {
			case err == nil:
				t.Errorf("it survives %s in %s", m.Test, m.Package)
			case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
				t.Errorf("it does not compile:\n%s", out)
			case failed == nil && !strings.Contains(out, "panic: "):
				t.Errorf("no test failed, and yet: %v\n%s", err, out)
			default:
				died++
				t.Logf("killed in %v by %s", time.Since(begun).Round(10*time.Millisecond), strings.Join(failed, ", "))
			}
		})
	}
	t.Logf("%d of %d mutants died", died, len(chosen))
}

// failures are the lines that name tests that failed.
var failures = regexp.MustCompile(`(?m)^ *--- FAIL: \S+`)

// run runs the test of a mutant, with an overlay if there is one.
func run(t *testing.T, m Mutant, overlay string) (string, error) {
	args := []string{"test", "-count=1", "-timeout=3m", "-run", m.Test}
	if overlay != "" {
		args = append(args, "-overlay", overlay, "-failfast")
	}
	args = append(args, "./"+m.Package)
	args = append(args, strings.Fields(m.Args)...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = root(t)
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	return b.String(), err
}

const (
	begins = "<!-- mutants: begin, written by go test ./test/mutants -update -->\n"
	ends   = "<!-- mutants: end -->\n"
)

// The table in docs/internals/proof.md lists every mutant and what kills it.
func TestTheDocsListThem(t *testing.T) {
	path := filepath.Join(root(t), "docs", "internals", "proof.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begins)
	was, after, also := strings.Cut(rest, ends)
	if !ok || !also {
		t.Fatalf("%s has no place for the table, between %q and %q", path, begins, ends)
	}
	var table strings.Builder
	fmt.Fprint(&table, "| mutant | guarantee | where | what kills it |\n| --- | --- | --- | --- |\n")
	for _, m := range All {
		killer := "`" + strings.ReplaceAll(m.Test, "|", "\\|") + "` in `" + m.Package + "`"
		if m.Args != "" {
			killer += ", `" + m.Args + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s |\n", m.Name, m.Kind, m.File, killer)
	}
	if table.String() == was {
		return
	}
	if !*update {
		t.Fatalf("the table of mutants in %s is not that of test/mutants/table.go: go test ./test/mutants -update writes it", path)
	}
	if err := os.WriteFile(path, []byte(before+begins+table.String()+ends+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
