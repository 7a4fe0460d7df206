package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/location"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// archive opens the place that days of history move to; nil: they stay in the store. A server that could not read what has moved does not
// start.
func (r *running) archive(ctx context.Context, db, all engine.Store) (blob.Store, error) {
	mistake := func(err error) error {
		return config.Mistakes{{Key: "archive.url", Value: r.Config.Archive.URL, Want: "a place for history that this server can use: " + err.Error(), From: "as set or by default"}}
	}
	moved := func(ctx context.Context) (n int, err error) {
		files, err := db.ArchiveFiles(engine.Unconfined(ctx), engine.FileFilter{Answering: true})
		return len(files), err
	}
	if r.Config.Archive.URL == "" {
		var n int
		if err := r.whenAnswered(ctx, func() (err error) { n, err = moved(ctx); return err }); err != nil || n == 0 {
			return nil, err
		}
		return nil, mistake(fmt.Errorf("%d files of history were moved to one that is no longer set; set it again", n))
	}
	at, err := location.Parse(r.Config.Archive.URL)
	if err != nil {
		return nil, mistake(err)
	}
	p := &place{owners: all, db: db, name: "archive.place", what: "history archived by one server would be missing at the other", mounted: at.Kind == location.Folder}
	if p.Store, err = placeAt(at); err != nil {
		return nil, mistake(err)
	}
	p.replaced = func(before, _ string) error {
		n, err := moved(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("%w: %d files of history are in %s, and this is another place; copy all objects there to this one, with %s", blob.ErrRefused, n, before, blob.MarkName)
		}
		return err
	}
	return p, r.agree(ctx, p, mistake, "the place for archived history cannot be reached; what is in the database is served, nothing moves, and it is tried again")
}

// mover moves days of history to files.
func (r *running) mover(db engine.Store, files blob.Store, clk clock.Clock, disp *dispatch.Dispatcher) *mover.Mover {
	var holder [16]byte
	_, _ = rand.Read(holder[:]) // it never fails
	return &mover.Mover{
		Store: db, Files: files, Clock: clk, Holder: holder, Hot: r.Config.History.Hot, Retention: r.Config.History.Retention, Layout: archive.Layout(r.Config.Archive.Layout), Spool: r.Config.Blobs.Spool, Log: r.log,
		Busy: func() bool {
			_, all, err := disp.Loads(context.Background())
			return err != nil || all.Waiting > 0
		},
	}
}

// archivist answers operators' questions about the archive.
func (r *running) archivist(db engine.Store, files blob.Store, clk clock.Clock, wake func()) *api.Archive {
	if !r.has("scheduler") {
		wake = nil
	}
	return &api.Archive{Office: &mover.Office{Store: db, Files: files, Clock: clk, Hot: r.Config.History.Hot, Wake: wake}, Place: files.String(), Layout: r.Config.Archive.Layout}
}

// lookAtArchive returns the state of the archive, for metrics.
func lookAtArchive(ctx context.Context, db engine.Catalogue) (note mover.Note, bytes int64, err error) {
	note, err = mover.ReadNote(ctx, db)
	files, look := db.ArchiveFiles(ctx, engine.FileFilter{Answering: true})
	for _, f := range files {
		bytes += f.Bytes
	}
	return note, bytes, errors.Join(err, look)
}
