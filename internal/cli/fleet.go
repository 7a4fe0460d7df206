package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// queueRow is what is known of a queue: its limit, and, for who may know it, its load over all tenants.
type queueRow struct {
	Queue         string            `json:"queue"`
	Waiting       *int              `json:"waiting"`
	Running       *int              `json:"running"`
	Slots         *int              `json:"slots"`
	MaxConcurrent *int              `json:"max_concurrent"`
	RateLimit     *client.RateLimit `json:"rate_limit"`
}

func (s *session) queueView() view[queueRow] {
	return view[queueRow]{columns[queueRow](
		col("QUEUE", func(q queueRow) string { return q.Queue }),
		col("WAITING", func(q queueRow) string { return number(q.Waiting) }),
		col("RUNNING", func(q queueRow) string { return number(q.Running) }),
		col("SLOTS", func(q queueRow) string { return number(q.Slots) }),
		col("MAX AT ONCE", func(q queueRow) string { return number(q.MaxConcurrent) }),
		col("RATE", func(q queueRow) string { return rateWords(q.RateLimit) }),
	), func(q queueRow) string { return q.Queue }}
}

func rateWords(r *client.RateLimit) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Count, r.Per)
}

// queueRows puts together what the limits and the load say. Loads are for the role system; others see limits alone.
func queueRows(ctx context.Context, c *client.Client) ([]queueRow, error) {
	rows := map[string]queueRow{}
	for l, err := range c.Limits(ctx) {
		if err != nil {
			return nil, err
		}
		if l.Queue != nil {
			rows[*l.Queue] = queueRow{Queue: *l.Queue, MaxConcurrent: l.MaxConcurrent, RateLimit: l.RateLimit}
		}
	}
	load, err := c.Scaling(ctx)
	if err != nil && !errors.Is(err, client.ErrForbidden) {
		return nil, err
	}
	for _, q := range load.Queues {
		r := rows[q.Queue]
		r.Queue, r.Waiting, r.Running, r.Slots = q.Queue, &q.Waiting, &q.Running, &q.Slots
		rows[q.Queue] = r
	}
	out := []queueRow{}
	for _, r := range rows {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b queueRow) int { return strings.Compare(a.Queue, b.Queue) })
	return out, nil
}

func (s *session) queueCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List queues that have work, workers or a limit", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		rows, err := queueRows(ctx, c)
		if err != nil {
			return err
		}
		return listedAll(s, s.queueView(), "No queue has work or a limit.", each(rows))
	})
	get := &cobra.Command{Use: "get QUEUE", Short: "Show a queue", Args: cobra.ExactArgs(1)}
	completeArgs(get, s.queueNames())
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		rows, err := queueRows(ctx, c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(q queueRow) bool { return q.Queue == args[0] })
		if i < 0 {
			return missing{fmt.Errorf("the queue %q has neither work nor a limit", args[0])}
		}
		q := rows[i]
		return one(s, s.queueView(), q, []field{
			{"Queue", q.Queue},
			{"Waiting", number(q.Waiting)},
			{"Running", number(q.Running)},
			{"Slots", number(q.Slots)},
			{"Max at once", dash(number(q.MaxConcurrent))},
			{"Rate", dash(rateWords(q.RateLimit))},
		})
	})
	limit := &cobra.Command{
		Use: "limit QUEUE", Short: "Limit how many executions of a queue run at once or start in a time", Args: cobra.ExactArgs(1),
		Example: "  carillon queue limit mail --max-concurrent 5\n  carillon queue limit mail --rate 10/1s\n  carillon queue limit mail --none",
	}
	completeArgs(limit, s.queueNames())
	s.limitFlags(limit, func(ctx context.Context, c *client.Client, args []string, r client.LimitRequest) (client.Limit, error) {
		return c.SetQueueLimit(ctx, args[0], r)
	}, func(args []string) string { return "the queue " + args[0] })
	return s.noun(&cobra.Command{Use: "queue", Aliases: []string{"queues"}, Short: "Look at queues and limit them"}, list, get, limit)
}

// limitFlags makes a command that sets a limit.
func (s *session) limitFlags(c *cobra.Command, set func(context.Context, *client.Client, []string, client.LimitRequest) (client.Limit, error), what func([]string) string) {
	var w write
	var most int
	var rate string
	var none bool
	c.Flags().IntVar(&most, "max-concurrent", 0, "how many run at once")
	c.Flags().StringVar(&rate, "rate", "", "how many may start in a time, such as 10/1s")
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
		if none == (r != client.LimitRequest{}) {
			return usage{errors.New("want --max-concurrent or --rate, or else --none")}
		}
		if w.dryRun {
			return s.would("limit "+what(args)+", in place of the limit before", r)
		}
		l, err := set(ctx, cl, args, r)
		if err != nil {
			return err
		}
		s.say("The limit of %s: %s at once, %s.", what(args), dash(number(l.MaxConcurrent)), dash(rateWords(l.RateLimit)))
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			return nil
		}
		return s.value(l)
	})
}

func (s *session) workers() view[client.Worker] {
	return view[client.Worker]{columns[client.Worker](
		col("ID", func(w client.Worker) string { return w.WorkerID }),
		col("HOST", func(w client.Worker) string { return w.Host }),
		col("STATUS", func(w client.Worker) string { return w.Status }),
		col("RUNNING", func(w client.Worker) string { return fmt.Sprintf("%d/%d", w.Running, w.Capacity) }),
		col("QUEUES", func(w client.Worker) string { return orAll(w.Queues) }),
		col("TARGETS", func(w client.Worker) string { return strings.Join(append(w.Targets, w.Kinds...), ",") }),
		col("LABELS", func(w client.Worker) string { return strings.Join(w.Labels, ",") }),
		when(s, "BEAT", func(w client.Worker) time.Time { return w.LastBeatAt }),
		wide("STARTED (UTC)", func(w client.Worker) string { return exact(w.StartedAt) }),
		wide("COMPLETED", func(w client.Worker) string { return fmt.Sprint(w.Completed) }),
		wide("FAILED", func(w client.Worker) string { return fmt.Sprint(w.Failed) }),
		wide("VERSION", func(w client.Worker) string { return w.Version }),
	), func(w client.Worker) string { return w.WorkerID }}
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

// findWorker finds a worker by its id.
func findWorker(ctx context.Context, c *client.Client, id string) (client.Worker, error) {
	for w, err := range c.Workers(ctx) {
		if err != nil {
			return w, err
		}
		if w.WorkerID == id {
			return w, nil
		}
	}
	return client.Worker{}, missing{fmt.Errorf("there is no worker %q; 'carillon workers list' shows them, for an hour also those that are gone", id)}
}

func (s *session) workersCommand() *cobra.Command {
	var everything bool
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List workers, the latest first", Args: cobra.NoArgs}
	list.Flags().BoolVar(&everything, "dead", false, "also those that are gone, for an hour")
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		living := func(yield func(client.Worker, error) bool) {
			for w, err := range c.Workers(ctx) {
				if (err != nil || everything || w.Status != "DEAD") && !yield(w, err) {
					return
				}
			}
		}
		return listedAll(s, s.workers(), "There are no workers: nothing runs. Start one with 'carillon worker --server URL --token KEY'.", living)
	})
	get := &cobra.Command{Use: "get ID", Short: "Show a worker", Args: cobra.ExactArgs(1)}
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		w, err := findWorker(ctx, c, args[0])
		if err != nil {
			return err
		}
		return one(s, s.workers(), w, []field{
			{"Worker", w.WorkerID},
			{"Host", w.Host},
			{"Version", w.Version},
			{"Status", w.Status},
			{"Running", fmt.Sprintf("%d of %d", w.Running, w.Capacity)},
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
	drain := &cobra.Command{Use: "drain ID...", Short: "Have workers take nothing more and finish what they have", Args: cobra.MinimumNArgs(1)}
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
	for _, c := range []*cobra.Command{get, drain} {
		completeArgs(c, s.workerNames())
	}
	return s.noun(&cobra.Command{Use: "workers", Short: "Look at workers and drain them"}, list, get, drain)
}

func (s *session) forecastCommand() *cobra.Command {
	var days, hours int
	var spread bool
	c := &cobra.Command{
		Use: "forecast", Short: "How many executions schedules will make, and where too many come together", Args: cobra.NoArgs,
		Example: "  carillon forecast --days 7\n  carillon forecast --hours 6 -o jsonl\n  carillon forecast --days 7 --spread",
	}
	s.flags(c)
	c.Flags().IntVar(&days, "days", 0, "how far to look, up to 30 days, instead of --hours")
	c.Flags().IntVar(&hours, "hours", 24, "how far to look, up to 720 hours")
	c.Flags().BoolVar(&spread, "spread", false, "with how to take herds apart: which jobs get which minute")
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
			_, err := show(s, view[client.ForecastMinute]{}, each(f.Minutes))
			return err
		}
		return s.value(f)
	})
	return c
}

// showForecast draws the coming hours, and names the herds.
func (s *session) showForecast(f client.Forecast, hours int) error {
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
	s.say("With these and %d more moved the fullest minute has %d executions in place of %d.", f.Spread.JobsTotal-len(f.Spread.Jobs), f.Spread.PeakAfter, f.Spread.PeakBefore)
	return nil
}
