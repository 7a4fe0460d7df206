package mover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	surveyEvery = 24 * time.Hour
	namedAtMost = 20 // objects in the note and in the log
)

// survey looks once a day, and when a server starts, for objects that the catalogue does not know. It deletes none of them.
func (r *round) survey(ctx context.Context, now time.Time) error {
	if !r.surveyed.IsZero() && now.Sub(r.surveyed) < surveyEvery {
		return nil
	}
	all, err := unknown(ctx, r.Store, r.Files)
	if err != nil {
		return err
	}
	r.surveyed, r.note.Foreign = now, all[:min(namedAtMost, len(all))]
	if len(all) > 0 {
		r.Log.Error("the archive has objects that the catalogue does not know: they are not Carillon's, or were written after the backup that the database was restored from; they are left alone",
			"objects", len(all), "first", r.note.Foreign, "place", r.Files.String())
	}
	return nil
}

// unknown lists the objects in the folders of the archive that the catalogue does not know.
func unknown(ctx context.Context, catalogue engine.Catalogue, place blob.Store) (out []string, err error) {
	for _, prefix := range archive.Prefixes() {
		if err := blob.Each(ctx, place, prefix, func(x blob.Info) error { out = append(out, x.Name); return nil }); err != nil {
			return nil, err
		}
	}
	files, err := catalogue.ArchiveFiles(ctx, engine.FileFilter{}) // after the objects: a file is begun before there is an object
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(files))
	for _, f := range files {
		known[f.Name] = true
	}
	return slices.DeleteFunc(out, func(name string) bool {
		if known[name] {
			return true
		}
		_, err := place.Stat(ctx, name) // it may have been deleted meanwhile
		return errors.Is(err, blob.ErrNotFound)
	}), nil
}
