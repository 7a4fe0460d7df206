package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/sqlite/walfile"
)

// tapLimit is how much a tap keeps, in bytes, before somebody takes it.
const tapLimit = 256 << 20

// Tap collects the pages that transactions change, from the log. Nothing escapes it: while a store has a tap, only the
// store itself copies the log into the file (fold.go), and has the tap read the rest before the log can begin anew. If
// something else has done so nevertheless, the tap is lost, and says so, until Snapshot starts it again.
//
// A tap reads the log beside the connection that writes. That one waits for it only in fold, for what was committed in
// the few milliseconds before.
type Tap struct {
	resume TapState
	now    func() time.Time

	mu       sync.Mutex
	log      *os.File
	path     string
	at       walfile.Position // up to which it has read; of another log if unused is set
	unused   bool             // the log is new: SQLite has written nothing to it
	lost     error            // why pages are missing; nil: none are
	pages    map[uint32][]byte
	bytes    int64
	size     uint32 // of the database in pages, after the last transaction
	spare    [][]byte
	resumed  bool
	finished bool // the store was closed, and resume says how

	// whole is set while everything that is committed has been read, as seen by whoever held the writing connection. Only then may the
	// log begin anew, and the next commit sees whether it has.
	whole atomic.Bool
}

// TapState is where a tap has stopped, for the next process.
type TapState struct {
	At walfile.Position `json:"at"`
	// Closed is the file after the last connection to it was closed, if the log had been copied into it by then.
	Closed *FileMark `json:"closed,omitempty"`
}

// FileMark tells whether a file has changed.
type FileMark struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // in nanoseconds
	Inode    uint64 `json:"inode,omitempty"`
}

// Changes are what transactions have changed, as the latest state of each page.
type Changes struct {
	Pages    map[uint32][]byte // by number; none: nothing has changed
	PageSize int
	Size     uint32 // of the database, in pages
	Position walfile.Position
	// Began and Ended enclose the read: everything acknowledged before Began is there, and nothing committed after Ended.
	Began, Ended time.Time
}

// errTapLost is why a tap that was just made has nothing to go on from.
var errTapLost = errors.New("it does not continue what was read before")

// NewTap makes a tap for Config. It goes on where another one stopped, if the file has not been changed since without a
// trace in the log; see Resumed. now is the clock that tells when changes were read.
func NewTap(from TapState, now func() time.Time) *Tap {
	return &Tap{resume: from, now: now, lost: errTapLost, pages: map[uint32][]byte{}}
}

// Resumed reports, once the store is open, whether the tap goes on where the state says.
func (t *Tap) Resumed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resumed
}

// open looks at the files before any connection is open.
func (t *Tap) open(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.path = path + "-wal"
	f, err := os.Open(t.path)
	if err == nil && t.resume.At.Holds(f) {
		t.at, t.lost, t.resumed = t.resume.At, nil, true
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() == 0 {
			err = fs.ErrNotExist
		}
		err = errors.Join(err, f.Close()) // SQLite may replace it when it opens the database
	}
	if errors.Is(err, fs.ErrNotExist) {
		if mark, bad := markOf(path); bad == nil && t.resume.Closed != nil && mark == *t.resume.Closed {
			t.at, t.lost, t.resumed, t.unused = t.resume.At, nil, true, true
			t.whole.Store(true)
		}
		return nil
	}
	return err
}

func markOf(path string) (FileMark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return FileMark{}, err
	}
	return FileMark{info.Size(), info.ModTime().UnixNano(), inode(info)}, nil
}

// start returns the position before the first frame of the log.
func (t *Tap) start() (walfile.Position, error) {
	if t.log == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return walfile.Position{}, walfile.ErrEmpty
		}
		if err != nil {
			return walfile.Position{}, err
		}
		t.log = f
	}
	return walfile.Start(t.log)
}

// lose drops everything.
func (t *Tap) lose(why error) {
	t.lost = why
	t.whole.Store(false)
	t.drop()
}

func (t *Tap) drop() {
	clear(t.pages)
	t.bytes, t.spare = 0, nil
}

// committed is called after each commit, before another transaction can begin.
func (t *Tap) committed() {
	if !t.whole.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		return
	}
	now, err := t.start()
	switch {
	case errors.Is(err, walfile.ErrEmpty) && t.unused:
		return // the transaction has written nothing
	case err != nil:
		t.lose(fmt.Errorf("read the log of the database: %w", err))
		return
	case now.SameLog(t.at) && !t.unused:
		before := t.at
		if t.advance(true, t.keep); t.at == before {
			return // as well
		}
	case t.begun(now):
		t.at, t.unused = now, false
	default:
		t.lose(errors.New("the log of the database was begun anew before everything in it had been read"))
		return
	}
	t.whole.Store(false)
}

// begun reports whether a log is the one that SQLite begins after the one that was read.
func (t *Tap) begun(now walfile.Position) bool {
	return t.unused || now.Follows(t.at)
}

// read reads what was committed since the last call. alone says that the caller holds the writing connection, and that no transaction
// is open there. It then waits for nobody, and returns false if somebody else reads.
func (t *Tap) read(alone bool) bool {
	if !alone {
		t.mu.Lock()
	} else if !t.mu.TryLock() {
		return false
	}
	defer t.mu.Unlock()
	if t.lost == nil {
		t.advance(alone, t.keep)
	}
	return true
}

// advance is read, with mu held; page is called with what transactions wrote.
func (t *Tap) advance(alone bool, page func(uint32, []byte)) {
	now, err := t.start()
	switch {
	case errors.Is(err, walfile.ErrEmpty) && t.whole.Load():
		return // nothing has been written to it
	case err != nil:
		t.lose(fmt.Errorf("read the log of the database: %w", err))
		return
	case now.SameLog(t.at) && !t.unused:
	case t.whole.Load():
		if !alone { // the transaction that began it anew has not committed yet, or is about to tell
			return
		}
		if !t.begun(now) {
			t.lose(errors.New("the log of the database was begun anew more than once"))
			return
		}
		t.at, t.unused = now, false // the transaction that began it was rolled back
	default:
		t.lose(errors.New("the log of the database was begun anew before everything in it had been read"))
		return
	}
	at, err := walfile.Read(t.log, t.at, page, func(size uint32) { t.size = size })
	if err != nil {
		t.lose(fmt.Errorf("read the log of the database: %w", err))
		return
	}
	t.at = at
	if alone {
		t.whole.Store(true)
	}
	if t.bytes > tapLimit {
		t.lose(fmt.Errorf("more than %d MiB of changes waited to be taken", tapLimit>>20))
	}
}

// keep keeps the latest content of a page.
func (t *Tap) keep(number uint32, data []byte) {
	page := t.pages[number]
	if page == nil {
		if n := len(t.spare); n > 0 && len(t.spare[n-1]) == len(data) {
			page, t.spare = t.spare[n-1], t.spare[:n-1]
		} else {
			page = make([]byte, len(data))
		}
		t.pages[number] = page
		t.bytes += int64(len(page))
	}
	copy(page, data)
}

// Cut returns what has changed since the last Cut, or why pages are missing.
func (t *Tap) Cut() (Changes, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	began := t.now()
	if t.lost == nil {
		t.advance(false, t.keep)
	}
	if t.lost != nil {
		return Changes{}, t.lost
	}
	return t.take(began), nil
}

func (t *Tap) take(began time.Time) Changes {
	c := Changes{Pages: t.pages, PageSize: t.at.PageSize, Size: t.size, Position: t.at, Began: began, Ended: t.now()}
	for number := range c.Pages {
		if number > c.Size { // the file was made shorter later on
			delete(c.Pages, number)
		}
	}
	t.pages, t.bytes = map[uint32][]byte{}, 0
	return c
}

// Abandon drops what has not been taken, until Snapshot starts the tap again.
func (t *Tap) Abandon(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose(why)
}

// Free takes back the memory of changes that are no longer needed.
func (t *Tap) Free(c Changes) {
	const most = 1024
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, page := range c.Pages {
		if len(t.spare) == most {
			return
		}
		t.spare = append(t.spare, page)
	}
}

// release closes the log, which SQLite removes with its last connection.
func (t *Tap) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log != nil {
		_ = t.log.Close()
		t.log = nil
	}
}

// closed records the file as it is once the log was folded and every connection closed.
func (t *Tap) closed(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil || len(t.pages) > 0 {
		return
	}
	if mark, err := markOf(path); err == nil {
		t.resume = TapState{At: t.at, Closed: &mark}
		t.finished = true
	}
}

// Finished returns, after the store was closed, where the next process goes on; false: everything that it changes will be missing, or
// something was not taken.
func (t *Tap) Finished() (TapState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resume, t.finished
}
