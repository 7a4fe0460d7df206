package executor

import (
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/egress"
)

// BlockedPortError is the error that callbacks may not go to a port.
type BlockedPortError struct {
	Port int
	Why  string
}

func (b *BlockedPortError) Error() string {
	return fmt.Sprintf("callbacks may not go to port %d: %s", b.Port, b.Why)
}

// checkPort checks the port of a call.
func checkPort(allowed []int, port uint16) error {
	if why := egress.RefusePort(allowed, int(port)); why != "" {
		return &BlockedPortError{int(port), why}
	}
	return nil
}
