package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s operateCommands) supportCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "support", Short: "Write a support bundle", Args: cobra.NoArgs,
		Long: "Write a support bundle: version, settings, health, counts, metrics and the latest log lines of the server that answers. It contains no secrets, payloads or results. Its log may name jobs and tenants, so read it before you share it. " +
			"It needs the role system. If the server does not answer at all, 'carillon doctor' says why.",
		Example: "  carillon support\n  carillon support --to - | jq .missing",
	}
	s.flags(c)
	c.Flags().StringVar(&to, "to", "", "file to write, which must not exist; - for standard output (default carillon-support-TIME.json in this folder)")
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		b, err := c.SupportBundle(ctx)
		if err != nil {
			return err
		}
		for _, m := range b.Missing {
			s.say("Not in it: %s", line(m))
		}
		if to == "-" {
			return encodeJSON(s.out, b, "  ")
		}
		name := cmp.Or(to, "carillon-support-"+b.MadeAt.UTC().Format("20060102T150405Z")+".json")
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return usage{fmt.Errorf("--to %s already exists; want a new file", name)}
		}
		if err != nil {
			return err
		}
		err = encodeJSON(f, b, "  ")
		if bad := f.Close(); err == nil {
			err = bad
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		s.say("Read it before you share it: its log may name jobs and tenants.")
		_, err = fmt.Fprintln(s.out, name)
		return err
	})
	return c
}
