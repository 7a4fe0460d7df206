package enginetest

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) PutSecret(ctx context.Context, s engine.Secret, most int) (engine.Secret, error) {
	return disturb(ctx, f, "PutSecret", func() (engine.Secret, error) { return f.Store.PutSecret(ctx, s, most) })
}

func (f *Faulty) Secret(ctx context.Context, t tenant.ID, name string) (engine.Secret, error) {
	return disturb(ctx, f, "Secret", func() (engine.Secret, error) { return f.Store.Secret(ctx, t, name) })
}

func (f *Faulty) Secrets(ctx context.Context, t tenant.ID) ([]engine.Secret, error) {
	return disturb(ctx, f, "Secrets", func() ([]engine.Secret, error) { return f.Store.Secrets(ctx, t) })
}

func (f *Faulty) SealedSecrets(ctx context.Context, t tenant.ID) ([]engine.Secret, string, error) {
	type both struct {
		all   []engine.Secret
		stamp string
	}
	got, err := disturb(ctx, f, "SealedSecrets", func() (both, error) {
		all, stamp, err := f.Store.SealedSecrets(ctx, t)
		return both{all, stamp}, err
	})
	return got.all, got.stamp, err
}

func (f *Faulty) SecretStamp(ctx context.Context, t tenant.ID) (string, error) {
	return disturb(ctx, f, "SecretStamp", func() (string, error) { return f.Store.SecretStamp(ctx, t) })
}

func (f *Faulty) PastSecrets(ctx context.Context, t tenant.ID, limit int) ([]engine.Secret, error) {
	return disturb(ctx, f, "PastSecrets", func() ([]engine.Secret, error) { return f.Store.PastSecrets(ctx, t, limit) })
}

func (f *Faulty) LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error) {
	return disturb(ctx, f, "LackSecrets", func() ([]string, error) { return f.Store.LackSecrets(ctx, t, names) })
}

func (f *Faulty) DeleteSecret(ctx context.Context, t tenant.ID, name string) error {
	_, err := disturb(ctx, f, "DeleteSecret", func() (struct{}, error) { return none(f.Store.DeleteSecret(ctx, t, name)) })
	return err
}

func (f *Faulty) SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error) {
	return disturb(ctx, f, "SecretsOf", func() ([]engine.SecretUse, error) { return f.Store.SecretsOf(ctx, ids) })
}

func (f *Faulty) SecretKeys(ctx context.Context) ([]engine.Secret, error) {
	return disturb(ctx, f, "SecretKeys", func() ([]engine.Secret, error) { return f.Store.SecretKeys(ctx) })
}

func (f *Faulty) SecretsNotUnder(ctx context.Context, key string, after engine.Secret, limit int) ([]engine.Secret, error) {
	return disturb(ctx, f, "SecretsNotUnder", func() ([]engine.Secret, error) { return f.Store.SecretsNotUnder(ctx, key, after, limit) })
}

func (f *Faulty) ResealSecret(ctx context.Context, s engine.Secret, was []byte) error {
	_, err := disturb(ctx, f, "ResealSecret", func() (struct{}, error) { return none(f.Store.ResealSecret(ctx, s, was)) })
	return err
}
