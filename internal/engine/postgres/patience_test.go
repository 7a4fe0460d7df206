package postgres

import (
	"os"
	"time"
)

// awayAfter is after how long a server that does not answer is told to be away, but in tests.
var awayAfter = slowAfter + pulseTime

// A machine that runs tests may be several times slower than usual, or stand still for seconds. What most tests are about does not
// depend on that, so the store waits longer here than elsewhere before it gives up. With CARILLON_TEST_PATIENCE=product it waits as
// long as a server does: make test-all runs everything so, and make test a slice.
func init() {
	if os.Getenv("CARILLON_TEST_PATIENCE") == "product" {
		return
	}
	hotStatement, readStatement, patience, connectTime = 10*hotStatement, 10*readStatement, 10*patience, 10*connectTime
	pulseTime, keptTime = 5*time.Second, time.Second
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		hotSettings[name], readSettings[name] = setting(hotStatement), setting(readStatement)
	}
}
