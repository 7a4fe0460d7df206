package secret

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// What bounds the managed secrets that the logs are looked through for: how many, and the bytes of their forms.
const (
	maxRecent      = 2000
	maxRecentBytes = 16 << 20
)

// recent is an index of the managed secrets that were opened lately.
type recent struct {
	mu          sync.RWMutex
	now, before *index // guarded by mu
	n           int    // guarded by mu
}

func (r *recent) add(value string) {
	if len(value) < shortest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.n >= maxRecent || r.now.size >= maxRecentBytes {
		r.now, r.before, r.n = newIndex(value), r.now, 1
	} else if r.now.add(value) {
		r.n++
	}
}

func (r *recent) clean(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.before.clean(r.now.clean(s))
}

func (r *recent) empty() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.now == nil
}

// Handler keeps the values that this process has opened out of what it logs.
func (v *Vault) Handler(inner slog.Handler) slog.Handler { return handler{inner, v} }

type handler struct {
	slog.Handler
	v *Vault
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if h.v.silent() {
		return h.Handler.Handle(ctx, r)
	}
	out := slog.NewRecord(r.Time, r.Level, h.v.cleanLog(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.v.cleanAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = h.v.cleanAttr(a)
	}
	return handler{h.Handler.WithAttrs(out), h.v}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.v} }

// silent reports whether no secret was opened.
func (v *Vault) silent() bool {
	all := v.known.Load()
	return (all == nil || len(*all) == 0) && v.recent.empty()
}

func (v *Vault) cleanLog(s string) string {
	if all := v.known.Load(); all != nil {
		for _, x := range *all {
			s = x.clean(s)
		}
	}
	return v.recent.clean(s)
}

func (v *Vault) cleanAttr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); v.cleanLog(s) != s {
			a.Value = slog.StringValue(v.cleanLog(s))
		}
	case slog.KindGroup:
		group := a.Value.Group()
		out := make([]slog.Attr, len(group))
		for i, x := range group {
			out[i] = v.cleanAttr(x)
		}
		a.Value = slog.GroupValue(out...)
	case slog.KindAny:
		if s := fmt.Sprintf("%+v", a.Value.Any()); v.cleanLog(s) != s {
			a.Value = slog.StringValue(v.cleanLog(s))
		}
	}
	return a
}
