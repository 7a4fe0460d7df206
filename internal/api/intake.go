package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/dispatch"
)

// Filter changes texts of a worker's, such as by taking secrets out of them, before anything of them is kept. It is given
// all texts that came at once under a lease. With an error nothing of them is kept; a result must stay valid JSON.
type Filter func(ctx context.Context, w job.WorkerID, l job.Lease, texts []*string) error

// intake is the one way in for what workers say of attempts (lines of logs, outcomes, progress), whether they are in this
// process or speak HTTP.
type intake struct {
	d      *dispatch.Dispatcher
	filter Filter // nil: all is kept as it is
}

func (in intake) pass(ctx context.Context, w job.WorkerID, l job.Lease, texts ...*string) error {
	if in.filter == nil || len(texts) == 0 {
		return nil
	}
	return in.filter(ctx, w, l, texts)
}

// report takes outcomes.
func (in intake) report(ctx context.Context, w job.WorkerID, outcomes []client.Outcome) ([]client.Verdict, error) {
	os := make([]job.Outcome, len(outcomes))
	for i, o := range outcomes {
		var err error
		if os[i], err = outcome(o); err != nil {
			return nil, under(err, fmt.Sprintf("outcomes[%d].", i))
		}
		if in.filter == nil {
			continue
		}
		if err := in.outcome(ctx, w, &os[i]); err != nil {
			return nil, err
		}
	}
	vs, err := in.d.Report(ctx, w, os)
	if err != nil {
		return nil, err
	}
	return wireVerdicts(outcomes, vs), nil
}

func (in intake) outcome(ctx context.Context, w job.WorkerID, o *job.Outcome) error {
	var texts []*string
	result := string(o.Result)
	if len(o.Result) > 0 {
		texts = append(texts, &result)
	}
	if o.Error != nil {
		texts = append(texts, &o.Error.Message)
	}
	if o.Response != nil {
		texts = append(texts, &o.Response.BodyPreview)
	}
	if err := in.pass(ctx, w, o.Lease, texts...); err != nil {
		return err
	}
	if len(o.Result) > 0 {
		o.Result = []byte(result)
	}
	return nil
}

// beat takes a sign of life.
func (in intake) beat(ctx context.Context, w job.WorkerID, b client.Beat) (client.Orders, error) {
	sign, err := signOf(b)
	if err != nil {
		return client.Orders{}, err
	}
	for i := range sign.Advances {
		if err := in.pass(ctx, w, sign.Advances[i].Lease, &sign.Advances[i].Message); err != nil {
			return client.Orders{}, err
		}
	}
	orders, err := in.d.Beat(ctx, w, sign)
	if err != nil {
		return client.Orders{}, err
	}
	return wireOrders(orders, sign.Held), nil
}

// log takes lines of a log.
func (in intake) log(ctx context.Context, w job.WorkerID, r client.LogRequest, now func() time.Time) (client.LogAnswer, error) {
	lines, err := linesOf(r, now())
	if err != nil {
		return client.LogAnswer{}, err
	}
	if in.filter != nil {
		texts := make([]*string, len(lines.Lines))
		for i := range lines.Lines {
			texts[i] = &lines.Lines[i].Text
		}
		if err := in.pass(ctx, w, lines.Lease, texts...); err != nil {
			return client.LogAnswer{}, err
		}
	}
	head, err := in.d.Log(ctx, w, lines)
	if err != nil {
		return client.LogAnswer{}, err
	}
	return client.LogAnswer{Lines: head.Lines, Cut: head.Cut}, nil
}

// linesOf reads lines of a log, and makes of them what can be kept.
func linesOf(r client.LogRequest, now time.Time) (dispatch.Lines, error) {
	var v job.Invalids
	id, err := job.ParseExecutionID(r.ExecutionID)
	if err != nil {
		v.Add("execution_id", r.ExecutionID, "an execution's id")
	}
	out := dispatch.Lines{Lease: job.Lease{Execution: id, Token: job.Token(r.FencingToken)}, Offset: dispatch.AtEnd, Lines: make([]job.LogLine, len(r.Lines))}
	if r.Offset != nil {
		if out.Offset = *r.Offset; out.Offset < 0 {
			v.Add("offset", out.Offset, "how many lines of this attempt were sent before: 0 or more")
		}
	}
	if n := len(r.Lines); n > client.MaxLogLines {
		v.Add("lines", fmt.Sprintf("%d lines", n), fmt.Sprintf("at most %d at once", client.MaxLogLines))
		return out, v.Err()
	}
	for i, l := range r.Lines {
		if l.Stream == "" {
			l.Stream = job.LogStdout
		}
		k := slices.Index(job.LogStreams, l.Stream)
		if k < 0 {
			v.Add(fmt.Sprintf("lines[%d].stream", i), l.Stream, "one of "+strings.Join(job.LogStreams, ", "))
			continue
		}
		if y := l.At.Year(); y < 2000 || y > 9999 {
			l.At = now
		}
		out.Lines[i] = job.LogLine{At: l.At.UTC().Truncate(time.Microsecond), Stream: job.LogStreams[k], Text: job.LogText(l.Text)}
	}
	return out, v.Err()
}
