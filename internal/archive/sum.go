package archive

import (
	"encoding/binary"
	"hash/maphash"
	"time"
)

// Sum is a checksum of rows in their order, in a form that does not depend on how a file is encoded. It means something in this process
// only: it compares what was written with what is read back.
type Sum uint64

var seed = maphash.MakeSeed()

// summed is a row that can be added to a checksum.
type summed interface {
	// into appends all that the row says, so that no two rows are alike.
	into(b []byte) []byte
}

// summer makes a checksum of rows.
type summer struct {
	hash *maphash.Hash
	room []byte
}

func newSummer() summer {
	s := summer{hash: new(maphash.Hash)}
	s.hash.SetSeed(seed)
	return s
}

func (s *summer) add(r summed) {
	s.room = r.into(s.room[:0])
	_, _ = s.hash.Write(s.room) // it never fails
}

// Sum returns the checksum of the rows so far.
func (s *summer) Sum() Sum { return Sum(s.hash.Sum64()) }

func (r *row) into(b []byte) []byte {
	b = texted(b, r.Tenant, r.JobID, r.ExecutionID, r.JobName, r.Status, r.Trigger)
	b = counted(b, int64(len(r.Tags)))
	b = texted(b, r.Tags...)
	b = timed(b, &r.FinishedAt, &r.ScheduledTime, &r.DueAt, r.StartedAt, r.LastAttemptAt)
	b = counted(b, r.AttemptNumber, r.FailedAttempts, r.LostAttempts, r.MaxAttempts, r.Priority, r.Partition, r.FencingToken)
	b = amounted(b, r.DurationMS, r.ErrorHTTPStatus, r.ResponseStatus)
	b = written(b, r.WorkerID, r.RetryOf, r.ErrorType, r.ErrorMessage, r.ResponseBody, r.Metadata, r.Payload, r.Result)
	b = counted(b, int64(len(r.Attempts)), int64(len(r.Events)))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		b = counted(b, a.Number, a.FencingToken)
		b = written(b, a.WorkerID)
		b = timed(b, &a.StartedAt, &a.EndedAt)
		b = texted(b, a.ErrorType, a.ErrorMessage)
		b = amounted(b, a.HTTPStatus)
	}
	for i := range r.Events {
		e := &r.Events[i]
		b = timed(b, &e.At)
		b = texted(b, e.Type, e.Detail)
		b = counted(b, e.Attempt, e.FencingToken)
		b = written(b, e.WorkerID)
	}
	return b
}

func (l *line) into(b []byte) []byte {
	b = texted(b, l.Tenant, l.JobID, l.ExecutionID, l.Stream, l.Text)
	b = counted(b, l.Attempt, l.FencingToken, l.Line)
	return timed(b, &l.At)
}

func texted(b []byte, all ...string) []byte {
	for _, s := range all {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func counted(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// written, amounted and timed append values that may be missing.
func written(b []byte, all ...*string) []byte {
	for _, s := range all {
		if s == nil {
			b = append(b, 0)
			continue
		}
		b = texted(append(b, 1), *s)
	}
	return b
}

func amounted(b []byte, all ...*int64) []byte {
	for _, n := range all {
		if n == nil {
			b = append(b, 0)
			continue
		}
		b = counted(append(b, 1), *n)
	}
	return b
}

func timed(b []byte, all ...*time.Time) []byte {
	for _, t := range all {
		if t == nil {
			b = append(b, 0)
			continue
		}
		b = counted(append(b, 1), t.UnixMicro())
	}
	return b
}
