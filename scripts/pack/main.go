// Command pack makes the files of a release that must be reproducible: archives, checksums and the list of what is
// inside (an SBOM). scripts/release calls it. It reads only its arguments and uses no network.
//
//	pack archive OUT.tar.gz|OUT.zip EPOCH NAME=PATH...
//	pack sbom VERSION EPOCH PACKAGE-LOCK|- BINARY...
//	pack sums FOLDER
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "pack: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch {
	case verb == "archive" && len(args) > 3:
		at, err := instant(args[2])
		if err != nil {
			return err
		}
		return archive(args[1], at, args[3:])
	case verb == "sbom" && len(args) > 4:
		at, err := instant(args[2])
		if err != nil {
			return err
		}
		return sbom(out, args[1], at, args[3], args[4:])
	case verb == "sums" && len(args) == 2:
		return sums(out, args[1])
	}
	return fmt.Errorf("usage: pack archive OUT EPOCH NAME=PATH... | pack sbom VERSION EPOCH LOCK|- BINARY... | pack sums FOLDER")
}

// instant parses seconds since 1970, the format of SOURCE_DATE_EPOCH.
func instant(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no number of seconds since 1970", text)
	}
	return time.Unix(n, 0).UTC(), nil
}
