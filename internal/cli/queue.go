package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s operateCommands) queueView() view[client.Queue] {
	return view[client.Queue]{columns[client.Queue](
		col("QUEUE", func(q client.Queue) string { return q.Queue }),
		col("STATE", queueState),
		col("WAITING", func(q client.Queue) string { return fmt.Sprint(q.Waiting) }),
		col("OLDEST", func(q client.Queue) string { return waited(q.OldestWaitingSeconds) }),
		col("RUNNING", func(q client.Queue) string { return fmt.Sprint(q.Running) }),
		col("SLOTS", func(q client.Queue) string { return fmt.Sprint(q.Slots) }),
		col("MAX AT ONCE", func(q client.Queue) string { return number(q.MaxConcurrent) }),
		col("RATE", func(q client.Queue) string { return rateWords(q.RateLimit) }),
		wide("PAUSED BY", func(q client.Queue) string { return pauseOf(q).By }),
		wide("PAUSED UNTIL (UTC)", func(q client.Queue) string { return exactOr(pauseOf(q).Until) }),
		wide("REASON", func(q client.Queue) string { return line(or(pauseOf(q).Reason, "")) }),
	), func(q client.Queue) string { return q.Queue }}
}

func queueState(q client.Queue) string {
	if q.Pause != nil {
		return "PAUSED"
	}
	return "ACTIVE"
}

// pauseOf returns the pause of a queue, or an empty one.
func pauseOf(q client.Queue) client.Pause {
	if q.Pause == nil {
		return client.Pause{}
	}
	return *q.Pause
}

func waited(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	return span(time.Duration(*seconds * float64(time.Second)))
}

func exactOr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return exact(*t)
}

// limitWords describes a limit in words.
func limitWords(l client.Limit) string {
	var parts []string
	if l.MaxConcurrent != nil {
		parts = append(parts, fmt.Sprintf("%d at once", *l.MaxConcurrent))
	}
	if l.RateLimit != nil {
		parts = append(parts, rateWords(l.RateLimit))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func rateWords(r *client.RateLimit) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Count, r.Per)
}

func (s operateCommands) queueCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the tenant's queues that have work, a limit or a pause", Long: "List the tenant's queues that have work, a limit or a pause. Waiting executions are counted every 2 s, so the numbers may be slightly out of date.", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, s.queueView(), "There are no queues.", c.Queues(ctx))
	})
	get := &cobra.Command{Use: "get QUEUE", Short: "Show a queue", Args: cobra.ExactArgs(1)}
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		q, err := c.Queue(ctx, args[0])
		if err != nil {
			return err
		}
		return one(s.session, s.queueView(), q, s.queueFields(q))
	})
	limit := &cobra.Command{
		Use: "limit QUEUE", Short: "Limit how many executions of a queue run at once or start per period", Args: cobra.ExactArgs(1),
		Example: "  carillon queue limit mail --max-concurrent 5\n  carillon queue limit mail --rate 10/1s\n  carillon queue limit mail --none",
	}
	s.limitFlags(limit, func(ctx context.Context, c *client.Client, args []string, r client.LimitRequest) (client.Limit, error) {
		return c.SetQueueLimit(ctx, args[0], r)
	}, func(args []string) string { return "the queue " + args[0] })
	all := []*cobra.Command{list, get, s.queuePause(), s.queueResume(), limit}
	for _, c := range all[1:] {
		completeArgs(c, s.queueNames())
	}
	return s.noun(&cobra.Command{Use: "queue", Aliases: []string{"queues"}, Short: "Show, pause and limit queues"}, all...)
}

func (s operateCommands) queueFields(q client.Queue) []field {
	out := []field{
		{"Queue", q.Queue},
		{"State", queueState(q)},
	}
	if p := q.Pause; p != nil {
		out = append(out, field{"Paused", s.both(p.At)}, field{"By", line(p.By)})
		if p.Until != nil {
			out = append(out, field{"Until", s.both(*p.Until)})
		}
		out = append(out, field{"Reason", dash(line(or(p.Reason, "")))})
	}
	return append(out,
		field{"Waiting", fmt.Sprint(q.Waiting)},
		field{"Oldest waits", dash(waited(q.OldestWaitingSeconds))},
		field{"Running", fmt.Sprint(q.Running)},
		field{"Slots", fmt.Sprint(q.Slots)},
		field{"Max at once", dash(number(q.MaxConcurrent))},
		field{"Rate", dash(rateWords(q.RateLimit))},
	)
}

func (s operateCommands) queuePause() *cobra.Command {
	var w write
	var reason, until string
	c := &cobra.Command{
		Use: "pause QUEUE...", Short: "Pause queues until they are resumed; running executions continue", Args: cobra.MinimumNArgs(1),
		Example: "  carillon queue pause mail --reason 'mail server maintenance' --until +2h",
	}
	c.Flags().StringVar(&reason, "reason", "", "reason")
	c.Flags().StringVar(&until, "until", "", "when to resume automatically, such as +2h or '2026-01-31 15:04'")
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r := client.PauseRequest{Reason: reason}
		if until != "" {
			t, err := parseTime(until, time.Local, s.now())
			if err != nil {
				return usage{fmt.Errorf("--until: %w", err)}
			}
			r.Until = &t
		}
		return s.overQueues(ctx, c, args, w, "pause", func(queue string) (client.Queue, error) { return c.PauseQueue(ctx, queue, r) }, func(q client.Queue) string {
			if p := pauseOf(q); p.Until != nil {
				return fmt.Sprintf("Paused the queue %s until %s: %d wait, %d run.", q.Queue, exact(*p.Until), q.Waiting, q.Running)
			}
			return fmt.Sprintf("Paused the queue %s: %d wait, %d run.", q.Queue, q.Waiting, q.Running)
		})
	})
	return c
}

func (s operateCommands) queueResume() *cobra.Command {
	var w write
	c := &cobra.Command{Use: "resume QUEUE...", Short: "Resume paused queues", Args: cobra.MinimumNArgs(1)}
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		return s.overQueues(ctx, c, args, w, "resume", func(queue string) (client.Queue, error) { return c.ResumeQueue(ctx, queue) }, func(q client.Queue) string {
			return fmt.Sprintf("Resumed the queue %s: %d waited a moment ago (counted every 2 s).", q.Queue, q.Waiting)
		})
	})
	return c
}

// overQueues applies a change to each named queue.
func (s operateCommands) overQueues(ctx context.Context, c *client.Client, queues []string, w write, verb string, do func(string) (client.Queue, error), said func(client.Queue) string) error {
	for _, name := range queues {
		if w.dryRun {
			q, err := c.Queue(ctx, name)
			if err != nil {
				return err
			}
			if err := s.would(fmt.Sprintf("%s the queue %s, which is %s and in which %d wait", verb, q.Queue, queueState(q), q.Waiting), nil); err != nil {
				return err
			}
			continue
		}
		q, err := do(name)
		if err != nil {
			return err
		}
		s.say("%s", said(q))
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			continue
		}
		if err := s.value(q); err != nil {
			return err
		}
	}
	return nil
}
