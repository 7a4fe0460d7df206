// Command carillon is the whole product: server, worker and command line.
package main

import (
	"os"

	"github.com/carillon-jobs/carillon/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
