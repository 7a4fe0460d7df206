package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Limits on the managed secrets that logs are searched for: how many, and the bytes of their forms.
const (
	maxRecent      = 2000
	maxRecentBytes = 16 << 20
)

// recent holds the recently opened managed secrets.
type recent struct {
	mu          sync.Mutex
	now, before batch // guarded by mu
}

// batch holds values, and the indexes that find them. Each index has about twice as many as the next, so that adding
// one more is cheap.
type batch struct {
	values  map[string]bool
	indexes []indexed
	size    int
}

type indexed struct {
	*index
	values []string
}

func (r *recent) add(value string) {
	if len(value) < shortest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.values[value] {
		return
	}
	if r.now.values == nil || len(r.now.values) >= maxRecent || r.now.size >= maxRecentBytes {
		r.now, r.before = batch{values: map[string]bool{}}, r.now
	}
	r.now.add(value)
}

func (b *batch) add(value string) {
	b.values[value] = true
	fresh := []string{value}
	all := slices.Clone(b.indexes) // readers have the old ones
	for n := len(all); n > 0 && len(all[n-1].values) <= len(fresh); n-- {
		fresh = append(fresh, all[n-1].values...)
		b.size -= all[n-1].bytes()
		all = all[:n-1]
	}
	x := newIndex(fresh...)
	b.size += x.bytes()
	b.indexes = append(all, indexed{x, fresh})
}

// indexes returns the indexes to search texts with.
func (r *recent) indexes(into []*index) []*index {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range [2]batch{r.now, r.before} {
		for _, x := range b.indexes {
			into = append(into, x.index)
		}
	}
	return into
}

func (r *recent) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.values == nil
}

// Handler removes the values that this process has opened from its log.
func (v *Vault) Handler(inner slog.Handler) slog.Handler { return handler{inner, v} }

type handler struct {
	slog.Handler
	v *Vault
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if h.v.silent() {
		return h.Handler.Handle(ctx, r)
	}
	known := h.v.logged()
	out := slog.NewRecord(r.Time, r.Level, redact(r.Message, known...), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cleanAttr(a, known))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	out, known := make([]slog.Attr, len(as)), h.v.logged()
	for i, a := range as {
		out[i] = cleanAttr(a, known)
	}
	return handler{h.Handler.WithAttrs(out), h.v}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.v} }

// silent reports whether no secret was opened.
func (v *Vault) silent() bool {
	all := v.known.Load()
	return (all == nil || len(*all) == 0) && v.recent.empty()
}

// texts returns a value in the forms in which handlers may write it.
func (v *Vault) logged() []*index {
	var out []*index
	if all := v.known.Load(); all != nil {
		out = append(out, *all...)
	}
	return v.recent.indexes(out)
}

func cleanAttr(a slog.Attr, known []*index) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); len(s) >= shortest {
			a.Value = slog.StringValue(redact(s, known...))
		}
	case slog.KindGroup:
		group := a.Value.Group()
		out := make([]slog.Attr, len(group))
		for i, x := range group {
			out[i] = cleanAttr(x, known)
		}
		a.Value = slog.GroupValue(out...)
	case slog.KindAny:
		for _, s := range texts(a.Value.Any()) {
			if clean := redact(s, known...); clean != s {
				a.Value = slog.StringValue(clean)
				break
			}
		}
	}
	return a
}

// texts are a value as handlers may write it.
func texts(v any) []string {
	switch v := v.(type) {
	case error:
		return []string{v.Error()}
	case []byte:
		return []string{string(v)}
	}
	out := []string{fmt.Sprintf("%+v", v)}
	if coded, err := json.Marshal(v); err == nil {
		out = append(out, string(coded))
	}
	return out
}
