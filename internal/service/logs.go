package service

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// LogQuery selects a part of an execution's log.
type LogQuery struct {
	Attempt int // its number; 0: all
	From    job.LogPlace
	Limit   int // lines
}

// LogPage is a part of an execution's log.
type LogPage struct {
	Lines []LoggedLine
	Next  job.LogPlace // where the next part begins
	More  bool         // there is more already
}

// LoggedLine is a line with its place.
type LoggedLine struct {
	job.LogLine
	Attempt int
	Place   job.LogPlace
}

const (
	logChunks = 16      // that are read at once
	logBytes  = 1 << 20 // approximate text that one page holds
)

// Log reads a part of an execution's log, attempt by attempt.
func (s *Executions) Log(ctx context.Context, p tenant.Principal, id job.ExecutionID, q LogQuery) (LogPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return LogPage{}, err
	}
	if err := s.visible(ctx, p, id); err != nil {
		return LogPage{}, err
	}
	out := LogPage{Next: q.From}
	for size := 0; ; {
		chunks, err := s.store.Logs(ctx, p.Tenant, id, engine.LogQuery{Attempt: q.Attempt, From: out.Next, Chunks: logChunks})
		if err != nil {
			return LogPage{}, err
		}
		for _, c := range chunks {
			lines, err := engine.DecodeLog(c.Data)
			if err != nil {
				return LogPage{}, err
			}
			for i, l := range lines {
				at := job.LogPlace{Token: c.Token, Line: c.From + i}
				if at.Compare(out.Next) < 0 {
					continue
				}
				if len(out.Lines) == q.Limit || size > logBytes {
					out.More = true
					return out, nil
				}
				size += len(l.Text)
				out.Lines = append(out.Lines, LoggedLine{l, c.Attempt, at})
				out.Next = job.LogPlace{Token: at.Token, Line: at.Line + 1}
			}
		}
		if len(chunks) < logChunks {
			return out, nil
		}
	}
}

// LogLines counts the lines of an execution's log, of one attempt or of all where it is 0.
func (s *Executions) LogLines(ctx context.Context, p tenant.Principal, id job.ExecutionID, attempt int) (int64, error) {
	if err := allow(p, tenant.Read); err != nil {
		return 0, err
	}
	return s.store.LogLines(ctx, p.Tenant, id, attempt)
}
