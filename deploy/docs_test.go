package deploy_test

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/cli"
	"github.com/carillon-jobs/carillon/internal/config"
)

// commands are the lines of the operations pages that call carillon: in blocks of sh, and in backquotes.
func commands(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	quoted := regexp.MustCompile("`carillon ([^`]+)`")
	called := regexp.MustCompile(`(?:^|[|;(] *|exec [a-z/-]+ (?:-- )?|run --rm cli )carillon ([^|;)#>]+)`)
	for _, path := range files(t, filepath.Join("..", "docs", "operations")) {
		block := false
		for line := range strings.Lines(read(t, path)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") {
				block = !block
				continue
			}
			find := quoted
			if block {
				find = called
			}
			for _, m := range find.FindAllStringSubmatch(line, -1) {
				out[strings.TrimSpace(m[1])] = path
			}
		}
	}
	return out
}

func TestCommandsInTheOperationsPagesExist(t *testing.T) {
	all := commands(t)
	if len(all) < 20 {
		t.Fatalf("only %d commands were found", len(all))
	}
	word := regexp.MustCompile(`^[a-z][a-z-]*$`)
	flag := regexp.MustCompile(`(?:^| )--([a-z][a-z-]*)`)
	for text, path := range all {
		var verbs []string
		for _, w := range strings.Fields(text) {
			if !word.MatchString(w) {
				break
			}
			verbs = append(verbs, w)
		}
		help, given := "", len(verbs)
		for ; len(verbs) > 0; verbs = verbs[:len(verbs)-1] { // the last words may be arguments
			var b strings.Builder
			cli.Main(append(slices.Clone(verbs), "--help"), &b, io.Discard)
			if strings.Contains(b.String(), "carillon "+strings.Join(verbs, " ")) {
				help = b.String()
				break
			}
		}
		if help == "" || len(verbs) < given && strings.Contains(help, "Available Commands:") {
			t.Errorf("%s: there is no command %q", path, text)
			continue
		}
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			hidden := slices.ContainsFunc(config.Keys, func(k config.Key) bool { return k.Flag() == m[1] })
			if !hidden && !strings.Contains(help, "--"+m[1]) {
				t.Errorf("%s: %q has no flag --%s", path, text, m[1])
			}
		}
	}
}
