package feed

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	shareEvery   = 250 * time.Millisecond
	callEvery    = 2 * time.Second // how often a server announces the tenants it watches
	callHolds    = 7 * time.Second // how long others heed that
	callTakes    = 500 * time.Millisecond
	outgoingMost = 400 // changes of a tenant that are sent in full; if there are more, only that fact is
	messageMost  = 35  // changes in a message
	tenantsMost  = 100 // tenants named in a message
)

// outgoing holds a tenant's outgoing changes for other servers.
type outgoing struct {
	changes []Change
	lost    bool
}

func (b *outgoing) add(cs []Change) {
	if b.lost || len(b.changes)+len(cs) > outgoingMost {
		b.changes, b.lost = nil, true
		return
	}
	b.changes = append(b.changes, cs...)
}

// outgoing returns a tenant's outgoing changes. The caller holds mu.
func (h *Hub) outgoing(t tenant.ID) *outgoing {
	b := h.out[t]
	if b == nil {
		b = &outgoing{}
		h.out[t] = b
	}
	return b
}

// message is what servers send each other.
type message struct {
	From    string      `json:"f"`
	Watches []tenant.ID `json:"i,omitempty"` // whom the sender watches
	Tenant  tenant.ID   `json:"t,omitempty"`
	Changes []Change    `json:"c,omitempty"`
	Lost    bool        `json:"l,omitempty"` // more changes than can be sent
}

// Share sends changes here to other servers that watch the tenant, and receives theirs, until ctx ends. Without
// others (nil) it only drops watchers that have gone.
func (h *Hub) Share(ctx context.Context, others engine.Feeds, log *slog.Logger) {
	if others != nil {
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			h.hear(ctx, others, log)
		}()
		defer func() { <-heard }()
	}
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	var called time.Time
	unheard := false // others may not have known that somebody watches
	for {
		anew := false
		select {
		case <-ctx.Done():
			return
		case <-h.begun:
			anew = true
		case <-tick.C:
		}
		now := time.Now()
		h.prune(now)
		if others == nil {
			continue
		}
		if anew || now.Sub(called) >= callEvery {
			failed := false
			for some := range slices.Chunk(h.watching(), tenantsMost) {
				if h.send(ctx, others, log, message{Watches: some}) != nil {
					failed = true
				} else {
					h.called(some)
				}
			}
			if unheard && !failed {
				h.forget()
			}
			called, unheard = now, failed
		}
		h.settle(now)
		h.empty(ctx, others, log)
	}
}

// called records that other servers were told which tenants are watched here.
func (h *Hub) called(ts []tenant.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range ts {
		if r := h.rings[t]; r != nil && r.called.IsZero() {
			r.called = time.Now()
		}
	}
}

// settle makes new watchers of a tenant read again once the other servers know of them: earlier changes there were
// not sent.
func (h *Hub) settle(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings {
		if !r.known && !r.called.IsZero() && now.Sub(r.called) >= callTakes {
			r.known = true
			r.lose()
		}
	}
}

// watching lists the tenants that are watched here.
func (h *Hub) watching() []tenant.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]tenant.ID, 0, len(h.rings))
	for t := range h.rings {
		out = append(out, t)
	}
	return out
}

// empty sends the outgoing changes to other servers.
func (h *Hub) empty(ctx context.Context, others engine.Feeds, log *slog.Logger) {
	h.mu.Lock()
	out := h.out
	h.out = map[tenant.ID]*outgoing{}
	h.mu.Unlock()
	for t, b := range out {
		ms := []message{{Tenant: t, Lost: true}}
		if !b.lost {
			ms = ms[:0]
			for some := range slices.Chunk(b.changes, messageMost) {
				ms = append(ms, message{Tenant: t, Changes: some})
			}
		}
		for _, m := range ms {
			if h.send(ctx, others, log, m) != nil {
				h.mu.Lock()
				h.outgoing(t).lost = true // which is sent when possible
				h.mu.Unlock()
				break
			}
		}
	}
}

func (h *Hub) send(ctx context.Context, others engine.Feeds, log *slog.Logger, m message) error {
	m.From = h.epoch
	data, err := json.Marshal(m)
	if err == nil {
		err = others.Publish(ctx, data)
	}
	if err != nil && ctx.Err() == nil {
		log.Debug("changes could not be told to other servers", "error", err)
	}
	return err
}

// hear receives the messages of others. When it restarts, something may have been missed.
func (h *Hub) hear(ctx context.Context, others engine.Feeds, log *slog.Logger) {
	for ctx.Err() == nil {
		err := others.Subscribe(ctx, func() { h.forget() }, func(data []byte) { h.take(data) })
		if ctx.Err() != nil {
			return
		}
		log.Debug("changes are not heard of from other servers; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// forget makes all watchers here read everything again.
func (h *Hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings {
		r.lose()
	}
}

// take handles a message.
func (h *Hub) take(data []byte) {
	var m message
	if json.Unmarshal(data, &m) != nil || m.From == h.epoch {
		return
	}
	if m.Tenant != "" {
		h.near(m.Tenant, m.Changes, m.Lost)
	}
	if len(m.Watches) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	until := time.Now().Add(callHolds)
	for _, t := range m.Watches {
		h.far[t] = until
	}
	h.heard.Store(true)
}
