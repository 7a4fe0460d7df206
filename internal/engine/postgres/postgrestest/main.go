package postgrestest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Main runs the tests of a package that wait as much as they compute: twice as many as usual at once, unless
// -parallel is set. It does not return.
func Main(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
