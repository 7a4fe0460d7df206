package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

const recipes = "../../docs/guides/workflow-recipes.md"

// TestRecipes does what the page says: it writes each file, runs each command, and compares what is printed.
func TestRecipes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(recipes)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) < 4 {
		t.Fatalf("%d recipes", len(sections))
	}
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			newKitchen(t).cook(body)
		})
	}
}

// kitchen is a server with a folder in which a reader follows a recipe.
type kitchen struct {
	*testing.T
	p   *harness.Process
	dir string
}

func newKitchen(t *testing.T) *kitchen {
	k := &kitchen{t, harness.Start(t, nil, "dev", "--demo", "--data", filepath.Join(t.TempDir(), "state")), t.TempDir()}
	if err := os.Symlink(harness.Binary(), filepath.Join(k.dir, "carillon")); err != nil {
		t.Fatal(err)
	}
	return k
}

// reads are commands that change nothing, so that they can be repeated until they print what they should.
var reads = regexp.MustCompile(`^carillon (approvals|run (items|get|list|explain)|job occurrences)\b`)

// cook follows the blocks of a recipe in their order.
func (k *kitchen) cook(recipe string) {
	blocks := regexp.MustCompile("(?s)```(yaml|sh|text)\n(.*?)```").FindAllStringSubmatch(recipe, -1)
	files, shown := 0, 0
	for i, b := range blocks {
		switch kind, text := b[1], b[2]; kind {
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
			if !regexp.MustCompile(`^[a-z]+\.yaml$`).MatchString(name) {
				k.Fatalf("the file begins with %q; want a comment with its name", name)
			}
			text = strings.ReplaceAll(text, "http://127.0.0.1:8080", k.p.Base)
			if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
				k.Fatal(err)
			}
			files++
		case "sh":
			want := ""
			if i+1 < len(blocks) && blocks[i+1][1] == "text" {
				want = blocks[i+1][2]
				shown++
			}
			k.run(text, want)
		}
	}
	if files == 0 || shown == 0 {
		k.Errorf("%d files, %d answers", files, shown)
	}
}

// run runs a block of commands; want is what they print, "" for anything.
func (k *kitchen) run(block, want string) {
	shape := shapeOf(want)
	var out, log string
	once := func() bool {
		ctx, cancel := context.WithTimeout(k.Context(), harness.Slack*time.Minute)
		defer cancel()
		shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
		shell.Dir = k.dir
		shell.Env = append(os.Environ(), "PATH="+k.dir+":"+os.Getenv("PATH"), "CARILLON_SERVER="+k.p.Base, "HOME="+k.dir, "XDG_CONFIG_HOME="+k.dir)
		var stdout, stderr bytes.Buffer
		shell.Stdout, shell.Stderr = &stdout, &stderr
		if err := shell.Run(); err != nil {
			k.Fatalf("%v:\n%s\n%s%s", err, block, stdout.String(), stderr.String())
		}
		out, log = stdout.String(), stderr.String()
		return want == "" || shape.MatchString(out)
	}
	ok := once()
	if !ok && reads.MatchString(block) { // it shows what is still going on
		ok = harness.Within(20*time.Second, once)
	}
	if !ok {
		k.Fatalf("%s printed\n%s%s\nwant\n%s", block, out, log, want)
	}
}

// shapeOf matches what a page shows, in which … stands for anything: alone on a line for any lines.
func shapeOf(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, word := range strings.Fields(line) {
			if i > 0 {
				b.WriteString(` *`)
			}
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*"))
		}
		b.WriteString(" *\n")
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

func TestShapeOf(t *testing.T) {
	for _, c := range []struct {
		want, out string
		fits      bool
	}{
		{"3\n", "3\n", true},
		{"3\n", "30\n", false},
		{"a  …  done\n", "a 12 x done\n", true},
		{"a  …  done\n", "a 12\ndone\n", false},
		{"…\nb\n", "x\ny\nb\n", true},
		{"…\nb\n…\n", "b\n", true},
		{"…\nb\n", "x\n", false},
		{"a\n", "a\nb\n", false},
	} {
		if shapeOf(c.want).MatchString(c.out) != c.fits {
			t.Errorf("%q fits %q: want %t", c.out, c.want, c.fits)
		}
	}
}
