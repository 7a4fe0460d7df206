package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addEventSQL = `
		INSERT INTO run_events (id, tenant, event, digest, match, payload, at, woken) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`
	wakeWaitsSQL = "UPDATE run_waits SET wake_at = $6 WHERE run " + anyID + " AND tenant = $2 AND event = $3 AND kind = 3 AND digest IN ($4, $5)"
	matchedSQL   = `
		SELECT run FROM (SELECT DISTINCT run FROM run_waits WHERE tenant = $1 AND event = $2 AND kind = 3 AND digest = $3 AND run > $5 ORDER BY run LIMIT $6) a
		UNION SELECT run FROM (SELECT DISTINCT run FROM run_waits WHERE tenant = $1 AND event = $2 AND kind = 3 AND digest = $4 AND run > $5 ORDER BY run LIMIT $6) b
		ORDER BY run LIMIT $6`

	// Waits are woken in the order of their runs, so an event is as far as whoever is furthest.
	wokenSQL      = "UPDATE run_events SET woken = $2 WHERE id = $1 AND woken < $2"
	allWokenSQL   = "UPDATE run_events SET woken = NULL WHERE id = $1 AND woken IS NOT NULL"
	leftEventsSQL = "SELECT id, tenant, event, digest, woken FROM run_events WHERE woken IS NOT NULL AND at < $1 ORDER BY at LIMIT $2"

	dropEventsSQL = "DELETE FROM run_events WHERE id IN (SELECT id FROM run_events WHERE at < $1 AND woken IS NULL ORDER BY at LIMIT $2)"
)

// eventsAtOnce bounds the events with which one sweep goes on.
const eventsAtOnce = 20

// waking is an event that wakes waits.
type waking struct {
	id     [16]byte
	tenant tenant.ID
	name   string
	digest []byte
	after  job.ExecutionID // the last run whose waits it has woken
}

func scanWaking(r Row) (w waking, err error) {
	err = r.Scan(&w.id, (*string)(&w.tenant), &w.name, &w.digest, (*[16]byte)(&w.after))
	return w, err
}

// SendEvent keeps an event, and lists the runs with a wait that it matches.
func (s Runs) SendEvent(ctx context.Context, ev engine.RunEvent, once engine.EventOnce, e *audit.Entry) (out engine.SentEvent, err error) {
	once.Answer = engine.Draft(ev.ID[:])
	known, err := create(ctx, s.db, "keep an event", e, ev.Tenant, once.Idempotency, func(tx Tx) error {
		_, err := tx.Exec(addEventSQL, ev.ID, string(ev.Tenant), ev.Name, digestOf(ev.Match), ev.Match, ev.Payload, ev.At, [16]byte{})
		return err
	})
	if err != nil {
		return out, err
	}
	if of, is := engine.DraftOf(known.Replay); is && len(of) == len(ev.ID) {
		// The event is stored, and whoever sent it may have died before it found the waits.
		ev.ID, once.Answer, known = [16]byte(of), known.Replay, engine.Created{}
	}
	if known.Replay != nil || known.Reused {
		return engine.SentEvent{Created: known}, nil
	}
	// Only now: a wait that began before the event was committed is seen here, and one that begins later sees the event. If whoever sent
	// the event dies, the sweep goes on from where the event says that it is.
	out.ID = ev.ID
	w := waking{id: ev.ID, tenant: ev.Tenant, name: ev.Name, digest: digestOf(ev.Match)}
	for more := true; more; {
		var woken []job.ExecutionID
		var counts []byte
		err = s.db.WriteRuns(ctx, "find waits for an event", func(tx RunTx) (err error) {
			woken, err = w.wake(tx)
			if more = len(woken) == engine.WokenAtOnce; err != nil || more || once.Key == "" {
				return err
			}
			i := once.Idempotency
			i.Answer = once.Make(ev.ID, slices.Concat(out.Runs, woken))
			counts, err = answer(tx, ev.Tenant, i, once.Answer)
			if bytes.Equal(counts, i.Answer) {
				counts = nil
			}
			return err
		})
		if err != nil {
			return engine.SentEvent{}, err
		}
		if counts != nil {
			return engine.SentEvent{Created: engine.Created{Replay: counts}}, nil
		}
		if out.Runs = append(out.Runs, woken...); more {
			w.after = woken[len(woken)-1]
		}
	}
	return out, nil
}

// wake makes waits for an event due, up to engine.WokenAtOnce, notes how far that has come, and returns their runs. The runs are locked
// first, so that nobody who has looked for the event in vain puts the wait back as it was.
func (w *waking) wake(tx RunTx) ([]job.ExecutionID, error) {
	runs, err := all(tx, scanID, matchedSQL, string(w.tenant), w.name, []byte{}, w.digest, [16]byte(w.after), engine.WokenAtOnce)
	if err != nil {
		return nil, err
	}
	if len(runs) > 0 {
		list := listed(runs)
		now, err := tx.ReadAll(Query{SQL: lockRunIDsSQL, Runs: list, Row: func(Row) error { return nil }})
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(wakeWaitsSQL, list, string(w.tenant), w.name, []byte{}, w.digest, now); err != nil {
			return nil, err
		}
	}
	if len(runs) < engine.WokenAtOnce {
		_, err = tx.Exec(allWokenSQL, w.id)
	} else {
		_, err = tx.Exec(wokenSQL, w.id, [16]byte(runs[len(runs)-1]))
	}
	return runs, err
}

// wakeLeft goes on with events, each by as much as one transaction wakes, and returns the runs that it woke.
func (s Runs) wakeLeft(ctx context.Context, events []waking) (out []job.ExecutionID, err error) {
	for _, w := range events {
		var woken []job.ExecutionID
		failed := s.db.WriteRuns(ctx, "find more waits for an event", func(tx RunTx) (err error) {
			woken, err = w.wake(tx)
			return err
		})
		if failed == nil {
			out = append(out, woken...)
		}
		err = errors.Join(err, failed)
	}
	return out, err
}

// EventWaits lists runs with a wait that an event would match.
func (s Runs) EventWaits(ctx context.Context, t tenant.ID, name string, match []byte, limit int) ([]job.ExecutionID, error) {
	return readAll(ctx, s.db, "find waits for an event", scanID, matchedSQL, string(t), name, []byte{}, digestOf(match), [16]byte{}, max(limit, 0))
}

// ForgetEvents drops up to limit events that are too old to count.
func (s Runs) ForgetEvents(ctx context.Context, limit int) (n int, err error) {
	err = s.db.Write(ctx, "forget events", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		dropped, err := tx.Exec(dropEventsSQL, now.Add(-engine.EventAge), limit)
		n = int(dropped)
		return err
	})
	return n, err
}
