package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// A folder may be one on which a file system is mounted, and an empty one while that is away. So the mark of the place is remembered
// beside the store, and nothing is written where it is missing.

// markFile is not removed with the rest of the spool: a new generation, too, must not begin under a mount.
const markFile = "place.json"

// looks is how often an idle process looks whether the folder is there.
const looks = tooFar / 2

var errAway = errors.New("what was stored before is not there")

// remembered is the place that was written to last.
type remembered struct {
	Place string `json:"place"`
	Mark  string `json:"mark"`
}

// mark returns the mark of a place; empty: nothing was written to it yet.
func (l local) mark(place string) string {
	var x remembered
	data, err := os.ReadFile(filepath.Join(l.folder, markFile))
	if err != nil || json.Unmarshal(data, &x) != nil || x.Place != place {
		return ""
	}
	return x.Mark
}

func (l local) remember(x remembered) error {
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	file := filepath.Join(l.folder, markFile)
	if err := os.WriteFile(file+partial, data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+partial, file)
}

// sign marks the place, and remembers the mark of a folder. It finds a place that replaces objects.
func (s *Shipper) sign(ctx context.Context) error {
	mark, err := blob.Mark(ctx, s.cfg.Place)
	if err != nil || !s.cfg.Mounted {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.mark {
	case mark, "":
		s.mark = mark
		return s.local.remember(remembered{s.cfg.Place.String(), mark})
	}
	return s.lostLocked() // it left after there has looked
}

// there fails if the place is a folder, and not the one that was written to before.
func (s *Shipper) there(ctx context.Context) error {
	s.mu.Lock()
	mark := s.mark
	s.mu.Unlock()
	if !s.cfg.Mounted || mark == "" {
		return nil
	}
	same, err := marked(ctx, s.cfg.Place, mark)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !same:
		return s.lostLocked()
	case s.away:
		s.away = false
		s.recovered()
	}
	return nil
}

// lostLocked notes that the folder is another one. Once it is back, what was stored last is looked for.
func (s *Shipper) lostLocked() error {
	s.away = true
	if s.gen != nil {
		s.gen.known = false
	}
	return fmt.Errorf("%w: %s does not have the %s that this server knows, so it is empty or another folder; is its file system mounted? Nothing is written there until it is back. If it is meant to be a new one, stop the server, delete %s and start it again",
		errAway, s.cfg.Place, blob.MarkName, filepath.Join(s.cfg.Folder, markFile))
}

func marked(ctx context.Context, place blob.Store, mark string) (bool, error) {
	const most = 200
	r, err := place.Get(ctx, blob.MarkName, 0, most)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return bytes.Contains(text, []byte(mark)), err
}

// put stores an object with f. In a folder it looks before, and after: then it looks for the object last, which is nowhere else if the
// folder was there just before.
func (s *Shipper) put(ctx context.Context, name string, f func(context.Context) error) error {
	if err := s.there(ctx); err != nil {
		return err
	}
	if err := f(ctx); err != nil || !s.cfg.Mounted {
		return err
	}
	if err := s.there(ctx); err != nil {
		return err
	}
	_, err := s.cfg.Place.Stat(ctx, name)
	return err
}

// idle looks whether the folder is there, and returns when to look again.
func (s *Shipper) idle(ctx context.Context, gen *generation) (time.Duration, error) {
	if !s.cfg.Mounted || gen == nil {
		return time.Minute, nil // woken before
	}
	asking, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	err := s.there(asking)
	if err == nil {
		err = s.confirm(asking, gen)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, errMissing):
		s.again(gen, err)
	case err != nil:
		return s.failed(err), nil
	}
	return looks, nil
}

// again has a generation end, and another one begin.
func (s *Shipper) again(gen *generation, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == gen {
		s.restart = why
	}
}
