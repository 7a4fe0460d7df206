package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Owners is what a server hears of who owns what, through the same faults as all else that it asks of the store.
func (f *Faulty) Owners(o engine.Owners) engine.Owners { return faultyOwners{f, o} }

type faultyOwners struct {
	f *Faulty
	o engine.Owners
}

func (x faultyOwners) Attend(ctx context.Context, s engine.Server, ttl time.Duration) (engine.Roster, error) {
	return disturb(ctx, x.f, "Attend", func() (engine.Roster, error) { return x.o.Attend(ctx, s, ttl) })
}

func (x faultyOwners) Take(ctx context.Context, s engine.ServerID, ps []job.Partition) error {
	_, err := disturb(ctx, x.f, "Take", func() (struct{}, error) { return none(x.o.Take(ctx, s, ps)) })
	return err
}

func (x faultyOwners) Give(ctx context.Context, from, to engine.ServerID, ps []job.Partition) error {
	_, err := disturb(ctx, x.f, "Give", func() (struct{}, error) { return none(x.o.Give(ctx, from, to, ps)) })
	return err
}

func (x faultyOwners) Want(ctx context.Context, s engine.ServerID, ps []job.Partition) error {
	_, err := disturb(ctx, x.f, "Want", func() (struct{}, error) { return none(x.o.Want(ctx, s, ps)) })
	return err
}

func (x faultyOwners) Retire(ctx context.Context, s engine.ServerID) error {
	_, err := disturb(ctx, x.f, "Retire", func() (struct{}, error) { return none(x.o.Retire(ctx, s)) })
	return err
}

func (x faultyOwners) Borrow(ctx context.Context, s engine.ServerID, bs []engine.Share) ([]int, error) {
	return disturb(ctx, x.f, "Borrow", func() ([]int, error) { return x.o.Borrow(ctx, s, bs) })
}
