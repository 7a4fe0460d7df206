package replica

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// local is the folder of what is not stored yet, and of what the next process has to know. Nothing in it is synced: after a crash of the
// machine it may be old or broken, which the checksums show, and then a new generation begins.
type local struct{ folder string }

// state says how far a process has come.
type state struct {
	Place      string          `json:"place"`
	Store      time.Time       `json:"store"`
	Generation string          `json:"generation"`
	Index      int64           `json:"index"` // of the last segment that is stored
	Sum        string          `json:"sum"`
	Ended      time.Time       `json:"ended"`
	Snapshot   time.Time       `json:"snapshot,omitzero"` // when the newest whole snapshot was taken
	Tap        sqlite.TapState `json:"tap"`
	// Cut and CutSum are of the last segment when the store was closed, stored or not. What Tap says of the closed file is after that one.
	Cut    int64  `json:"cut,omitempty"`
	CutSum string `json:"cut_sum,omitempty"`
}

const (
	stateFile = "state.json"
	ending    = ".segment"
	// storedEnding is of segments that are stored, and wait to be merged.
	storedEnding = ".stored"
)

var waitingForm = regexp.MustCompile(`^[0-9a-f]{12}\.segment$`)

// load returns how far the last process has come, with the segments that it left; without a generation if this one has to begin anew.
func (l local) load(place string) (s state, waiting []segment) {
	entries, err := os.ReadDir(l.folder) // in order of names
	if err != nil {
		return state{}, nil
	}
	for _, e := range entries { // of a snapshot or a segment that was cut off, or segments that were to be merged
		if ext := filepath.Ext(e.Name()); ext == partial || ext == stagingEnding || ext == storedEnding {
			_ = os.Remove(filepath.Join(l.folder, e.Name()))
		}
	}
	s, ok := l.state()
	if !ok || s.Place != place {
		return state{}, nil
	}
	index, sum := s.Index, s.Sum
	for _, e := range entries {
		if !waitingForm.MatchString(e.Name()) {
			continue
		}
		x, err := l.read(e.Name())
		if err == nil && x.Index <= index {
			_ = os.Remove(x.file) // it was stored, and the process ended before it gave the file another ending
			continue
		}
		if err != nil || x.Generation != s.Generation || x.Index != index+1 || x.Previous != sum {
			return state{}, nil
		}
		index, sum = x.Index, x.sum
		waiting = append(waiting, x)
		s.Tap = sqlite.TapState{At: x.Position, Closed: s.Tap.Closed}
	}
	switch {
	case s.Tap.Closed == nil:
	case index < s.Cut, index == s.Cut && sum != s.CutSum: // the log that had what is missing was removed
		return state{}, nil
	case index > s.Cut: // of a later process, which was not closed
		s.Tap.Closed = nil
	}
	return s, waiting
}

func (l local) read(name string) (segment, error) {
	file := filepath.Join(l.folder, name)
	data, err := os.ReadFile(file)
	if err != nil {
		return segment{}, err
	}
	p, why := parse(data)
	if why != "" {
		return segment{}, errors.New(why)
	}
	return segment{object{file, int64(len(data)), sha256.Sum256(data), p.sum}, p.head}, nil
}

// write writes a segment.
func (l local) write(h head, pages map[uint32][]byte) (object, error) {
	file := filepath.Join(l.folder, fmt.Sprintf("%012x%s", h.Index, ending))
	w, err := newWriter(file+partial, h)
	if err != nil {
		return object{}, err
	}
	for _, n := range numbers(pages) {
		if err := w.page(n, pages[n]); err != nil {
			return object{}, errors.Join(err, w.abort())
		}
	}
	o, err := w.finish()
	if err != nil {
		return o, err
	}
	o.file = file
	return o, os.Rename(file+partial, file)
}

// stored records that a segment is stored.
func (l local) stored(place string, snapshot time.Time, x segment) {
	l.save(state{Place: place, Store: x.Store, Generation: x.Generation, Index: x.Index, Sum: x.sum, Ended: x.Ended, Snapshot: snapshot, Tap: sqlite.TapState{At: x.Position}})
}

// whole records when the newest snapshot was taken. base is the state at the first one of a generation.
func (l local) whole(base state) {
	s, ok := l.state()
	if !ok || s.Generation != base.Generation {
		s = base
	}
	s.Snapshot = base.Snapshot
	l.save(s)
}

// finish records that the store was closed with everything in the segments, of which the last is given.
func (l local) finish(tap sqlite.TapState, index int64, sum string) {
	if s, ok := l.state(); ok {
		s.Tap, s.Cut, s.CutSum = tap, index, sum
		l.save(s)
	}
}

func (l local) state() (s state, ok bool) {
	data, err := os.ReadFile(filepath.Join(l.folder, stateFile))
	return s, err == nil && json.Unmarshal(data, &s) == nil
}

// save replaces the state. If that fails, the next process begins a generation.
func (l local) save(s state) {
	file := filepath.Join(l.folder, stateFile)
	data, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(file+partial, data, 0o600)
	}
	if err == nil {
		err = os.Rename(file+partial, file)
	}
	if err != nil {
		_ = os.Remove(file)
	}
}

// clear removes everything.
func (l local) clear() {
	entries, _ := os.ReadDir(l.folder)
	for _, e := range entries {
		name := e.Name()
		if name == stateFile || strings.HasSuffix(name, partial) || slices.Contains([]string{ending, storedEnding, stagingEnding}, filepath.Ext(name)) {
			_ = os.Remove(filepath.Join(l.folder, name))
		}
	}
}

// numbers returns the pages in order.
func numbers(pages map[uint32][]byte) []uint32 {
	out := make([]uint32, 0, len(pages))
	for n := range pages {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
