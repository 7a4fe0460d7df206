package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// scratch holds the folders of one worker process. A lock in its folder shows that it is alive, so that the next
// process on the machine removes only the leftovers of killed ones.
type scratch struct {
	base string
	dir  string
	lock *os.File
	user *minder.User
}

const lockName = "lock"

// newScratch creates this process's folder in base, and removes those of processes that are gone.
func newScratch(base string, user *minder.User, log *slog.Logger) (*scratch, error) {
	mode := os.FileMode(0o700)
	if user != nil {
		mode = 0o711 // another user must be able to reach its own folder in it
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	// Rules and covers apply to the targets of links. The last part itself must not be a link: its name can be
	// guessed, and in a world-writable folder somebody else could have created it.
	if err := os.MkdirAll(filepath.Dir(base), mode); err != nil {
		return nil, fmt.Errorf("make the folder of commands: %w", err)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(base))
	if err != nil {
		return nil, err
	}
	base = filepath.Join(parent, filepath.Base(base))
	if err := os.Mkdir(base, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of commands: %w", err)
	}
	if err := trusted(base); err != nil {
		return nil, fmt.Errorf("the folder of commands, %s: %w", base, err)
	}
	if err := os.Chmod(base, mode); err != nil {
		return nil, err
	}
	sweep(base, log)
	dir, err := os.MkdirTemp(base, "worker-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, mode); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if !lockFile(lock) {
		lock.Close()
		return nil, errors.New("the lock of a new folder is taken")
	}
	return &scratch{base: base, dir: dir, lock: lock, user: user}, nil
}

// sweep removes the folders of processes that are gone.
func sweep(base string, log *slog.Logger) {
	old, _ := filepath.Glob(filepath.Join(base, "worker-*")) // the pattern is sound
	for _, dir := range old {
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // it is being created, or has just been removed; or was never finished, which does little harm
		}
		if lockFile(lock) {
			log.Info("removing what an earlier worker left behind", "folder", dir)
			if err := removeAll(dir); err != nil {
				log.Warn("it could not be removed", "folder", dir, "error", err)
			}
		}
		lock.Close()
	}
}

func (s *scratch) close() error {
	defer s.lock.Close()
	return removeAll(s.dir)
}

// place is the folder of one attempt: work, where the command starts and the artifact is unpacked, tmp, and the
// result.
type place struct {
	path string
	root *os.Root // of all
	work *os.Root
	user *minder.User
}

func (s *scratch) make() (_ *place, err error) {
	path, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		return nil, err
	}
	p := &place{path: path, user: s.user}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	if p.root, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	for _, name := range []string{"work", "tmp"} {
		if err := p.root.Mkdir(name, 0o700); err != nil {
			return nil, err
		}
	}
	p.work, err = p.root.OpenRoot("work")
	return p, err
}

func (p *place) home() string       { return filepath.Join(p.path, "work") }
func (p *place) temp() string       { return filepath.Join(p.path, "tmp") }
func (p *place) resultFile() string { return filepath.Join(p.path, "result") }

// give makes the command the owner of the folder and its content.
func (p *place) give() error {
	if p.user == nil {
		return nil
	}
	return fs.WalkDir(p.root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return p.root.Lchown(name, p.user.UID, p.user.GID)
	})
}

// result reads the result that the command wrote; nil if it wrote nothing. The folder is the command's, so anything
// may be there: only a regular file of its own is read.
func (p *place) result() ([]byte, error) {
	f, err := p.root.OpenFile("result", os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &NotRun{"the result cannot be read: " + cause(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || !owned(info, p.user):
		return nil, &NotRun{"the result cannot be read: it is not a plain file of the command's own"}
	case info.Size() > client.MaxResult:
		return nil, &NotRun{fmt.Sprintf("the result has %d bytes; at most %d can be kept", info.Size(), client.MaxResult)}
	}
	return io.ReadAll(io.LimitReader(f, client.MaxResult+1)) // the worker refuses invalid JSON
}

// cause returns an error without its path.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (p *place) remove() error {
	if p.work != nil {
		p.work.Close()
	}
	if p.root != nil {
		p.root.Close()
	}
	return removeAll(p.path)
}

// removeAll removes a folder, even if its owner made folders in it inaccessible.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil || os.Geteuid() == 0 { // no mode keeps root out
		return err
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700) // what fails here fails below
		}
		return nil
	})
	return os.RemoveAll(dir)
}
