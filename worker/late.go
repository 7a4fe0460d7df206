package worker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// startCall limits one request for an attempt that begins.
const startCall = 10 * time.Second

// complete asks for an attempt that was claimed without the values of its secrets, now that it has a slot, and reports
// whether it may begin. While no server answers it asks again, for as long as a lease lasts. An attempt that may not
// begin is handed back: nothing of it has run, so no retry is used up.
func (h *shift) complete(r *running) bool {
	held := client.Held{ExecutionID: r.attempt.ExecutionID, FencingToken: r.attempt.FencingToken}
	ctx, cancel := context.WithTimeout(r, h.lease())
	defer cancel()
	for fails := 0; ; {
		call, done := context.WithTimeout(ctx, startCall)
		whole, err := h.p.src.Start(call, h.session, held)
		done()
		switch {
		case errors.Is(err, ErrSession):
			h.end(err)
			return false
		case err == nil && ctx.Err() == nil:
			r.complete(whole)
			return true
		case err == nil, ctx.Err() != nil, refuses(err):
			h.p.log.Warn("an attempt could not begin; it is handed back", "execution", held.ExecutionID, "reason", errors.Join(context.Cause(ctx), err))
			h.owe([]client.Held{held})
			return false
		}
		fails++
		pause(ctx, backoff(fails))
	}
}

// refuses reports whether an answer means that an attempt may not begin, rather than not now.
func refuses(err error) bool {
	var p *client.Problem
	if !errors.As(err, &p) {
		return false
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return p.Status >= 400 && p.Status < 500
}
