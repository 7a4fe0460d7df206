// Package e2e drives the built binary as its users do: processes, signals,
// HTTP, and both stores. What needs no process is tested beside its code.
package e2e

import (
	"testing"

	"github.com/carillon-jobs/carillon/test/harness"
)

func TestMain(m *testing.M) {
	harness.AtOnce(8)
	harness.Main(m, "")
}
