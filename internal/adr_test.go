package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	adrRow    = regexp.MustCompile(`(?m)^\| \[(\d+)\]\((\d{4}-[a-z0-9-]+\.md)\) \| (.+?) \| (.+?) \| (.+?) \|$`)
	adrTitle  = regexp.MustCompile(`^# (\d+)\. (.+)\n`)
	adrStatus = regexp.MustCompile(`^# .+\n\n\*\*Status:\*\* (.+)\n`)
	adrLink   = regexp.MustCompile(`\[(?:ADR )?\d+\]\((\d{4}-[a-z0-9-]+\.md)\)`)
)

// links lists the records that a text links to.
func links(text string) string {
	var out []string
	for _, m := range adrLink.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return strings.Join(out, " ")
}

// TestADRIndex holds the index of decision records against the records: each has one row, with its number and title, and a record
// that was superseded says so at its top, with links to the same records as its row.
func TestADRIndex(t *testing.T) {
	dir := filepath.Join("..", "docs", "internals", "adr")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	last := ""
	for _, m := range adrRow.FindAllStringSubmatch(string(index), -1) {
		if m[2] <= last {
			t.Errorf("the index has %s after %s; want each once, in the order of numbers", m[2], last)
		}
		last = m[2]
		rows[m[2]] = m
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d records, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s is not in the index; add a row to %s", name, filepath.Join(dir, "README.md"))
			continue
		}
		delete(rows, name)
		title := adrTitle.FindStringSubmatch(string(text))
		if title == nil || title[1] != row[1] || title[2] != row[3] || strings.TrimLeft(name[:4], "0") != row[1] {
			t.Errorf("%s begins with %q; want \"# %s. %s\", as in the index", name, strings.SplitN(string(text), "\n", 2)[0], row[1], row[3])
		}
		status := "accepted"
		if m := adrStatus.FindStringSubmatch(string(text)); m != nil {
			status = m[1]
		}
		word, _, _ := strings.Cut(row[5], " ")
		if !strings.HasPrefix(status, word) || links(status) != links(row[5]) {
			t.Errorf("%s has the status %q, and the index says %q; want the same, with the same links", name, status, row[5])
		}
		for link := range strings.FieldsSeq(links(status)) {
			if _, err := os.Stat(filepath.Join(dir, link)); err != nil {
				t.Errorf("%s is superseded by %s, which does not exist", name, link)
			}
		}
	}
	for name := range rows {
		t.Errorf("the index has %s, which does not exist", name)
	}
}
