package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

var statuses = []string{"WAITING", "PENDING", "RUNNING", "RETRYING", "CANCELLING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"}

func (s executionCommands) executionCommand() *cobra.Command {
	return s.noun(&cobra.Command{
		Use: "execution", Aliases: []string{"exec", "executions"}, Short: "Show, cancel and retry executions",
		Long: "Show, cancel and retry executions. Commands also take a job: those that read show its latest execution that is due, retry takes the latest that has finished, cancel the one that waits or runs, if there is only one.",
	}, s.executionList(), s.executionGet(), s.executionWatch(), s.executionLogs(), s.executionAttempts(), s.executionTimeline(), s.executionExplain(), s.executionCancel(), s.executionRetry(), s.executionCompare(), s.executionExport())
}

// findExecution finds the execution that a person means: by its id, or the latest of a job.
func (s executionCommands) findExecution(ctx context.Context, c *client.Client, ref string) (client.Execution, error) {
	if uuid.MatchString(ref) {
		e, err := c.Execution(ctx, ref)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return e, err
		}
		if _, no := c.Job(ctx, ref); no != nil {
			return e, err
		}
	}
	j, err := findJob(ctx, c, ref)
	if err != nil {
		return client.Execution{}, err
	}
	page, err := c.ListJobExecutions(ctx, j.JobID, client.ExecutionFilter{}, client.Page{Limit: 1})
	if err != nil {
		return client.Execution{}, err
	}
	if len(page.Executions) == 0 {
		return client.Execution{}, missing{fmt.Errorf("the job %s has no executions yet", line(j.Name))}
	}
	e := page.Executions[0]
	if now := s.now(); e.StartedAt == nil && e.DueAt.After(now) { // created ahead of its time: the one before is more informative
		page, err := c.ListJobExecutions(ctx, j.JobID, client.ExecutionFilter{Until: now}, client.Page{Limit: 1})
		if err != nil {
			return client.Execution{}, err
		}
		if len(page.Executions) > 0 {
			e = page.Executions[0]
		}
	}
	s.say("Execution %s, the latest of %s", e.ExecutionID, line(j.Name))
	return e, nil
}

func errorWords(e *client.Error) string {
	if e == nil {
		return ""
	}
	return e.Type + ": " + headline(e.Message)
}

func (s *session) executions() view[client.Execution] {
	return view[client.Execution]{columns[client.Execution](
		col("ID", func(e client.Execution) string { return e.ExecutionID }),
		col("JOB", func(e client.Execution) string { return e.JobName }),
		col("STATUS", func(e client.Execution) string { return e.Status }),
		when(s, "SCHEDULED", func(e client.Execution) time.Time { return e.ScheduledTime }),
		col("TOOK", func(e client.Execution) string {
			if e.DurationMS == nil {
				return ""
			}
			return spanMS(*e.DurationMS)
		}),
		col("ATTEMPT", func(e client.Execution) string { return fmt.Sprintf("%d/%d", e.AttemptNumber, e.MaxAttempts) }),
		col("TRIGGER", func(e client.Execution) string { return e.Trigger }),
		wide("DELAY", func(e client.Execution) string { return spanMS(e.TriggerDelayMS) }),
		wide("STARTED (UTC)", func(e client.Execution) string { return exact(instant(e.StartedAt)) }),
		wide("FINISHED (UTC)", func(e client.Execution) string { return exact(instant(e.FinishedAt)) }),
		wide("WORKER", func(e client.Execution) string { return or(e.WorkerID, "") }),
		col("ERROR", func(e client.Execution) string { return errorWords(e.Error) }),
	), func(e client.Execution) string { return e.ExecutionID }}
}

func (s *session) showExecution(e client.Execution) error {
	took := ""
	if e.DurationMS != nil {
		took = spanMS(*e.DurationMS)
	}
	f := []field{
		{"Execution", e.ExecutionID},
		{"Job", e.JobName + " (" + e.JobID + ")"},
		{"Status", e.Status},
		{"Progress", ""},
		{"Trigger", e.Trigger},
		{"Scheduled", s.both(e.ScheduledTime)},
		{"Due", s.both(e.DueAt)},
		{"Started", s.both(instant(e.StartedAt))},
		{"Finished", s.both(instant(e.FinishedAt))},
		{"Took", took},
		{"Attempt", fmt.Sprintf("%d of %d, %d lost", e.AttemptNumber, e.MaxAttempts, e.LostAttempts)},
		{"Worker", or(e.WorkerID, "")},
		{"Priority", fmt.Sprint(e.Priority)},
		{"Retry of", or(e.RetryOf, "")},
		{"Error", errorWords(e.Error)},
		{"Result", payloadWords(e.Result)},
	}
	if e.Progress != nil {
		f[3].value = fmt.Sprintf("%d%% %s", e.Progress.Percent, e.Progress.Message)
	}
	if r := e.CallbackResponse; r != nil {
		f = append(f, field{"Answer", fmt.Sprintf("%d %s", r.HTTPStatus, cut(r.BodyPreview, 300))})
	}
	if client.Final(e.Status) {
		f[6].value = ""
	}
	return one(s, s.executions(), e, f)
}

func (s executionCommands) executionList() *cobra.Command {
	var f executionFilter
	var p paging
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List executions, latest first", Args: cobra.NoArgs,
		Example: "  carillon execution list --job report --status failed,timed_out\n  carillon execution list --from -1h -o jsonl --all | jq .error",
	}
	f.flags(s.session, c)
	p.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		filter, err := f.read(ctx, s.session, c)
		if err != nil {
			return err
		}
		if only := (client.ExecutionFilter{Job: filter.Job, Status: filter.Status, From: filter.From, Until: filter.Until}); filter.Job != "" && reflect.DeepEqual(filter, only) {
			return listed(s.session, s.executions(), p, "There are no such executions.", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Execution, client.Pagination, error) {
				page, err := c.ListJobExecutions(ctx, filter.Job, filter, p) // this reads no rows of other jobs
				return page.Executions, page.Pagination, err
			}))
		}
		return listed(s.session, s.executions(), p, "There are no such executions.", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Execution, client.Pagination, error) {
			page, err := c.ListExecutions(ctx, filter, p)
			return page.Executions, page.Pagination, err
		}))
	})
	return c
}

// looking makes a command that looks at an execution.
func (s executionCommands) looking(c *cobra.Command, do func(ctx context.Context, c *client.Client, e client.Execution) error) *cobra.Command {
	c.Args = cobra.ExactArgs(1)
	completeArgs(c, func(ctx context.Context, prefix string) []string {
		return append(s.jobNames()(ctx, prefix), s.executionNames()(ctx, prefix)...)
	})
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		e, err := s.findExecution(ctx, c, args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, e)
	})
	return c
}

func (s executionCommands) executionGet() *cobra.Command {
	return s.looking(&cobra.Command{Use: "get EXECUTION", Short: "Show an execution, or the latest of a job"}, func(_ context.Context, _ *client.Client, e client.Execution) error { return s.showExecution(e) })
}

func (s executionCommands) executionWatch() *cobra.Command {
	return s.looking(&cobra.Command{Use: "watch EXECUTION", Short: "Wait until an execution has finished; exit with 7 unless it succeeded"}, func(ctx context.Context, c *client.Client, e client.Execution) error {
		return s.await(ctx, c, e.ExecutionID, waiting{wait: true})
	})
}

func (s executionCommands) executionExplain() *cobra.Command {
	return s.looking(&cobra.Command{Use: "explain EXECUTION", Short: "Explain why an execution waits, or why it ended as it did"}, func(ctx context.Context, c *client.Client, e client.Execution) error {
		x, err := c.Explain(ctx, e.ExecutionID)
		if err != nil {
			return err
		}
		if s.output == "table" || s.output == "wide" {
			if x.EstimatedStart != nil {
				s.say("It is expected to start %s.", s.both(*x.EstimatedStart))
			}
			_, err := fmt.Fprintln(s.out, plain(x.Summary))
			return err
		}
		if s.output == "name" {
			_, err := fmt.Fprintln(s.out, plain(x.Code))
			return err
		}
		return s.value(x)
	})
}

func (s executionCommands) executionAttempts() *cobra.Command {
	return s.looking(&cobra.Command{Use: "attempts EXECUTION", Short: "List the attempts of an execution, oldest first"}, func(ctx context.Context, c *client.Client, e client.Execution) error {
		return listedAll(s.session, view[client.ExecutionAttempt]{columns[client.ExecutionAttempt](
			col("ATTEMPT", func(a client.ExecutionAttempt) string { return fmt.Sprint(a.AttemptNumber) }),
			col("STATUS", func(a client.ExecutionAttempt) string { return a.Status }),
			col("STARTED (UTC)", func(a client.ExecutionAttempt) string { return exact(a.StartedAt) }),
			wide("FINISHED (UTC)", func(a client.ExecutionAttempt) string { return exact(instant(a.FinishedAt)) }),
			col("TOOK", func(a client.ExecutionAttempt) string { return spanMS(a.DurationMS) }),
			wide("TOKEN", func(a client.ExecutionAttempt) string { return fmt.Sprint(a.FencingToken) }),
			wide("WORKER", func(a client.ExecutionAttempt) string { return or(a.WorkerID, "") }),
			col("ERROR", func(a client.ExecutionAttempt) string { return errorWords(a.Error) }),
		), func(a client.ExecutionAttempt) string { return fmt.Sprint(a.AttemptNumber) }}, "It has not been started yet.", c.Attempts(ctx, e.ExecutionID))
	})
}

func (s executionCommands) executionTimeline() *cobra.Command {
	return s.looking(&cobra.Command{Use: "timeline EXECUTION", Aliases: []string{"events"}, Short: "Show everything that happened to an execution, oldest first"}, func(ctx context.Context, c *client.Client, e client.Execution) error {
		began := e.ScheduledTime
		return listedAll(s.session, view[client.Event]{columns[client.Event](
			col("AFTER", func(v client.Event) string { return "+" + span(max(0, v.At.Sub(began))) }),
			wide("AT (UTC)", func(v client.Event) string { return exact(v.At) }),
			col("EVENT", func(v client.Event) string { return v.Type }),
			col("ATTEMPT", func(v client.Event) string { return number(v.Attempt) }),
			wide("TOKEN", func(v client.Event) string { return number(v.FencingToken) }),
			col("WORKER", func(v client.Event) string { return or(v.WorkerID, "") }),
			col("DETAIL", func(v client.Event) string { return v.Detail }),
		), func(v client.Event) string { return v.Type }}, "No events are recorded.", c.Events(ctx, e.ExecutionID))
	})
}

func number[T int | int64](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}

// The states of executions that can be cancelled, and of those that can be retried.
var (
	unfinished = []string{"WAITING", "PENDING", "RUNNING", "RETRYING"}
	finished   = []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"}
)

// executionOf finds the execution of a job that a person wants to change: the latest in one of these states. With
// only, it must be the only one.
func (s *session) executionOf(ctx context.Context, c *client.Client, ref, verb string, states []string, only bool) (client.Execution, error) {
	j, err := findJob(ctx, c, ref)
	if err != nil {
		return client.Execution{}, err
	}
	page, err := c.ListJobExecutions(ctx, j.JobID, client.ExecutionFilter{Status: states}, client.Page{Limit: 2})
	switch {
	case err != nil:
		return client.Execution{}, err
	case len(page.Executions) == 0:
		return client.Execution{}, missing{fmt.Errorf("the job %s has no execution to %s", line(j.Name), verb)}
	case only && len(page.Executions) > 1:
		return client.Execution{}, usage{fmt.Errorf("the job %s has several executions to %s; want an id from 'carillon execution list --job %s', or --filter job=%s for all of them", line(j.Name), verb, line(ref), j.JobID)}
	}
	e := page.Executions[0]
	s.say("Execution %s of %s, which is %s", e.ExecutionID, line(j.Name), e.Status)
	return e, nil
}

func (s executionCommands) executionCancel() *cobra.Command {
	var w write
	var b byFilter
	var reason string
	c := &cobra.Command{
		Use: "cancel EXECUTION...", Short: "Cancel executions: waiting ones end at once, running ones are asked to stop", Args: b.args(cobra.MinimumNArgs(1)),
		Example: "  carillon execution cancel 0190a6c8-7b3e-7cc0-8a1b-0123456789ab\n  carillon execution cancel --filter tag=reports --filter status=PENDING,RETRYING --dry-run",
		Long:    "Cancel executions by id, or the one of a job that waits or runs, at once; or all that match a filter, in the background. A filter counts them first and asks for confirmation, unless --yes is given.",
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, stored with the execution")
	w.destructive(c)
	b.flags(c, true)
	completeArgs(c, s.executionNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if b.used() {
			return s.overExecutions(ctx, c, b, w, client.ExecutionBulkRequest{Action: "cancel", Reason: reason})
		}
		for _, id := range args {
			if !uuid.MatchString(id) {
				e, err := s.executionOf(ctx, c, id, "cancel", unfinished, true)
				if err != nil {
					return err
				}
				id = e.ExecutionID
			}
			if w.dryRun {
				e, err := c.Execution(ctx, id)
				if err != nil {
					return err
				}
				if err := s.would("cancel the execution "+id+" of "+e.JobName+", which is "+e.Status, nil); err != nil {
					return err
				}
				continue
			}
			e, err := c.CancelExecution(ctx, id, client.CancelRequest{Reason: reason})
			if err != nil {
				return err
			}
			s.say("The execution %s of %s is %s.", id, line(e.JobName), e.Status)
			if s.output != "table" {
				if err := s.showExecution(e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return c
}

func (s executionCommands) executionRetry() *cobra.Command {
	var w write
	var wt waiting
	var b byFilter
	var payload string
	c := &cobra.Command{
		Use: "retry EXECUTION", Short: "Retry a finished execution, or the latest of a job, as a new one", Args: b.args(cobra.ExactArgs(1)),
		Example: "  carillon execution retry 0190a6c8-7b3e-7cc0-8a1b-0123456789ab --wait\n  carillon execution retry --filter job=key:nightly --filter from=2026-01-31 --rate 10 --dry-run",
	}
	c.Flags().StringVar(&payload, "payload", "", "JSON to use instead of its payload: text, @file, or - for standard input")
	w.flags(c)
	wt.flags(c)
	b.flags(c, false)
	completeArgs(c, s.executionNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		var r client.TriggerRequest
		var err error
		if payload != "" {
			if r.PayloadOverride, err = s.payload(payload, "--payload"); err != nil {
				return err
			}
		}
		if b.used() {
			b.wait = wt.wait
			return s.overExecutions(ctx, c, b, w, client.ExecutionBulkRequest{Action: "retry", PayloadOverride: r.PayloadOverride})
		}
		var e client.Execution
		if uuid.MatchString(args[0]) {
			e, err = c.Execution(ctx, args[0])
		} else {
			e, err = s.executionOf(ctx, c, args[0], "retry", finished, false)
		}
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.would("run the execution "+e.ExecutionID+" of "+e.JobName+", which is "+e.Status+", again", r)
		}
		t, err := c.RetryExecution(ctx, e.ExecutionID, r)
		if err != nil {
			return err
		}
		return s.triggered(ctx, c, t, e.JobName, wt)
	})
	return c
}

// comparison is a line about two executions.
type comparison struct {
	Field string `json:"field"`
	First string `json:"first"`
	Other string `json:"other"`
	Same  bool   `json:"same"`
}

func (s executionCommands) executionCompare() *cobra.Command {
	c := &cobra.Command{
		Use: "compare EXECUTION [OTHER]", Short: "Compare two executions; by default with the job's last success", Args: cobra.RangeArgs(1, 2),
	}
	completeArgs(c, s.executionNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		e, err := s.findExecution(ctx, c, args[0])
		if err != nil {
			return err
		}
		var o client.Execution
		if len(args) == 2 {
			if o, err = s.findExecution(ctx, c, args[1]); err != nil {
				return err
			}
		} else {
			page, err := c.ListJobExecutions(ctx, e.JobID, client.ExecutionFilter{Status: []string{"SUCCEEDED"}}, client.Page{Limit: 2})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(page.Executions, func(x client.Execution) bool { return x.ExecutionID != e.ExecutionID })
			if i < 0 {
				return missing{fmt.Errorf("the job %s has no other execution that succeeded; name the one to compare with", line(e.JobName))}
			}
			o = page.Executions[i]
		}
		a, err := c.ExecutionReport(ctx, e.ExecutionID)
		if err != nil {
			return err
		}
		b, err := c.ExecutionReport(ctx, o.ExecutionID)
		if err != nil {
			return err
		}
		return listedAll(s.session, view[comparison]{columns[comparison](
			col("", func(x comparison) string { return x.Field }),
			col("FIRST", func(x comparison) string { return x.First }),
			col("OTHER", func(x comparison) string { return x.Other }),
			col("", func(x comparison) string { return map[bool]string{true: " ", false: "differs"}[x.Same] }),
		), func(x comparison) string { return x.Field }}, "", each(compared(e, o, a, b)))
	})
	return c
}

func compared(e, o client.Execution, a, b client.Report) (out []comparison) {
	add := func(name, first, other string) {
		out = append(out, comparison{name, dash(first), dash(other), first == other})
	}
	add("execution", e.ExecutionID, o.ExecutionID)
	add("status", e.Status, o.Status)
	add("trigger", e.Trigger, o.Trigger)
	add("scheduled", exact(e.ScheduledTime), exact(o.ScheduledTime))
	add("worker", or(e.WorkerID, ""), or(o.WorkerID, ""))
	add("attempts", fmt.Sprint(len(a.Attempts)), fmt.Sprint(len(b.Attempts)))
	add("lost attempts", fmt.Sprint(a.LostAttempts), fmt.Sprint(b.LostAttempts))
	add("delay of the trigger", spanMS(a.TriggerDelayMS), spanMS(b.TriggerDelayMS))
	add("wait in the queue", spanMS(a.QueueWaitMS), spanMS(b.QueueWaitMS))
	add("running", spanMS(a.RunningMS), spanMS(b.RunningMS))
	add("between attempts", spanMS(a.BetweenAttemptsMS), spanMS(b.BetweenAttemptsMS))
	add("error", errorWords(e.Error), errorWords(o.Error))
	add("answer", answerWords(e.CallbackResponse), answerWords(o.CallbackResponse))
	add("result", payloadWords(json.RawMessage(e.Result)), payloadWords(json.RawMessage(o.Result)))
	return out
}

func answerWords(r *client.CallbackResponse) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d %s", r.HTTPStatus, cut(r.BodyPreview, 200))
}
