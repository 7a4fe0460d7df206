package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// Limits on the size of a body.
const (
	maxBody  = 1 << 20
	maxBatch = 16 << 20
)

// body reads a request's body, up to its limit.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		// curl -d labels everything as a form; a page of another site that does the same is refused by its origin.
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" && kind != "application/x-www-form-urlencoded" {
			return nil, refuse(415, "unsupported_media_type", fmt.Sprintf("The body is %q; want application/json.", job.Show(ct)))
		}
	}
	tooLarge := refuse(413, "too_large", fmt.Sprintf("The body is larger than %d bytes.", limit),
		client.FieldProblem{Value: sizeOf(r), Want: fmt.Sprintf("at most %d bytes", limit)})
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, refuse(400, "unreadable_body", "The body could not be read to its end.")
	}
	return data, nil
}

func sizeOf(r *http.Request) string {
	if r.ContentLength < 0 {
		return "unknown"
	}
	return fmt.Sprintf("%d bytes", r.ContentLength)
}

// once makes a request safe to retry.
type once struct {
	key  string
	hash [32]byte
}

// idempotency reads the idempotency key of a request, if it has one.
func idempotency(r *http.Request, data []byte) (once, error) {
	key := r.Header.Get("X-Idempotency-Key")
	if other := r.Header.Get("Idempotency-Key"); key == "" {
		key = other
	} else if other != "" && other != key {
		return once{}, refuse(400, "invalid_header", "X-Idempotency-Key and Idempotency-Key differ.",
			client.FieldProblem{Field: "Idempotency-Key", Value: job.Show(other), Want: "the same as X-Idempotency-Key, or only one of them"})
	}
	if len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return once{}, refuse(400, "invalid_header", "The idempotency key cannot be used.",
			client.FieldProblem{Field: "X-Idempotency-Key", Value: job.Show(key), Want: "1 to 255 printable ASCII characters"})
	}
	if key == "" {
		return once{}, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", r.Method, r.URL.Path)
	h.Write(data)
	return once{key, [32]byte(h.Sum(nil))}, nil
}

// read reads a body and its idempotency key.
func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, once, error) {
	data, err := body(w, r, limit)
	if err != nil {
		return nil, once{}, err
	}
	o, err := idempotency(r, data)
	return data, o, err
}

// jobRef reads the job that a path names, by id or as key:…; an invalid name is not found.
func jobRef(r *http.Request) (engine.Ref, error) {
	return parseRef(r.PathValue("id"))
}

func parseRef(text string) (engine.Ref, error) {
	if key, ok := strings.CutPrefix(text, "key:"); ok && job.ValidKey(key) {
		return engine.Ref{Key: key}, nil
	}
	id, err := job.ParseID(text)
	if err != nil {
		return engine.Ref{}, engine.ErrNotFound
	}
	return engine.Ref{ID: id}, nil
}

// query reads the query parameters, each once, and records mistakes in them.
type query struct {
	values   url.Values
	problems []client.FieldProblem
}

func parseQuery(r *http.Request, known []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(400, "invalid_parameter", "The query string cannot be read: "+job.Show(err.Error())+".")
	}
	q := &query{values: values}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	for name, vs := range values {
		switch {
		case len(names) == 0:
			q.wrong(name, vs[0], "no parameters")
		case !slices.Contains(names, name) && len(names) == 1:
			q.wrong(name, vs[0], "no parameter but "+names[0])
		case !slices.Contains(names, name):
			q.wrong(name, vs[0], "one of the parameters "+strings.Join(names, ", "))
		case len(vs) > 1:
			q.wrong(name, strings.Join(vs, ", "), "a parameter only once")
		}
	}
	return q, nil
}

// noParams refuses a query: there are no parameters.
func noParams(r *http.Request) error {
	q, err := parseQuery(r, nil)
	if err != nil {
		return err
	}
	return q.err()
}

func (q *query) wrong(field, value, want string) {
	q.problems = append(q.problems, client.FieldProblem{Field: job.Show(field), Value: job.Show(value), Want: want})
}

func (q *query) err() error {
	if len(q.problems) == 0 {
		return nil
	}
	slices.SortFunc(q.problems, func(a, b client.FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return refuse(400, "invalid_parameter", "The query cannot be answered: "+say(q.problems), q.problems...)
}

func (q *query) text(name string) string {
	s := q.values.Get(name)
	if len(s) > 500 {
		q.wrong(name, s, "at most 500 characters")
		return ""
	}
	if strings.ContainsRune(s, 0) || strings.ToValidUTF8(s, "") != s {
		q.wrong(name, s, "valid UTF-8 without NUL")
		return ""
	}
	return s
}

// flag reads true or false; false when the parameter is absent.
func (q *query) flag(name string) bool {
	s := q.values.Get(name)
	if s != "" && s != "true" && s != "false" {
		q.wrong(name, s, "true or false")
	}
	return s == "true"
}

func (q *query) page() engine.Page {
	p := engine.Page{Limit: 50, Cursor: q.values.Get("cursor")}
	if s := q.values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1000 {
			q.wrong("limit", s, "a whole number from 1 to 1000")
		} else {
			p.Limit = n
		}
	}
	return p
}

// paged responds with one page of a short list that is always read completely; its cursor is the number of elements
// before it.
func paged[T any](r *http.Request, read func() ([]T, error)) ([]T, client.Pagination, error) {
	return pagedWithin(r, func(*T) int { return 0 }, read)
}

// pagedWithin is paged for elements that may be long: the page ends with the one with which it has engine.PageBytes.
func pagedWithin[T any](r *http.Request, size func(*T) int, read func() ([]T, error)) ([]T, client.Pagination, error) {
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return nil, client.Pagination{}, err
	}
	p := q.page()
	if err := q.err(); err != nil {
		return nil, client.Pagination{}, err
	}
	from := 0
	if p.Cursor != "" {
		if from, err = strconv.Atoi(p.Cursor); err != nil || from < 1 {
			return nil, client.Pagination{}, engine.ErrCursor
		}
	}
	all, err := read()
	if err != nil {
		return nil, client.Pagination{}, err
	}
	from = min(from, len(all))
	to, end, next := from, min(from+p.Limit, len(all)), ""
	for bytes := 0; to < end && bytes < engine.PageBytes; to++ {
		bytes += size(&all[to])
	}
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	out := pagination(p, engine.Total{Count: int64(len(all))}, next)
	out.Partial = to < end
	return all[from:to], out, nil
}

// choice reads one of several values, in any case; the zero value when the parameter is absent.
func choice[T fmt.Stringer](q *query, name string, all []T) (zero T) {
	s := q.values.Get(name)
	if s == "" {
		return zero
	}
	v, ok := oneOf(s, all)
	if !ok {
		q.wrong(name, s, "one of "+list(all))
	}
	return v
}

// choices reads a list of values separated by commas.
func choices[T fmt.Stringer](q *query, name string, all []T) []T {
	s := q.values.Get(name)
	if s == "" {
		return nil
	}
	var out []T
	for part := range strings.SplitSeq(s, ",") {
		v, ok := oneOf(strings.TrimSpace(part), all)
		if !ok {
			q.wrong(name, part, "one or more, separated by commas, of "+list(all))
			return nil
		}
		out = append(out, v)
	}
	return out
}

func oneOf[T fmt.Stringer](s string, all []T) (zero T, ok bool) {
	for _, v := range all {
		if strings.EqualFold(v.String(), s) {
			return v, true
		}
	}
	return zero, false
}

func list[T fmt.Stringer](all []T) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}

// date reads a day or an instant.
func (q *query) date(name string) time.Time {
	s := q.values.Get(name)
	if s == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t.UTC()
		}
	}
	q.wrong(name, s, "a date such as 2026-01-31, or a time such as 2026-01-31T15:04:05Z")
	return time.Time{}
}

// decode reads a body strictly.
func decode(data []byte, v any) error { return strictjson.Unmarshal(data, v) }

// decodeAny is decode for an optional body.
func decodeAny(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	return decode(data, v)
}
