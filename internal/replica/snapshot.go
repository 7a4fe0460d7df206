package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

const (
	partBytes     = 64 << 20 // of pages in an object
	breath        = 1 << 20  // of pages after which a snapshot rests for as long as they took
	stagingEnding = ".staged"
	patience      = 10 * time.Minute // without a part that could be stored
)

// errLater says that no snapshot could be taken now, which the generation survives.
var errLater = errors.New("no snapshot could be taken")

// due reports whether a snapshot is due.
func (s *Shipper) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	return s.gen != nil && !s.staging && now.After(s.retry) && now.Sub(s.gen.snapshot) >= s.cfg.Snapshots
}

// snapshot takes a snapshot of the store after the segments so far, and stores it in the background. Only the first one of a generation
// may begin the tap anew.
func (s *Shipper) snapshot(ctx context.Context, gen *generation, first bool) error {
	snap, err := s.store.Snapshot(ctx)
	if err != nil {
		s.mu.Lock()
		s.retry = s.cfg.Now().Add(again)
		s.mu.Unlock()
		return fmt.Errorf("%w: %w", errLater, err)
	}
	if snap.Continues {
		err = s.keep(snap.Changes)
	} else if !first {
		err = errors.New("changes before the snapshot are missing")
		s.tap.Abandon(err)
	}
	if err != nil {
		return errors.Join(err, snap.Close())
	}
	h := head{
		Kind: kindSnapshot, Store: s.created, Generation: gen.id, Index: gen.index, Previous: gen.sum, PageSize: snap.Extent.PageSize, Size: snap.Extent.Pages, Epoch: s.epoch,
		Began: snap.Began.UTC(), Ended: later(snap.Ended.UTC(), gen.ended), Position: snap.Position, Host: s.cfg.Host, Version: s.cfg.Version,
	}
	s.mu.Lock()
	s.staging, s.storing = true, snapshotName(gen.id, h.Index, h.Ended)
	s.mu.Unlock()
	s.work.Go(func() { s.finishSnapshot(gen, snap, h) })
	return nil
}

// finishSnapshot stores a snapshot.
func (s *Shipper) finishSnapshot(gen *generation, snap *sqlite.Snapshot, h head) {
	name := snapshotName(gen.id, h.Index, h.Ended)
	parts, err := stage(gen.ctx, s.cfg.Folder, snap.Each, &h, true)
	err = errors.Join(err, snap.Close())
	defer discard(parts)
	var bytes int64
	if err == nil {
		bytes, err = s.storeParts(gen.ctx, name, parts, &h)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staging, s.storing = false, ""
	if s.gen != gen || gen.ctx.Err() != nil {
		return
	}
	if err != nil {
		s.retry = s.cfg.Now().Add(again)
		s.failedLocked(fmt.Errorf("snapshot: %w", err))
		return
	}
	s.counts.Snapshots++
	s.counts.Bytes += bytes
	gen.snapshot = h.Ended
	s.local.whole(state{
		Place: s.cfg.Place.String(), Store: h.Store, Generation: h.Generation, Index: h.Index, Sum: h.Previous, Ended: h.Ended, Snapshot: h.Ended, Tap: sqlite.TapState{At: h.Position},
	})
	s.recovered()
	s.reached(h.Began)
	select {
	case s.prune <- struct{}{}:
	default:
	}
}

// storeParts stores a snapshot's parts and then its manifest. It tries again for as long as anything succeeds now and then.
func (s *Shipper) storeParts(ctx context.Context, name string, parts []object, h *head) (bytes int64, err error) {
	try := func(name string, f func(context.Context) error) error {
		until := time.Now().Add(patience)
		for {
			asking, cancel := context.WithTimeout(ctx, patience)
			err := s.put(asking, name, f)
			cancel()
			if err == nil || ctx.Err() != nil || errors.Is(err, blob.ErrExists) || time.Now().After(until) {
				return err
			}
			wait := time.NewTimer(s.failed(err))
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			wait.Stop()
		}
	}
	for i, p := range parts {
		of := partName(name, i)
		if err := try(of, func(ctx context.Context) error { return p.put(ctx, s.cfg.Place, of) }); err != nil {
			return bytes, err
		}
		h.Parts = append(h.Parts, part{of, p.size, p.sum})
		bytes += p.size
	}
	return bytes, try(name+manifest, func(ctx context.Context) error {
		_, err := putHead(ctx, s.cfg.Place, name+manifest, *h, s.cfg.Folder)
		return err
	})
}

// stage writes pages into files, one for each part, and sets h.Pages. gently uses at most half a processor.
func stage(ctx context.Context, folder string, each func(context.Context, func(uint32, []byte) error) error, h *head, gently bool) (parts []object, err error) {
	var w *writer
	defer func() {
		if err != nil && w != nil {
			err = errors.Join(err, w.abort())
		}
	}()
	end := func() error {
		o, err := w.finish()
		if w = nil; err == nil {
			parts = append(parts, o)
		}
		return err
	}
	began, sinceBreath := time.Now(), 0
	err = each(ctx, func(number uint32, data []byte) error {
		if w == nil {
			p := *h
			p.Kind, p.Index, p.Parts, p.Previous = kindPart, int64(len(parts)), nil, ""
			next, err := newWriter(filepath.Join(folder, fmt.Sprintf("%06d%s", len(parts), stagingEnding)), p)
			if err != nil {
				return err
			}
			w = next
		}
		if err := w.page(number, data); err != nil {
			return err
		}
		h.Pages++
		if sinceBreath += len(data); gently && sinceBreath >= breath {
			rest := time.NewTimer(time.Since(began))
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
			rest.Stop()
			began, sinceBreath = time.Now(), 0
		}
		if w.bytes >= partBytes {
			return end()
		}
		return ctx.Err()
	})
	if err == nil && w != nil {
		err = end()
	}
	return parts, err
}

func discard(parts []object) {
	for _, p := range parts {
		_ = os.Remove(p.file)
	}
}
