package cli

import (
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

func workerCommand() *cobra.Command {
	var o app.WorkerOptions
	c := &cobra.Command{
		Use: "worker", Short: "Run executions for a remote server",
		Long: "Run http and simulate jobs, and command jobs if allowed, for one or more servers. The key needs the role worker or system.",
		Args: cobra.NoArgs, Example: "  carillon worker --server https://carillon.example --token $CARILLON_TOKEN --capacity 50",
	}
	s := newSettings(c)
	s.add(c, "listen", "listen", " for health checks (default 127.0.0.1:0, a free port)")
	s.add(c, "metrics-listen", "metrics.listen", "")
	s.add(c, "tls-cert", "tls.cert", "")
	s.add(c, "tls-key", "tls.key", "")
	s.add(c, "tls-ca", "tls.ca", "")
	c.Flags().StringSliceVar(&o.Servers, "server", nil, "server address; several, separated by commas, are tried in turn (or CARILLON_SERVER)")
	c.Flags().StringVar(&o.Token, "token", "", "API key (or CARILLON_TOKEN, or the file named by CARILLON_TOKEN_FILE; default the token of your own 'carillon dev' at that address)")
	c.Flags().StringSliceVar(&o.Labels, "labels", nil, "labels that jobs may require, such as gpu,eu (or CARILLON_LABELS)")
	c.Flags().StringSliceVar(&o.Queues, "queues", nil, "queues to serve (or CARILLON_QUEUES; default all)")
	c.Flags().IntVar(&o.Capacity, "capacity", 50, "executions to run at once (or CARILLON_CAPACITY)")
	allowCallback(c)
	allowCommands(c, s)
	s.rest(c, "data", "database", "roles", "commands.risk_server")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, bases["worker"]())
		if err != nil {
			return err
		}
		if err := fromEnvironment(c, &o); err != nil {
			return err
		}
		if err := checkWorker(o); err != nil {
			return err
		}
		o.Token = strings.Clone(o.Token)
		conceal(o.Token)
		ctx, cancel := untilTold(c.Context())
		defer cancel()
		log := app.NewLog(cfg, c.ErrOrStderr())
		o.Options = app.Options{Config: cfg, Out: c.OutOrStdout(), Logger: log.Logger, Log: log, ConfigFile: s.path()}
		return app.RunWorker(ctx, o)
	}
	return c
}

// fromEnvironment fills in flags of a worker that are not set.
func fromEnvironment(c *cobra.Command, o *app.WorkerOptions) (err error) {
	for flag, to := range map[string]*[]string{"server": &o.Servers, "labels": &o.Labels, "queues": &o.Queues} {
		if !c.Flags().Changed(flag) {
			*to = parted(os.Getenv("CARILLON_" + strings.ToUpper(flag)))
		}
	}
	if text := os.Getenv("CARILLON_CAPACITY"); text != "" && !c.Flags().Changed("capacity") {
		if o.Capacity, err = strconv.Atoi(text); err != nil {
			return config.Mistakes{{Key: "capacity", Value: text, Want: "a whole number from 1 to 10000", From: "environment CARILLON_CAPACITY"}}
		}
	}
	if o.Token == "" {
		o.Token, err = token()
	}
	o.Token = devToken(o.Servers, o.Token)
	return err
}

// parted splits a text at commas and spaces.
func parted(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// token returns the API key from the environment or the file it names, or "".
func token() (string, error) {
	key, path := os.Getenv("CARILLON_TOKEN"), os.Getenv("CARILLON_TOKEN_FILE")
	if key != "" || path == "" {
		return key, nil
	}
	key, err := config.SecretFile(path)
	if err != nil {
		return "", config.Mistakes{{Key: "token", Value: path, Want: "the path of a file with an API key: " + err.Error(), From: "environment CARILLON_TOKEN_FILE"}}
	}
	return key, nil
}

// checkWorker returns everything that is wrong with a worker's flags.
func checkWorker(o app.WorkerOptions) error {
	var wrong config.Mistakes
	if len(o.Servers) == 0 {
		wrong = append(wrong, config.Mistake{Key: "server", Want: "the address of a server: --server https://carillon.example, or CARILLON_SERVER", From: "not set"})
	}
	for _, s := range o.Servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			wrong = append(wrong, config.Mistake{Key: "server", Value: s, Want: "an address such as https://carillon.example, without a path", From: "flag"})
		}
	}
	if o.Token == "" {
		wrong = append(wrong, config.Mistake{Key: "token", Want: "an API key: --token, CARILLON_TOKEN or CARILLON_TOKEN_FILE; only the token of your own 'carillon dev' is found automatically", From: "not set"})
	}
	if o.Capacity < 1 || o.Capacity > 10_000 {
		wrong = append(wrong, config.Mistake{Key: "capacity", Value: strconv.Itoa(o.Capacity), Want: "a whole number from 1 to 10000", From: "flag"})
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}
