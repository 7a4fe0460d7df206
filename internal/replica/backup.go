package replica

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// Backup stores the content of a file at one instant, whoever has it open, and then deletes all but the newest keep
// backups of the same store; 0 keeps all. The folder is for parts that are being stored.
func Backup(ctx context.Context, path string, place blob.Store, folder string, keep int, host, version string, now func() time.Time) (p Point, deleted int, err error) {
	began := now()
	p, err = store(ctx, path, place, folder, host, version, now, false)
	if err == nil && keep > 0 {
		deleted, err = trim(ctx, place, p.Store, keep, began)
		if err != nil {
			err = fmt.Errorf("the backup %s is complete, but older ones could not be deleted: %w", p.ID(), err)
		}
	}
	return p, deleted, err
}

// store stores a backup, gently if others need the machine.
func store(ctx context.Context, path string, place blob.Store, folder, host, version string, now func() time.Time, gently bool) (p Point, err error) {
	h := head{Kind: kindSnapshot, Host: host, Version: version}
	began := now().UTC()
	parts, err := stage(ctx, folder, func(ctx context.Context, page func(uint32, []byte) error) error {
		return sqlite.Read(ctx, path, func(id sqlite.Identity, x sqlite.Extent) error {
			h.Store, h.Epoch, h.Began, h.Ended, h.PageSize, h.Size = id.Created, id.Epoch, began, now().UTC(), x.PageSize, x.Pages
			return nil
		}, page)
	}, &h, gently)
	defer discard(parts)
	if err != nil {
		return p, err
	}
	id := stamp(h.Ended) + "-" + rand.Text()[:8]
	name := backups + id
	for i, x := range parts {
		of := partName(name, i)
		if err := x.put(ctx, place, of); err != nil {
			return p, err
		}
		h.Parts = append(h.Parts, part{of, x.size, x.sum})
		p.Bytes += x.size
	}
	if _, err := putHead(ctx, place, name+manifest, h, folder); err != nil {
		return p, err
	}
	p.Name, p.Store, p.Host, p.Began, p.Ended = name, h.Store, h.Host, h.Began, h.Ended
	return p, nil
}

// unfinished is the age at which parts of a backup that was not finished are deleted.
const unfinished = 24 * time.Hour

// trim deletes all but the newest backups of a store, and what was left of unfinished ones.
func trim(ctx context.Context, place blob.Store, store time.Time, keep int, now time.Time) (deleted int, err error) {
	v := &Survey{place: place}
	all, err := v.points(ctx, backups)
	if err != nil {
		return 0, err
	}
	whole := 0
	for _, p := range slices.Backward(all) {
		if !p.Store.Equal(store) {
			continue
		}
		if whole < keep {
			if p.whole() {
				whole++
			}
			continue
		}
		if err := deleteSnapshot(ctx, place, p.Name); err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, v.orphans(ctx, backups, "", all, now.Add(-unfinished))
}

// ID returns the name of a backup as people give it.
func (p Point) ID() string { return strings.TrimPrefix(p.Name, backups) }
