package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func artifactCommand() *cobra.Command {
	c := &cobra.Command{Use: "artifact", Short: "Programs for jobs of the target command", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(artifactPush())
	return c
}

func artifactPush() *cobra.Command {
	var server, token string
	c := &cobra.Command{
		Use: "push FILE", Short: "Keep a program, or a tar, tar.gz or zip of one, and print its artifact_id",
		Args: cobra.ExactArgs(1), Example: "  carillon artifact push report.tar.gz --server https://carillon.example --token $CARILLON_TOKEN",
	}
	c.Flags().StringVar(&server, "server", "http://127.0.0.1:8080", "address of a server")
	c.Flags().StringVar(&token, "token", "", "API key (or CARILLON_TOKEN)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if token == "" {
			token = os.Getenv("CARILLON_TOKEN")
		}
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return usage{fmt.Errorf("%s is not a file; a folder is packed with tar first", args[0])}
		}
		a, err := client.New([]string{server}, token).PutArtifact(c.Context(), f, info.Size())
		if err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), a.ArtifactID)
		return nil
	}
	return c
}
