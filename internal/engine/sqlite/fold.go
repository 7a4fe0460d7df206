package sqlite

import "time"

// The log is folded into the file in two steps, so that commits do not wait for it: first on a separate connection
// while others write, then, with nobody writing, what little was written meanwhile, after which SQLite restarts the
// log. If the log grows to lastResort nevertheless, the next commit folds it.
const (
	foldAt     = 2000 // pages that are not in the file yet
	lastResort = "wal_autocheckpoint = 16000"
	foldEvery  = 50 * time.Millisecond // at most
)

var folderPragmas = []string{
	"synchronous = FULL",
	"fullfsync = ON",
	"checkpoint_fullfsync = ON",
	"cache_size = -256",
	"wal_autocheckpoint = 0",
}

// wrote signals that something was committed.
func (s *database) wrote() {
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// fold folds the log whenever it has grown, until the store is closed.
func (s *database) fold(c *conn) {
	defer func() { s.folder <- c }()
	for {
		select {
		case <-s.closed:
			return
		case <-s.grown:
		}
		if s.watch.gone.Load() != nil {
			return
		}
		if s.unfolded(c, "NOOP") >= foldAt && !s.foldAll(c) {
			return
		}
		pause := time.NewTimer(foldEvery)
		select {
		case <-s.closed:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// foldAll folds what is in the log. It returns false if the store was closed meanwhile.
func (s *database) foldAll(c *conn) bool {
	s.folding.Lock()
	defer s.folding.Unlock()
	// While others write, at most what the tap has read is folded, so that the log cannot begin anew with something unread in it.
	if s.tap != nil {
		pinned := false
		if !s.exclusively(s.tap.read, func() {
			_, err := s.pin.fix()
			pinned = err == nil
		}) {
			return false
		}
		if pinned {
			s.unfolded(c, "PASSIVE")
		}
		return s.exclusively(s.tap.read, func() {
			s.pin.unfix()
			s.unfolded(c, "PASSIVE")
		})
	}
	s.unfolded(c, "PASSIVE")
	return s.exclusively(func(bool) bool { return true }, func() { s.unfolded(c, "PASSIVE") })
}

// unfolded returns how many pages of the log are not in the file after a checkpoint of that mode (NOOP: one that does
// nothing). A checkpoint that fails, on a full disk for instance, has lost nothing: the next one begins where it did.
// After the disk failed to keep one, there is no next one.
func (s *database) unfolded(c *conn, mode string) (pages int) {
	_, err := c.prepare("PRAGMA wal_checkpoint(" + mode + ")").first(func(r *row) error {
		_, log, folded := r.int(), r.int(), r.int()
		pages = log - folded
		return nil
	})
	s.watch.judge(err)
	return pages
}
