package move

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// batch is how many rows travel together.
const batch = 2000

// batchOf is the batch of a table; rows of some are large.
func batchOf(table string) int {
	if table == "blob_chunks" {
		return 16 // of 256 KiB each
	}
	return batch
}

// Progress is told how a move goes.
type Progress interface {
	// Begin reports a stage with its number of rows, and a function that returns how many are done.
	Begin(stage string, total int, done func() int)
	End()
}

// Moved is the outcome of moving a table.
type Moved struct {
	Table    string
	Rows     int64
	Checksum string // of the rows, in any order, as both stores have them
}

// Run copies everything from one store into another, which must be empty.
func Run(ctx context.Context, from engine.RowSource, to engine.RowSink, now time.Time, tell Progress) (moved []Moved, err error) {
	err = to.Fill(ctx, func(t engine.RowTarget) error {
		moved, err = fill(ctx, from, t, now, tell)
		return err
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}

// Rehearse does everything that Run does, and rolls it back.
func Rehearse(ctx context.Context, from engine.RowSource, to engine.RowSink, now time.Time, tell Progress) (moved []Moved, err error) {
	rehearsed := errors.New("it was a rehearsal")
	err = to.Fill(ctx, func(t engine.RowTarget) error {
		if moved, err = fill(ctx, from, t, now, tell); err != nil {
			return err
		}
		return rehearsed
	})
	if !errors.Is(err, rehearsed) {
		return nil, err
	}
	return moved, nil
}

func fill(ctx context.Context, from engine.RowSource, to engine.RowTarget, now time.Time, tell Progress) ([]Moved, error) {
	source, err := from.RowTables(ctx)
	if err != nil {
		return nil, err
	}
	target, err := to.RowTables(ctx)
	if err != nil {
		return nil, err
	}
	ps, err := plan(source, target)
	if err != nil {
		return nil, err
	}
	for i := range ps {
		if ps[i].rows, err = from.CountRows(ctx, ps[i].table); err != nil {
			return nil, err
		}
	}
	sums := make([]sum, len(ps))
	for i := range ps {
		if sums[i], err = ps[i].carry(ctx, from, to, tell); err != nil {
			return nil, err
		}
	}
	epoch, err := epochOf(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := to.BeginEpoch(ctx, engine.NextEpoch(epoch, now)); err != nil {
		return nil, err
	}
	moved := make([]Moved, len(ps))
	for i := range ps {
		got, err := ps[i].check(ctx, to, tell)
		if err != nil {
			return nil, err
		}
		if got != sums[i] || got.rows != ps[i].rows {
			return nil, fmt.Errorf("compare %s: the source has %d rows with the checksum %s, %d were read with %s, the target has %d with %s; nothing was moved",
				ps[i].table, ps[i].rows, sums[i], sums[i].rows, sums[i], got.rows, got)
		}
		moved[i] = Moved{Table: ps[i].table, Rows: got.rows, Checksum: got.String()}
	}
	return moved, nil
}

// carry copies a table, and returns what it copied.
func (p *passage) carry(ctx context.Context, from engine.RowSource, to engine.RowTarget, tell Progress) (s sum, err error) {
	c := counted(tell, p.table, p.rows)
	defer tell.End()
	err = from.ReadRows(ctx, p.table, p.read, batchOf(p.table), func(rows [][]any) error {
		out := make([][]any, len(rows))
		for i, r := range rows {
			if out[i], err = p.over(r); err != nil {
				return err
			}
			if err := s.add(out[i], p.texts); err != nil {
				return fmt.Errorf("%s: %w", p.table, err)
			}
		}
		c.add(len(rows))
		return to.PutRows(ctx, p.table, p.put, out)
	})
	return s, err
}

// check reads a table of the target.
func (p *passage) check(ctx context.Context, to engine.RowTarget, tell Progress) (s sum, err error) {
	c := counted(tell, "check "+p.table, p.rows)
	defer tell.End()
	err = to.ReadRows(ctx, p.table, p.put, batchOf(p.table), func(rows [][]any) error {
		for _, r := range rows {
			if err := s.add(r, p.texts); err != nil {
				return fmt.Errorf("%s: %w", p.table, err)
			}
		}
		c.add(len(rows))
		return nil
	})
	return s, err
}

// epochOf returns the epoch of the source's tokens.
func epochOf(ctx context.Context, from engine.RowSource) (epoch int64, err error) {
	err = from.ReadRows(ctx, "tokens", []string{"next"}, 1, func(rows [][]any) error {
		next, ok := rows[0][0].(int64)
		if !ok {
			return errors.New("the next token is not a number")
		}
		epoch = engine.EpochOf(next)
		return nil
	})
	return epoch, err
}

// sum is an order-independent checksum of rows.
type sum struct {
	rows int64
	a, b uint64
}

func (s sum) String() string { return fmt.Sprintf("%016x%016x", s.a, s.b) }

// add adds a row.
func (s *sum) add(row []any, texts []bool) error {
	h := sha256.New()
	var n [9]byte
	put := func(kind byte, v uint64, data []byte) {
		n[0] = kind
		binary.BigEndian.PutUint64(n[1:], v)
		h.Write(n[:])
		h.Write(data)
	}
	for i, v := range row {
		switch v := v.(type) {
		case nil:
			put('n', 0, nil)
		case int64:
			put('i', uint64(v), nil)
		case float64:
			put('f', math.Float64bits(v), nil)
		case []byte:
			put('b', uint64(len(v)), v)
		case string:
			data := []byte(v)
			if texts[i] { // which two engines write differently
				var list []string
				if err := json.Unmarshal(data, &list); err != nil {
					return err
				}
				data, _ = json.Marshal(list)
			}
			put('t', uint64(len(data)), data)
		default:
			return fmt.Errorf("a value of type %T", v)
		}
	}
	d := h.Sum(nil)
	s.rows++
	s.a += binary.BigEndian.Uint64(d)
	s.b += binary.BigEndian.Uint64(d[8:])
	return nil
}
