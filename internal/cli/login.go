package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s accessCommands) loginCommand() *cobra.Command {
	var name string
	var w write
	c := &cobra.Command{
		Use: "login URL", Short: "Save a server address and a key as a context, and make it the current one", Args: cobra.MaximumNArgs(1),
		Long: `Save a server address and an API key under a name, in a file that only you can read, and use them from now on.

The key is prompted for and not echoed; if standard input is not a terminal, it is read from there. It is checked before it is saved.`,
		Example: "  carillon login https://carillon.example\n  carillon login https://carillon.example --name production < key.txt",
	}
	s.flags(c)
	c.Flags().StringVar(&name, "name", "", "name of the context (default the server's host)")
	w.flags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			s.servers = strings.FieldsFunc(args[0], func(c rune) bool { return c == ',' })
		}
		if len(s.servers) == 0 {
			return usage{errors.New("which server? carillon login https://carillon.example")}
		}
		p, err := s.where()
		if err != nil {
			return err
		}
		if name == "" {
			u, err := url.Parse(p.servers[0])
			if err != nil {
				return err
			}
			name = u.Host
		}
		if p.token == "" {
			if p.token, err = s.secretLine("API key for " + p.servers[0] + ": "); err != nil {
				return err
			}
		}
		s.token = p.token
		return s.run(func(ctx context.Context, c *client.Client, _ []string) error {
			if _, err := c.ListJobs(ctx, client.JobFilter{}, client.Page{Limit: 1}); err != nil {
				return err // nothing is stored that does not work
			}
			if w.dryRun {
				return s.would(fmt.Sprintf("save the address %s and the key, which is accepted, as the context %q", strings.Join(p.servers, ", "), name), nil)
			}
			k, err := loadContexts()
			if err != nil {
				return err
			}
			kept := p.token
			if kept == client.DevToken(p.servers[0]) { // it has another one at its next start, which is found automatically
				kept = ""
			}
			x := storedContext{Name: name, Servers: p.servers, Token: kept, Tenant: s.tenant}
			for to, path := range map[*string]string{&x.Cert: p.tls.Cert, &x.Key: p.tls.Key, &x.CA: p.tls.CA} {
				if path == "" {
					continue
				}
				if *to, err = filepath.Abs(path); err != nil { // so that it works from other folders, too
					return err
				}
			}
			k.put(x)
			if err := k.save(); err != nil {
				return err
			}
			s.say("Signed in to %s. The current context is now %q.", strings.Join(p.servers, ", "), name)
			return nil
		})(cmd, nil)
	}
	return c
}

// secretLine reads a secret: from a terminal without echo, else the first line of standard input.
func (s accessCommands) secretLine(prompt string) (string, error) {
	if f, ok := s.in.(*os.File); ok && terminal(f) {
		fmt.Fprint(s.err, prompt)
		text, err := hidden(f)
		fmt.Fprintln(s.err)
		return strings.TrimSpace(text), err
	}
	text, err := bufio.NewReader(s.in).ReadString('\n')
	if text = strings.TrimSpace(text); text == "" && err != nil {
		return "", usage{errors.New("standard input is empty; want the secret, in one line")}
	}
	return text, nil
}

func (s accessCommands) contextCommand() *cobra.Command {
	type row struct {
		Name    string   `json:"name"`
		Current bool     `json:"current"`
		Servers []string `json:"servers"`
		Tenant  string   `json:"tenant,omitempty"`
		Key     bool     `json:"has_key"`
	}
	list := &cobra.Command{Use: "list", Short: "List contexts, without their keys", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		k, err := loadContexts()
		if err != nil {
			return err
		}
		rows := func(yield func(row, error) bool) {
			for _, x := range k.Contexts {
				if !yield(row{x.Name, x.Name == k.Current, x.Servers, x.Tenant, x.Token != ""}, nil) {
					return
				}
			}
		}
		n, err := show(s.session, view[row]{columns[row](
			col("CURRENT", func(x row) string { return map[bool]string{true: "*", false: " "}[x.Current] }),
			col("NAME", func(x row) string { return x.Name }),
			col("SERVER", func(x row) string { return strings.Join(x.Servers, ",") }),
			col("TENANT", func(x row) string { return x.Tenant }),
			wide("KEY", func(x row) string { return map[bool]string{true: "yes", false: "no"}[x.Key] }),
		), func(x row) string { return x.Name }}, iter.Seq2[row, error](rows))
		if err == nil && n == 0 {
			s.say("There are no contexts; 'carillon login URL' creates one. Without one, the server is %s.", localServer)
		}
		return err
	}}
	use := &cobra.Command{Use: "use NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		k, err := loadContexts()
		if err != nil {
			return err
		}
		if k.find(args[0]) == nil {
			return missing{fmt.Errorf("there is no context %q; there are: %s", args[0], cmp.Or(strings.Join(contextNames(), ", "), "none"))}
		}
		k.Current = args[0]
		if err := k.save(); err != nil {
			return err
		}
		s.say("The current context is now %q.", args[0])
		return nil
	}}
	drop := &cobra.Command{Use: "delete NAME", Short: "Delete a context and its key", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		k, err := loadContexts()
		if err != nil {
			return err
		}
		if k.find(args[0]) == nil {
			return missing{fmt.Errorf("there is no context %q", args[0])}
		}
		k.Contexts = slices.DeleteFunc(k.Contexts, func(x storedContext) bool { return x.Name == args[0] })
		if k.Current == args[0] {
			k.Current = ""
		}
		if err := k.save(); err != nil {
			return err
		}
		s.say("Deleted the context %q. Its key still works; revoke it with 'carillon key revoke'.", args[0])
		return nil
	}}
	for _, c := range []*cobra.Command{use, drop} {
		completeArgs(c, func(context.Context, string) []string { return contextNames() })
	}
	return s.noun(&cobra.Command{Use: "context", Short: "Servers and keys saved with login"}, list, use, drop)
}
