package secret

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// Limits on what is held open in memory.
const (
	fresh       = 3 * time.Second  // how long a tenant's secrets are cached
	freshNone   = 30 * time.Second // likewise, for a tenant that has none and an attempt that names none
	maxViews    = 1000             // tenants
	maxOpen     = 256 << 20        // bytes of values and of their forms
	maxManaged  = 10_000
	maxUnsealed = 64 << 20 // bytes of managed ones and of their forms
	maxPast     = 1000     // earlier values of a tenant's secrets

	maxGiven      = 16 // earlier snapshots of a tenant's secrets
	maxGivenBytes = 32 << 20

	managedTime = 5 * time.Second

	unsealedTime = time.Minute
)

// Store is the part of a store that holds secrets.
type Store interface {
	engine.Secrets
	SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error)
	Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error)
	Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error)
}

// Vault opens secrets and removes them from reports. A nil Vault, and one without a key, knows none.
type Vault struct {
	store Store
	ring  *seal.Ring
	now   func() time.Time

	mu      sync.RWMutex
	views   map[tenant.ID]*view // guarded by mu
	managed map[managedKey]kept // guarded by mu
	earlier map[managedKey]kept // guarded by mu: those before, when managed was full
	size    int                 // guarded by mu: bytes of managed

	unsealed unsealed
	outside  external

	known  atomic.Pointer[[]*index] // of all views, for logs
	recent recent                   // managed ones, for logs
	handed ledger
}

type managedKey struct {
	tenant tenant.ID
	name   string
}

// kept is a managed secret that was opened.
type kept struct {
	text  string
	index *index
	until time.Time
}

func (k kept) bytes() int { return len(k.text) + k.index.bytes() }

type opened struct {
	text string
	err  error // why it could not be opened
}

// New makes a vault over a store. ring may be nil: then nothing can be sealed or opened.
func New(store Store, ring *seal.Ring) *Vault {
	return &Vault{
		store: store, ring: ring, now: time.Now, views: map[tenant.ID]*view{}, managed: map[managedKey]kept{},
		handed: ledger{entries: map[job.ExecutionID]*entry{}},
	}
}

// Check checks that everything stored can be opened with the configured keys.
func (v *Vault) Check(ctx context.Context) error {
	one, err := v.store.SecretKeys(ctx)
	if err != nil {
		return err
	}
	for _, s := range one {
		_, err := v.ring.Open(place(s), s.Sealed)
		switch {
		case errors.Is(err, seal.ErrNoKey):
			return fmt.Errorf("secrets are stored, but there is no key to open them with; set secrets.key_file or CARILLON_SECRETS_KEY to the key they were sealed under (key id %s)", s.Key)
		case err != nil:
			return fmt.Errorf("stored secrets cannot be opened with the keys of secrets.key_file or CARILLON_SECRETS_KEY: %w; add the key with the id %s, or run 'carillon secret rekey' with both before one is removed", err, s.Key)
		}
	}
	return nil
}

// CanSeal reports whether there is a key.
func (v *Vault) CanSeal() bool { return v != nil && v.ring != nil }

// Seal makes a person's secret from a value.
func (v *Vault) Seal(t tenant.ID, name, value string, asOf time.Time) (engine.Secret, error) {
	if !v.CanSeal() {
		return engine.Secret{}, seal.ErrNoKey
	}
	return v.seal(engine.Secret{Tenant: t, Name: name, CreatedAt: asOf, UpdatedAt: asOf}, value)
}

// Holds reports whether a stored secret has a value.
func (v *Vault) Holds(s engine.Secret, value string) bool {
	if !v.CanSeal() || !v.ring.Current(s.Sealed) {
		return false
	}
	plain, err := v.ring.Open(place(s), s.Sealed)
	return err == nil && string(plain) == value
}

// snapshot returns a tenant's secrets, no older than an instant.
func (v *Vault) snapshot(ctx context.Context, t tenant.ID, oldest time.Duration) (*snapshot, error) {
	w, asked := v.view(t), v.now().UnixNano()
	w.used.Store(asked)
	if was := w.snap.Load(); was != nil && asked-w.at.Load() < int64(oldest) {
		return was, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.snap.Load()
	if was != nil && asked-w.at.Load() < int64(oldest) { // another has read it meanwhile
		return was, nil
	}
	stamp, err := v.store.SecretStamp(ctx, t)
	if err != nil {
		return nil, err
	}
	if was != nil && stamp == was.stamp {
		w.at.Store(asked)
		return was, nil
	}
	all, stamp, err := v.store.SealedSecrets(ctx, t)
	if err != nil {
		return nil, err
	}
	s := &snapshot{stamp: stamp, open: make(map[string]opened, len(all))}
	values := make([]string, 0, len(all))
	for _, x := range all {
		plain, err := v.ring.Open(place(x), x.Sealed)
		s.open[x.Name] = opened{string(plain), err}
		s.size += len(plain)
		if err == nil {
			values = append(values, string(plain))
		}
	}
	// What was handed out before a change, even by another server, may still be reported.
	past, err := v.store.PastSecrets(ctx, t, maxPast)
	if err != nil {
		return nil, err
	}
	for _, x := range past {
		if plain, err := v.ring.Open(place(x), x.Sealed); err == nil {
			values = append(values, string(plain))
		}
	}
	s.index = newIndex(values...)
	s.size += s.index.bytes()
	s.given = &given{size: s.size}
	s.given.index.Store(s.index)
	w.snap.Store(s)
	if was != nil {
		w.replaced(was.given)
	}
	w.at.Store(asked)
	v.publish(t)
	return s, nil
}

// quick returns a tenant's secrets without asking the store, if they were read lately.
func (v *Vault) quick(ctx context.Context, t tenant.ID) (*snapshot, error) {
	s, err := v.snapshot(ctx, t, freshNone)
	if err != nil || len(s.open) == 0 {
		return s, err
	}
	return v.snapshot(ctx, t, fresh)
}

func (v *Vault) view(t tenant.ID) *view {
	v.mu.RLock()
	w, ok := v.views[t]
	v.mu.RUnlock()
	if ok {
		return w
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	w, ok = v.views[t]
	if !ok {
		w = &view{}
		v.views[t] = w
		v.evict(t)
	}
	return w
}

// evict drops the least recently used views while there are too many, except that of a tenant. The caller holds mu.
func (v *Vault) evict(but tenant.ID) {
	for {
		size := 0
		var oldest tenant.ID
		first := int64(1<<63 - 1)
		for t, w := range v.views {
			size += w.bytes()
			if used := w.used.Load(); t != but && used < first {
				oldest, first = t, used
			}
		}
		if len(v.views) <= maxViews && size <= maxOpen || first == 1<<63-1 {
			return
		}
		v.views[oldest].forget()
		delete(v.views, oldest)
	}
}

// publish makes the current secrets of a tenant known to the log, and makes room for them.
func (v *Vault) publish(of tenant.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.evict(of)
	var all []*index
	for _, w := range v.views {
		if s := w.snap.Load(); s != nil && s.index != nil {
			all = append(all, s.index)
		}
	}
	v.known.Store(&all)
}

// keep returns a managed secret, opened.
func (v *Vault) keep(ctx context.Context, t tenant.ID, name string) (kept, error) {
	key := managedKey{t, name}
	now := v.now()
	v.mu.Lock()
	k, ok := v.managed[key]
	if !ok {
		k, ok = v.earlier[key]
	}
	v.mu.Unlock()
	if ok && clock.Fresh(now, k.until, managedTime) {
		return k, nil
	}
	s, err := v.store.Secret(ctx, t, name)
	if err != nil {
		return k, err
	}
	k, err = v.openManaged(s)
	if err != nil {
		return k, err
	}
	k.until = now.Add(managedTime)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.managed) >= maxManaged || v.size >= maxUnsealed {
		v.managed, v.earlier, v.size = map[managedKey]kept{}, v.managed, 0
	}
	v.size += k.bytes() - v.managed[key].bytes()
	v.managed[key] = k
	return k, nil
}

// openManaged opens a managed secret, or one that a job had before.
func (v *Vault) openManaged(s engine.Secret) (kept, error) {
	key := unsealedKey{managedKey{s.Tenant, s.Name}, sha256.Sum256(s.Sealed)}
	k, ok := v.unsealed.find(key)
	if !ok {
		plain, err := v.ring.Open(place(s), s.Sealed)
		if err != nil {
			return kept{}, err
		}
		k = kept{text: string(plain), index: newIndex(string(plain))}
		v.unsealed.keep(key, k, v.now())
	}
	if s.Version > 0 { // earlier values are handed to nobody, and would evict others
		v.recent.add(k.text)
	}
	return k, nil
}
