package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var logParams = []param{
	{"attempt", "integer", "Only the attempt with this number."},
	{"after", "string", "Only lines after the one with this id."},
	{"cursor", "string", "next_cursor of the previous page; the same as after."},
	{"limit", "integer", "1 to 1000; 50 when omitted."},
	{"follow", "boolean", "true: stream events (text/event-stream) until the execution has finished."},
}

// appendLog accepts lines from a worker.
func (s executionAPI) appendLog(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	var req client.LogRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	out, err := s.intake().log(r.Context(), id, req, time.Now)
	if err != nil {
		return err
	}
	return reply(w, 200, out)
}

// follows reports whether a request asks for a stream of events.
func follows(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Query().Get("follow") == "true" || strings.Contains(r.Header.Get("Accept"), "text/event-stream"))
}

// listLog responds with an execution's log, as a page or as a stream.
func (s executionAPI) listLog(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, logParams)
	if err != nil {
		return err
	}
	page := q.page()
	ask := service.LogQuery{Limit: page.Limit, Attempt: q.attempt(), From: q.place(r)}
	if v := q.values.Get("follow"); v != "" && v != "true" && v != "false" {
		q.wrong("follow", v, "true or false")
	}
	if err := q.err(); err != nil {
		return err
	}
	if follows(r) {
		return s.followLog(w, r, p, id, ask)
	}
	got, err := s.service.Log(r.Context(), p, id, ask)
	if err != nil {
		return err
	}
	total, err := s.service.LogLines(r.Context(), p, id, ask.Attempt)
	if err != nil {
		return err
	}
	out := client.Log{Lines: make([]client.LoggedLine, len(got.Lines))}
	for i, l := range got.Lines {
		out.Lines[i] = wireLine(l)
	}
	next := ""
	if got.More {
		next = out.Lines[len(out.Lines)-1].ID
	}
	out.Pagination = pagination(page, engine.Total{Count: total}, next)
	return reply(w, 200, out)
}

func (q *query) attempt() int {
	s := q.values.Get("attempt")
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		q.wrong("attempt", s, "the number of an attempt, from 1")
	}
	return n
}

// place reads after which line to continue: from a parameter, or from the last event that a reconnecting client has
// seen.
func (q *query) place(r *http.Request) job.LogPlace {
	field, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	for _, name := range []string{"after", "cursor"} {
		if s := q.values.Get(name); s != "" && text == "" {
			field, text = name, s
		}
	}
	if text == "" {
		return job.LogPlace{}
	}
	at, ok := job.ParseLogPlace(text)
	if !ok {
		q.wrong(field, text, "the id of a line, such as 7.12")
	}
	return job.LogPlace{Token: at.Token, Line: at.Line + 1}
}

func wireLine(l service.LoggedLine) client.LoggedLine {
	return client.LoggedLine{ID: l.Place.String(), Attempt: l.Attempt, Line: l.Place.Line, At: l.At, Stream: l.Stream, Text: l.Text}
}

const (
	maxFollowers   = 500                    // at once; more are turned away
	followPage     = 1000                   // lines that are read at once
	followPoll     = 400 * time.Millisecond // how often a log written through other servers is polled
	followBeat     = 5 * time.Second        // how often a stream sends a heartbeat
	followPatience = 30 * time.Second       // how long a reader may take for a part
	followDeadline = time.Hour              // then the reader must reconnect, with its position
)

// followLog streams a log until the execution has finished.
func (s executionAPI) followLog(w http.ResponseWriter, r *http.Request, p tenant.Principal, id job.ExecutionID, ask service.LogQuery) error {
	ctx := r.Context()
	if err := s.service.HasExecution(ctx, p, id); err != nil {
		return err
	}
	release, err := s.follow(p.Tenant)
	if err != nil {
		return err
	}
	defer release()
	changed, stop := s.cfg.Dispatch.Watch(id)
	defer stop()
	out := newEvents(w)
	if err := out.begin(); err != nil {
		return nil // the caller has gone
	}
	vigil := s.watch(r, p, tenant.Read)
	poll, beat := time.NewTicker(followPoll), time.NewTicker(followBeat)
	defer poll.Stop()
	defer beat.Stop()
	ask.Limit = followPage
	for {
		end, err := s.catchUp(ctx, p, id, &ask, out, vigil)
		switch {
		case errors.Is(err, errRevoked):
			return nil
		case err != nil && ctx.Err() == nil && !out.broken:
			s.log.Warn("a log cannot be read on; its reader is to come again", "execution", id, "error", err)
			return nil
		case err != nil || end:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return nil
		case <-changed:
		case <-poll.C:
		case <-beat.C:
			if err := out.beat(); err != nil {
				return nil
			}
		}
	}
}

// follow reserves a stream, or refuses it if there are too many, here or of the tenant.
func (s *Server) follow(of tenant.ID) (release func(), err error) {
	return s.followers.take(of, "too_many_followers", "streams")
}

// catchUp sends new lines of a log, and its end, if it has come. It ends with errRevoked if the reader may no longer
// read.
func (s executionAPI) catchUp(ctx context.Context, p tenant.Principal, id job.ExecutionID, ask *service.LogQuery, out *events, vigil *vigil) (end bool, err error) {
	if !vigil.allowed() {
		return false, errRevoked
	}
	e, err := s.service.Execution(ctx, p, id) // before the lines: what ends an attempt comes after them
	if err != nil {
		return false, err
	}
	for {
		page, err := s.service.Log(ctx, p, id, *ask)
		if err != nil {
			return false, err
		}
		for _, l := range page.Lines {
			if !vigil.allowed() {
				return false, errRevoked
			}
			if err := out.event("line", l.Place.String(), wireLine(l)); err != nil {
				return false, err
			}
		}
		ask.From = page.Next
		if page.More {
			continue
		}
		if e.Status.Final() {
			if err := out.event("end", "", client.LogEnd{Status: e.Status.String()}); err != nil {
				return true, err
			}
		}
		return e.Status.Final(), out.flush()
	}
}

// events writes a stream of server-sent events.
type events struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	dirty  bool
	broken bool // the reader has gone
}

func newEvents(w http.ResponseWriter) *events {
	return &events{w: w, rc: http.NewResponseController(w)}
}

// begin sends the header of the response. The server's time limit is not meant for a stream.
func (e *events) begin() error {
	_ = e.rc.SetReadDeadline(time.Time{}) // a connection without deadlines needs none lifted
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	e.extend()
	e.w.WriteHeader(http.StatusOK)
	return e.rc.Flush()
}

func (e *events) extend() { _ = e.rc.SetWriteDeadline(time.Now().Add(followPatience)) }

func (e *events) event(name, id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	e.extend()
	e.dirty = true
	if id != "" {
		id = "id: " + id + "\n"
	}
	_, err = fmt.Fprintf(e.w, "%sevent: %s\ndata: %s\n\n", id, name, data)
	e.broken = err != nil
	return err
}

// beat sends a sign of life. It is an event, not a comment, because browsers pass only events to pages, and a page
// that receives nothing knows that the stream hangs. It has no id: there is nothing to continue after.
func (e *events) beat() error {
	if err := e.event("beat", "", struct{}{}); err != nil {
		return err
	}
	return e.flush()
}

func (e *events) flush() error {
	if !e.dirty {
		return nil
	}
	e.dirty = false
	err := e.rc.Flush()
	e.broken = err != nil
	return err
}
