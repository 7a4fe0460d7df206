package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
)

// errGone is wrapped with the name of the file that is no longer the one that was opened.
var errGone = errors.New("was removed or replaced while it was open; nothing is stored until a restart")

// errUnsure is for a disk that reported that it could not make writes durable. Its content is unknown, and retrying
// tells nothing: the system may have dropped what it could not write.
var errUnsure = errors.New("the disk could not keep what was written to it; nothing is stored until a restart")

const watchEvery = time.Second

// watch detects when the files of the database are no longer where they were opened: writes then go into files
// without a name, and are lost.
type watch struct {
	files []watched
	begun time.Time
	next  atomic.Int64 // when to check again, in nanoseconds since begun
	gone  atomic.Pointer[error]
	told  chan error // what ended the store's writing, once
}

type watched struct {
	path string
	info os.FileInfo
}

// newWatch records the current files.
func newWatch(paths ...string) (*watch, error) {
	w := &watch{begun: time.Now(), told: make(chan error, 1)}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		w.files = append(w.files, watched{path: p, info: info})
	}
	return w, nil
}

// judge examines the outcome of a transaction or a checkpoint: if the disk failed to make it durable, nothing is
// written any more.
func (w *watch) judge(err error) {
	if w == nil || err == nil {
		return
	}
	if code := sqlite.ErrCode(err); code != sqlite.ResultIOErrFsync && code != sqlite.ResultIOErrDirFsync {
		return
	}
	why := fmt.Errorf("%w: %w", errUnsure, err)
	if w.gone.CompareAndSwap(nil, &why) {
		w.told <- why
	}
}

// glance is check, but reads the files only once in a while.
func (w *watch) glance() error {
	if err := w.gone.Load(); err != nil {
		return *err
	}
	now, next := int64(time.Since(w.begun)), w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(watchEvery)) {
		return nil
	}
	return w.check()
}

// check fails if a file is not the original one; from then on it always does.
func (w *watch) check() error {
	if err := w.gone.Load(); err != nil {
		return *err
	}
	for _, f := range w.files {
		info, err := os.Stat(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.next.Store(0) // it may pass: the next write checks again
			return err
		}
		if err != nil || !os.SameFile(info, f.info) {
			err := fmt.Errorf("the database file %s %w", f.path, errGone)
			w.gone.Store(&err)
			return err
		}
	}
	return nil
}
