package cli

import (
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// paging sets how much of a long list to show.
type paging struct {
	limit int
	all   bool
}

func (p *paging) flags(c *cobra.Command) {
	c.Flags().IntVar(&p.limit, "limit", 50, "maximum number to show")
	c.Flags().BoolVar(&p.all, "all", false, "show all")
}

// page returns how many items to request at a time.
func (p paging) page() client.Page {
	if p.all {
		return client.Page{Limit: 1000}
	}
	return client.Page{Limit: min(max(p.limit, 0)+1, 1000)}
}

// listed prints a list up to its limit, and tells a person if it is incomplete or empty.
func listed[T any](s *session, v view[T], p paging, empty string, items iter.Seq2[T, error]) error {
	if !p.all && p.limit < 1 {
		return usage{fmt.Errorf("--limit %d: want 1 or more, or --all", p.limit)}
	}
	more := false
	some := func(yield func(T, error) bool) {
		n := 0
		for x, err := range items {
			if n++; err == nil && n > p.limit && !p.all {
				more = true
				return
			}
			if !yield(x, err) {
				return
			}
		}
	}
	n, err := show(s, v, some)
	switch {
	case err != nil:
		return err
	case n == 0 && (s.output == "table" || s.output == "wide"):
		s.say("%s", empty)
	case more:
		s.say("Only the first %d shown: --limit N shows more, --all shows all.", n)
	}
	return nil
}

// listedAll prints a short list.
func listedAll[T any](s *session, v view[T], empty string, items iter.Seq2[T, error]) error {
	return listed(s, v, paging{all: true}, empty, items)
}

// each iterates over a complete list.
func each[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}
