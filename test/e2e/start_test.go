package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

// blocks returns the command blocks of a page: those that are marked as sh.
func blocks(t *testing.T, path string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(text), "\n```") {
		if body, ok := strings.CutPrefix(part, "sh\n"); ok && i > 0 {
			out = append(out, body)
		}
	}
	return out
}

// Every command of the start pages and of the README works as it is written. The lines that build and start Carillon stand for the
// binary under test and a server with a port of its own.
func TestCommandsOfTheStartPages(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("carillon dev knows its user by the connection only on Linux; elsewhere curl needs a token")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "start", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join("..", "..", "README.md"))
	ran := map[string]int{}
	for _, page := range pages {
		all := blocks(t, page)
		ran[filepath.Base(page)] = len(all)
		if len(all) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) { t.Parallel(); follow(t, all) })
	}
	if ran["quickstart.md"] < 5 || ran["README.md"] < 1 {
		t.Errorf("command blocks found: %v", ran)
	}
}

// follow runs the blocks of one page, in order and in one shell, as a reader does.
func follow(t *testing.T, all []string) {
	p := harness.Start(t, nil, "dev", "--demo", "--data", filepath.Join(t.TempDir(), "state"))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(harness.Binary(), filepath.Join(dir, "bin", "carillon")); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for i, block := range all {
		fmt.Fprintf(&script, "echo '=== block %d'\n", i+1)
		for line := range strings.Lines(block) {
			if command, _, _ := strings.Cut(strings.TrimSpace(line), " #"); command != "make build" && command != "make run" && command != "bin/carillon dev --demo" {
				script.WriteString(line)
			}
		}
		script.WriteString("\n")
	}
	here := strings.TrimPrefix(p.Base, "http://")
	text := strings.NewReplacer("127.0.0.1:8080", here, "localhost:8080", here).Replace(script.String())
	if !strings.Contains(text, "bin/carillon ") {
		t.Fatalf("no command of Carillon is left in:\n%s", text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "CARILLON_SERVER="+p.Base, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	out, err := shell.CombinedOutput()
	if err != nil || strings.Contains(string(out), `"status":4`) || strings.Contains(string(out), `"status":5`) {
		t.Errorf("%v:\n%s", err, out)
	}
}
