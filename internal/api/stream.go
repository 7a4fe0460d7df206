package api

import (
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/feed"
)

const (
	streamEvery = 250 * time.Millisecond // between two batches, at least
	streamBatch = 500                    // changes in one
)

// streamEvents streams the changes in the tenant.
func (s viewAPI) streamEvents(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, streamParams)
	if err != nil {
		return err
	}
	field, last := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if v := q.values.Get("last_event_id"); v != "" && last == "" {
		field, last = "last_event_id", v
	}
	if last != "" && !feed.PlausibleID(last) {
		q.wrong(field, last, "the id of an event that this stream gave")
	}
	if err := q.err(); err != nil {
		return err
	}
	release, err := s.follow(p.Tenant)
	if err != nil {
		return err
	}
	defer release()
	watch, resumed := s.cfg.Feed.Watch(p.Tenant, last)
	defer watch.Close()
	out := newEvents(w)
	if err := out.begin(); err != nil {
		return nil // the caller has gone
	}
	if err := greetStream(out, watch, last, resumed); err != nil {
		return nil
	}
	s.tell(r, p, watch, out)
	return nil
}

var streamParams = []param{{"last_event_id", "string", "The same as the header Last-Event-ID: resumes after this event."}}

// greetStream sends the position at which the stream begins.
func greetStream(out *events, watch *feed.Watch, last string, resumed bool) error {
	_, id, missed := watch.Read(0)
	var err error
	if last == "" || resumed && !missed {
		err = out.event("ready", id, struct{}{})
	} else {
		err = out.event("reset", id, client.Reset{Reason: "What happened since is no longer known here."})
	}
	if err != nil {
		return err
	}
	return out.flush()
}

// tell sends changes until the caller has gone or has lost its permission.
func (s viewAPI) tell(r *http.Request, p tenant.Principal, watch *feed.Watch, out *events) {
	ctx := r.Context()
	vigil := s.watch(r, p, tenant.Read)
	check, beat := time.NewTicker(vigilEvery), time.NewTicker(followBeat)
	defer check.Stop()
	defer beat.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	var wake <-chan struct{} // nil while the next batch is too early
	for {
		if !vigil.allowed() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case <-pace.C:
			wake = watch.Wake()
		case <-check.C: // the credential is checked above
		case <-beat.C:
			if out.beat() != nil {
				return
			}
		case <-wake:
			wake = nil
			pace.Reset(streamEvery)
			if !vigil.allowed() {
				return
			}
			if sendChanges(watch, out) != nil {
				return
			}
		}
	}
}

// sendChanges sends one batch.
func sendChanges(watch *feed.Watch, out *events) error {
	cs, id, missed := watch.Read(streamBatch)
	if missed {
		if err := out.event("reset", id, client.Reset{Reason: "More happened than can be told one by one."}); err != nil {
			return err
		}
	}
	if len(cs) > 0 {
		batch := client.Changes{Changes: make([]client.Change, len(cs))}
		for i, c := range cs {
			batch.Changes[i] = client.Change{At: c.At, Type: c.Type, ExecutionID: c.Execution, JobID: c.Job, WorkflowRunID: c.Run, WorkerID: c.Worker, Status: c.Status}
		}
		if err := out.event("changes", id, batch); err != nil {
			return err
		}
	}
	return out.flush()
}
