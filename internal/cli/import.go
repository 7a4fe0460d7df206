package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/declare"
	"github.com/carillon-jobs/carillon/internal/importer"
)

func (s jobCommands) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import", Short: "Convert jobs of other schedulers into a file for 'carillon apply'", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(s.importCrontab(), s.importCronJob(),
		s.importTasks("dkron", "Convert Dkron jobs", "the response of GET /v1/jobs of Dkron", "  curl -s http://dkron:8080/v1/jobs | carillon import dkron - > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Dkron{Timezone: zone, Tag: tag}.Read(data)
			}),
		s.importTasks("sidekiq", "Convert a sidekiq-cron or sidekiq-scheduler schedule", "the YAML file of sidekiq-cron or sidekiq-scheduler", "  carillon import sidekiq config/schedule.yml --timezone Europe/Berlin > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Sidekiq{Timezone: zone, Tag: tag}.Read(data)
			}),
		s.importTasks("celery", "Convert a Celery beat schedule", "a dump of django-celery-beat, or beat_schedule as JSON or YAML", "  python manage.py dumpdata django_celery_beat | carillon import celery - > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Celery{Timezone: zone, Tag: tag}.Read(data)
			}))
	return c
}

// importing holds the flags of importers.
type importing struct {
	tag    string
	report string
}

func (i *importing) flags(c *cobra.Command) {
	c.Flags().StringVar(&i.tag, "tag", "imported", "tag for the jobs, so that they can be pruned; empty for none")
	c.Flags().StringVar(&i.report, "report", "", "also write the differences to this file, as JSON")
}

// readInput reads a file, or standard input as "-".
func (s jobCommands) readInput(name string) ([]byte, error) {
	const most = 64 << 20
	r := s.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return data, err
}

// imported writes the jobs as data, and the differences for people.
func (s jobCommands) imported(i importing, got importer.Imported) error {
	for _, d := range got.Differences {
		where := ""
		if d.Line > 0 {
			where = fmt.Sprintf("line %d: ", d.Line)
		}
		if d.Key != "" {
			where += d.Key + ": "
		}
		fmt.Fprintf(s.err, "[%s] %s%s: %s\n", d.Kind, line(where), line(d.About), line(d.What))
	}
	if i.report != "" {
		f, err := os.OpenFile(i.report, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := errors.Join(encodeJSON(f, got.Differences, "  "), f.Close()); err != nil {
			return err
		}
	}
	if len(got.Jobs) == 0 {
		return errors.New("found nothing to import")
	}
	if err := declare.Write(s.out, got.Declared); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "%d jobs, %d differences. Read both, then 'carillon plan -f' and 'carillon apply -f' the file.\n", len(got.Jobs), len(got.Differences))
	return nil
}

func (s jobCommands) importCrontab() *cobra.Command {
	var i importing
	var x importer.Crontab
	c := &cobra.Command{
		Use: "crontab FILE", Short: "Convert a crontab", Args: cobra.ExactArgs(1),
		Long:    "Convert the lines of a crontab to jobs, as YAML for 'carillon apply' on standard output, and report on standard error how they will behave differently. Nothing is sent anywhere.",
		Example: "  crontab -l | carillon import crontab - --timezone Europe/Berlin > jobs.yaml\n  carillon import crontab /etc/crontab --system > jobs.yaml",
	}
	i.flags(c)
	c.Flags().BoolVar(&x.System, "system", false, "lines have a user after the schedule, as in /etc/crontab and /etc/cron.d")
	c.Flags().StringVar(&x.Timezone, "timezone", "", "time zone of the machine that the crontab comes from, such as Europe/Berlin")
	c.RunE = func(c *cobra.Command, args []string) error {
		data, err := s.readInput(args[0])
		if err != nil {
			return err
		}
		x.Tag = i.tag
		return s.imported(i, x.Read(data))
	}
	return c
}

// importTasks makes a command of an importer.
func (s jobCommands) importTasks(name, short, of, example string, read func(zone, tag string, data []byte) (importer.Imported, error)) *cobra.Command {
	var i importing
	var zone string
	c := &cobra.Command{
		Use: name + " FILE", Short: short, Args: cobra.ExactArgs(1), Example: example,
		Long: "Convert " + of + " to jobs, as YAML for 'carillon apply' on standard output, and report on standard error how they will behave differently. Nothing is sent anywhere.",
	}
	i.flags(c)
	c.Flags().StringVar(&zone, "timezone", "", "time zone for times without one, such as Europe/Berlin")
	c.RunE = func(c *cobra.Command, args []string) error {
		data, err := s.readInput(args[0])
		if err != nil {
			return err
		}
		got, err := read(zone, i.tag, data)
		if err != nil {
			return usage{fmt.Errorf("%s: %w", args[0], err)}
		}
		return s.imported(i, got)
	}
	return c
}

func (s jobCommands) importCronJob() *cobra.Command {
	var i importing
	var runner string
	c := &cobra.Command{
		Use: "cronjob FILE", Short: "Convert Kubernetes CronJobs", Args: cobra.ExactArgs(1),
		Long:    "Convert CronJob manifests to jobs, as YAML for 'carillon apply' on standard output, and report on standard error how they will behave differently. Nothing is sent anywhere.",
		Example: "  kubectl get cronjobs -o yaml | carillon import cronjob - > jobs.yaml\n  carillon import cronjob backup.yaml --image-runner 'docker run --rm'",
	}
	i.flags(c)
	c.Flags().StringVar(&runner, "image-runner", "", "command with which the worker runs the image, such as 'docker run --rm'; -e NAME is added for each variable")
	c.RunE = func(c *cobra.Command, args []string) error {
		data, err := s.readInput(args[0])
		if err != nil {
			return err
		}
		got, err := importer.CronJobs{Tag: i.tag, Runner: strings.Fields(runner)}.Read(data)
		if err != nil {
			return usage{fmt.Errorf("%s: %w", args[0], err)}
		}
		return s.imported(i, got)
	}
	return c
}
