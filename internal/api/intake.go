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
	"github.com/carillon-jobs/carillon/internal/secret"
)

// intake is the single entry point for what workers report about attempts (lines of logs, outcomes, progress), in
// this process or over HTTP. Secrets are removed before anything is stored.
type intake struct {
	d         *dispatch.Dispatcher
	secrets   *secret.Vault // nil: there are none
	elsewhere bool          // another server may have handed out the attempts
}

// report accepts outcomes.
func (in intake) report(ctx context.Context, w job.WorkerID, outcomes []client.Outcome) ([]client.Verdict, error) {
	os := make([]job.Outcome, len(outcomes))
	for i, o := range outcomes {
		var err error
		if os[i], err = outcome(o); err != nil {
			return nil, under(err, fmt.Sprintf("outcomes[%d].", i))
		}
	}
	if err := cleanOutcomes(ctx, in.secrets, os, in.elsewhere); err != nil {
		return nil, err
	}
	vs, err := in.d.Report(ctx, w, os)
	if err != nil {
		return nil, err
	}
	ended(in.secrets, os, vs)
	return wireVerdicts(outcomes, vs), nil
}

// beat accepts a heartbeat.
func (in intake) beat(ctx context.Context, w job.WorkerID, b client.Beat) (client.Orders, error) {
	sign, err := signOf(b)
	if err != nil {
		return client.Orders{}, err
	}
	if err := cleanAdvances(ctx, in.secrets, sign.Advances, in.elsewhere); err != nil {
		return client.Orders{}, err
	}
	orders, err := in.d.Beat(ctx, w, sign)
	if err != nil {
		return client.Orders{}, err
	}
	return wireOrders(orders, sign.Held), nil
}

// log accepts lines of a log.
func (in intake) log(ctx context.Context, w job.WorkerID, r client.LogRequest, now func() time.Time) (client.LogAnswer, error) {
	lines, err := linesOf(r, now())
	if err != nil {
		return client.LogAnswer{}, err
	}
	guards, err := in.secrets.Guards(ctx, []job.ExecutionID{lines.Lease.Execution}, in.elsewhere)
	if err != nil {
		return client.LogAnswer{}, err
	}
	if guards != nil {
		cleanLines(lines, guards)
	}
	for i, l := range lines.Lines {
		lines.Lines[i].Text = job.LogText(l.Text)
	}
	head, err := in.d.Log(ctx, w, lines)
	if err != nil {
		return client.LogAnswer{}, err
	}
	return client.LogAnswer{Lines: head.Lines, Cut: head.Cut}, nil
}

// cleanLines removes secrets from lines of a log. Those of a stream are checked together, as a secret may span
// several.
func cleanLines(lines dispatch.Lines, guards secret.Guards) {
	for _, stream := range job.LogStreams {
		var texts []string
		for _, l := range lines.Lines {
			if l.Stream == stream {
				texts = append(texts, l.Text)
			}
		}
		guards.CleanLines(lines.Lease.Execution, texts)
		for i, l := range lines.Lines {
			if l.Stream == stream {
				lines.Lines[i].Text, texts = texts[0], texts[1:]
			}
		}
	}
}

// linesOf reads lines of a log, as they were sent.
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
		out.Lines[i] = job.LogLine{At: l.At.UTC().Truncate(time.Microsecond), Stream: job.LogStreams[k], Text: l.Text}
	}
	return out, v.Err()
}
