package engine

import (
	"encoding/binary"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Listed is one page of a list. Where it is Partial the search took its time: Next continues from where it came to, whatever it
// has found.
type Listed[T any] struct {
	Rows    []T
	Next    string
	Partial bool
	Total   Total
}

// listTime limits the time of a search of a list. It is longer than one of executions, for what it looks for is looked for
// seldom, and whoever looks waits for it.
const listTime = 50 * time.Millisecond

// List is a page of what a filter chooses of a source. As Search it looks at so many rows at a time, and ends early where few
// of very many are chosen. place is where a row stands.
func List[T any](p Page, s SourceOf[T], place func(*T) Place) (Listed[T], error) {
	var after Place
	if p.Cursor != "" {
		at, id, err := DecodeCursor(p.Cursor)
		if err != nil {
			return Listed[T]{}, err
		}
		after = Place{at, id}
	}
	w := walk[T]{limit: max(p.Limit, 1), picky: true, time: listTime, counting: countTime, begun: time.Now(), place: place, bytes: func(*T) int { return 0 }}
	if err := w.through(s, after); err != nil {
		return Listed[T]{}, err
	}
	var out Listed[T]
	var next Place
	out.Rows, next, out.Partial = w.page()
	if !next.IsZero() {
		out.Next = EncodeCursor(next.At, next.ID)
	}
	var err error
	switch {
	case p.Uncounted:
	case out.Next == "" && after.IsZero():
		out.Total.Count = int64(len(out.Rows))
	default:
		out.Total, err = w.count(true, s)
		out.Total.include(len(out.Rows), out.Next != "" && !out.Partial)
	}
	return out, err
}

// everywhere is the instant of places that an id alone tells.
var everywhere = time.UnixMicro(1).UTC()

// IDPlace is a place in a list that goes by ids.
func IDPlace(id [16]byte) Place { return Place{everywhere, job.ExecutionID(id)} }

// NumberPlace is a place in a list that goes by numbers, and Number is the number.
func NumberPlace(n int64) Place {
	p := Place{At: everywhere}
	binary.BigEndian.PutUint64(p.ID[8:], uint64(n))
	return p
}

// Number is the number of a NumberPlace.
func (p Place) Number() int64 { return int64(binary.BigEndian.Uint64(p.ID[8:])) }
