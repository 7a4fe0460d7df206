package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// Failed authentication is counted completely, but logged and audited within a budget, so that nobody can fill a disk
// by failing.
const (
	denialsEvery = time.Minute     // between two writes of what was recorded
	denialLines  = 20              // of the log in that time
	denialRows   = 20              // of the audit log at once
	denialRow    = 5 * time.Minute // after this time there is room for one more
	maxDenied    = 1000            // addresses that are distinguished; the rest are only counted
	maxUnsent    = 100             // entries kept while the store is down
)

// denials records failed authentication until it is written.
type denials struct {
	log     *slog.Logger
	metrics *telemetry.Metrics
	record  func(context.Context, audit.Entry) error

	mu     sync.Mutex
	by     map[netip.Prefix]*denial // guarded by mu
	rest   denial                   // guarded by mu: of addresses beyond maxDenied
	lines  int                      // guarded by mu: lines logged since the last look
	silent int                      // guarded by mu: failures since then that were not logged
	rows   int                      // guarded by mu: room in the audit log
	rowAt  time.Time                // guarded by mu: when there was last room for one more
	unsent []audit.Entry            // guarded by mu: entries that the store has not accepted yet
}

// denial counts the failures of one address.
type denial struct {
	from    netip.Addr
	reasons map[string]int
	count   int
	key     string // the id that the last API key named
	request string
	logged  bool
}

func (d *denial) add(reason, key, request string, n int) {
	if d.reasons == nil {
		d.reasons = map[string]int{}
	}
	d.reasons[reason] += n
	d.count += n
	if d.request = request; key != "" {
		d.key = key
	}
}

func newDenials(log *slog.Logger, m *telemetry.Metrics, record func(context.Context, audit.Entry) error) *denials {
	return &denials{log: log, metrics: m, record: record, by: map[netip.Prefix]*denial{}, rows: denialRows}
}

// reasonOf names why authentication failed, like the metrics; "" if it did not.
func reasonOf(err error) string {
	var many *tooMany
	switch {
	case errors.As(err, &many):
		return "throttled"
	case errors.Is(err, access.ErrNoCredential):
		return "no_credential"
	case errors.Is(err, access.ErrUnknownKey):
		return "unknown_key"
	case errors.Is(err, access.ErrToken):
		return "token"
	case errors.Is(err, access.ErrSignedOut):
		return "signed_out"
	case errors.Is(err, access.ErrTenant), errors.Is(err, access.ErrNoTenant):
		return "tenant"
	}
	return ""
}

// note records that a request with a credential failed to authenticate. A missing credential, or an ended sign-in, is
// only counted: it happens to everyone.
func (d *denials) note(r *http.Request, from netip.Addr, credential string, err error) {
	reason := reasonOf(err)
	if reason == "" {
		return
	}
	d.metrics.AuthFailed(reason)
	if reason == "no_credential" || reason == "signed_out" {
		return
	}
	text := strings.TrimSpace(credential)
	if _, after, ok := strings.Cut(text, " "); ok {
		text = strings.TrimSpace(after)
	}
	key, request := access.KeyID(text), requestID(r)
	d.mu.Lock()
	who := network(from)
	x := d.by[who]
	switch {
	case x == nil && len(d.by) >= maxDenied:
		x = &d.rest
	case x == nil:
		x = &denial{from: from}
		d.by[who] = x
	}
	x.add(reason, key, request, 1)
	told := reason != "throttled" && !x.logged && x != &d.rest && d.lines < denialLines
	if told {
		x.logged = true
		d.lines++
	} else {
		d.silent++
	}
	d.mu.Unlock()
	if told {
		d.log.Warn("authentication failed", "reason", reason, "ip", from.String(), "key_id", key, "method", r.Method, "path", pathOf(r), "request_id", request, "error", job.Show(err.Error()))
	}
}

// tick writes the failures since the last one: one audit entry for each address or, with many addresses, one entry
// for all the rest.
func (d *denials) tick(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	silent := d.silent
	d.lines, d.silent = 0, 0
	if d.rowAt.IsZero() {
		d.rowAt = now
	}
	if more := int(now.Sub(d.rowAt) / denialRow); more > 0 {
		d.rows, d.rowAt = min(denialRows, d.rows+more), d.rowAt.Add(time.Duration(more)*denialRow)
	}
	if d.rows > 0 {
		entries := d.entries(d.rows, now)
		d.rows -= len(entries)
		d.unsent = append(d.unsent, entries...)
		d.unsent = d.unsent[max(0, len(d.unsent)-maxUnsent):]
		d.by, d.rest = map[netip.Prefix]*denial{}, denial{}
	} else {
		for _, x := range d.by {
			x.logged = false
		}
	}
	entries := d.unsent
	d.unsent = nil
	d.mu.Unlock()
	if silent > 0 {
		d.log.Warn("authentication failed more often than is logged", "failures", silent)
	}
	for i, e := range entries {
		if err := d.record(ctx, e); err != nil {
			d.mu.Lock()
			d.unsent = append(entries[i:len(entries):len(entries)], d.unsent...)
			d.mu.Unlock()
			return fmt.Errorf("write failed authentication into the audit log: %w", err)
		}
	}
	return nil
}

// entries returns at most n entries, the address with the most failures first. The caller holds mu.
func (d *denials) entries(most int, now time.Time) (out []audit.Entry) {
	all := slices.SortedFunc(maps.Values(d.by), func(a, b *denial) int {
		return cmp.Or(b.count-a.count, a.from.Compare(b.from))
	})
	others, n := d.rest, 0
	if keep := most - 1; len(all) > most || len(all) == most && others.count > 0 {
		for _, x := range all[keep:] {
			for reason, k := range x.reasons {
				others.add(reason, "", x.request, k)
			}
		}
		n = len(all) - keep
		all = all[:keep]
	}
	for _, x := range all {
		out = append(out, x.entry(x.from.String(), now))
	}
	if others.count > 0 {
		what := fmt.Sprintf("%d other addresses", n)
		if d.rest.count > 0 {
			what = fmt.Sprintf("more than %d other addresses", n)
		}
		out = append(out, others.entry(what, now))
	}
	return out
}

func (d *denial) entry(object string, now time.Time) audit.Entry {
	after := map[string]string{"failures": fmt.Sprint(d.count)}
	for reason, n := range d.reasons {
		after[reason] = fmt.Sprint(n)
	}
	if d.key != "" {
		after["key_id"] = d.key
	}
	e := audit.Entry{Tenant: tenant.Default, At: now.UTC().Truncate(time.Microsecond), By: "unknown", Request: d.request, Action: "auth.fail", Object: object, Count: d.count}
	if d.from.IsValid() {
		e.From = d.from.String()
	}
	e.Detail, _ = json.Marshal(map[string]any{"after": after}) // of texts only
	return e
}

// Tick writes failed authentication to the audit log, see denials.
func (s *Server) Tick(ctx context.Context) (time.Duration, error) {
	return denialsEvery, s.denials.tick(ctx, time.Now())
}
