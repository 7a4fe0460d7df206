// Package importer makes declared jobs of what other schedulers run: crontabs,
// CronJobs of Kubernetes, jobs of Dkron, schedules of Sidekiq and Celery beat.
//
// What comes out is as near to the original as Carillon can be, and each place
// where it is not the same is told as a Difference, with the line it comes from:
// nobody should find out at night. It reads text and asks nobody; whether the
// jobs are accepted, the server says when they are applied.
package importer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/carillon-jobs/carillon/internal/declare"
)

// How much a difference matters.
const (
	Note    = "note"     // good to know
	Differs = "differs"  // it behaves in another way
	LeftOut = "left out" // something of it, or all, has no counterpart
)

// Difference is one way in which a job is not as it was.
type Difference struct {
	Line  int    `json:"line,omitempty"`
	Key   string `json:"key,omitempty"` // of the job; "": it is about the whole file, or there is no job
	Kind  string `json:"kind"`
	About string `json:"about"` // one word, such as timezone
	What  string `json:"what"`
}

// Imported is the result of importing a file.
type Imported struct {
	declare.Declared
	Differences []Difference
}

// maker gathers jobs.
type maker struct {
	out  Imported
	keys map[string]bool
}

func (m *maker) tell(line int, key, kind, about, format string, args ...any) {
	m.out.Differences = append(m.out.Differences, Difference{line, key, kind, about, fmt.Sprintf(format, args...)})
}

var notKey = regexp.MustCompile(`[^a-z0-9._-]+`)

// key makes a key of a text that no job has yet.
func (m *maker) key(text string) string {
	base := strings.Trim(notKey.ReplaceAllString(strings.ToLower(text), "-"), "-._")
	if len(base) > 100 {
		base = strings.Trim(base[:100], "-._")
	}
	if base == "" {
		base = "job"
	}
	key := base
	for n := 2; m.keys[key]; n++ {
		key = fmt.Sprintf("%s-%d", base, n)
	}
	m.keys[key] = true
	return key
}

// shorten cuts a text for people.
func shorten(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// longest is the longest time that an attempt may be given, in seconds.
const longest = 7 * 24 * 3600
