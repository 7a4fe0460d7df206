package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Page selects a part of a list.
type Page struct {
	Limit  int    // at most this many, 1 to 1000; 0: 50, or for an iterator 1000 at a time
	Cursor string // next_cursor of an earlier page
}

// params are the query parameters; empty ones are left out.
type params url.Values

func (p Page) params() params {
	q := params{}
	q.number("limit", p.Limit)
	q.text("cursor", p.Cursor)
	return q
}

func (q params) text(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q params) number(name string, n int) {
	if n != 0 {
		url.Values(q).Set(name, strconv.Itoa(n))
	}
}

func (q params) list(name string, values []string) { q.text(name, strings.Join(values, ",")) }

func (q params) instant(name string, t time.Time) {
	if !t.IsZero() {
		url.Values(q).Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// on returns a path with the parameters.
func (q params) on(path string) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + url.Values(q).Encode()
}

// Walk iterates over a list page by page, beginning at p; read returns one page. If it fails, the error is the last
// value yielded.
func Walk[T any](ctx context.Context, p Page, read func(context.Context, Page) ([]T, Pagination, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := p
		if p.Limit == 0 {
			p.Limit = 1000
		}
		for {
			items, at, err := read(ctx, p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range items {
				if !yield(x, nil) {
					return
				}
			}
			if at.NextCursor == nil || *at.NextCursor == "" || *at.NextCursor == p.Cursor {
				return
			}
			p.Cursor = *at.NextCursor
		}
	}
}
