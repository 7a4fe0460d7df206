package mover

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// dayWriter writes a day as files, and puts each where it belongs when it is whole. It implements engine.DaySink.
type dayWriter struct {
	*round
	ctx     context.Context
	day     time.Time
	dir     string
	next    int // the number of the next part
	began   time.Time
	readAt  time.Time // everything that the store had then is in the files
	written []engine.ArchiveFile
	total   int64

	open []*part           // in the layout per tenant there may be several, of which the last goes on
	last []engine.Finished // what came last
	of   []*part           // and the part of each
}

// part is a file of executions, and one of logs, that are being written.
type part struct {
	tenant      tenant.ID // in the layout per tenant
	execs, logs *spooled
	to          *archive.Writer
	logTo       *archive.LogWriter
	check       uint32
	rows        int64
	shares      []engine.ArchiveShare
	logged      []engine.ArchiveShare
}

// spooled is a file that is written aside.
type spooled struct {
	*bufio.Writer
	file *os.File
	n    int64
}

func (s *spooled) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.n += int64(n)
	return n, err
}

func (w *dayWriter) spool() (*spooled, error) {
	f, err := os.CreateTemp(w.dir, "")
	if err != nil {
		return nil, err
	}
	return &spooled{Writer: bufio.NewWriterSize(f, 1<<20), file: f}, nil
}

// Executions takes some executions of the day.
func (w *dayWriter) Executions(fs []engine.Finished) error {
	if err := w.rest(w.ctx, time.Since(w.began)); err != nil {
		return err
	}
	w.began = time.Now()
	for len(w.open) > 1 || len(w.open) == 1 && w.full(w.open[0]) {
		if err := w.end(); err != nil {
			return err
		}
	}
	w.last, w.of = fs, w.of[:0]
	for i := range fs {
		p, err := w.partFor(fs[i].Execution.Tenant)
		if err != nil {
			return err
		}
		if err := w.add(p, &fs[i]); err != nil {
			return err
		}
		w.of = append(w.of, p)
	}
	return nil
}

// partFor returns the part for the next execution, which is of a tenant.
func (w *dayWriter) partFor(t tenant.ID) (*part, error) {
	if w.Layout != archive.PerTenant {
		t = ""
	}
	if n := len(w.open); n > 0 && w.open[n-1].tenant == t && !w.full(w.open[n-1]) {
		return w.open[n-1], nil
	}
	s, err := w.spool()
	if err != nil {
		return nil, err
	}
	p := &part{tenant: t, execs: s, to: archive.NewWriter(s)}
	w.open = append(w.open, p)
	return p, nil
}

func (w *dayWriter) full(p *part) bool {
	most, bytes := w.PartRows, w.PartBytes
	if most == 0 {
		most = manyRows
	}
	if bytes == 0 {
		bytes = manyBytes
	}
	return p.rows >= most || p.execs.n >= bytes || p.logs != nil && p.logs.n >= bytes
}

// add writes an execution.
func (w *dayWriter) add(p *part, f *engine.Finished) error {
	if err := p.to.Write(f); err != nil {
		return fmt.Errorf("write %s: %w", f.Execution.ID, err)
	}
	p.check += f.Check()
	p.rows++
	w.total++
	w.note.Rows++
	p.shares = share(p.shares, &f.Execution, 1)
	return nil
}

// share adds an execution to what a part has of its tenant: they come by tenant.
func share(all []engine.ArchiveShare, e *job.Execution, rows int64) []engine.ArchiveShare {
	made := e.ID.At()
	if n := len(all); n == 0 || all[n-1].Tenant != e.Tenant {
		return append(all, engine.ArchiveShare{Tenant: e.Tenant, Rows: rows, First: e.ScheduledAt, Last: e.ScheduledAt, Made: made, Until: made})
	}
	s := &all[len(all)-1]
	s.Rows += rows
	s.First, s.Last = earlier(s.First, e.ScheduledAt), later(s.Last, e.ScheduledAt)
	s.Made, s.Until = earlier(s.Made, made), later(s.Until, made)
	return all
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Log takes a part of the log of one of the executions that came last.
func (w *dayWriter) Log(i int, c engine.LogChunk) (err error) {
	p := w.of[i]
	if p.logTo == nil {
		if p.logs, err = w.spool(); err != nil {
			return err
		}
		p.logTo = archive.NewLogWriter(p.logs)
	}
	e := &w.last[i].Execution
	p.logged = share(p.logged, e, int64(c.To-c.From))
	return p.logTo.Write(e, c)
}

// flush ends what is being written.
func (w *dayWriter) flush() error {
	for len(w.open) > 0 {
		if err := w.end(); err != nil {
			return err
		}
	}
	return nil
}

// end ends the first part: compares what was written with what is read back, and puts it.
func (w *dayWriter) end() error {
	p := w.open[0]
	defer p.close()
	w.open = w.open[1:]
	rows, sum, err := p.to.Close()
	if err != nil {
		return err
	}
	number := w.next
	f := engine.ArchiveFile{Kind: engine.ArchivedExecutions, Part: number, Rows: rows, Check: p.check, Shares: p.shares}
	if err := w.put(f, p.tenant, p.execs, sum); err != nil {
		return err
	}
	if p.logTo != nil {
		lines, sum, err := p.logTo.Close()
		if err != nil {
			return err
		}
		f := engine.ArchiveFile{Kind: engine.ArchivedLogs, Part: number, Rows: lines, Shares: p.logged}
		if err := w.put(f, p.tenant, p.logs, sum); err != nil {
			return err
		}
	}
	w.next++
	return nil
}

// close removes what was written aside.
func (p *part) close() {
	for _, s := range []*spooled{p.execs, p.logs} {
		if s != nil {
			s.file.Close()
			os.Remove(s.file.Name())
		}
	}
}

// abandon forgets what is being written.
func (w *dayWriter) abandon() {
	for _, p := range w.open {
		p.close()
	}
}

// put proves a file that was written aside, and puts it under its name.
func (w *dayWriter) put(f engine.ArchiveFile, t tenant.ID, s *spooled, sum archive.Sum) error {
	if err := s.Flush(); err != nil {
		return err
	}
	var err error
	if f.SHA256, f.Bytes, err = sha(s.file); err != nil {
		return err
	}
	n, read, err := archive.Proof(s.file, f.Bytes, f.Kind, nil)
	if err == nil && (n != f.Rows || read != sum) {
		err = fmt.Errorf("%d rows were written, and %d or others are read back", f.Rows, n)
	}
	if err != nil {
		return fmt.Errorf("read back what was written: %w", err)
	}
	f.Day, f.ReadAt, f.WrittenAt = w.day, w.readAt, w.Clock.Now()
	f.Name = archive.Name(f.Kind, w.Layout, t, w.day, f.Part)
	if err := w.Store.BeginFile(w.ctx, w.turn, f); err != nil {
		return err
	}
	w.written = append(w.written, f)
	if err := w.Files.Put(w.ctx, object(f), s.file); err != nil && !errors.Is(err, blob.ErrExists) { // it exists if the answer of an earlier try was lost
		return err
	}
	if err := verify(w.ctx, w.Files, f); err != nil {
		return fmt.Errorf("read back %s: %w", f.Name, err)
	}
	return w.Store.ProveFile(w.ctx, w.turn, f.Name)
}
