package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

// declaring holds the flags of plan and apply.
type declaring struct {
	files []string
	prune bool
	tag   string
}

func (d *declaring) flags(c *cobra.Command) {
	c.Flags().StringSliceVarP(&d.files, "file", "f", nil, "a file, a folder of *.yaml, *.yml and *.json, or - for standard input (repeatable)")
	c.Flags().BoolVar(&d.prune, "prune", false, "delete jobs that have the tag of -l and are in no file")
	c.Flags().StringVarP(&d.tag, "tag", "l", "", "with --prune: the tag")
}

// plan reads the files and requests the changes they would make.
func (d *declaring) plan(ctx context.Context, s *session, c *client.Client) (p declare.Plan, err error) {
	switch {
	case len(d.files) == 0:
		return p, usage{errors.New("nothing to read; want -f FILE, a folder, or - for standard input")}
	case d.prune && d.tag == "":
		return p, usage{errors.New("--prune deletes jobs that have a tag and are in no file; want -l TAG")}
	case d.tag != "" && !d.prune:
		return p, usage{errors.New("-l says what --prune deletes; want --prune, or no -l")}
	}
	declared, err := declare.Read(s.in, d.files...)
	if err != nil {
		return p, usage{err}
	}
	for _, w := range declared.Workflows {
		if d.prune && !slices.Contains(w.Tags, d.tag) {
			s.warn("workflow %s does not carry the tag %s: if you remove it from the file later, this prune will not delete it", *w.Key, d.tag)
		}
	}
	for _, j := range declared.Jobs {
		if d.prune && !slices.Contains(j.Tags, d.tag) {
			s.warn("job %s does not carry the tag %s: if you remove it from the file later, this prune will not delete it", *j.Key, d.tag)
		}
	}
	p, err = declare.Make(ctx, c, declared, d.tag)
	if wrong := declare.Problems(nil); errors.As(err, &wrong) {
		return p, usage{err}
	}
	return p, err
}

func (s jobCommands) planCommand() *cobra.Command {
	var d declaring
	c := &cobra.Command{
		Use: "plan -f FILE", Short: "Show what applying files would change, and which runs", Args: cobra.NoArgs,
		Long:    "Compare jobs, workflows and calendars in files with those on the server: what would be created, changed and deleted, which fields, and which runs in the next 24 hours would be added or dropped. Nothing is changed.",
		Example: "  carillon plan -f jobs.yaml\n  carillon plan -f jobs/ --prune -l reporting -o json",
	}
	s.flags(c)
	d.flags(c)
	c.RunE = s.run(func(ctx context.Context, cl *client.Client, _ []string) error {
		p, err := d.plan(ctx, s.session, cl)
		if err != nil {
			return err
		}
		return s.showPlan(p)
	})
	return c
}

func (s jobCommands) showPlan(p declare.Plan) error {
	if s.output != "table" && s.output != "wide" {
		return s.value(p)
	}
	s.renderPlan(s.out, p)
	return nil
}

// renderPlan writes a plan for people; text of tenants in it cannot affect their terminal.
func (s jobCommands) renderPlan(w io.Writer, p declare.Plan) {
	var b strings.Builder
	p.Render(&b)
	io.WriteString(w, lines(b.String()))
}

func (s jobCommands) applyCommand() *cobra.Command {
	c := s.applying(&cobra.Command{
		Use: "apply -f FILE", Short: "Make jobs match files",
		Long: "Create and change jobs, workflows and calendars so that they match the files. With --prune, also delete jobs that have a tag and are in no file. Applying again changes nothing. " +
			"A job that someone else changes at the same time is left alone and reported. Nothing is changed unless all files are valid.",
		Example: "  carillon apply -f jobs.yaml\n  carillon apply -f jobs/ --prune -l reporting --yes\n  carillon job export | carillon apply -f - --dry-run",
	})
	s.flags(c)
	return c
}

// applying runs a command that applies files.
func (s jobCommands) applying(c *cobra.Command) *cobra.Command {
	var d declaring
	var w write
	c.Args = cobra.NoArgs
	d.flags(c)
	w.destructive(c)
	c.RunE = s.run(func(ctx context.Context, cl *client.Client, _ []string) error {
		p, err := d.plan(ctx, s.session, cl)
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.showPlan(p)
		}
		if n := p.Count()[declare.ActionDelete]; n > 0 && !w.yes {
			s.renderPlan(s.err, p)
			return usage{fmt.Errorf("this would delete %s, as shown; nothing was changed. Add --yes to go ahead", counting(int64(n), "job"))}
		}
		results := declare.Apply(ctx, cl, p, func(r declare.Result) {
			if r.Done {
				s.say("%s %s: %sd", r.Kind, line(r.Key+unkeyed(r)), r.Action)
				s.sayDropped(r.DroppedCredentials)
			} else {
				fmt.Fprintf(s.err, "%s %s: could not be %sd: %s\n", r.Kind, line(r.Key+unkeyed(r)), r.Action, plain(r.Error))
			}
		})
		return s.applied(results)
	})
	return c
}

// sayDropped reports which credentials a change removed.
func (s jobCommands) sayDropped(fields []string) {
	if len(fields) > 0 {
		s.say("Credentials removed: %s. They were set for another destination; set them again if the new one needs them.", line(strings.Join(fields, ", ")))
	}
}

// unkeyed names a job that has no key.
func unkeyed(r declare.Result) string {
	if r.Key != "" {
		return ""
	}
	return r.JobID + " (" + r.Name + ")"
}

// applied shows the outcome of the steps, and returns whether all succeeded.
func (s jobCommands) applied(results []declare.Result) error {
	n := map[string]int{}
	var first error
	bad := 0
	for _, r := range results {
		if r.Done {
			n[r.Action]++
			continue
		}
		if bad++; first == nil {
			first = r.Err
		}
	}
	if s.output != "table" && s.output != "wide" {
		if err := s.value(results); err != nil {
			return err
		}
	}
	s.say("%d created, %d changed, %d deleted, %d unchanged, %d failed.", n[client.ActionCreate], n[client.ActionChange], n[declare.ActionDelete], n[client.ActionUnchanged], bad)
	if bad == 0 {
		return nil
	}
	if errors.Is(first, client.ErrInvalid) || errors.Is(first, client.ErrNotFound) { // the request as a whole was neither
		return fmt.Errorf("%d of %d could not be applied; the first: %v", bad, len(results), first)
	}
	return fmt.Errorf("%d of %d could not be applied; the first: %w", bad, len(results), first)
}

func (s jobCommands) jobExport() *cobra.Command {
	var f client.JobFilter
	var all bool
	c := &cobra.Command{
		Use: "export", Short: "Export jobs and their calendars as a file for 'carillon apply'", Args: cobra.NoArgs,
		Long: "Export jobs and their calendars as a file for 'carillon apply'. Applying it to the same server changes nothing. " +
			"Jobs without a key cannot be applied and are left out, as are COMPLETED ones. Hidden credentials are not exported; set them again if you apply the file elsewhere.",
		Example: "  carillon job export -l reporting > jobs.yaml",
	}
	c.Flags().StringVarP(&f.Tag, "tag", "l", "", "only jobs with this tag")
	c.Flags().StringVar(&f.Name, "name", "", "only jobs with exactly this name")
	c.Flags().StringVar(&f.Owner, "owner", "", "only jobs with exactly this owner")
	c.Flags().StringVar(&f.Q, "search", "", "only jobs with this text in name, description or key")
	c.Flags().StringVar(&f.ScheduleType, "schedule", "", "only jobs with this schedule type")
	c.Flags().BoolVar(&all, "all", false, "include completed jobs")
	c.RunE = s.run(func(ctx context.Context, cl *client.Client, _ []string) error {
		return s.export(ctx, cl, f, all, s.out)
	})
	return c
}

func (s jobCommands) export(ctx context.Context, cl *client.Client, f client.JobFilter, all bool, w io.Writer) error {
	var d declare.Declared
	calendars := map[string]bool{}
	unkeyed, over := 0, 0
	for j, err := range cl.Jobs(ctx, f) {
		switch {
		case err != nil:
			return err
		case j.Key == nil:
			unkeyed++
			continue
		case j.Status == "COMPLETED" && !all && j.Execution.Target != "workflow":
			over++
			continue
		}
		var after declare.After
		if len(j.DependsOn) > 0 {
			on, err := cl.JobDependencies(ctx, j.JobID)
			if err != nil {
				return err
			}
			after = declare.OfDependencies(on)
		}
		if j.Execution.Target == "workflow" {
			w, err := cl.Workflow(ctx, j.JobID)
			if err != nil {
				return err
			}
			flow := declare.OfWorkflow(w)
			flow.After = after
			d.Workflows = append(d.Workflows, flow)
		} else {
			plain := declare.Of(j)
			plain.After = after
			d.Jobs = append(d.Jobs, plain)
		}
		if name := j.Schedule.Calendar; name != nil && !calendars[*name] {
			calendars[*name] = true
			cal, err := cl.Calendar(ctx, *name)
			if err != nil {
				return err
			}
			d.Calendars = append(d.Calendars, declare.OfCalendar(cal))
		}
	}
	if err := declare.Write(w, d); err != nil {
		return err
	}
	s.say("%s and %s; left out: %d without a key, %d completed.", counting(int64(len(d.Jobs)+len(d.Workflows)), "job"), counting(int64(len(d.Calendars)), "calendar"), unkeyed, over)
	return nil
}
