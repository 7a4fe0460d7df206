package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

func (s workflowCommands) workflowCommand() *cobra.Command {
	return s.noun(&cobra.Command{
		Use: "workflow", Aliases: []string{"workflows"}, Short: "Define, draw and trigger workflows",
		Long: "Define, draw and trigger workflows: graphs of jobs. 'carillon run' controls their runs. Since a workflow is a job, 'carillon job' also works on it, for example to pause it.",
	}, s.workflowApply(), s.workflowList(), s.workflowGet(), s.workflowVersions(), s.workflowGraph(), s.workflowLint(), s.workflowTrigger(), s.workflowBackfill(), s.workflowDelete())
}

// findWorkflow finds the workflow that a person means: by its id, its key, or its name if only one has it.
func findWorkflow(ctx context.Context, c *client.Client, ref string) (client.Workflow, error) {
	if uuid.MatchString(ref) || strings.HasPrefix(ref, "key:") {
		return c.Workflow(ctx, ref)
	}
	if keyForm.MatchString(ref) {
		w, err := c.Workflow(ctx, "key:"+ref)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return w, err
		}
	}
	var found []client.Workflow
	for w, err := range c.Workflows(ctx, client.WorkflowFilter{Q: ref}) {
		if err != nil {
			return client.Workflow{}, err
		}
		if w.Name == ref {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return client.Workflow{}, missing{fmt.Errorf("there is no workflow with the id, key or name %q\n  do: look for it with 'carillon workflow list --query TEXT'", ref)}
	case 1:
		return c.Workflow(ctx, found[0].WorkflowID)
	}
	var b strings.Builder
	for _, w := range found[:min(5, len(found))] {
		fmt.Fprintf(&b, "\n  %s  %s, created %s", w.WorkflowID, w.Status, exact(w.CreatedAt))
	}
	return client.Workflow{}, usage{fmt.Errorf("%d workflows have the name %q; give the id of one:%s", len(found), ref, b.String())}
}

// workflowAt returns an older version of a workflow.
func workflowAt(ctx context.Context, c *client.Client, w client.Workflow, version int) (client.Workflow, error) {
	old, err := c.WorkflowAt(ctx, w.WorkflowID, version)
	if errors.Is(err, client.ErrNotFound) {
		err = missing{fmt.Errorf("the workflow %s has no version %d; its current one is %d\n  do: 'carillon workflow versions %s' lists them", line(w.Name), version, w.Version, w.WorkflowID)}
	}
	return old, err
}

func (s *session) workflowNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListWorkflows(ctx, client.WorkflowFilter{}, client.Page{Limit: 200})
		for _, w := range page.Workflows {
			switch {
			case w.Key != nil:
				out = append(out, *w.Key+"\t"+w.Name+", "+w.Status)
			case !strings.ContainsAny(w.Name, "\t\n"):
				out = append(out, w.Name+"\t"+scheduleWords(w.Schedule)+", "+w.Status)
			}
		}
		return distinct(out)
	})
}

func (s *session) workflows() view[client.Workflow] {
	return view[client.Workflow]{columns[client.Workflow](
		col("ID", func(w client.Workflow) string { return w.WorkflowID }),
		col("NAME", func(w client.Workflow) string { return w.Name }),
		col("STATUS", func(w client.Workflow) string { return w.Status }),
		col("SCHEDULE", func(w client.Workflow) string { return scheduleWords(w.Schedule) }),
		when(s, "NEXT", func(w client.Workflow) time.Time { return instant(w.Schedule.NextRunAt) }),
		when(s, "LAST", func(w client.Workflow) time.Time { return instant(w.Schedule.LastRunAt) }),
		col("RESULT", func(w client.Workflow) string { return or(w.Stats.LastStatus, "") }),
		col("RUNS", func(w client.Workflow) string { return fmt.Sprint(w.Stats.TotalRuns) }),
		wide("SUCCESS", func(w client.Workflow) string { return success(w.Stats) }),
		wide("P95", func(w client.Workflow) string { return spanMS(w.Stats.P95DurationMS) }),
		wide("VERSION", func(w client.Workflow) string { return fmt.Sprint(w.Version) }),
		wide("KEY", func(w client.Workflow) string { return or(w.Key, "") }),
		wide("TAGS", func(w client.Workflow) string { return strings.Join(w.Tags, ",") }),
		wide("OWNER", func(w client.Workflow) string { return or(w.Owner, "") }),
	), func(w client.Workflow) string { return w.WorkflowID }}
}

func (s workflowCommands) showWorkflow(w client.Workflow) error {
	finally := int64(0)
	for _, n := range w.Nodes {
		if n.Finally {
			finally++
		}
	}
	nodes := fmt.Sprint(len(w.Nodes))
	if finally > 0 {
		nodes += fmt.Sprintf(", %d of them finally", finally)
	}
	f := []field{
		{"Name", w.Name},
		{"ID", w.WorkflowID},
		{"Key", or(w.Key, "")},
		{"Status", w.Status},
		{"Paused", ""},
		{"Description", w.Description},
		{"Version", fmt.Sprint(w.Version)},
		{"Nodes", nodes},
		{"Schedule", scheduleWords(w.Schedule)},
		{"Calendar", or(w.Schedule.Calendar, "")},
		{"Next", s.both(instant(w.Schedule.NextRunAt))},
		{"Last", s.both(instant(w.Schedule.LastRunAt))},
		{"Timeout", w.Timeout},
		{"On failure", w.OnFailure},
		{"Input", payloadWords(w.Input)},
		{"Input schema", payloadWords(w.InputSchema)},
		{"Output", w.Output},
		{"Policies", "overlap " + w.Overlap + ", catch up " + w.CatchUp},
		{"Queue", fmt.Sprintf("%s, priority %d", w.Queue, w.Priority)},
		{"Labels", strings.Join(w.Labels, ", ")},
		{"Tags", strings.Join(w.Tags, ", ")},
		{"Owner", or(w.Owner, "")},
		{"Runbook", or(w.Runbook, "")},
		{"Runs", fmt.Sprintf("%d, %s succeeded, %s on average, 95%% within %s", w.Stats.TotalRuns, success(w.Stats), spanMS(w.Stats.AvgDurationMS), spanMS(w.Stats.P95DurationMS))},
		{"Last result", or(w.Stats.LastStatus, "")},
		{"Created", s.both(w.CreatedAt)},
		{"Changed", s.both(w.UpdatedAt)},
		{"Revision", fmt.Sprint(w.Revision)},
	}
	if w.Status == "PAUSED" {
		f[4].value = strings.TrimSpace(or(w.PauseReason, "") + " until " + or(until(s.session, w.PausedUntil), "someone resumes it"))
	}
	return one(s.session, s.workflows(), w, f)
}

// until formats when something ends; nil: it does not expire.
func until(s *session, t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(s.both(*t))
}

func (s workflowCommands) workflowApply() *cobra.Command {
	return jobCommands(s).applying(&cobra.Command{
		Use: "apply -f FILE", Short: "Apply the workflows in files, and everything else in them",
		Long:    "Create and change the workflows in files so that they match them, and with them the jobs and calendars in the same files: the same as 'carillon apply'. A changed definition becomes a new version; runs in flight keep theirs.",
		Example: "  carillon workflow apply -f etl.yaml --dry-run\n  carillon workflow apply -f etl.yaml",
	})
}

func (s workflowCommands) workflowList() *cobra.Command {
	var f client.WorkflowFilter
	var p paging
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List workflows, newest first", Args: cobra.NoArgs,
		Example: "  carillon workflow list --tag etl -o wide",
	}
	c.Flags().StringVar(&f.Status, "status", "", "ACTIVE, PAUSED, COMPLETED or DELETED (default all but DELETED)")
	c.Flags().StringVar(&f.Tag, "tag", "", "with this tag")
	c.Flags().StringVar(&f.Owner, "owner", "", "with exactly this owner")
	c.Flags().StringVar(&f.Q, "query", "", "with this text in name, description or key")
	p.flags(c)
	complete(c, "status", fixed("ACTIVE", "PAUSED", "COMPLETED", "DELETED"))
	complete(c, "tag", s.tags())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listed(s.session, s.workflows(), p, "There are no such workflows. Make one: carillon workflow apply -f FILE", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Workflow, client.Pagination, error) {
			page, err := c.ListWorkflows(ctx, f, p)
			return page.Workflows, page.Pagination, err
		}))
	})
	return c
}

// looking makes a command that looks at a workflow.
func (s workflowCommands) looking(c *cobra.Command, do func(ctx context.Context, c *client.Client, w client.Workflow) error) *cobra.Command {
	c.Args = cobra.ExactArgs(1)
	completeArgs(c, s.workflowNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		w, err := findWorkflow(ctx, c, args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, w)
	})
	return c
}

func (s workflowCommands) workflowGet() *cobra.Command {
	var version int
	c := &cobra.Command{
		Use: "get WORKFLOW", Short: "Show a workflow, by id, key or name", Example: "  carillon workflow get etl\n  carillon workflow get etl --version 3 -o yaml",
	}
	c.Flags().IntVar(&version, "version", 0, "an older version of its definition")
	return s.looking(c, func(ctx context.Context, c *client.Client, w client.Workflow) (err error) {
		if version != 0 {
			if w, err = workflowAt(ctx, c, w, version); err != nil {
				return err
			}
		}
		s.link("/workflows/" + w.WorkflowID)
		return s.showWorkflow(w)
	})
}

func (s workflowCommands) workflowVersions() *cobra.Command {
	var p paging
	c := &cobra.Command{Use: "versions WORKFLOW", Short: "List the versions of a workflow, newest first"}
	p.flags(c)
	return s.looking(c, func(ctx context.Context, c *client.Client, w client.Workflow) error {
		return listed(s.session, view[client.WorkflowVersion]{columns[client.WorkflowVersion](
			col("VERSION", func(v client.WorkflowVersion) string { return fmt.Sprint(v.Version) }),
			when(s.session, "CREATED", func(v client.WorkflowVersion) time.Time { return v.CreatedAt }),
			col("BY", func(v client.WorkflowVersion) string { return v.CreatedBy }),
			col("NODES", func(v client.WorkflowVersion) string { return fmt.Sprint(len(v.Nodes)) }),
			col("", func(v client.WorkflowVersion) string { return map[bool]string{true: "current", false: " "}[v.Current] }),
		), func(v client.WorkflowVersion) string { return fmt.Sprint(v.Version) }}, p, "", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.WorkflowVersion, client.Pagination, error) {
			page, err := c.ListWorkflowVersions(ctx, w.WorkflowID, p)
			return page.Versions, page.Pagination, err
		}))
	})
}

func (s workflowCommands) workflowLint() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use: "lint -f FILE", Short: "Check the workflows in files", Args: cobra.NoArgs,
		Long:    "Check the workflows in files. A mistake is an error that names file and line; a likely mistake, such as a join below a node that may be skipped, is a warning. Nothing is stored.",
		Example: "  carillon workflow lint -f etl.yaml\n  carillon workflow lint -f workflows/ -o json",
	}
	c.Flags().StringSliceVarP(&files, "file", "f", nil, "a file, a folder of *.yaml, *.yml and *.json, or - for standard input (repeatable)")
	c.RunE = s.run(func(ctx context.Context, cl *client.Client, _ []string) error {
		if len(files) == 0 {
			return usage{errors.New("nothing to read; want -f FILE, a folder, or - for standard input")}
		}
		d, err := declare.Read(s.in, files...)
		if err != nil {
			return usage{err}
		}
		found, err := declare.Lint(ctx, cl, d)
		if wrong := declare.Problems(nil); errors.As(err, &wrong) {
			return usage{err}
		} else if err != nil {
			return err
		}
		if s.output != "table" && s.output != "wide" && s.output != "name" {
			return s.value(append([]declare.Warning{}, found...))
		}
		for _, w := range found {
			at := w.Workflow
			if w.Node != "" {
				at += ", node " + w.Node
			}
			if _, err := fmt.Fprintln(s.out, line(at+": "+w.Message)); err != nil {
				return err
			}
		}
		s.say("%s checked, %s.", counting(int64(len(d.Workflows)), "workflow"), counting(int64(len(found)), "warning"))
		return nil
	})
	return c
}

func (s workflowCommands) workflowBackfill() *cobra.Command {
	c := &cobra.Command{
		Use: "backfill WORKFLOW --from TIME --to TIME", Short: "Begin a run for past scheduled times, in the background",
		Long:    "Begin a run for each past scheduled time of a workflow, in the background; by default only for those that did not run. --dry-run counts them.",
		Example: "  carillon workflow backfill etl --from 2026-01-01 --to 2026-02-01 --dry-run\n  carillon workflow backfill etl --from -48h --to now --rate 1 --wait",
	}
	completeArgs(c, s.workflowNames())
	return s.backfilling(c, func(ctx context.Context, c *client.Client, ref string) (id, name string, err error) {
		w, err := findWorkflow(ctx, c, ref)
		return w.WorkflowID, w.Name, err
	})
}

func (s workflowCommands) workflowDelete() *cobra.Command {
	var w write
	runs := "leave"
	c := &cobra.Command{
		Use: "delete WORKFLOW...", Aliases: []string{"rm"}, Short: "Delete workflows: no new run begins, history is kept", Args: cobra.MinimumNArgs(1),
		Example: "  carillon workflow delete etl --runs cancel",
	}
	c.Flags().StringVar(&runs, "runs", runs, "what to do with runs in flight: leave or cancel")
	complete(c, "runs", fixed("leave", "cancel"))
	w.destructive(c)
	completeArgs(c, s.workflowNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if runs != "leave" && runs != "cancel" {
			return usage{fmt.Errorf("--runs: %q; want leave or cancel", runs)}
		}
		var all []client.Workflow
		for _, ref := range args { // nothing is done if one does not exist
			x, err := findWorkflow(ctx, c, ref)
			if err != nil {
				return err
			}
			all = append(all, x)
		}
		for _, x := range all {
			what := "delete the workflow " + x.Name
			if runs == "cancel" {
				what += " and cancel its runs"
			}
			if w.dryRun {
				if err := s.would(what+" ("+x.WorkflowID+")", nil); err != nil {
					return err
				}
				continue
			}
			if err := s.confirm(w, what, x.Name); err != nil {
				return err
			}
			remove := c.DeleteWorkflow
			if runs == "cancel" {
				remove = c.DeleteAndStopWorkflow
			}
			x, err := remove(ctx, x.WorkflowID)
			if err != nil {
				return err
			}
			s.say("Deleted the workflow %s.", line(x.Name))
			if x.OperationID != "" {
				s.say("The operation %s cancels what has not finished.", x.OperationID)
			}
			if s.output != "table" {
				if err := s.showWorkflow(x); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return c
}
