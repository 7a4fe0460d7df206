package archive

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	groupRows  = 20_000  // of a row group, which a writer holds in memory
	groupLines = 100_000 // likewise, of logs
	groupBytes = 8 << 20 // approximate size of the texts in one
	batchRows  = 256     // that are handed to the library at once
	bloomBits  = 10      // for each value: about one in a hundred is found in vain
)

// Writer writes executions. They must come sorted by tenant, job, finish and id.
type Writer struct {
	to   *parquet.GenericWriter[row]
	sum  summer
	rows int64
	held int
	room []row
}

// NewWriter begins a file.
func NewWriter(w io.Writer) *Writer {
	return &Writer{sum: newSummer(), room: make([]row, 0, batchRows), to: parquet.NewGenericWriter[row](w, options(groupRows,
		parquet.BloomFilters(parquet.SplitBlockFilter(bloomBits, "execution_id"), parquet.SplitBlockFilter(bloomBits, "job_id"), parquet.SplitBlockFilter(bloomBits, "worker_id")),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("tenant"), parquet.Ascending("job_id"), parquet.Ascending("finished_at"))),
	)...)}
}

func options(rows int64, more ...parquet.WriterOption) []parquet.WriterOption {
	return append([]parquet.WriterOption{
		parquet.Compression(&parquet.Zstd), parquet.CreatedBy("carillon", "", ""), parquet.KeyValueMetadata("carillon.form", "1"),
		parquet.MaxRowsPerRowGroup(rows), parquet.PageBufferSize(64 << 10),
	}, more...)
}

// Write adds an execution.
func (w *Writer) Write(f *engine.Finished) error {
	r, err := rowOf(f)
	if err != nil {
		return err
	}
	w.sum.add(&r)
	w.room = append(w.room, r)
	w.rows++
	w.held += len(deref(r.Payload)) + len(deref(r.Result)) + len(deref(r.ErrorMessage)) + len(deref(r.ResponseBody)) + 200*(len(r.Attempts)+len(r.Events))
	if w.held < groupBytes && len(w.room) < batchRows {
		return nil
	}
	if err := w.hand(); err != nil || w.held < groupBytes {
		return err
	}
	w.held = 0
	return w.to.Flush()
}

// hand hands the last rows to the library.
func (w *Writer) hand() error {
	_, err := w.to.Write(w.room)
	clear(w.room)
	w.room = w.room[:0]
	return err
}

// Close ends the file, and returns how many rows it has and their checksum.
func (w *Writer) Close() (int64, Sum, error) {
	return w.rows, w.sum.Sum(), errors.Join(w.hand(), w.to.Close())
}

// LogWriter writes logs, in the order in which Writer got their executions.
type LogWriter struct {
	to   *parquet.GenericWriter[line]
	sum  summer
	rows int64
	held int
	room []line
}

// NewLogWriter begins a file of logs.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{sum: newSummer(), to: parquet.NewGenericWriter[line](w, options(groupLines,
		parquet.BloomFilters(parquet.SplitBlockFilter(bloomBits, "execution_id"), parquet.SplitBlockFilter(bloomBits, "job_id")),
	)...)}
}

// Write adds a chunk of the log of an execution.
func (w *LogWriter) Write(e *job.Execution, c engine.LogChunk) error {
	lines, err := engine.DecodeLog(c.Data)
	if err != nil {
		return fmt.Errorf("the log of %s: %w", e.ID, err)
	}
	w.room = w.room[:0]
	for i, l := range lines {
		x := line{
			Tenant: string(e.Tenant), JobID: e.Job.String(), ExecutionID: e.ID.String(), Attempt: int64(c.Attempt), FencingToken: int64(c.Token), Line: int64(c.From + i),
			At: l.At.UTC(), Stream: l.Stream, Text: l.Text,
		}
		w.sum.add(&x)
		w.held += len(l.Text)
		w.room = append(w.room, x)
	}
	if _, err := w.to.Write(w.room); err != nil {
		return err
	}
	w.rows += int64(len(lines))
	if w.held < groupBytes {
		return nil
	}
	w.held = 0
	return w.to.Flush()
}

// Close ends the file, and returns how many lines it has and their checksum.
func (w *LogWriter) Close() (int64, Sum, error) {
	return w.rows, w.sum.Sum(), w.to.Close()
}

// Proof counts the rows of a file and sums them up, as its writer did, from what a reader gets. Each, if not nil, is called with every
// execution; there are none in a file of logs.
func Proof(r io.ReaderAt, size int64, k engine.ArchiveKind, each func(*engine.Finished) error) (rows int64, sum Sum, err error) {
	defer rescue(&err)
	if k == engine.ArchivedLogs {
		return proof(r, size, func(*line) error { return nil })
	}
	return proof(r, size, func(x *row) error {
		if each == nil {
			return nil
		}
		f, err := x.finished()
		if err != nil {
			return err
		}
		return each(&f)
	})
}

func proof[T any, P interface {
	*T
	summed
}](r io.ReaderAt, size int64, each func(*T) error) (n int64, sum Sum, err error) {
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return 0, sum, err
	}
	h := newSummer()
	for _, g := range f.RowGroups() {
		err := scan(g, func(x *T, _ int64) error {
			n++
			h.add(P(x))
			return each(x)
		})
		if err != nil {
			return n, sum, err
		}
	}
	return n, h.Sum(), nil
}

// scan calls f with every row of a row group, of which only the columns of T are read.
func scan[T any](g parquet.RowGroup, f func(x *T, at int64) error) error {
	r := parquet.NewGenericRowGroupReader[T](g)
	defer r.Close()
	buf := make([]T, 128)
	for at := int64(0); ; {
		clear(buf)
		n, err := r.Read(buf)
		for i := range n {
			if err := f(&buf[i], at); err != nil {
				return err
			}
			at++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}

// rescue makes an error of a panic: the library panics on some files that are damaged.
func rescue(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("it cannot be read: %v", v)
	}
}

// Day returns the day (UTC) of an instant.
func Day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
