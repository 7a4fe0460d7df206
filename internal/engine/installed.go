package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Sharing stores values for all servers of a store.
type Sharing interface {
	Share(ctx context.Context, name string, value []byte) ([]byte, error)
	Reshare(ctx context.Context, name string, was, value []byte) error
}

// keptName is the name under which servers share for how long the installation keeps history.
const keptName = "history.retention"

// storedKept is its stored form.
type storedKept struct {
	Days  int        `json:"days"`
	CutAt *time.Time `json:"cut_at,omitempty"`
}

// Installed stores for how many days the installation keeps history (none or fewer: for ever), and returns it with the
// instant at which that was last lowered. Servers that disagree keep lowering it.
func Installed(ctx context.Context, s Sharing, days int, now time.Time) (tenant.Installation, error) {
	if days <= 0 {
		days = tenant.NoLimit
	}
	first, mine := encode(storedKept{Days: days}), tenant.Quota{HistoryDays: days}
	for {
		value, err := s.Share(ctx, keptName, first)
		if err != nil {
			return tenant.Installation{}, err
		}
		var kept storedKept
		if err := json.Unmarshal(value, &kept); err != nil {
			return tenant.Installation{}, fmt.Errorf("read for how long history is kept: %w", err)
		}
		if kept.Days == days {
			return tenant.Installation{Days: days, CutAt: orZero(kept.CutAt)}, nil
		}
		next := storedKept{Days: days, CutAt: kept.CutAt}
		if mine.Shorter(tenant.Quota{HistoryDays: kept.Days}) {
			next.CutAt = instant(now)
		}
		if err := s.Reshare(ctx, keptName, value, encode(next)); err != nil {
			return tenant.Installation{}, err
		}
	}
}
