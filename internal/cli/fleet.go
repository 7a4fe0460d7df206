package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// limitFlags makes a command that sets a limit.
func (s *session) limitFlags(c *cobra.Command, set func(context.Context, *client.Client, []string, client.LimitRequest) (client.Limit, error), what func([]string) string) {
	var w write
	var most int
	var rate string
	var burst int
	var none bool
	c.Flags().IntVar(&most, "max-concurrent", 0, "maximum number of executions at once")
	c.Flags().StringVar(&rate, "rate", "", "maximum number of starts per period, such as 10/1s")
	c.Flags().IntVar(&burst, "burst", 0, "with --rate: how many may start together (default a tenth of a second's worth)")
	c.Flags().BoolVar(&none, "none", false, "remove the limit")
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, cl *client.Client, args []string) error {
		var r client.LimitRequest
		if c.Flags().Changed("max-concurrent") {
			r.MaxConcurrent = &most
		}
		if rate != "" {
			f, err := parseRate(rate)
			if err != nil {
				return err
			}
			r.RateLimit = &client.RateLimit{Count: f["count"].(int), Per: f["per"].(string)}
		}
		if c.Flags().Changed("burst") {
			if r.RateLimit == nil {
				return usage{errors.New("--burst goes with a rate; want --rate")}
			}
			r.RateLimit.Burst = &burst
		}
		if none == (r != client.LimitRequest{}) {
			return usage{errors.New("want --max-concurrent, --rate or both, or --none")}
		}
		if w.dryRun {
			return s.would("limit "+what(args)+", in place of the limit before", r)
		}
		l, err := set(ctx, cl, args, r)
		if err != nil {
			return err
		}
		s.say("Limit of %s: %s.", what(args), limitWords(l))
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			return nil
		}
		return s.value(l)
	})
}

func (s operateCommands) workers() view[client.Worker] {
	return view[client.Worker]{columns[client.Worker](
		col("ID", func(w client.Worker) string { return w.WorkerID }),
		col("HOST", func(w client.Worker) string { return w.Host }),
		col("STATUS", func(w client.Worker) string { return w.Status }),
		col("RUNNING", func(w client.Worker) string { return fmt.Sprintf("%d/%d", w.Running, w.Capacity) }),
		col("MEMORY", func(w client.Worker) string { return memoryWords(w.Memory, "/") }),
		col("QUEUES", func(w client.Worker) string { return orAll(w.Queues) }),
		col("TARGETS", func(w client.Worker) string { return strings.Join(append(w.Targets, w.Kinds...), ",") }),
		col("LABELS", func(w client.Worker) string { return strings.Join(w.Labels, ",") }),
		when(s.session, "BEAT", func(w client.Worker) time.Time { return w.LastBeatAt }),
		wide("STARTED (UTC)", func(w client.Worker) string { return exact(w.StartedAt) }),
		wide("COMPLETED", func(w client.Worker) string { return fmt.Sprint(w.Completed) }),
		wide("FAILED", func(w client.Worker) string { return fmt.Sprint(w.Failed) }),
		wide("VERSION", func(w client.Worker) string { return w.Version }),
	), func(w client.Worker) string { return w.WorkerID }}
}

// memoryWords formats a worker's memory as used/limit, with a dash where it is unknown.
func memoryWords(m client.Memory, of string) string {
	switch {
	case m.MemoryUsed == nil:
		return "-"
	case m.MemoryLimit == nil:
		return byteWords(*m.MemoryUsed)
	}
	return byteWords(*m.MemoryUsed) + of + byteWords(*m.MemoryLimit)
}

// byteWords formats a number of bytes for people, such as 1.5 GiB.
func byteWords(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	if i == 0 || x >= 100 {
		return fmt.Sprintf("%.0f %s", x, units[i])
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

// findWorker finds a worker by its id.
func findWorker(ctx context.Context, c *client.Client, id string) (client.Worker, error) {
	w, err := c.Worker(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return w, missing{fmt.Errorf("there is no worker %q; 'carillon workers list --dead' also shows those that stopped within the last hour", id)}
	}
	return w, err
}

func (s operateCommands) workersCommand() *cobra.Command {
	var everything bool
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List workers, latest first", Args: cobra.NoArgs}
	list.Flags().BoolVar(&everything, "dead", false, "include workers that stopped within the last hour")
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		living := func(yield func(client.Worker, error) bool) {
			for w, err := range c.Workers(ctx) {
				if (err != nil || everything || w.Status != "DEAD") && !yield(w, err) {
					return
				}
			}
		}
		return listedAll(s.session, s.workers(), "There are no workers: nothing runs. Start one with 'carillon worker --server URL --token KEY'.", living)
	})
	get := &cobra.Command{Use: "get ID", Short: "Show a worker", Args: cobra.ExactArgs(1)}
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		w, err := findWorker(ctx, c, args[0])
		if err != nil {
			return err
		}
		return one(s.session, s.workers(), w, []field{
			{"Worker", w.WorkerID},
			{"Host", w.Host},
			{"Version", w.Version},
			{"Status", w.Status},
			{"Running", fmt.Sprintf("%d of %d", w.Running, w.Capacity)},
			{"Memory", memoryWords(w.Memory, " of ")},
			{"Queues", orAll(w.Queues)},
			{"Targets", strings.Join(w.Targets, ", ")},
			{"Kinds", strings.Join(w.Kinds, ", ")},
			{"Labels", strings.Join(w.Labels, ", ")},
			{"Completed", fmt.Sprint(w.Completed)},
			{"Failed", fmt.Sprint(w.Failed)},
			{"Started", s.both(w.StartedAt)},
			{"Last beat", s.both(w.LastBeatAt)},
		})
	})
	var w write
	drain := &cobra.Command{Use: "drain ID...", Short: "Let workers finish what they run and take no more work", Args: cobra.MinimumNArgs(1)}
	w.flags(drain)
	drain.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		for _, id := range args {
			if w.dryRun {
				x, err := findWorker(ctx, c, id)
				if err != nil {
					return err
				}
				if err := s.would(fmt.Sprintf("drain the worker %s on %s, which runs %d", id, x.Host, x.Running), nil); err != nil {
					return err
				}
				continue
			}
			if _, err := c.DrainWorker(ctx, id); err != nil {
				return err
			}
			s.say("The worker %s is draining.", id)
		}
		return nil
	})
	cordon := s.cordoning("cordon", "Give workers no more work until they are uncordoned; running executions continue", "is cordoned", (*client.Client).CordonWorker)
	uncordon := s.cordoning("uncordon", "Give cordoned workers work again", "takes executions", (*client.Client).UncordonWorker)
	for _, c := range []*cobra.Command{get, drain, cordon, uncordon} {
		completeArgs(c, s.workerNames())
	}
	return s.noun(&cobra.Command{Use: "workers", Short: "Show, cordon and drain workers"}, list, get, cordon, uncordon, drain)
}

// cordoning makes a command that cordons or uncordons workers.
func (s operateCommands) cordoning(verb, short, said string, do func(*client.Client, context.Context, string) (client.Worker, error)) *cobra.Command {
	var w write
	c := &cobra.Command{Use: verb + " ID...", Short: short, Args: cobra.MinimumNArgs(1)}
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		for _, id := range args {
			if w.dryRun {
				x, err := findWorker(ctx, c, id)
				if err != nil {
					return err
				}
				if err := s.would(fmt.Sprintf("%s the worker %s on %s, which is %s and runs %d", verb, id, x.Host, x.Status, x.Running), nil); err != nil {
					return err
				}
				continue
			}
			if _, err := do(c, ctx, id); err != nil {
				return err
			}
			s.say("The worker %s %s.", id, said)
		}
		return nil
	})
	return c
}

func (s operateCommands) forecastCommand() *cobra.Command {
	var days, hours int
	var spread bool
	c := &cobra.Command{
		Use: "forecast", Short: "Forecast how many executions schedules will create, and when too many come at once", Args: cobra.NoArgs,
		Example: "  carillon forecast --days 7\n  carillon forecast --hours 6 -o jsonl\n  carillon forecast --days 7 --spread",
	}
	s.flags(c)
	c.Flags().IntVar(&days, "days", 0, "how many days to look ahead, up to 30, instead of --hours")
	c.Flags().IntVar(&hours, "hours", 24, "how many hours to look ahead, up to 720")
	c.Flags().BoolVar(&spread, "spread", false, "suggest how to spread peaks: which jobs to move to which minute")
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if days != 0 {
			hours = 24 * days
		}
		forecast := c.Forecast
		if spread {
			forecast = c.ForecastSpread
		}
		f, err := forecast(ctx, hours)
		if err != nil {
			return err
		}
		switch s.output {
		case "table", "wide":
			return s.showForecast(f, hours)
		case "jsonl":
			_, err := show(s.session, view[client.ForecastMinute]{}, each(f.Minutes))
			return err
		}
		return s.value(f)
	})
	return c
}

// showForecast draws the coming hours, and names the herds.
func (s operateCommands) showForecast(f client.Forecast, hours int) error {
	step := time.Hour
	if hours > 48 {
		step = 24 * time.Hour
	}
	var slots []client.ForecastMinute
	var most, total int64
	for _, m := range f.Minutes {
		at := m.At.UTC().Truncate(step)
		if n := len(slots); n == 0 || !slots[n-1].At.Equal(at) {
			slots = append(slots, client.ForecastMinute{At: at})
		}
		slots[len(slots)-1].Count += m.Count
		total += m.Count
		most = max(most, slots[len(slots)-1].Count)
	}
	if total == 0 {
		s.say("No schedule fires in the next %s.", span(time.Duration(hours)*time.Hour))
		return nil
	}
	rows := [][]string{{"FROM (UTC)", "EXECUTIONS", ""}}
	for _, x := range slots {
		rows = append(rows, []string{x.At.Format("Mon 2006-01-02 15:04"), fmt.Sprint(x.Count), strings.TrimRight(bar(x.Count, most, 40), "░")})
	}
	if err := align(s.out, rows, s.paint); err != nil {
		return err
	}
	about := ""
	if f.Truncated {
		about = "at least "
	}
	s.say("%s%d executions in the next %s.", about, total, span(time.Duration(hours)*time.Hour))
	if len(f.Herds) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	rows = [][]string{{"HERD (UTC)", "EXECUTIONS", "MOSTLY OF"}}
	for _, h := range f.Herds[:min(10, len(f.Herds))] {
		var names []string
		for _, j := range h.Jobs[:min(3, len(h.Jobs))] {
			names = append(names, fmt.Sprintf("%s (%d)", cut(line(j.Name), 30), j.Count))
		}
		rows = append(rows, []string{h.At.UTC().Format("Mon 2006-01-02 15:04"), fmt.Sprint(h.Count), strings.Join(names, ", ")})
	}
	if err := align(s.out, rows, s.paint); err != nil || f.Spread == nil {
		return err
	}
	fmt.Fprintln(s.out)
	rows = [][]string{{"SPREAD", "FROM", "TO", "ID"}}
	for _, j := range f.Spread.Jobs {
		rows = append(rows, []string{cut(line(j.Name), 30), line(j.Before), line(j.After), j.JobID})
	}
	if err := align(s.out, rows, s.paint); err != nil {
		return err
	}
	s.say("After moving these and %d more, the busiest minute has %d executions instead of %d.", f.Spread.JobsTotal-len(f.Spread.Jobs), f.Spread.PeakAfter, f.Spread.PeakBefore)
	return nil
}
