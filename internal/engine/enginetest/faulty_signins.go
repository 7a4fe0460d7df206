package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) AddSignIn(ctx context.Context, s engine.SignIn, most int) error {
	_, err := disturb(ctx, f, "AddSignIn", func() (struct{}, error) { return none(f.Store.AddSignIn(ctx, s, most)) })
	return err
}

func (f *Faulty) SignIn(ctx context.Context, hash [32]byte) (engine.SignIn, error) {
	return disturb(ctx, f, "SignIn", func() (engine.SignIn, error) { return f.Store.SignIn(ctx, hash) })
}

func (f *Faulty) FindSignIns(ctx context.Context, q engine.SignInFilter, p engine.Page) (engine.Listed[engine.SignIn], error) {
	return disturb(ctx, f, "FindSignIns", func() (engine.Listed[engine.SignIn], error) { return f.Store.FindSignIns(ctx, q, p) })
}

func (f *Faulty) EndSignIn(ctx context.Context, hash [32]byte) error {
	_, err := disturb(ctx, f, "EndSignIn", func() (struct{}, error) { return none(f.Store.EndSignIn(ctx, hash)) })
	return err
}

func (f *Faulty) UseSignIns(ctx context.Context, used map[[32]byte]time.Time) error {
	_, err := disturb(ctx, f, "UseSignIns", func() (struct{}, error) { return none(f.Store.UseSignIns(ctx, used)) })
	return err
}
