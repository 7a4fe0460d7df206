package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Office answers operators' questions about the archive.
type Office struct {
	Store engine.Catalogue
	Files blob.Store
	Clock clock.Clock
	Hot   int
	Wake  func() // makes this server's mover look now; nil: it has none
}

// Day is what the archive has of a day.
type Day struct {
	Day        time.Time
	Settled    bool // nothing of it is being moved
	Files      int
	Executions int64
	LogLines   int64
	Bytes      int64
}

// Status is the state of the archive.
type Status struct {
	Note
	Lag  time.Duration
	Days []Day // latest first
}

// Status returns the state of the archive.
func (o *Office) Status(ctx context.Context) (s Status, err error) {
	if s.Note, err = ReadNote(ctx, o.Store); err != nil {
		return s, err
	}
	s.Lag = s.Note.Lag(o.Hot, o.Clock.Now())
	files, err := o.Store.ArchiveFiles(ctx, engine.FileFilter{})
	for _, f := range files {
		if f.State == engine.FileRetired {
			continue // nobody is shown what it has
		}
		if n := len(s.Days); n == 0 || !s.Days[n-1].Day.Equal(f.Day) {
			s.Days = append(s.Days, Day{Day: f.Day, Settled: true})
		}
		d := &s.Days[len(s.Days)-1]
		d.Files++
		d.Bytes += f.Bytes
		d.Settled = d.Settled && f.State == engine.FileSettled
		if f.Kind == engine.ArchivedLogs {
			d.LogLines += f.Rows
		} else {
			d.Executions += f.Rows
		}
	}
	return s, err
}

// Problem is what is wrong with a file.
type Problem struct{ File, Why string }

// Verified is the outcome of a check of some files.
type Verified struct {
	Files    int
	Bytes    int64
	Problems []Problem
	Next     string // after which file to go on; "": all were checked
}

const verifyTime = 5 * time.Second

// Verify reads files whole, those after a name in order of names, for some seconds, and compares them with the catalogue. After the last
// file it looks for objects that the catalogue does not know.
func (o *Office) Verify(ctx context.Context, after string) (v Verified, err error) {
	files, err := o.Store.ArchiveFiles(ctx, engine.FileFilter{Answering: true})
	if err != nil {
		return v, err
	}
	slices.SortFunc(files, func(a, b engine.ArchiveFile) int { return cmp.Compare(a.Name, b.Name) })
	begun := time.Now()
	for _, f := range files {
		if f.Name <= after {
			continue
		}
		if v.Files > 0 && time.Since(begun) > verifyTime {
			return v, nil
		}
		err := o.check(ctx, f)
		if err != nil && (ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrRefused)) {
			return v, fmt.Errorf("%w: %w", engine.ErrArchive, err)
		}
		if err != nil {
			v.Problems = append(v.Problems, Problem{f.Name, err.Error()})
		}
		v.Files++
		v.Bytes += f.Bytes
		v.Next = f.Name
	}
	v.Next = ""
	strange, err := unknown(ctx, o.Store, o.Files)
	for _, name := range strange {
		v.Problems = append(v.Problems, Problem{name, "the catalogue does not know it: it is not Carillon's, was copied here, or was written after the backup that the database was restored from; other programs that read the folder count what it has"})
	}
	if err != nil {
		return v, fmt.Errorf("%w: %w", engine.ErrArchive, err)
	}
	return v, nil
}

// check compares a file with the catalogue: its bytes, and the rows that a reader gets.
func (o *Office) check(ctx context.Context, f engine.ArchiveFile) error {
	if err := verify(ctx, o.Files, f); err != nil {
		return err
	}
	var sum uint32
	rows, _, err := archive.Proof(blob.NewAt(ctx, o.Files, f.Name, f.Bytes), f.Bytes, f.Kind, func(x *engine.Finished) error {
		sum += x.Check()
		return nil
	})
	if err == nil && (rows != f.Rows || sum != f.Check) {
		err = fmt.Errorf("it has %d rows, want %d", rows, f.Rows)
	}
	return err
}
