package telemetry

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// More calls that are only timed: of sign-ins and badges, of what screens show, and of history that ends.

func (s *Store) AddBadge(ctx context.Context, b engine.Badge, most int, i engine.Idempotency) (_ engine.Created, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.AddBadge(ctx, b, most, i)
}

func (s *Store) AddSignIn(ctx context.Context, x engine.SignIn, most int) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.AddSignIn(ctx, x, most)
}

func (s *Store) Badge(ctx context.Context, hash [32]byte) (_ engine.Badge, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.Badge(ctx, hash)
}

func (s *Store) DeadErrors(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (_ engine.Listed[engine.DeadError], err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.DeadErrors(ctx, f, p)
}

func (s *Store) DeleteBadge(ctx context.Context, t tenant.ID, id string) (_ engine.Badge, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.DeleteBadge(ctx, t, id)
}

func (s *Store) Depths(ctx context.Context, t tenant.ID, from time.Time) (_ []engine.DepthMinute, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Depths(ctx, t, from)
}

func (s *Store) EndSignIn(ctx context.Context, hash [32]byte) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.EndSignIn(ctx, hash)
}

func (s *Store) Failures(ctx context.Context, f engine.FailureFilter, limit int) (_ []engine.Failure, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Failures(ctx, f, limit)
}

func (s *Store) FindBadges(ctx context.Context, t tenant.ID, p engine.Page) (_ engine.Listed[engine.Badge], err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.FindBadges(ctx, t, p)
}

func (s *Store) FindSignIns(ctx context.Context, f engine.SignInFilter, p engine.Page) (_ engine.Listed[engine.SignIn], err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.FindSignIns(ctx, f, p)
}

func (s *Store) ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (_ engine.Forgot, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.ForgetHistory(ctx, t, before, limit)
}

func (s *Store) JobDays(ctx context.Context, t tenant.ID, j job.ID, from, until time.Time) (_ []engine.JobDay, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.JobDays(ctx, t, j, from, until)
}

func (s *Store) KeepDepths(ctx context.Context, at time.Time, ds []engine.TenantDepths) (_ bool, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.KeepDepths(ctx, at, ds)
}

func (s *Store) KeepTally(ctx context.Context, x engine.ServerID, number int64, t engine.Tally) (err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.KeepTally(ctx, x, number, t)
}

func (s *Store) LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) (_ []job.Status, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.LastStatus(ctx, t, ids, since)
}

func (s *Store) LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (_ engine.JobPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.LateJobs(ctx, t, before, limit)
}

func (s *Store) Names(ctx context.Context, t tenant.ID, ids []job.ID) (_ map[job.ID]string, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Names(ctx, t, ids)
}

func (s *Store) PastSecrets(ctx context.Context, t tenant.ID, limit int) (_ []engine.Secret, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.PastSecrets(ctx, t, limit)
}

func (s *Store) Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) (_ [][]engine.Run, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Recent(ctx, t, ids, n, since)
}

func (s *Store) Revisions(ctx context.Context, t tenant.ID, j job.ID, before, limit int) (_ []engine.Revision, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Revisions(ctx, t, j, before, limit)
}

func (s *Store) SignIn(ctx context.Context, hash [32]byte) (_ engine.SignIn, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.SignIn(ctx, hash)
}

func (s *Store) StrayEntry(ctx context.Context, t tenant.ID, after int64) (_ int64, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.StrayEntry(ctx, t, after)
}

func (s *Store) TenantMinutes(ctx context.Context, t tenant.ID, from time.Time) (_ []engine.TenantMinute, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.TenantMinutes(ctx, t, from)
}

func (s *Store) UseSignIns(ctx context.Context, used map[[32]byte]time.Time) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.UseSignIns(ctx, used)
}

func (s *Store) Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) (_ []engine.Owned, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Whose(ctx, ids, since)
}

func (s *Store) Sizes(ctx context.Context) (_ engine.Sizes, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Sizes(ctx)
}
