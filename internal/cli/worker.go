package cli

import (
	"context"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

func workerCommand() *cobra.Command {
	var o app.WorkerOptions
	c := &cobra.Command{
		Use: "worker", Short: "Run executions for servers elsewhere",
		Long: "Run executions of the targets http and simulate, and of command where that is allowed, for one or more servers, over the worker protocol. The key needs the role worker or system.",
		Args: cobra.NoArgs, Example: "  carillon worker --server https://carillon.example --token $CARILLON_TOKEN --capacity 50",
	}
	s := newSettings(c)
	s.add(c, "listen", "listen", " for health checks (default 127.0.0.1:0, a free port)")
	s.add(c, "metrics-listen", "metrics.listen", "")
	c.Flags().StringSliceVar(&o.Servers, "server", nil, "address of a server; several, parted by commas, are tried in turn")
	c.Flags().StringVar(&o.Token, "token", "", "API key (or CARILLON_TOKEN)")
	c.Flags().StringSliceVar(&o.Labels, "labels", nil, "labels that jobs may require, such as gpu,eu")
	c.Flags().StringSliceVar(&o.Queues, "queues", nil, "queues to serve (default all)")
	c.Flags().IntVar(&o.Capacity, "capacity", 50, "executions to run at once")
	allowCallback(c)
	allowCommands(c, s)
	s.rest(c, "data", "database", "roles")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, bases["worker"]())
		if err != nil {
			return err
		}
		if o.Token == "" {
			o.Token = os.Getenv("CARILLON_TOKEN")
		}
		if err := checkWorker(o); err != nil {
			return err
		}
		ctx, cancel := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		context.AfterFunc(ctx, cancel)
		log := app.NewLog(cfg, c.ErrOrStderr())
		o.Options = app.Options{Config: cfg, Out: c.OutOrStdout(), Logger: log.Logger, Log: log}
		return app.RunWorker(ctx, o)
	}
	return c
}

// checkWorker says everything that is wrong with a worker's flags.
func checkWorker(o app.WorkerOptions) error {
	var wrong config.Mistakes
	if len(o.Servers) == 0 {
		wrong = append(wrong, config.Mistake{Key: "server", Want: "the address of a server: --server https://carillon.example", From: "not set"})
	}
	for _, s := range o.Servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			wrong = append(wrong, config.Mistake{Key: "server", Value: s, Want: "an address such as https://carillon.example, without a path", From: "flag"})
		}
	}
	if o.Token == "" {
		wrong = append(wrong, config.Mistake{Key: "token", Want: "an API key: --token or CARILLON_TOKEN", From: "not set"})
	}
	if o.Capacity < 1 || o.Capacity > 10_000 {
		wrong = append(wrong, config.Mistake{Key: "capacity", Value: strconv.Itoa(o.Capacity), Want: "a whole number from 1 to 10000", From: "flag"})
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}
