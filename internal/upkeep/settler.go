package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Settler continues to hold or free the waiting executions of jobs that were paused or resumed with more than one
// transaction handles.
type Settler struct{ Store engine.Jobs }

// Tick handles one piece; there is no pause while any is left.
func (s *Settler) Tick(ctx context.Context) (time.Duration, error) {
	n, err := s.Store.Settle(ctx, engine.HoldsAtOnce)
	switch {
	case err != nil:
		return 0, fmt.Errorf("hold or free what waits of a job: %w", err)
	case n > 0:
		return 0, nil
	}
	return time.Second, nil
}
