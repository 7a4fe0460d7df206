package postgres

import "time"

// awayAfter is after how long a server that does not answer is told to be away, but in tests.
var awayAfter = slowAfter + pulseTime

// A machine that runs tests may be several times slower than usual, or stand still for seconds. What they are about does not
// hang on that, so the store waits longer here than elsewhere before it gives up.
func init() {
	hotStatement, readStatement, patience, connectTime = 10*hotStatement, 10*readStatement, 10*patience, 10*connectTime
	pulseTime, keptTime = 5*time.Second, time.Second
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		hotSettings[name], readSettings[name] = setting(hotStatement), setting(readStatement)
	}
}
