package upkeep

import (
	"context"
	"time"
)

// Sealer seals new entries of the audit log.
type Sealer struct {
	Store interface {
		SealAudit(ctx context.Context) (more bool, err error)
	}
}

const sealEvery = time.Second

// Tick seals some entries.
func (s *Sealer) Tick(ctx context.Context) (time.Duration, error) {
	more, err := s.Store.SealAudit(ctx)
	if more {
		return 0, err
	}
	return sealEvery, err
}
