package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s jobCommands) jobCommand() *cobra.Command {
	return s.noun(&cobra.Command{Use: "job", Aliases: []string{"jobs"}, Short: "Create, show and change jobs"},
		s.jobCreate(), s.jobGet(), s.jobList(), s.jobEdit(), s.jobPause(), s.jobResume(), s.jobTrigger(), s.jobNext(), s.jobOccurrences(), s.jobBackfill(), s.jobDepend(), s.jobDependencies(), s.jobBulk(), s.jobExport(), s.jobDelete())
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

var keyForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// findJob finds the job that a person means: by its id, its key, or its name if only one has it.
func findJob(ctx context.Context, c *client.Client, ref string) (client.Job, error) {
	if uuid.MatchString(ref) || strings.HasPrefix(ref, "key:") {
		return c.Job(ctx, ref)
	}
	if keyForm.MatchString(ref) {
		j, err := c.Job(ctx, "key:"+ref)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return j, err
		}
	}
	page, err := c.ListJobs(ctx, client.JobFilter{Name: ref}, client.Page{Limit: 20})
	if err != nil {
		return client.Job{}, err
	}
	found := page.Jobs
	if len(found) > 1 {
		var live []client.Job
		for _, j := range found {
			if j.Status != "COMPLETED" {
				live = append(live, j)
			}
		}
		if len(live) == 1 {
			found = live
		}
	}
	switch len(found) {
	case 0:
		return client.Job{}, missing{fmt.Errorf("there is no job with the id, key or name %q\n  do: look for it with 'carillon job list --query TEXT'", ref)}
	case 1:
		return c.Job(ctx, found[0].JobID)
	}
	var b strings.Builder
	for _, j := range found[:min(5, len(found))] {
		fmt.Fprintf(&b, "\n  %s  %s, created %s", j.JobID, j.Status, exact(j.CreatedAt))
	}
	return client.Job{}, usage{fmt.Errorf("%d jobs have the name %q; give the id of one:%s", page.Pagination.Total, ref, b.String())}
}

// scheduleWords describes a schedule in a few words.
func scheduleWords(x client.JobSchedule) string {
	zone := ""
	if x.Timezone != nil && *x.Timezone != "UTC" {
		zone = " " + *x.Timezone
	}
	switch x.Type {
	case "CRON":
		return or(x.CronExpression, "") + zone
	case "INTERVAL":
		return "every " + or(x.Every, "")
	case "ONE_TIME":
		return "once"
	case "MANUAL":
		return "when triggered"
	}
	return "at once"
}

// targetWords describes a target in a few words.
func targetWords(x client.JobTarget) string {
	switch x.Target {
	case "http":
		return x.Method + " " + x.CallbackURL
	case "command":
		return strings.Join(append([]string{x.Entrypoint}, x.Command...), " ")
	case "worker":
		return "kind " + x.Kind
	case "workflow":
		return x.Target
	}
	return x.Target + " " + x.WorkKind
}

func (s jobCommands) jobs() view[client.Job] {
	return view[client.Job]{columns[client.Job](
		col("ID", func(j client.Job) string { return j.JobID }),
		col("NAME", func(j client.Job) string { return j.Name }),
		col("STATUS", func(j client.Job) string { return j.Status }),
		col("SCHEDULE", func(j client.Job) string { return scheduleWords(j.Schedule) }),
		when(s.session, "NEXT", func(j client.Job) time.Time { return instant(j.Schedule.NextRunAt) }),
		when(s.session, "LAST", func(j client.Job) time.Time { return instant(j.Schedule.LastRunAt) }),
		col("RESULT", func(j client.Job) string { return or(j.Stats.LastStatus, "") }),
		col("RUNS", func(j client.Job) string { return fmt.Sprint(j.Stats.TotalRuns) }),
		wide("SUCCESS", func(j client.Job) string { return success(j.Stats) }),
		wide("P95", func(j client.Job) string { return spanMS(j.Stats.P95DurationMS) }),
		wide("KEY", func(j client.Job) string { return or(j.Key, "") }),
		wide("TARGET", func(j client.Job) string { return targetWords(j.Execution) }),
		wide("QUEUE", func(j client.Job) string { return j.Queue }),
		wide("TAGS", func(j client.Job) string { return strings.Join(j.Tags, ",") }),
		wide("OWNER", func(j client.Job) string { return or(j.Owner, "") }),
	), func(j client.Job) string { return j.JobID }}
}

func success(x client.Stats) string {
	if x.TotalRuns == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g%%", 100*x.SuccessRate)
}

// both formats an instant for people, and exactly.
func (s *session) both(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ago(t, s.now()) + " (" + exact(t) + ")"
}

func (s jobCommands) showJob(j client.Job) error {
	every := j.RetryPolicy
	f := []field{
		{"Name", j.Name},
		{"ID", j.JobID},
		{"Key", or(j.Key, "")},
		{"Status", j.Status},
		{"Paused", strings.TrimSpace(or(j.PauseReason, "") + " until " + cmp.Or(s.both(instant(j.PausedUntil)), "someone resumes it"))},
		{"Description", j.Description},
		{"Schedule", scheduleWords(j.Schedule)},
		{"Calendar", or(j.Schedule.Calendar, "")},
		{"Next", s.both(instant(j.Schedule.NextRunAt))},
		{"Last", s.both(instant(j.Schedule.LastRunAt))},
		{"Target", targetWords(j.Execution)},
		{"Payload", payloadWords(j.Execution.Payload)},
		{"Timeout", span(time.Duration(j.Execution.TimeoutSeconds) * time.Second)},
		{"Retries", retryWords(every)},
		{"Policies", "overlap " + j.Overlap + ", catch up " + j.CatchUp},
		{"Retention", retentionWords(j.Retention)},
		{"Queue", fmt.Sprintf("%s, priority %d", j.Queue, j.Priority)},
		{"Labels", strings.Join(j.Labels, ", ")},
		{"Tags", strings.Join(j.Tags, ", ")},
		{"Owner", or(j.Owner, "")},
		{"Runbook", or(j.Runbook, "")},
		{"Runs", fmt.Sprintf("%d, %s succeeded, %s on average, 95%% within %s", j.Stats.TotalRuns, success(j.Stats), spanMS(j.Stats.AvgDurationMS), spanMS(j.Stats.P95DurationMS))},
		{"Last result", or(j.Stats.LastStatus, "")},
		{"Created", s.both(j.CreatedAt)},
		{"Changed", s.both(j.UpdatedAt)},
		{"Revision", fmt.Sprint(j.Revision)},
	}
	if j.Status != "PAUSED" {
		f[4].value = ""
	}
	return one(s.session, s.jobs(), j, f)
}

func retentionWords(r *client.Retention) string {
	if r == nil {
		return ""
	}
	out := fmt.Sprintf("%d days", r.Days)
	if r.FailedDays != nil && *r.FailedDays != r.Days {
		out += fmt.Sprintf(", failures %d days", *r.FailedDays)
	}
	return out + ", or as long as the tenant's if that is shorter"
}

func payloadWords(p json.RawMessage) string {
	var b bytes.Buffer
	if string(p) == "null" || json.Compact(&b, p) != nil {
		return ""
	}
	return cut(b.String(), 200)
}

func (s jobCommands) jobGet() *cobra.Command {
	c := &cobra.Command{Use: "get JOB", Short: "Show a job, by id, key or name", Args: cobra.ExactArgs(1)}
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		return s.showJob(j)
	})
	return c
}

func (s jobCommands) jobList() *cobra.Command {
	var f client.JobFilter
	var p paging
	var notifications bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs, newest first", Args: cobra.NoArgs,
		Example: "  carillon job list --status paused\n  carillon job list --query report -o wide\n  carillon job list --tag billing -o name | xargs -n1 carillon job pause",
	}
	c.Flags().StringVar(&f.Status, "status", "", "ACTIVE, PAUSED, COMPLETED or DELETED (default all but DELETED)")
	c.Flags().StringVar(&f.Tag, "tag", "", "with this tag")
	c.Flags().StringVar(&f.Name, "name", "", "with exactly this name")
	c.Flags().StringVar(&f.ScheduleType, "schedule", "", "with this schedule type: IMMEDIATE, ONE_TIME, CRON, INTERVAL or MANUAL")
	c.Flags().StringVar(&f.Owner, "owner", "", "with exactly this owner")
	c.Flags().BoolVar(&f.Late, "late", false, "that are more than five seconds late")
	c.Flags().StringVar(&f.Q, "query", "", "with this text in name, description or key")
	c.Flags().BoolVar(&notifications, "notifications", false, "also the jobs that send notifications, which have the tag "+client.NotificationTag)
	p.flags(c)
	complete(c, "status", fixed("ACTIVE", "PAUSED", "COMPLETED", "DELETED"))
	complete(c, "schedule", fixed("IMMEDIATE", "ONE_TIME", "CRON", "INTERVAL", "MANUAL"))
	complete(c, "tag", s.tags())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if !notifications && f.Tag != client.NotificationTag && f.Name == "" {
			f.WithoutTag = client.NotificationTag
		}
		return listed(s.session, s.jobs(), p, "There are no such jobs. Make one: carillon job create hello --every 10s --http URL", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Job, client.Pagination, error) {
			page, err := c.ListJobs(ctx, f, p)
			return page.Jobs, page.Pagination, err
		}))
	})
	return c
}

func (s jobCommands) jobCreate() *cobra.Command {
	var w write
	var wt waiting
	var key, once string
	var paused bool
	c := &cobra.Command{
		Use: "create NAME [-- PROGRAM ARGUMENT...]", Short: "Create a job", Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n > 1 || n < 0 && len(args) > 1 {
				return fmt.Errorf("%d names", len(args))
			}
			return nil
		},
		Long: "Create a job. Without --every, --cron or --at it runs at once. Say what it runs with --http, --command (or -- and the program), --kind or --simulate.",
		Example: `  carillon job create hello --every 10s --http http://127.0.0.1:8080/demo/echo
  carillon job create report --cron '30 4 * * MON-FRI' --tz Europe/Berlin --http https://reports.example/run --payload '{"kind": "daily"}'
  carillon job create backup --every 1h --key backup --overlap skip -- pg_dump --file /backup/db.dump db
  carillon job create welcome --at +10m --kind send-email --payload @welcome.json --tag mail
  carillon job create try --simulate sleep --duration 3s --wait`,
	}
	f := addJobFlags(s.session, c)
	c.Flags().StringVar(&key, "key", "", "key of the job, unique in the tenant")
	c.Flags().BoolVar(&paused, "paused", false, "create it paused")
	c.Flags().StringVar(&once, "idempotency-key", "", "a repeated request with this key within 24 hours creates nothing")
	w.flags(c)
	wt.flags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		argv := []string(nil)
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			args, argv = args[:n], args[n:]
		}
		body, err := f.request(argv)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			body["name"] = args[0]
		}
		if key != "" {
			body["key"] = key
		}
		if paused {
			body["paused"] = true
		}
		if body["name"] == nil {
			return usage{errors.New("no name; want carillon job create NAME …")}
		}
		if body["execution"] == nil {
			return usage{errors.New("nothing to run; want --http URL, --command PROGRAM, --kind KIND or --simulate noop")}
		}
		data, err := json.Marshal(body)
		if err != nil {
			return usage{err}
		}
		var r client.JobRequest
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return usage{fmt.Errorf("--body: %s", strings.TrimPrefix(err.Error(), "json: "))}
		}
		return s.run(func(ctx context.Context, c *client.Client, _ []string) error {
			if w.dryRun {
				if err := s.preview(ctx, c, r.Schedule); err != nil {
					return err
				}
				return s.would("create this job", r)
			}
			if once != "" {
				ctx = client.WithIdempotencyKey(ctx, once)
			}
			j, err := c.CreateJob(ctx, r)
			if err != nil {
				return err
			}
			return s.created(ctx, c, j, wt)
		})(cmd, nil)
	}
	return c
}

// preview describes what a schedule does.
func (s jobCommands) preview(ctx context.Context, c *client.Client, x *client.Schedule) error {
	if x == nil || x.CronExpression == nil && x.Every == nil {
		return nil
	}
	p, err := c.Preview(ctx, client.PreviewRequest{CronExpression: x.CronExpression, Every: x.Every, Timezone: x.Timezone, Day: x.Day, Calendar: x.Calendar, N: new(3)})
	if err != nil {
		return err
	}
	s.say("%s", line(p.Description))
	for _, m := range p.Next {
		s.say("  %s  %s", m.Local, ago(m.UTC, s.now()))
	}
	for _, w := range p.Warnings {
		s.warn("%s", line(w.Message))
	}
	return nil
}

// created reports a new job, and waits for its execution if asked to.
func (s jobCommands) created(ctx context.Context, c *client.Client, j client.Job, wt waiting) error {
	next := ""
	if t := j.Schedule.NextRunAt; t != nil {
		next = "; it runs " + ago(*t, s.now())
	}
	if j.Deduplicated {
		s.say("Nothing was created: an execution of the job %s holds the unique key and has not finished.", line(j.Name))
	} else {
		s.say("Created the job %s (%s)%s.", line(j.Name), line(scheduleWords(j.Schedule)), next)
	}
	if t := j.Schedule.ScheduledTime; t != nil && !j.Deduplicated && j.CreatedAt.Sub(*t) > time.Minute {
		s.warn("its time, %s, has passed: it runs at once", exact(*t))
	}
	if j.ExecutionID != "" && wt.any() {
		if !s.quiet {
			s.say("Execution %s", j.ExecutionID)
		}
		return s.await(ctx, c, j.ExecutionID, wt)
	}
	if wt.any() {
		s.say("There is no execution to wait for yet; 'carillon job trigger %s --wait' runs it now.", j.JobID)
	}
	if s.output == "table" {
		_, err := fmt.Fprintln(s.out, j.JobID)
		return err
	}
	return s.showJob(j)
}

func (s jobCommands) jobEdit() *cobra.Command {
	var w write
	var revision int
	c := &cobra.Command{
		Use: "edit JOB [-- PROGRAM ARGUMENT...]", Short: "Change a job",
		Long: "Change a job. Fields without a flag stay as they are; an empty value restores the default. Without flags, the job opens in $VISUAL or $EDITOR.",
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n != 1 && len(args) != 1 {
				return errors.New("want one job")
			}
			return nil
		},
		Example: "  carillon job edit report --cron '0 5 * * *' --priority 3\n  carillon job edit report --tag reports,nightly --dry-run",
	}
	f := addJobFlags(s.session, c)
	var name string
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().IntVar(&revision, "revision", 0, "change it only if it is still at this revision")
	w.flags(c)
	completeArgs(c, s.jobNames())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		argv := []string(nil)
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			args, argv = args[:n], args[n:]
		}
		body, err := f.request(argv)
		if err != nil {
			return err
		}
		if name != "" {
			body["name"] = name
		}
		return s.run(func(ctx context.Context, c *client.Client, args []string) error {
			j, err := findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			if len(body) == 0 {
				if body, err = s.edited(j); err != nil {
					return err
				}
				if len(body) == 0 {
					s.say("Nothing was changed.")
					return nil
				}
				revision = j.Revision
			}
			if w.dryRun {
				return s.would("change the job "+j.Name+" ("+j.JobID+")", body)
			}
			if j, err = c.ChangeJob(ctx, j.JobID, client.JobChange{Fields: body, Revision: revision}); err != nil {
				return err
			}
			s.say("Changed the job %s; it is now at revision %d.", line(j.Name), j.Revision)
			s.sayDropped(j.DroppedCredentials)
			return s.showWritten(j)
		})(cmd, args)
	}
	return c
}

// showWritten prints a changed job, if an output format was requested.
func (s jobCommands) showWritten(j client.Job) error {
	if s.output == "table" {
		return nil
	}
	return s.showJob(j)
}

// overJobs makes a command that applies to one or several jobs.
func (s jobCommands) overJobs(c *cobra.Command, w *write, what, did string, do func(ctx context.Context, c *client.Client, j client.Job) (client.Job, error)) *cobra.Command {
	c.Args = cobra.MinimumNArgs(1)
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		var all []client.Job
		for _, ref := range args { // nothing is done if one does not exist
			j, err := findJob(ctx, c, ref)
			if err != nil {
				return err
			}
			all = append(all, j)
		}
		for _, j := range all {
			if w.dryRun {
				if err := s.would(what+" the job "+j.Name+" ("+j.JobID+")", nil); err != nil {
					return err
				}
				continue
			}
			j, err := do(ctx, c, j)
			if err != nil {
				return err
			}
			s.say("%s the job %s.", did, line(j.Name))
			if j.OperationID != "" {
				s.say("The operation %s cancels the waiting executions.", j.OperationID)
			}
			if err := s.showWritten(j); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

func (s jobCommands) jobPause() *cobra.Command {
	var w write
	var reason, until string
	c := &cobra.Command{Use: "pause JOB...", Short: "Pause jobs until they are resumed", Example: "  carillon job pause report --reason maintenance --until +2h"}
	c.Flags().StringVar(&reason, "reason", "", "reason")
	c.Flags().StringVar(&until, "until", "", "when to resume automatically, such as +2h or '2026-01-31 15:04'")
	w.flags(c)
	set := c.Flags()
	return s.overJobs(c, &w, "pause", "Paused", func(ctx context.Context, c *client.Client, j client.Job) (client.Job, error) {
		r := client.PauseRequest{Reason: reason}
		if j.Status == "PAUSED" { // values not given stay
			if !set.Changed("reason") {
				r.Reason = or(j.PauseReason, "")
			}
			if !set.Changed("until") {
				r.Until = j.PausedUntil
			}
			s.say("It was paused already; a reason or an end that is not given stays.")
		}
		if until != "" {
			t, err := parseTime(until, time.Local, s.now())
			if err != nil {
				return j, usage{fmt.Errorf("--until: %w", err)}
			}
			r.Until = &t
		}
		return c.PauseJob(ctx, j.JobID, r)
	})
}

func (s jobCommands) jobResume() *cobra.Command {
	var w write
	c := &cobra.Command{Use: "resume JOB...", Short: "Resume paused jobs"}
	w.flags(c)
	return s.overJobs(c, &w, "resume", "Resumed", func(ctx context.Context, c *client.Client, j client.Job) (client.Job, error) {
		return c.ResumeJob(ctx, j.JobID)
	})
}

func (s jobCommands) jobDelete() *cobra.Command {
	var w write
	running := "leave"
	c := &cobra.Command{Use: "delete JOB...", Aliases: []string{"rm"}, Short: "Delete jobs: waiting executions are cancelled, history is kept"}
	c.Flags().StringVar(&running, "running", running, "what to do with running executions: leave or cancel")
	complete(c, "running", fixed("leave", "cancel"))
	w.destructive(c)
	return s.overJobs(c, &w, "delete", "Deleted", func(ctx context.Context, c *client.Client, j client.Job) (_ client.Job, err error) {
		stop := running == "cancel"
		if !stop && running != "leave" {
			return j, usage{fmt.Errorf("--running: %q; want leave or cancel", running)}
		}
		what := "delete the job " + j.Name
		if stop {
			what += " and cancel its running executions"
		}
		if err := s.confirm(w, what, j.Name); err != nil {
			return j, err
		}
		if !stop {
			return c.DeleteJob(ctx, j.JobID)
		}
		if j, err = c.DeleteAndStopJob(ctx, j.JobID); err == nil {
			s.say("Running executions are stopping; 'carillon execution list --job %s' shows them.", j.JobID)
		}
		return j, err
	})
}

// retryWords describes how often and after how long a job is retried.
func retryWords(r client.JobRetryPolicy) string {
	switch {
	case r.MaxRetries == 0:
		return "none"
	case r.Backoff == "FIXED" || r.InitialDelayMS == r.MaxDelayMS:
		return fmt.Sprintf("%d, after %s each", r.MaxRetries, spanMS(r.InitialDelayMS))
	}
	return fmt.Sprintf("%d, %s backoff from %s to %s", r.MaxRetries, strings.ToLower(r.Backoff), spanMS(r.InitialDelayMS), spanMS(r.MaxDelayMS))
}
