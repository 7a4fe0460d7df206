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

func (s *session) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import", Short: "Make a file for 'carillon apply' of what other schedulers run", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(s.importCrontab(), s.importCronJob(),
		s.importTasks("dkron", "Make jobs of jobs of Dkron", "what GET /v1/jobs of Dkron answers", "  curl -s http://dkron:8080/v1/jobs | carillon import dkron - > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Dkron{Timezone: zone, Tag: tag}.Read(data)
			}),
		s.importTasks("sidekiq", "Make jobs of a schedule of sidekiq-cron or sidekiq-scheduler", "the YAML file of sidekiq-cron or sidekiq-scheduler", "  carillon import sidekiq config/schedule.yml --timezone Europe/Berlin > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Sidekiq{Timezone: zone, Tag: tag}.Read(data)
			}),
		s.importTasks("celery", "Make jobs of a schedule of Celery beat", "what django-celery-beat dumps, or beat_schedule as JSON or YAML", "  python manage.py dumpdata django_celery_beat | carillon import celery - > jobs.yaml",
			func(zone, tag string, data []byte) (importer.Imported, error) {
				return importer.Celery{Timezone: zone, Tag: tag}.Read(data)
			}))
	return c
}

// importing is what importers are told.
type importing struct {
	tag    string
	report string
}

func (i *importing) flags(c *cobra.Command) {
	c.Flags().StringVar(&i.tag, "tag", "imported", "tag that the jobs get, by which they can be pruned; empty: none")
	c.Flags().StringVar(&i.report, "report", "", "write the differences into this file, too, as JSON")
}

// readInput reads a file, or standard input as "-".
func (s *session) readInput(name string) ([]byte, error) {
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
func (s *session) imported(i importing, got importer.Imported) error {
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
		return errors.New("there is nothing in it that could be imported")
	}
	if err := declare.Write(s.out, got.Declared); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "%d jobs, %d differences. Read both, then 'carillon plan -f' and 'carillon apply -f' the file.\n", len(got.Jobs), len(got.Differences))
	return nil
}

func (s *session) importCrontab() *cobra.Command {
	var i importing
	var x importer.Crontab
	c := &cobra.Command{
		Use: "crontab FILE", Short: "Make jobs of a crontab", Args: cobra.ExactArgs(1),
		Long:    "Make jobs of the lines of a crontab, as YAML for 'carillon apply' on standard output, and tell on standard error in which ways they will not be as they were. Nothing is sent anywhere.",
		Example: "  crontab -l | carillon import crontab - --timezone Europe/Berlin > jobs.yaml\n  carillon import crontab /etc/crontab --system > jobs.yaml",
	}
	i.flags(c)
	c.Flags().BoolVar(&x.System, "system", false, "lines name a user behind the schedule, as in /etc/crontab and /etc/cron.d")
	c.Flags().StringVar(&x.Timezone, "timezone", "", "zone of the machine that the crontab is from, such as Europe/Berlin")
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
func (s *session) importTasks(name, short, of, example string, read func(zone, tag string, data []byte) (importer.Imported, error)) *cobra.Command {
	var i importing
	var zone string
	c := &cobra.Command{
		Use: name + " FILE", Short: short, Args: cobra.ExactArgs(1), Example: example,
		Long: "Make jobs of " + of + ", as YAML for 'carillon apply' on standard output, and tell on standard error in which ways they will not be as they were. Nothing is sent anywhere.",
	}
	i.flags(c)
	c.Flags().StringVar(&zone, "timezone", "", "zone in which times are meant that name none, such as Europe/Berlin")
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

func (s *session) importCronJob() *cobra.Command {
	var i importing
	var runner string
	c := &cobra.Command{
		Use: "cronjob FILE", Short: "Make jobs of CronJobs of Kubernetes", Args: cobra.ExactArgs(1),
		Long:    "Make jobs of CronJob manifests, as YAML for 'carillon apply' on standard output, and tell on standard error in which ways they will not be as they were. Nothing is sent anywhere.",
		Example: "  kubectl get cronjobs -o yaml | carillon import cronjob - > jobs.yaml\n  carillon import cronjob backup.yaml --image-runner 'docker run --rm'",
	}
	i.flags(c)
	c.Flags().StringVar(&runner, "image-runner", "", "have the worker run the image with this command, such as 'docker run --rm'; it is given -e NAME for each variable")
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
