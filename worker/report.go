package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// maxReport limits the bytes of one report, of which a server accepts 16 MiB, and maxOutcomes its number of outcomes:
// twice what is claimed ahead, so that everything that ended while a report was in flight fits into the next.
const (
	maxReport   = 8 << 20
	maxOutcomes = 2 * maxAhead
)

// sound makes an outcome reportable: an invalid result makes it a failure, since it would be the same the next time,
// and a message that is too long is cut off.
func sound(o client.Outcome) client.Outcome {
	switch n := len(o.Result); {
	case n > client.MaxResult:
		o = unfit(o, "RESULT_TOO_LARGE", fmt.Sprintf("the result has %d bytes; at most %d can be kept: store it as an artifact", n, client.MaxResult))
	case n > 0 && !json.Valid(o.Result):
		o = unfit(o, "HANDLER_ERROR", fmt.Sprintf("the result is not valid JSON; it begins with %q", short(string(o.Result), 100)))
	}
	if e := o.Error; e != nil && len(e.Message) > client.MaxMessage {
		e := *e
		e.Message = short(e.Message, client.MaxMessage)
		o.Error = &e
	}
	if r := o.Response; r != nil && len(r.BodyPreview) > client.MaxMessage {
		r := *r
		r.BodyPreview = short(r.BodyPreview, client.MaxMessage)
		o.Response = &r
	}
	return o
}

// unfit is the failure that stands for an outcome which cannot be reported. Only what had failed by itself is retried.
func unfit(o client.Outcome, kind, why string) client.Outcome {
	return client.Outcome{
		ExecutionID: o.ExecutionID, FencingToken: o.FencingToken, Status: client.Failed, Retryable: o.Status == client.Failed && o.Retryable,
		Error: &client.Error{Type: kind, Message: short("the outcome "+o.Status+" could not be reported: "+why, client.MaxMessage)},
	}
}

// short returns the beginning of a text, of at most n bytes.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:most-len(dots)], "") + dots
}

// weight returns the approximate maximum size of an outcome on the wire.
func weight(o client.Outcome) int {
	const escaped = 6 // bytes for one, in a text full of control characters
	n := 512 + len(o.Result)
	if o.Error != nil {
		n += escaped * (len(o.Error.Type) + len(o.Error.Message))
	}
	if o.Response != nil {
		n += escaped * len(o.Response.BodyPreview)
	}
	return n
}

// report reports outcomes in batches until there are no more: everything that ended while one batch was in flight is
// the next.
func (h *shift) report() {
	var batch []client.Outcome
	size := 0
	flush := func() {
		if len(batch) > 0 {
			h.deliver(batch)
		}
		batch, size = batch[:0], 0
	}
	add := func(o client.Outcome) {
		n := weight(o)
		if len(batch) == maxOutcomes || size+n > maxReport {
			flush()
		}
		batch, size = append(batch, o), size+n
	}
	for {
		select {
		case o := <-h.results:
			add(o)
			continue
		default:
			flush()
		}
		select {
		case o := <-h.results:
			add(o)
		case <-h.noMore:
			if len(h.results) == 0 {
				return
			}
		}
	}
}

// deliver reports a batch. If the server cannot accept it as it is, deliver finds the outcome to blame by halves, and
// reports it as a failure instead.
func (h *shift) deliver(batch []client.Outcome) {
	err := h.send(batch)
	if err == nil {
		return
	}
	if n := len(batch); n > 1 {
		h.deliver(batch[:n/2])
		h.deliver(batch[n/2:])
		return
	}
	h.p.log.Error("an outcome cannot be reported; it is reported as a failure", "execution", batch[0].ExecutionID, "error", err)
	if err := h.send([]client.Outcome{unfit(batch[0], "HANDLER_ERROR", err.Error())}); err != nil {
		h.p.log.Error("nor can the failure be reported; the execution will be given out again", "execution", batch[0].ExecutionID, "error", err)
		h.told(batch)
	}
}

// send tries to report a batch until the server has answered it, the session has ended or the time to drain is up;
// what is then unreported is released when the worker leaves. It returns an error if the server will never accept the
// batch.
func (h *shift) send(batch []client.Outcome) error {
	for fails := 0; !h.ended() && !h.givenUp; {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		vs, err := h.p.src.Report(ctx, h.session, batch)
		if err == nil {
			err = failpoint.Hit("worker.afterCompleteBeforeAck")
		}
		cancel()
		switch {
		case err == nil:
			h.told(batch)
			for _, v := range vs {
				if v.Verdict == client.Refused {
					h.p.log.Warn("a result was refused", "execution", v.ExecutionID, "reason", v.Reason)
				}
			}
			return nil
		case errors.Is(err, ErrSession):
			h.end(err)
			return nil
		case hopeless(err):
			return err
		}
		fails++
		if fails == 1 {
			h.p.log.Warn("cannot report; trying again", "outcomes", len(batch), "error", err)
		}
		h.wait(backoff(fails), err)
	}
	return nil
}

// wait waits until the next try, if there is to be one.
func (h *shift) wait(d time.Duration, why error) {
	select {
	case <-h.late: // checked first: after it there is no other try
		h.giveUp(why)
		return
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-h.over:
	case <-h.late:
		h.giveUp(why)
	case <-t.C:
	}
}

func (h *shift) giveUp(why error) {
	h.givenUp = true
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p.log.Error("the time to stop is up and outcomes are not reported; their executions are handed back", "worker", h.session.WorkerID, "outcomes", len(h.unanswered), "error", why)
}

// hopeless reports whether the server will never accept a request, rather than not now, or not from this worker.
func hopeless(err error) bool {
	var r *client.Problem
	if !errors.As(err, &r) {
		return errors.Is(err, client.ErrEncoding)
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false // it is not about the content of the request
	}
	return r.Status >= 400 && r.Status < 500
}

// told records that the server has answered for a batch.
func (h *shift) told(batch []client.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range batch {
		delete(h.unanswered, client.Held{ExecutionID: o.ExecutionID, FencingToken: o.FencingToken})
	}
}
