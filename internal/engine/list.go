package engine

import (
	"encoding/binary"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Listed is one page of a list. If it is Partial, the search ran out of time: Next continues where it stopped,
// whatever it has found.
type Listed[T any] struct {
	Rows    []T
	Next    string
	Partial bool
	Total   Total
}

// listTime limits the time of a search of a list. It is longer than that of executions, since such searches are rare
// and their callers wait for them.
const listTime = 50 * time.Millisecond

// List returns a page of what a filter selects from a source. Like Search it examines a number of rows at a time, and
// ends early if few of very many match. place returns the position of a row.
func List[T any](p Page, s SourceOf[T], place func(*T) Place) (Listed[T], error) {
	return ListAll(p, []SourceOf[T]{s}, place)
}

// ListAll is List over several sources. It looks at none further than the page goes that those before it have filled.
func ListAll[T any](p Page, sources []SourceOf[T], place func(*T) Place) (Listed[T], error) {
	var after Place
	if p.Cursor != "" {
		at, id, err := DecodeCursor(p.Cursor)
		if err != nil {
			return Listed[T]{}, err
		}
		after = Place{at, id}
	}
	w := walk[T]{limit: max(p.Limit, 1), picky: true, narrow: true, time: listTime, counting: countTime, begun: time.Now(), place: place, bytes: func(*T) int { return 0 }}
	for _, s := range sources {
		if err := w.through(s, after); err != nil {
			return Listed[T]{}, err
		}
	}
	var out Listed[T]
	var next Place
	out.Rows, next, out.Partial = w.page()
	if !next.IsZero() {
		out.Next = EncodeCursor(next.At, next.ID)
	}
	switch {
	case p.Uncounted:
	case out.Next == "" && after.IsZero():
		out.Total.Count = int64(len(out.Rows))
	default:
		for _, s := range sources {
			t, err := w.count(true, s)
			if err != nil {
				return out, err
			}
			out.Total.Count += t.Count
			out.Total.Estimate = out.Total.Estimate || t.Estimate
		}
		out.Total.include(len(out.Rows), out.Next != "" && !out.Partial)
	}
	return out, nil
}

// everywhere is the instant of places that are defined by an id alone.
var everywhere = time.UnixMicro(1).UTC()

// IDPlace returns a place in a list ordered by ids.
func IDPlace(id [16]byte) Place { return Place{everywhere, job.ExecutionID(id)} }

// NumberPlace returns a place in a list ordered by numbers.
func NumberPlace(n int64) Place {
	p := Place{At: everywhere}
	binary.BigEndian.PutUint64(p.ID[8:], uint64(n))
	return p
}

// Number returns the number of a NumberPlace.
func (p Place) Number() int64 { return int64(binary.BigEndian.Uint64(p.ID[8:])) }
