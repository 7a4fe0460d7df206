package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s operateCommands) artifactCommand() *cobra.Command {
	get := &cobra.Command{Use: "get ID", Short: "Write an artifact to standard output", Args: cobra.ExactArgs(1), Example: "  carillon artifact get ID > report.tar.gz"}
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if terminal(s.out) {
			return usage{fmt.Errorf("an artifact is binary; write it to a file: carillon artifact get %s > FILE", args[0])}
		}
		r, err := c.OpenArtifact(ctx, "", args[0])
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(s.out, r)
		return err
	})
	rm := remover(s.session, &cobra.Command{Use: "rm ID", Aliases: []string{"delete"}, Short: "Delete an artifact that no job uses"}, "delete the artifact", nil, nil,
		func(ctx context.Context, c *client.Client, id string) (client.Artifact, error) {
			return c.DeleteArtifact(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "artifact", Aliases: []string{"artifacts"}, Short: "Store programs for command jobs"}, s.artifactPush(), get, rm)
}

func (s operateCommands) artifactPush() *cobra.Command {
	var w write
	c := &cobra.Command{
		Use: "push FILE", Short: "Upload a program, or a tar, tar.gz or zip archive, and print its artifact_id",
		Args: cobra.ExactArgs(1), Example: "  carillon artifact push report.tar.gz",
	}
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return usage{err}
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return usage{fmt.Errorf("%s is not a file; pack a folder with tar first", args[0])}
		}
		if w.dryRun {
			return s.would(fmt.Sprintf("send %d bytes of %s", info.Size(), args[0]), nil)
		}
		a, err := c.PutArtifact(ctx, f, info.Size())
		if err != nil {
			return err
		}
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			_, err := fmt.Fprintln(s.out, a.ArtifactID)
			return err
		}
		return s.value(a)
	})
	return c
}
