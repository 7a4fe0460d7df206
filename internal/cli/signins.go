package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s accessCommands) signInCommand() *cobra.Command {
	v := view[client.SignIn]{columns[client.SignIn](
		col("ID", func(x client.SignIn) string { return x.SignInID }),
		col("NAME", func(x client.SignIn) string { return x.Name }),
		col("ROLE", func(x client.SignIn) string { return x.Role }),
		col("WITH", func(x client.SignIn) string {
			if x.KeyID == nil {
				return "a token"
			}
			return "key " + *x.KeyID
		}),
		when(s.session, "SINCE", func(x client.SignIn) time.Time { return x.SignedInAt }),
		when(s.session, "USED", func(x client.SignIn) time.Time { return x.LastUsedAt }),
		when(s.session, "EXPIRES", func(x client.SignIn) time.Time { return x.ExpiresAt }),
		wide("TENANT", func(x client.SignIn) string { return x.TenantID }),
	), func(x client.SignIn) string { return x.SignInID }}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List signed-in browsers, newest first", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "Nobody is signed in.", c.SignIns(ctx))
	})
	end := remover(s.session, &cobra.Command{
		Use: "end ID", Aliases: []string{"rm"}, Short: "Sign out a browser: every server refuses it within 5 s",
		Long: "Sign out a browser: every server refuses it within 5 s, until it signs in again. The key or token it signed in with keeps working; 'carillon key revoke' ends every sign-in made with a key.",
	}, "end the sign-in", s.signInNames(),
		func(ctx context.Context, c *client.Client, id string) (client.SignIn, error) {
			for x, err := range c.SignIns(ctx) {
				if err != nil || x.SignInID == id {
					return x, err
				}
			}
			return client.SignIn{}, missing{fmt.Errorf("there is no sign-in %q; 'carillon sign-in list' shows the ids", id)}
		},
		func(ctx context.Context, c *client.Client, id string) (client.SignIn, error) {
			return c.EndSignIn(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "sign-in", Aliases: []string{"sign-ins"}, Short: "Browsers signed in to the dashboard"}, list, end)
}

func (s accessCommands) signInNames() names {
	return lookup(s.session, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListSignIns(ctx, client.Page{Limit: 200})
		for _, x := range page.SignIns {
			out = append(out, x.SignInID+"\t"+x.Name+", "+x.Role)
		}
		return out
	})
}
