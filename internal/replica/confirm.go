package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/blob"
)

var errMissing = errors.New("what was stored before is no longer there")

// confirm sees, before the first segment of a process is stored, and once a folder is back, that those before it are there.
func (s *Shipper) confirm(ctx context.Context, gen *generation) error {
	s.mu.Lock()
	known, last := gen.known, gen.index
	if len(s.queue) > 0 {
		last = s.queue[0].Index - 1
	}
	s.mu.Unlock()
	if known {
		return nil
	}
	_, err := s.cfg.Place.Stat(ctx, generations+gen.id)
	if err == nil && last > 0 {
		_, err = s.cfg.Place.Stat(ctx, segmentName(gen.id, last))
		if errors.Is(err, blob.ErrNotFound) {
			err = s.within(ctx, gen.id, last)
		}
	}
	if errors.Is(err, blob.ErrNotFound) {
		if err := s.there(ctx); err != nil {
			return err
		}
		return errMissing
	}
	if err == nil && s.cfg.Mounted {
		err = s.sign(ctx) // the mark was forgotten on purpose, or with the folder beside the store
	}
	if err == nil {
		s.mu.Lock()
		gen.known = true
		s.mu.Unlock()
	}
	return err
}

// within fails unless a snapshot ends with a segment: then retention may have deleted the segment.
func (s *Shipper) within(ctx context.Context, generation string, index int64) error {
	found := false
	err := blob.Each(ctx, s.cfg.Place, fmt.Sprintf("%s%s/%012x-", snapshots, generation, index), func(x blob.Info) error {
		found = found || known(x.Name) && strings.HasSuffix(x.Name, manifest)
		return nil
	})
	if err == nil && !found {
		return blob.ErrNotFound
	}
	return err
}
