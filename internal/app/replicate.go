package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/blob/location"
	"github.com/carillon-jobs/carillon/internal/blob/s3"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/replica"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// spoolEnding, after the name of the store, names the folder in which changes wait to be replicated.
const spoolEnding = "-replica"

// backupEnding, likewise, names the folder for parts of scheduled backups.
const backupEnding = "-backup"

// outside opens a place for objects outside the store; key is the setting or flag that names it.
func outside(url, key string) (blob.Store, error) {
	mistake := func(err error) error {
		return config.Mistakes{{Key: key, Value: url, Want: err.Error(), From: "as set"}}
	}
	at, err := config.Outside(url)
	if err != nil {
		return nil, mistake(err)
	}
	if at.Kind == location.Folder {
		return folder.New(at.Path), nil
	}
	s, err := s3.New(at)
	if err != nil {
		return nil, mistake(err)
	}
	return s, nil
}

// shipper makes what replicates the embedded store; nil: nobody asks for it.
func (r *running) shipper() (*replica.Shipper, error) {
	c := r.Config.Replicate
	if c.URL == "" {
		return nil, nil
	}
	path, err := embedded(r.Config)
	if err != nil {
		return nil, config.Mistakes{{Key: "replicate.url", Value: c.URL, Want: "nothing: only the embedded store (sqlite:PATH) is replicated; PostgreSQL has its own means", From: "as set"}}
	}
	place, err := outside(c.URL, "replicate.url")
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	_, mounted := place.(*folder.Store)
	return replica.New(replica.Config{
		Place: place, Mounted: mounted, Folder: path + spoolEnding, Every: c.Interval, Snapshots: c.Snapshots, Keep: c.Keep, Spool: int64(c.SpoolMB) << 20,
		Host: hostname(), Version: Version, Log: r.log,
	})
}

// replicate begins to replicate the store, which has its schema by now.
func (r *running) replicate(ctx context.Context, s *replica.Shipper, store engine.Store) error {
	embedded, ok := store.(*sqlite.Store)
	if s == nil || !ok {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, placeAnswers)
	defer cancel()
	err := s.Bind(asking, embedded)
	if errors.Is(err, replica.ErrOthers) {
		return config.Mistakes{{Key: "replicate.url", Value: r.Config.Replicate.URL, Want: "a folder or prefix for each store: " + err.Error(), From: "as set"}}
	}
	if err != nil {
		return err
	}
	r.doubts = append(r.doubts, func() string { return s.Status().Warning() })
	r.metrics.Replication(func() telemetry.Replication {
		x := s.Status()
		return telemetry.Replication{Behind: x.Behind, Waiting: x.Waiting, Bytes: x.Bytes, Segments: x.Segments, Snapshots: x.Snapshots, Generations: x.Generations, Failures: x.Failures}
	})
	r.background("replica", s.Run)
	return nil
}

// warnings lists problems that do not keep the server from serving.
func (r *running) warnings() (out []string) {
	for _, doubt := range r.doubts {
		if text := doubt(); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// backups begins to back the store up at intervals.
func (r *running) backups(store engine.Store) error {
	c := r.Config.Backup
	db, ok := store.(*sqlite.Store)
	if c.URL == "" || !ok {
		return nil
	}
	path, err := embedded(r.Config)
	if err != nil {
		return err
	}
	place, err := outside(c.URL, "backup.url")
	if err != nil {
		return err
	}
	_, mounted := place.(*folder.Store)
	s, err := replica.NewSchedule(replica.ScheduleConfig{
		Store: db, Path: path, Place: place, Mounted: mounted, Folder: path + backupEnding, Every: c.Every, Keep: c.Keep, Host: hostname(), Version: Version, Log: r.log,
	})
	if err != nil {
		return err
	}
	r.doubts = append(r.doubts, s.Warning)
	r.metrics.BackupOverdue(s.Overdue)
	r.background("backup", func(ctx context.Context) { loop.Run(ctx, r.log, "backup", nil, s.Tick) })
	return nil
}

// BackupTo stores a backup of the embedded store in a folder or bucket, and deletes all but the newest keep of this
// store there; 0 keeps all. A server may be running.
func BackupTo(ctx context.Context, c config.Config, url string, keep int) (p replica.Point, place string, deleted int, err error) {
	path, err := embedded(c)
	if err != nil {
		return p, "", 0, fmt.Errorf("%w: back up PostgreSQL with its own tools, such as pg_dump", err)
	}
	if _, err := os.Stat(path); err != nil {
		return p, "", 0, fmt.Errorf("back up %s: %w", path, err)
	}
	to, err := outside(url, "to")
	if err != nil {
		return p, "", 0, err
	}
	spool, err := os.MkdirTemp("", "carillon-backup-")
	if err != nil {
		return p, "", 0, err
	}
	defer os.RemoveAll(spool)
	p, deleted, err = replica.Backup(ctx, path, to, spool, keep, hostname(), Version, time.Now)
	return p, to.String(), deleted, err
}

// Recovery describes the replicas and backups of a store in a place, and the restored state, or in a dry run the one that would be.
type Recovery struct {
	Place  string
	Survey *replica.Survey
	replica.Result
	Store sqlite.Summary // of the restored store
}

// Recover restores a store from the replica or the backups in a folder or bucket into a file that does not exist. If
// rehearse is set, it only finds out what it would restore.
func Recover(ctx context.Context, url, to string, want replica.Want, rehearse bool, tell func(done, all int64)) (out Recovery, err error) {
	place, err := outside(url, "from")
	if err != nil {
		return out, err
	}
	out.Place = place.String()
	if to != "" || !rehearse {
		if to, err = unused(to); err != nil {
			return out, err
		}
	}
	if out.Survey, err = replica.Look(ctx, place); err != nil {
		return out, err
	}
	choice, err := out.Survey.Choose(ctx, want)
	if err != nil {
		return out, err
	}
	out.Result = replica.Result{Choice: choice}
	if rehearse {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return out, err
	}
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".pages-*")
	if err != nil {
		return out, err
	}
	defer os.Remove(file.Name()) // if it has been renamed by then, there is nothing to remove
	defer file.Close()
	if out.Result, err = out.Survey.Assemble(ctx, choice, want, file, tell); err != nil {
		return out, err
	}
	out.Store, err = sqlite.Adopt(ctx, file.Name(), to, out.Epoch, time.Now())
	return out, err
}

// unused returns the whole path of a store that is to be created, and fails if there is one.
func unused(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for _, end := range []string{"", "-wal"} {
		if _, err := os.Lstat(path + end); err == nil {
			return "", fmt.Errorf("restore %s: %w: %s exists; want a name that is free", path, engine.ErrConflict, path+end)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return path, nil
}
