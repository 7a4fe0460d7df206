package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file: the anchors of its headings, and its links to files and anchors.
type page struct {
	anchors map[string]bool
	links   []link
}

type link struct {
	line int
	to   string
}

var (
	heading   = regexp.MustCompile(`^#{1,6} +(.+?) *$`)
	inText    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inMarkup  = regexp.MustCompile(`(?:src|srcset|href)="([^"]+)"`)
	quoted    = regexp.MustCompile("`[^`]*`")
	elsewhere = regexp.MustCompile(`^[a-z]+:`)
)

func TestLinksInMarkdownLeadSomewhere(t *testing.T) {
	pages := readPages(t, "..")
	if len(pages) < 100 {
		t.Fatalf("found %d Markdown files, want at least 100", len(pages))
	}
	for file, p := range pages {
		for _, l := range p.links {
			if why := broken(pages, file, l.to); why != "" {
				t.Errorf("%s:%d: the link %s %s", file, l.line, l.to, why)
			}
		}
	}
}

func TestLinkCheckerFindsBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	text := "# A `b` page\n\n[ok](b.md#two-words) [ok](#a-b-page) [ok](https://example.com/x)\n`[no link](x.md)`\n```\n[none](y.md)\n```\n[gone](c.md) [gone](b.md#three) <img src=\"d.png\">\n"
	for name, text := range map[string]string{"a.md": text, "b.md": "# B\n## Two, words!\n## Two words\n[second](#two-words-1)\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, found := readPages(t, dir), []string{}
	for _, name := range []string{"a.md", "b.md"} {
		file := filepath.Join(dir, name)
		for _, l := range pages[file].links {
			if broken(pages, file, l.to) != "" {
				found = append(found, l.to)
			}
		}
	}
	if got := strings.Join(found, " "); got != "c.md b.md#three d.png" {
		t.Errorf("broken links: %s", got)
	}
}

// broken says what is wrong with a link in a file, or nothing.
func broken(pages map[string]page, file, to string) string {
	if elsewhere.MatchString(to) {
		return ""
	}
	path, anchor, _ := strings.Cut(to, "#")
	target := file
	if path != "" {
		target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
	}
	if _, err := os.Stat(target); err != nil {
		return "names a file that does not exist"
	}
	if p, ok := pages[target]; ok && anchor != "" && !p.anchors[anchor] {
		return "names a heading that does not exist"
	}
	return ""
}

// readPages reads every Markdown file under a folder, except what tools fetched or built.
func readPages(t *testing.T, root string) map[string]page {
	t.Helper()
	out := map[string]page{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "node_modules" || d.Name() == "dist" || d.Name() == "testdata" || d.Name() == "pages" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		out[path] = readPage(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readPage(text string) page {
	p, block, n := page{anchors: map[string]bool{}}, false, 0
	for line := range strings.Lines(text) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if block {
			continue
		}
		if m := heading.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			name := anchorOf(m[1])
			for i := 1; p.anchors[name]; i++ {
				name = anchorOf(m[1]) + "-" + strconv.Itoa(i)
			}
			p.anchors[name] = true
		}
		line = quoted.ReplaceAllString(line, "")
		for _, find := range []*regexp.Regexp{inText, inMarkup} {
			for _, m := range find.FindAllStringSubmatch(line, -1) {
				p.links = append(p.links, link{n, m[1]})
			}
		}
	}
	return p
}

// anchorOf returns the anchor that GitHub gives to a heading.
func anchorOf(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
