package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// File reads a file of executions.
type File struct{ parts }

// LogFile reads a file of logs.
type LogFile struct{ parts }

// Open opens a file of executions: it reads the index at its end.
func Open(r io.ReaderAt, size int64) (*File, error) {
	p, err := open(r, size, "execution_id", "scheduled_time", "finished_at", "attempts")
	return &File{p}, err
}

// OpenLogs opens a file of logs.
func OpenLogs(r io.ReaderAt, size int64) (*LogFile, error) {
	p, err := open(r, size, "execution_id", "fencing_token", "line", "text")
	return &LogFile{p}, err
}

// parts is an open file: its row groups, of which most can be passed over.
type parts struct {
	groups  []parquet.RowGroup
	columns map[string]int
}

func open(r io.ReaderAt, size int64, needs ...string) (p parts, err error) {
	defer rescue(&err)
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return p, err
	}
	p = parts{f.RowGroups(), map[string]int{}}
	for _, name := range needs {
		if !slices.ContainsFunc(f.Root().Columns(), func(c *parquet.Column) bool { return c.Name() == name }) {
			return p, fmt.Errorf("it has no column %s", name)
		}
	}
	for i, path := range f.Schema().Columns() {
		if len(path) == 1 {
			p.columns[path[0]] = i
		}
	}
	return p, nil
}

// bounds returns the least and the greatest value of a column in a row group.
func (p *parts) bounds(g parquet.RowGroup, column string) (least, most parquet.Value, ok bool) {
	i, ok := p.columns[column]
	if !ok {
		return least, most, false
	}
	c, ok := g.ColumnChunks()[i].(*parquet.FileColumnChunk)
	if !ok {
		return least, most, false
	}
	return c.Bounds()
}

// has reports whether a row group may have a value in a column of texts.
func (p *parts) has(g parquet.RowGroup, column, value string) (bool, error) {
	if least, most, ok := p.bounds(g, column); ok {
		v := []byte(value)
		if bytes.Compare(v, least.ByteArray()) < 0 || bytes.Compare(v, most.ByteArray()) > 0 {
			return false, nil
		}
	}
	i, ok := p.columns[column]
	if !ok {
		return true, nil
	}
	b := g.ColumnChunks()[i].BloomFilter()
	if b == nil {
		return true, nil
	}
	return b.Check(parquet.ByteArrayValue([]byte(value)))
}

// within reports whether a row group may have an instant in [from, until) in a column; zero: no limit.
func (p *parts) within(g parquet.RowGroup, column string, from, until time.Time) bool {
	least, most, ok := p.bounds(g, column)
	return !ok || (from.IsZero() || most.Int64() >= from.UnixMicro()) && (until.IsZero() || least.Int64() < until.UnixMicro())
}

// brief is what decides whether a row is wanted, and where it stands.
type brief struct {
	Tenant        string    `parquet:"tenant,dict"`
	JobID         string    `parquet:"job_id,dict"`
	FinishedAt    time.Time `parquet:"finished_at,timestamp(microsecond)"`
	ExecutionID   string    `parquet:"execution_id"`
	Status        string    `parquet:"status,dict"`
	Trigger       string    `parquet:"trigger,dict"`
	ScheduledTime time.Time `parquet:"scheduled_time,timestamp(microsecond)"`
	WorkerID      *string   `parquet:"worker_id,optional,dict"`
}

// wordy is brief and the texts that a filter may ask for.
type wordy struct {
	brief
	JobName      string   `parquet:"job_name,dict"`
	Tags         []string `parquet:"tags,list"`
	ErrorType    *string  `parquet:"error_type,optional,dict"`
	ErrorMessage *string  `parquet:"error_message,optional"`
}

// wanted is a filter in the form in which rows are compared with it.
type wanted struct {
	f                 *engine.ExecutionFilter
	in                engine.Span
	job, worker, text string
	statuses, origins map[string]bool
}

func want(f *engine.ExecutionFilter, in engine.Span) wanted {
	w := wanted{f: f, in: in, text: strings.ToLower(f.Text)}
	if !f.Job.IsZero() {
		w.job = f.Job.String()
	}
	if !f.Worker.IsZero() {
		w.worker = f.Worker.String()
	}
	w.statuses, w.origins = set(f.Statuses), set(f.Triggers)
	return w
}

func set[T fmt.Stringer](all []T) map[string]bool {
	if len(all) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, x := range all {
		out[x.String()] = true
	}
	return out
}

// group reports whether a row group may have rows that are wanted.
func (w *wanted) group(p *parts, g parquet.RowGroup) (bool, error) {
	from, until := w.f.From, w.f.Until
	if at := w.in.Until.At; !at.IsZero() && at.After(from) {
		from = at
	}
	if at := w.in.After.At; !at.IsZero() && (until.IsZero() || at.Add(1).Before(until)) {
		until = at.Add(time.Microsecond)
	}
	kept := w.f.Kept
	if w.f.Finished.After(kept) {
		kept = w.f.Finished
	}
	if !p.within(g, "scheduled_time", from, until) || !p.within(g, "finished_at", kept, time.Time{}) {
		return false, nil
	}
	for column, value := range map[string]string{"tenant": string(w.f.Tenant), "job_id": w.job, "worker_id": w.worker} {
		if value == "" {
			continue
		}
		if may, err := p.has(g, column, value); err != nil || !may {
			return false, err
		}
	}
	return true, nil
}

// row reports whether a row is wanted, and its place.
func (w *wanted) row(b *brief) (at engine.Place, ok bool, err error) {
	f := w.f
	switch {
	case b.Tenant != string(f.Tenant), w.job != "" && b.JobID != w.job, w.worker != "" && deref(b.WorkerID) != w.worker,
		w.statuses != nil && !w.statuses[b.Status], w.origins != nil && !w.origins[b.Trigger],
		!f.From.IsZero() && b.ScheduledTime.Before(f.From), !f.Until.IsZero() && !b.ScheduledTime.Before(f.Until),
		b.FinishedAt.Before(f.Finished), b.FinishedAt.Before(f.Kept):
		return at, false, nil
	}
	at.At = b.ScheduledTime.UTC()
	if at.ID, err = job.ParseExecutionID(b.ExecutionID); err != nil {
		return at, false, fmt.Errorf("execution_id: %w", err)
	}
	after := w.in.After.IsZero() || w.in.After.Compare(at) < 0
	return at, after && (w.in.Until.IsZero() || at.Compare(w.in.Until) <= 0), nil
}

// says reports whether the texts of a row are wanted.
func (w *wanted) says(x *wordy) bool {
	f := w.f
	if f.JobName != "" && x.JobName != f.JobName || f.Tag != "" && !slices.Contains(x.Tags, f.Tag) {
		return false
	}
	return w.text == "" || strings.Contains(strings.ToLower(x.JobName), w.text) ||
		strings.Contains(strings.ToLower(deref(x.ErrorType)), w.text) || strings.Contains(strings.ToLower(deref(x.ErrorMessage)), w.text)
}

// spot is a row of a file.
type spot struct {
	place engine.Place
	group int
	at    int64
}

// Newest returns up to limit executions that a filter selects in a span, in the order of lists; fewer, and more, if they have
// engine.PageBytes together. It holds no more of the file in memory than these and a piece of a row group.
func (f *File) Newest(ctx context.Context, filter *engine.ExecutionFilter, in engine.Span, limit int) (out []job.Execution, more bool, err error) {
	defer rescue(&err)
	w := want(filter, in)
	var best []spot // the first limit of those seen, and up to as many more
	for i, g := range f.groups {
		may, err := w.group(&f.parts, g)
		if err != nil {
			return nil, false, err
		}
		if !may {
			continue
		}
		take := func(b *brief, at int64) error {
			if at%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			place, ok, err := w.row(b)
			if err != nil || !ok {
				return err
			}
			if best = append(best, spot{place, i, at}); len(best) >= 2*limit {
				best = first(best, limit)
				w.in.Until = best[len(best)-1].place
			}
			return nil
		}
		if filter.JobName == "" && filter.Tag == "" && w.text == "" {
			err = scan(g, take)
		} else {
			err = scan(g, func(x *wordy, at int64) error {
				if !w.says(x) {
					return nil
				}
				return take(&x.brief, at)
			})
		}
		if err != nil {
			return nil, false, err
		}
	}
	best = first(best, limit)
	bytes := 0
	err = f.fetch(best, func(x engine.Finished) bool {
		out = append(out, x.Execution)
		bytes += engine.Bytes(&x.Execution)
		return bytes < engine.PageBytes
	})
	return out, len(out) < len(best), err
}

func first(all []spot, limit int) []spot {
	slices.SortFunc(all, func(a, b spot) int { return a.place.Compare(b.place) })
	return all[:min(limit, len(all))]
}

// fetch reads rows whole, in the order of the spots, as long as each wants more.
func (f *File) fetch(spots []spot, each func(engine.Finished) (more bool)) error {
	open := map[int]*parquet.GenericReader[row]{}
	defer func() {
		for _, r := range open {
			r.Close()
		}
	}()
	buf := make([]row, 1)
	for _, s := range spots {
		r, ok := open[s.group]
		if !ok {
			r = parquet.NewGenericRowGroupReader[row](f.groups[s.group])
			open[s.group] = r
		}
		if err := r.SeekToRow(s.at); err != nil {
			return err
		}
		clear(buf)
		if n, err := r.Read(buf); n != 1 {
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		x, err := buf[0].finished()
		if err != nil {
			return err
		}
		if !each(x) {
			return nil
		}
	}
	return nil
}

// named is what finds an execution by its id.
type named struct {
	Tenant      string `parquet:"tenant,dict"`
	ExecutionID string `parquet:"execution_id"`
}

// Find looks an execution of a tenant up.
func (f *File) Find(t tenant.ID, id job.ExecutionID) (out engine.Finished, found bool, err error) {
	defer rescue(&err)
	text := id.String()
	for i, g := range f.groups {
		may, err := f.mayHold(g, t, text)
		if err != nil {
			return out, false, err
		}
		if !may {
			continue
		}
		at := int64(-1)
		err = scan(g, func(x *named, n int64) error {
			if x.ExecutionID == text && x.Tenant == string(t) {
				at = n
				return errFound
			}
			return nil
		})
		if err != nil && err != errFound {
			return out, false, err
		}
		if at >= 0 {
			err := f.fetch([]spot{{group: i, at: at}}, func(x engine.Finished) bool { out = x; return true })
			return out, err == nil, err
		}
	}
	return out, false, nil
}

var errFound = errors.New("found")

func (p *parts) mayHold(g parquet.RowGroup, t tenant.ID, id string) (bool, error) {
	may, err := p.has(g, "tenant", string(t))
	if err != nil || !may {
		return false, err
	}
	return p.has(g, "execution_id", id)
}

const chunkLines = 500

// Log reads the log of an execution, as engine.Logs has it.
func (f *LogFile) Log(t tenant.ID, id job.ExecutionID, q engine.LogQuery) (out []engine.LogChunk, err error) {
	defer rescue(&err)
	text := id.String()
	var lines []job.LogLine
	var c engine.LogChunk
	end := func() {
		if len(lines) > 0 {
			c.To, c.Data = c.From+len(lines), engine.EncodeLog(lines)
			out = append(out, c)
		}
		lines = nil
	}
	for _, g := range f.groups {
		may, err := f.mayHold(g, t, text)
		if err != nil {
			return nil, err
		}
		if !may {
			continue
		}
		err = scan(g, func(x *line, _ int64) error {
			if x.ExecutionID != text || x.Tenant != string(t) || q.Attempt != 0 && x.Attempt != int64(q.Attempt) {
				return nil
			}
			at := job.LogPlace{Token: job.Token(x.FencingToken), Line: int(x.Line)}
			if at.Compare(q.From) < 0 {
				return nil
			}
			if len(lines) == chunkLines || len(lines) > 0 && (c.Token != at.Token || c.From+len(lines) != at.Line) {
				end()
			}
			if len(out) >= q.Chunks {
				return errFound
			}
			if len(lines) == 0 {
				c = engine.LogChunk{Token: at.Token, Attempt: int(x.Attempt), From: at.Line}
			}
			lines = append(lines, job.LogLine{At: x.At.UTC(), Stream: x.Stream, Text: x.Text})
			return nil
		})
		if err == errFound {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	end()
	return out, nil
}

// Lines counts the lines of an execution's log, of one attempt or of all where it is 0.
func (f *LogFile) Lines(t tenant.ID, id job.ExecutionID, attempt int) (n int64, err error) {
	defer rescue(&err)
	text := id.String()
	for _, g := range f.groups {
		may, err := f.mayHold(g, t, text)
		if err != nil {
			return 0, err
		}
		if !may {
			continue
		}
		err = scan(g, func(x *numbered, _ int64) error {
			if x.ExecutionID == text && x.Tenant == string(t) && (attempt == 0 || x.Attempt == int64(attempt)) {
				n++
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

type numbered struct {
	Tenant      string `parquet:"tenant,dict"`
	ExecutionID string `parquet:"execution_id,dict"`
	Attempt     int64  `parquet:"attempt"`
}

// IDs calls f with the ids of all executions of a file, up to n at a time.
func IDs(r io.ReaderAt, size int64, n int, f func([]job.ExecutionID) error) (err error) {
	defer rescue(&err)
	p, err := open(r, size, "execution_id")
	if err != nil {
		return err
	}
	ids := make([]job.ExecutionID, 0, n)
	for _, g := range p.groups {
		err := scan(g, func(x *named, _ int64) error {
			id, err := job.ParseExecutionID(x.ExecutionID)
			if err != nil {
				return err
			}
			if ids = append(ids, id); len(ids) < n {
				return nil
			}
			err = f(ids)
			ids = ids[:0]
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return f(ids)
}
