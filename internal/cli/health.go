package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

const healthHint = "Name another with --server or CARILLON_HEALTH_SERVER. CARILLON_SERVER and contexts are not read: a worker's probe asks the worker, not its server."

// healthCommand is a probe for containers that hold no other program: one question, one exit code.
func (s operateCommands) healthCommand() *cobra.Command {
	var server string
	var live, insecure bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "health", Short: "Check whether a server or a worker is ready, as a probe", Args: cobra.NoArgs,
		Long:    "Ask a server, or a worker's health listener, once and without a key whether it is ready; with --live, only whether it is alive. Exits with 0 if it is and with 6 if not. 'carillon doctor' checks more.",
		Example: "  carillon health\n  carillon health --server https://127.0.0.1:8443 --insecure",
	}
	f := c.Flags()
	f.StringVar(&server, "server", "", "address to ask (CARILLON_HEALTH_SERVER; default "+localServer+")")
	f.BoolVar(&live, "live", false, "check only whether the process is alive: /healthz, not /readyz")
	f.BoolVar(&insecure, "insecure", false, "accept any certificate: a probe on the same machine uses an address that is not in the certificate")
	f.DurationVar(&patience, "timeout", 3*time.Second, "how long to wait for the answer")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		from := "--server"
		if server == "" {
			server, from = os.Getenv("CARILLON_HEALTH_SERVER"), "CARILLON_HEALTH_SERVER"
		}
		if server == "" {
			server, from = localServer, "the default"
		}
		address, err := serverAddress(server)
		if err != nil {
			return usage{fmt.Errorf("%s: %w", from, err)}
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.Proxy = nil // it asks this machine
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: insecure}
		ask := client.New([]string{address}, "", client.WithRetries(client.Retries{}), client.WithHTTPClient(&http.Client{Transport: transport}))
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		question := ask.Ready
		if live {
			question = ask.Health
		}
		h, err := question(ctx)
		if err != nil {
			do := ""
			if from == "the default" {
				do = healthHint
			}
			return unreachable{place{servers: []string{address}, from: from}, do, err}
		}
		fmt.Fprintf(s.out, "%s, version %s\n", h.Status, h.Version)
		return nil
	}
	return c
}
