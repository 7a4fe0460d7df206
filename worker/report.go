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

// maxReport bounds the bytes of one report, of which a server takes 16 MiB, and maxOutcomes what is in it: twice what is
// claimed ahead, so that what ended while a report was on its way is the next, with no rest.
const (
	maxReport   = 8 << 20
	maxOutcomes = 2 * maxAhead
)

// sound makes an outcome one that can be reported: a result that cannot makes it a failure, since it would be the same
// the next time, and a message that is too long is cut off.
func sound(o client.Outcome) client.Outcome {
	switch n := len(o.Result); {
	case n > client.MaxResult:
		o = unfit(o, fmt.Sprintf("the result has %d bytes; at most %d can be kept", n, client.MaxResult))
	case n > 0 && !json.Valid(o.Result):
		o = unfit(o, fmt.Sprintf("the result is not valid JSON; it begins with %q", short(string(o.Result), 100)))
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
func unfit(o client.Outcome, why string) client.Outcome {
	return client.Outcome{
		ExecutionID: o.ExecutionID, FencingToken: o.FencingToken, Status: client.Failed, Retryable: o.Status == client.Failed && o.Retryable,
		Error: &client.Error{Type: "HANDLER_ERROR", Message: short("the outcome "+o.Status+" could not be reported: "+why, client.MaxMessage)},
	}
}

// short is the beginning of a text, of at most so many bytes.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:most-len(dots)], "") + dots
}

// weight is about how many bytes an outcome has on the way, at most.
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

// report passes outcomes on in batches until there are no more: whatever ended while one batch was on its way is the next.
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

// deliver reports a batch. Where the server cannot take it as it is, the outcome that is to blame is found by halves, and
// reported as a failure instead.
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
	if err := h.send([]client.Outcome{unfit(batch[0], err.Error())}); err != nil {
		h.p.log.Error("nor can the failure be reported; the execution will be given out again", "execution", batch[0].ExecutionID, "error", err)
		h.told(batch)
	}
}

// send tries to report a batch until the server has answered it, the session has ended or the time to drain is up; what is
// then not reported is handed back as the worker leaves. It returns an error if the server will never take the batch.
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

// wait passes the time until the next try, if there is to be one.
func (h *shift) wait(d time.Duration, why error) {
	select {
	case <-h.late: // looked at first: past it there is no other try
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
	h.p.log.Error("the time to stop is up and outcomes are not reported; their executions are handed back", "worker", h.session.WorkerID, "outcomes", len(h.untold), "error", why)
}

// hopeless tells a request that the server will never take from one that it does not take now, or from this worker.
func hopeless(err error) bool {
	var r *client.Problem
	if !errors.As(err, &r) {
		return errors.Is(err, client.ErrEncoding)
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false // it is not about what the request says
	}
	return r.Status >= 400 && r.Status < 500
}

// told notes that the server has answered for a batch.
func (h *shift) told(batch []client.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range batch {
		delete(h.untold, client.Held{ExecutionID: o.ExecutionID, FencingToken: o.FencingToken})
	}
}
