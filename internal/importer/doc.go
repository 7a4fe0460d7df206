// Package importer converts the jobs of other schedulers to declared jobs: crontabs, CronJobs of Kubernetes, jobs of
// Dkron, schedules of Sidekiq and Celery beat.
//
// The result is as close to the original as Carillon allows, and every deviation is reported as a Difference, with
// its line in the source: nobody should find out at night. The package only reads text; the server validates the jobs
// when they are applied.
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
	LeftOut = "left out" // all or part of it has no counterpart
)

// Difference is one way in which a job differs from the original.
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

// maker collects jobs.
type maker struct {
	out  Imported
	keys map[string]bool
}

func (m *maker) tell(line int, key, kind, about, format string, args ...any) {
	m.out.Differences = append(m.out.Differences, Difference{line, key, kind, about, fmt.Sprintf(format, args...)})
}

var notKey = regexp.MustCompile(`[^a-z0-9._-]+`)

// key makes a new unique key from a text.
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

// longest is the maximum timeout of an attempt, in seconds.
const longest = 7 * 24 * 3600
