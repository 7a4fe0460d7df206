package engine

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Logs store the output of attempts. A log exists as long as its execution: Tidy drops those of unknown executions.
type Logs interface {
	// AppendLogs stores chunks, each only while its worker holds its lease and the attempt's log ends where the chunk
	// begins, and returns in order the head of each log. Of chunks that begin at the same place one is stored.
	AppendLogs(ctx context.Context, as []LogAppend) ([]LogAppended, error)
	// Logs reads the log of an execution, attempt by attempt, from a position on: whole chunks, the first of which
	// may begin before it. ErrNotFound also for another tenant's execution.
	Logs(ctx context.Context, t tenant.ID, id job.ExecutionID, q LogQuery) ([]LogChunk, error)
	// LogLines counts the lines of an execution's log, of one attempt or of all where it is 0.
	LogLines(ctx context.Context, t tenant.ID, id job.ExecutionID, attempt int) (int64, error)
}

// LogAppend is a chunk of a log to be stored.
type LogAppend struct {
	job.Lease
	Worker job.WorkerID
	From   int         // the number of its first line
	To     job.LogHead // the head of the log after the append
	Data   []byte      // of EncodeLog
}

// LogAppended is the outcome of an append.
type LogAppended struct {
	Stored bool
	Held   bool        // the worker holds the lease
	Head   job.LogHead // the current head of the attempt's log
}

// LogQuery selects a part of a log.
type LogQuery struct {
	Attempt int // its number; 0: all
	From    job.LogPlace
	Chunks  int // at most
}

// LogChunk is a part of an attempt's log.
type LogChunk struct {
	Token   job.Token
	Attempt int
	From    int // the number of its first line
	To      int // after its last
	Data    []byte
}

// logForm is the format of a stored chunk. It is followed, compressed, by each line: its instant (in microseconds,
// relative to the previous line), its stream's name and its text, each preceded by its length.
const logForm = 1

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err)
	}
	return w
}}

// EncodeLog returns the stored form of lines.
func EncodeLog(lines []job.LogLine) []byte {
	var raw []byte
	var last int64
	for _, l := range lines {
		at := l.At.UnixMicro()
		raw = binary.AppendVarint(raw, at-last)
		last = at
		raw = binary.AppendUvarint(raw, uint64(len(l.Stream)))
		raw = append(raw, l.Stream...)
		raw = binary.AppendUvarint(raw, uint64(len(l.Text)))
		raw = append(raw, l.Text...)
	}
	var out bytes.Buffer
	out.WriteByte(logForm)
	w := deflaters.Get().(*flate.Writer)
	w.Reset(&out)
	if _, err := w.Write(raw); err != nil { // a buffer takes everything
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	deflaters.Put(w)
	return out.Bytes()
}

// maxRawLog limits the decompressed size of a stored chunk: a full chunk of minimal lines, and a long one.
const maxRawLog = 4 << 20

var errLog = errors.New("a stored log cannot be read")

// DecodeLog decodes lines from their stored form.
func DecodeLog(data []byte) ([]job.LogLine, error) {
	if len(data) == 0 || data[0] != logForm {
		return nil, fmt.Errorf("%w: its form is not known", errLog)
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), maxRawLog))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLog, err)
	}
	var out []job.LogLine
	var last int64
	streams := slices.Clone(job.LogStreams)
	text := func() (string, bool) {
		n, k := binary.Uvarint(raw)
		if k <= 0 || n > uint64(len(raw)-k) {
			return "", false
		}
		s := raw[k : k+int(n)]
		raw = raw[k+int(n):]
		if i := slices.IndexFunc(streams, func(x string) bool { return x == string(s) }); i >= 0 {
			return streams[i], true // most lines share one
		}
		return string(s), true
	}
	for len(raw) > 0 {
		d, k := binary.Varint(raw)
		if k <= 0 {
			return nil, errLog
		}
		raw = raw[k:]
		last += d
		stream, ok := text()
		if !ok {
			return nil, errLog
		}
		line, ok := text()
		if !ok {
			return nil, errLog
		}
		out = append(out, job.LogLine{At: time.UnixMicro(last).UTC(), Stream: stream, Text: line})
	}
	return out, nil
}
