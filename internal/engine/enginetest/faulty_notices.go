package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) PutRule(ctx context.Context, r notice.Rule, most int) error {
	_, err := disturb(ctx, f, "PutRule", func() (struct{}, error) { return none(f.Store.PutRule(ctx, r, most)) })
	return err
}

func (f *Faulty) Rule(ctx context.Context, t tenant.ID, name string) (notice.Rule, error) {
	return disturb(ctx, f, "Rule", func() (notice.Rule, error) { return f.Store.Rule(ctx, t, name) })
}

func (f *Faulty) Rules(ctx context.Context, t tenant.ID) ([]notice.Rule, error) {
	return disturb(ctx, f, "Rules", func() ([]notice.Rule, error) { return f.Store.Rules(ctx, t) })
}

func (f *Faulty) DeleteRule(ctx context.Context, t tenant.ID, name string) error {
	_, err := disturb(ctx, f, "DeleteRule", func() (struct{}, error) { return none(f.Store.DeleteRule(ctx, t, name)) })
	return err
}

func (f *Faulty) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) ([]job.Execution, error) {
	return disturb(ctx, f, "Unwell", func() ([]job.Execution, error) { return f.Store.Unwell(ctx, ts, after, limit) })
}

func (f *Faulty) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]engine.Late, error) {
	return disturb(ctx, f, "Late", func() ([]engine.Late, error) { return f.Store.Late(ctx, t, before, limit) })
}

func (f *Faulty) Alarms(ctx context.Context) ([]notice.Alarm, error) {
	return disturb(ctx, f, "Alarms", func() ([]notice.Alarm, error) { return f.Store.Alarms(ctx) })
}

func (f *Faulty) SetAlarms(ctx context.Context, began, ended []notice.Alarm) error {
	_, err := disturb(ctx, f, "SetAlarms", func() (struct{}, error) { return none(f.Store.SetAlarms(ctx, began, ended)) })
	return err
}

func (f *Faulty) Watched(ctx context.Context) (time.Time, error) {
	return disturb(ctx, f, "Watched", func() (time.Time, error) { return f.Store.Watched(ctx) })
}

func (f *Faulty) SetWatched(ctx context.Context, at time.Time) error {
	_, err := disturb(ctx, f, "SetWatched", func() (struct{}, error) { return none(f.Store.SetWatched(ctx, at)) })
	return err
}
