package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// localServer is the default address of 'carillon dev'.
const localServer = "http://127.0.0.1:8080"

// session is shared by commands that call a server: which server, with which credential, and how to print the answer.
type session struct {
	in     io.Reader
	out    io.Writer // for data
	err    io.Writer // for people
	now    func() time.Time
	output string
	quiet  bool
	warned bool // of a token that is ignored

	servers []string
	token   string
	tenant  string
	context string
	tls     client.TLS
}

// Commands are methods of these types, by subject. All share the session.
type (
	jobCommands       struct{ *session }
	executionCommands struct{ *session }
	workflowCommands  struct{ *session }
	runCommands       struct{ *session }
	operateCommands   struct{ *session }
	accessCommands    struct{ *session }
)

// outputs lists the output formats.
var outputs = []string{"table", "wide", "json", "jsonl", "yaml", "name"}

// noun makes a command that groups commands which call a server.
func (s *session) noun(c *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.NoArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
	s.flags(c)
	c.AddCommand(verbs...)
	return c
}

// flags adds the flags of every command that calls a server.
func (s *session) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringSliceVar(&s.servers, "server", nil, "server address, or several separated by commas (CARILLON_SERVER; default that of the context, else "+localServer+")")
	f.StringVar(&s.token, "token", "", "API key (CARILLON_TOKEN, or the file named by CARILLON_TOKEN_FILE; default that of the context)")
	f.StringVar(&s.tenant, "tenant", "", "tenant to act in; needs the role system (CARILLON_TENANT)")
	f.StringVar(&s.tls.Cert, "tls-cert", "", "client certificate file, with --tls-key (CARILLON_CLIENT_CERT; default that of the context)")
	f.StringVar(&s.tls.Key, "tls-key", "", "key file for --tls-cert (CARILLON_CLIENT_KEY)")
	f.StringVar(&s.tls.CA, "tls-ca", "", "file of CA certificates to verify the server with (CARILLON_CLIENT_CA; default the CAs that the system trusts)")
	f.StringVar(&s.context, "context", "", "context to use instead of the current one (CARILLON_CONTEXT)")
	f.StringVarP(&s.output, "output", "o", "table", strings.Join(outputs, ", "))
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print only data and errors")
	complete(c, "output", func(context.Context, string) []string { return outputs })
	complete(c, "context", func(context.Context, string) []string { return contextNames() })
	complete(c, "tenant", s.tenantNames)
}

// place is a server and the key for it.
type place struct {
	servers []string
	token   string
	tenant  string
	tls     client.TLS
	from    string // what said so, for errors
}

// where determines the server to call. A stored key is sent only to the servers that it was stored for.
func (s *session) where() (place, error) {
	key, err := token()
	if err != nil {
		return place{}, err
	}
	p := place{servers: s.servers, token: cmp.Or(s.token, key), tenant: cmp.Or(s.tenant, os.Getenv("CARILLON_TENANT")), from: "--server"}
	p.tls = client.TLS{
		Cert: cmp.Or(s.tls.Cert, os.Getenv("CARILLON_CLIENT_CERT")), Key: cmp.Or(s.tls.Key, os.Getenv("CARILLON_CLIENT_KEY")), CA: cmp.Or(s.tls.CA, os.Getenv("CARILLON_CLIENT_CA")),
	}
	if len(p.servers) == 0 && s.context == "" {
		p.servers, p.from = parted(os.Getenv("CARILLON_SERVER")), "CARILLON_SERVER"
	}
	if len(p.servers) == 0 {
		k, err := loadContexts()
		if err != nil {
			return p, err
		}
		name := cmp.Or(s.context, os.Getenv("CARILLON_CONTEXT"), k.Current)
		if x := k.find(name); x != nil {
			p.servers, p.from = x.Servers, "the context "+name
			p.tenant = cmp.Or(p.tenant, x.Tenant)
			if p.tls.Cert == "" && p.tls.Key == "" {
				p.tls.Cert, p.tls.Key = x.Cert, x.Key
			}
			p.tls.CA = cmp.Or(p.tls.CA, x.CA)
			if p.token == "" || s.token == "" && s.context != "" { // a context named explicitly brings its own key
				p.token = cmp.Or(x.Token, p.token)
			}
		} else if name != "" {
			return p, usage{fmt.Errorf("there is no context %q; there are: %s. 'carillon login URL' creates one", name, cmp.Or(strings.Join(contextNames(), ", "), "none"))}
		}
	}
	if len(p.servers) == 0 {
		p.servers, p.from = []string{localServer}, "the default"
	}
	for i, text := range p.servers {
		address, err := serverAddress(text)
		if err != nil {
			return p, usage{fmt.Errorf("%s: %w", p.from, err)}
		}
		p.servers[i] = address
	}
	p.token = devToken(p.servers, p.token)
	return p, nil
}

// devToken returns the key to send: the given one or, if there is none, that of the same user's 'carillon dev' at the
// only server address.
func devToken(servers []string, named string) string {
	if named != "" && named != "none" || len(servers) != 1 {
		return named
	}
	return cmp.Or(client.DevToken(servers[0]), named)
}

// foreign warns of a token that the user's own 'carillon dev' ignores. It refuses an API key by itself.
func (s *session) foreign(p place) {
	if s.warned || p.token == "" || p.token == "none" || strings.HasPrefix(p.token, "car_live_") || len(p.servers) != 1 {
		return
	}
	if own := client.DevToken(p.servers[0]); own != "" && own != p.token {
		s.warned = true
		s.warn("%s is 'carillon dev', which has no sign-in: it ignores the token, and serves the tenant \"default\"", p.servers[0])
	}
}

// serverAddress parses the address of a server; without a scheme it is plain HTTP on loopback and HTTPS elsewhere.
func serverAddress(text string) (string, error) {
	full := strings.TrimRight(strings.TrimSpace(text), "/")
	if !strings.Contains(full, "://") {
		scheme := "https://"
		if host, _, _ := strings.Cut(full, ":"); host == "localhost" || strings.HasPrefix(host, "127.") {
			scheme = "http://"
		}
		full = scheme + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return "", fmt.Errorf("%q is not the address of a server; want one such as https://carillon.example", text)
	}
	return full, nil
}

// client returns a client of the servers to call.
func (s *session) client(more ...client.Option) (*client.Client, error) {
	if !slices.Contains(outputs, s.output) {
		return nil, usage{fmt.Errorf("-o %q: want one of %s", s.output, strings.Join(outputs, ", "))}
	}
	p, err := s.where()
	if err != nil {
		return nil, err
	}
	secure, err := p.tls.Config()
	if err != nil {
		return nil, usage{err}
	}
	s.foreign(p)
	o := []client.Option{client.WithUserAgent("carillon-cli/" + app.Version), client.WithTenant(p.tenant), client.WithTLS(secure)}
	// A person is waiting: three tries within a second or two bridge the start of a server.
	o = append(o, client.WithRetries(client.Retries{Max: 3, First: 200 * time.Millisecond, Longest: 5 * time.Second}))
	return client.New(p.servers, p.token, append(o, more...)...), nil
}

// action runs a command with a client.
type action func(ctx context.Context, c *client.Client, args []string) error

// run makes a command of an action: Ctrl-C ends it, and an error names the server.
func (s *session) run(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		err = do(ctx, c, args)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return interrupted{err}
		}
		if errors.Is(err, client.ErrUnavailable) && !errors.As(err, new(*client.Problem)) {
			p, _ := s.where()
			return unreachable{place: p, err: err}
		}
		return err
	}
}

// link returns the dashboard's address of something.
func (s *session) link(path string) {
	if p, err := s.where(); err == nil {
		s.say("Dashboard: %s%s", p.servers[0], path)
	}
}

// say prints a message for people.
func (s *session) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.err, format+"\n", args...)
	}
}

// warn prints a message that people should see even with --quiet.
func (s *session) warn(format string, args ...any) {
	fmt.Fprintf(s.err, "warning: "+format+"\n", args...)
}
