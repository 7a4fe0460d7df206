package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/database"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/blob/location"
	"github.com/carillon-jobs/carillon/internal/blob/s3"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// How long a server waits for an answer of the place for objects when it starts, and for servers that have just ended to be seen as gone.
const (
	placeAnswers = 10 * time.Second
	placeAsks    = 500 * time.Millisecond
)

// artifacts returns the store of this installation's artifacts.
func (r *running) artifacts(ctx context.Context, db engine.Store, all engine.Store) (*artifact.Store, error) {
	objects, err := r.objects(ctx, db, all)
	if err != nil {
		return nil, err
	}
	return artifact.NewStore(objects, r.uploads(), r.maxArtifact(), int64(r.Config.Artifacts.TenantMB)<<20), nil
}

// uploadsEnding, after the name of the store, names the folder in which uploads wait until they are complete.
const uploadsEnding = "-uploads"

// uploads returns the folder for uploads: the one that is set, or one beside an embedded store, since the system's is often in memory and
// small. "" is the system's.
func (r *running) uploads() string {
	if path := embeddedFile(r.Config.Database); path != "" && r.Config.Blobs.Spool == "" {
		return path + uploadsEnding
	}
	return r.Config.Blobs.Spool
}

func (r *running) maxArtifact() int64 { return int64(r.Config.Artifacts.MaxMB) << 20 }

// objects opens the place for objects that the settings name, and sees that other servers over the database use the same. all is db
// before anything was wrapped around it. A place that cannot be reached is looked at again when it is first used.
func (r *running) objects(ctx context.Context, db, all engine.Store) (blob.Store, error) {
	mistake := func(err error) error {
		return config.Mistakes{{Key: "blobs.url", Value: r.Config.Blobs.URL, Want: "a place for objects that this server can use: " + err.Error(), From: "as set or by default"}}
	}
	at, err := location.Parse(r.Config.Blobs.URL)
	if err != nil {
		return nil, mistake(err)
	}
	p := &place{owners: all, db: db, name: "blobs.place", what: "an artifact uploaded at one server would be missing at the other", replaced: func(before, now string) error {
		r.log.Warn("artifacts are stored in another place from now on; those in the former place are not found unless you copy them", "before", before, "now", now)
		return nil
	}}
	if at.Kind == location.Database {
		p.Store, p.same = database.New(db), true
	} else if p.Store, err = placeAt(at); err != nil {
		return nil, mistake(err)
	}
	return p, r.agree(ctx, p, mistake, "the place for artifacts cannot be reached; jobs that need none run, and it is tried again when it is used")
}

// placeAt opens a folder or a bucket.
func placeAt(at location.Location) (blob.Store, error) {
	if at.Kind == location.Folder {
		return folder.New(at.Path), nil
	}
	return s3.New(at)
}

// agree sees that other servers over the database use the same place. One that cannot be reached is looked at again when it is used.
func (r *running) agree(ctx context.Context, p *place, mistake func(error) error, away string) error {
	var others *sharedElsewhere
	asking, cancel := context.WithTimeout(ctx, placeAnswers)
	defer cancel()
	for {
		err := p.check(asking)
		if errors.As(err, &others) { // they may have ended a moment ago
			select {
			case <-time.After(placeAsks):
				continue
			case <-asking.Done():
			}
		}
		switch {
		case err == nil:
			return nil
		case others != nil && asking.Err() != nil:
			return mistake(others)
		case errors.Is(err, blob.ErrUnavailable), errors.Is(err, engine.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			r.log.Warn(away, "place", p.String(), "error", err)
			return ctx.Err()
		}
		return mistake(err)
	}
}

// sharedElsewhere says that other servers over the database store objects in another place.
type sharedElsewhere struct{ here, there, hosts, what string }

func (s *sharedElsewhere) Error() string {
	return fmt.Sprintf("%s is not the place that the servers on %s use (%s), or is not shared with them: %s; use one place for all, or stop them all to change it", s.here, s.hosts, s.there, s.what)
}

// place is a store of objects that is used only once it is known to be the one that all servers share.
type place struct {
	blob.Store
	db       engine.Store
	owners   engine.Store
	same     bool   // it is the database, which they share in any case
	name     string // under which they agree on it: its mark, and what it is for people
	what     string // happens where they do not
	mounted  bool   // it is a folder that is looked for at each use: its file system may be away
	replaced func(before, now string) error

	mu   sync.Mutex
	ok   bool   // guarded by mu
	mark string // likewise: of the place that they have agreed on
}

// check compares the mark of the place with the one that the servers over the database have agreed on. If no server runs that
// uses another place, this one becomes the place.
func (p *place) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ok {
		return nil
	}
	ctx = engine.Unconfined(ctx)
	mark := "database"
	if !p.same {
		var err error
		if mark, err = p.findMark(ctx); err != nil {
			return err
		}
	}
	mine := mark + " " + p.String()
	kept, err := p.db.Share(ctx, p.name, []byte(mine))
	if err != nil {
		return err
	}
	agreed, where, _ := strings.Cut(string(kept), " ")
	if agreed == mark {
		if p.mounted && where != p.String() { // it was moved
			err = p.db.Reshare(ctx, p.name, kept, []byte(mine))
		}
		p.ok, p.mark = err == nil, mark
		return err
	}
	if string(kept) == unmarked { // nobody uses a place yet
		return p.agreeOn(ctx, kept, mark, mine)
	}
	if present, ok := p.owners.(engine.Present); ok {
		hosts, err := present.Present(ctx)
		if err != nil {
			return err
		}
		if len(hosts) > 0 {
			return &sharedElsewhere{p.String(), where, strings.Join(hosts, ", "), p.what}
		}
	}
	if err := p.replaced(where, p.String()); err != nil {
		return err
	}
	return p.agreeOn(ctx, kept, mark, mine)
}

// agreeOn makes this the place of all servers, unless another server was faster with another.
func (p *place) agreeOn(ctx context.Context, was []byte, mark, mine string) error {
	if err := p.db.Reshare(ctx, p.name, was, []byte(mine)); err != nil {
		return err
	}
	kept, err := p.db.Share(ctx, p.name, []byte(mine))
	if err != nil {
		return err
	}
	if now, place, _ := strings.Cut(string(kept), " "); now != mark {
		return &sharedElsewhere{p.String(), place, "another host", p.what}
	}
	p.ok, p.mark = true, mark
	return nil
}

// ready refuses to use a place that is not known to be shared.
func (p *place) ready(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, placeAnswers)
	defer cancel()
	err := p.check(asking)
	var others *sharedElsewhere
	if errors.As(err, &others) {
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	if err != nil {
		return err
	}
	return p.there(asking)
}
