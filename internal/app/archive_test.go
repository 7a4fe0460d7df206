package app

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/blobtest"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// mounted is a folder for history on which a file system is mounted, or not.
type mounted struct {
	*testing.T
	root string
	db   engine.Store
	log  bytes.Buffer
}

func mount(t *testing.T) *mounted {
	return &mounted{T: t, root: filepath.Join(t.TempDir(), "history"), db: storetest.SQLite(t)}
}

// start opens the archive as a server does when it starts.
func (m *mounted) start() (blob.Store, error) {
	r := &running{Options: Options{Config: config.Config{}}, log: slog.New(slog.NewTextHandler(&m.log, nil))}
	r.Config.Archive.URL = "file:" + m.root
	return r.archive(m.Context(), m.db, m.db)
}

func (m *mounted) do(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// leave leaves the empty folder under the mount, back brings what was mounted.
func (m *mounted) leave() {
	m.Helper()
	m.do(errors.Join(os.Rename(m.root, m.root+"-mounted"), os.Mkdir(m.root, 0o700)))
}

func (m *mounted) back() {
	m.Helper()
	m.do(errors.Join(os.RemoveAll(m.root), os.Rename(m.root+"-mounted", m.root)))
}

// refuses asks a place all it can be asked, and wants the same error for each and nothing in the folder.
func (m *mounted) refuses(p blob.Store, want error) {
	m.Helper()
	before := m.files()
	o := blobtest.Of("executions/b", []byte("b"))
	_, get := p.Get(m.Context(), "executions/a", 0, 1)
	_, stat := p.Stat(m.Context(), "executions/a")
	_, list := p.List(m.Context(), "executions/", "", 10)
	for doing, err := range map[string]error{
		"put": p.Put(m.Context(), o, strings.NewReader("b")), "get": get, "stat": stat, "list": list, "delete": p.Delete(m.Context(), "executions/a"),
	} {
		if !errors.Is(err, want) || errors.Is(err, blob.ErrNotFound) || !strings.Contains(err.Error(), m.root) || !strings.Contains(err.Error(), "mounted?") {
			m.Errorf("%s: %v", doing, err)
		}
	}
	if after := m.files(); strings.Join(after, " ") != strings.Join(before, " ") {
		m.Errorf("it wrote %v where %v was", after, before)
	}
}

func (m *mounted) files() (out []string) {
	m.Helper()
	m.do(fs.WalkDir(os.DirFS(m.root), ".", func(name string, _ fs.DirEntry, err error) error {
		out = append(out, name)
		return err
	}))
	return out
}

func (m *mounted) works(p blob.Store) {
	m.Helper()
	if x, err := p.Stat(m.Context(), "executions/a"); err != nil || x.Size != 1 {
		m.Errorf("%+v, %v", x, err)
	}
}

// The file system of the folder for history is away: while a server runs, and when one starts, which starts nevertheless. Nothing is
// written under it, and nothing counts as lost.
func TestTheArchiveIsNotMounted(t *testing.T) {
	t.Parallel()
	m := mount(t)
	p, err := m.start()
	m.do(err)
	blobtest.Put(t, p, "executions/a", []byte("a"))
	m.works(p)

	m.leave()
	m.refuses(p, blob.ErrUnavailable)
	started, err := m.start()
	m.do(err)
	if !strings.Contains(m.log.String(), "mounted?") {
		t.Errorf("the log of the start: %s", m.log.String())
	}
	m.refuses(started, blob.ErrUnavailable)
	m.refuses(p, blob.ErrUnavailable)
	m.back()
	m.works(p)
	m.works(started)

	// Another file system is there.
	m.leave()
	_, err = blob.Mark(t.Context(), p.(*place).Store)
	m.do(err)
	m.refuses(p, blob.ErrRefused)
	m.back()
	m.works(p)
}

// Another folder can be used as long as no file of history is in the former one.
func TestAnotherFolderForHistory(t *testing.T) {
	t.Parallel()
	m := mount(t)
	p, err := m.start()
	m.do(err)
	blobtest.Put(t, p, "executions/a", []byte("a"))
	moved := m.root + "-moved"
	m.do(os.Rename(m.root, moved))
	m.root = moved
	p, err = m.start()
	m.do(err)
	m.works(p)
	m.leave() // it is known by its new name
	p, err = m.start()
	m.do(err)
	m.refuses(p, blob.ErrUnavailable)
	m.back()

	m.root += "-2"
	other, err := m.start()
	m.do(err)
	if _, err := other.Stat(t.Context(), "executions/a"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("it is new: %v", err)
	}
	turn, err := m.db.TakeArchive(t.Context(), [16]byte{1}, time.Hour)
	m.do(err)
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	m.do(m.db.BeginFile(t.Context(), turn, engine.ArchiveFile{Name: "executions/a", Kind: engine.ArchivedExecutions, Day: day, Bytes: 1, ReadAt: day, WrittenAt: day}))
	m.do(m.db.ProveFile(t.Context(), turn, "executions/a"))
	m.do(m.db.LeaveDay(t.Context(), turn, day))
	m.root += "-3"
	m.do(os.Mkdir(m.root, 0o700))
	if _, err := m.start(); err == nil || !strings.Contains(err.Error(), "1 files of history are in") || len(m.files()) != 1 {
		t.Errorf("with history in the former one: %v; %v", err, m.files())
	}

	// A server that was killed before it marked the folder goes on.
	m = mount(t)
	if _, err := m.db.Share(t.Context(), "archive.place", []byte(unmarked)); err != nil {
		t.Fatal(err)
	}
	p, err = m.start()
	m.do(err)
	blobtest.Put(t, p, "executions/a", []byte("a"))
	m.works(p)
}

// Commands reach no folder that has data of all tenants.
func TestCommandsDoNotReachWhatBelongsToTheServer(t *testing.T) {
	t.Parallel()
	r := &running{}
	r.Config.Blobs.URL, r.Config.Archive.URL, r.Config.Replicate.URL = "file:/srv/blobs", "file:/srv/history", "file:/srv/replica"
	hidden := r.private()
	for _, folder := range []string{"/srv/blobs", "/srv/history", "/srv/replica"} {
		if !slices.Contains(hidden, folder) {
			t.Errorf("%s is not hidden: %v", folder, hidden)
		}
	}
}
