package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine/sqlite/walfile"
)

// Snapshot is the content of the database at one instant, page by page. While it is open, the log grows.
type Snapshot struct {
	Changes // up to the snapshot; without pages if the tap was lost before
	Extent  Extent
	// Continues is set if Changes are everything since the last Cut.
	Continues bool

	conn *conn
	s    *database
}

// Snapshot begins to read the database as it is now, and starts the tap again if it was lost: what changes from now on
// is not in the snapshot, and the next Cut returns it. Nobody writes meanwhile, for less than a millisecond unless a
// lot was committed in the last one.
func (s *Store) Snapshot(ctx context.Context) (*Snapshot, error) {
	const doing = "take a snapshot"
	if s.tap == nil {
		return nil, errors.New("take a snapshot: the store was opened without a tap")
	}
	s.folding.Lock()
	defer s.folding.Unlock()
	reader, err := openConn(s.path, sqlite.OpenReadOnly, readerPragmas...)
	if err != nil {
		return nil, translate(ctx, doing, err)
	}
	snap := &Snapshot{conn: reader, s: s.database}
	if err = s.tap.catchUp(); err == nil {
		err = s.start(ctx, snap, reader.fix)
	}
	if err != nil {
		return nil, errors.Join(translate(ctx, doing, err), reader.Close())
	}
	return snap, nil
}

// start has a snapshot hold what is committed now, once fix has begun to read that. If it cannot, the tap keeps what it has.
func (s *Store) start(ctx context.Context, snap *Snapshot, fix func() (Extent, error)) error {
	w, err := s.take(ctx, s.writer)
	if err != nil {
		return err
	}
	defer func() { s.writer <- w }() // which has room: w came from it
	snap.Extent, err = fix()
	if err == nil { // only now, since it empties the tap
		snap.Changes, snap.Continues, err = s.tap.begin()
	}
	if err == nil {
		s.snapshots.Add(1) // before the writer is free, for which Close waits
	}
	return err
}

// fix begins a transaction that reads, at this instant, and returns how large the database is.
func (c *conn) fix() (Extent, error) {
	if _, err := c.prepare("BEGIN").exec(); err != nil {
		return Extent{}, err
	}
	return extent(c) // SQLite begins with the first read
}

// unfix ends the transaction that fix began.
func (c *conn) unfix() {
	if !c.AutocommitEnabled() {
		_, _ = c.prepare("ROLLBACK").exec() // it has read, and there is nothing to lose
	}
}

// Each calls f for every page in order, until the store is closed or ctx ends. The data is valid during the call only.
func (n *Snapshot) Each(ctx context.Context, f func(number uint32, data []byte) error) error {
	n.conn.SetInterrupt(ctx.Done())
	defer n.conn.SetInterrupt(nil)
	err := n.conn.pages(func(number uint32, data []byte) error {
		select {
		case <-n.s.closed:
			return errClosed
		default:
			return f(number, data)
		}
	})
	return translate(ctx, "read a snapshot", err)
}

// Close ends the snapshot; the log can then begin anew.
func (n *Snapshot) Close() error {
	if n.conn == nil {
		return nil
	}
	err := n.conn.Close()
	n.conn = nil
	n.s.snapshots.Done()
	return err
}

// catchUp reads most of what was committed, so that begin has little to read. A tap that was lost finds its place.
func (t *Tap) catchUp() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.advance(false, t.keep)
		return nil
	}
	return t.seek()
}

// seek moves a tap that was lost to the end of the log, and keeps nothing.
func (t *Tap) seek() error {
	now, err := t.start()
	if errors.Is(err, walfile.ErrEmpty) {
		t.at, t.unused = walfile.Position{}, true
		return nil
	}
	if err != nil {
		return err
	}
	if !now.SameLog(t.at) || t.unused {
		t.at, t.unused = now, false
	}
	at, err := walfile.Read(t.log, t.at, nil, func(size uint32) { t.size = size })
	t.at = at
	return err
}

// begin is catchUp for whoever holds the writing connection. It returns what has not been taken, and whether that is
// everything since the last Cut.
func (t *Tap) begin() (c Changes, continues bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	began := t.now()
	if t.lost == nil {
		t.advance(true, t.keep)
		if t.lost != nil {
			return c, false, fmt.Errorf("the tap was lost: %w", t.lost)
		}
		return t.take(began), true, nil
	}
	if err := t.seek(); err != nil {
		return c, false, err
	}
	t.drop()
	t.lost = nil
	t.whole.Store(true)
	return t.take(began), false, nil
}
