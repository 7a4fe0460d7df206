package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

const (
	previewSize   = 4 << 10   // kept of a body
	scanSize      = 64 << 10  // searched for expect.body_contains
	drainSize     = 256 << 10 // read to the end to reuse the connection
	maxRetryAfter = 24 * time.Hour
	maxResult     = 1 << 20 // of a body that is the result of a workflow node
)

// judge reads the response and decides whether it is the expected one; detail describes an unexpected status. A
// response counts once its body has ended, or exceeds what anyone needs.
func (c *call) judge(ctx context.Context, resp *http.Response, detail error) client.Outcome {
	expect := c.attempt.Execution.Expect
	if expect == nil {
		expect = &client.Expect{}
	}
	size := 0
	if c.attempt.WantsResult {
		size = maxResult
	}
	body := read(resp, expect.BodyContains, size)
	o := c.verdict(ctx, resp, *expect, body, detail)
	switch {
	case o.Status != client.Succeeded:
	case body.large && strings.Contains(resp.Header.Get("Content-Type"), "json"): // no other body would be a result
		o = failed(typeResult, false, fmt.Sprintf(`%s answered %s, but a result has at most %d bytes: answer with less, or with {"$artifact": "…"}`, c, statusText(resp.StatusCode), maxResult))
	case json.Valid(body.whole):
		o.Result = body.whole
	}
	o.Response = &client.CallbackResponse{HTTPStatus: resp.StatusCode, BodyPreview: body.preview}
	if o.Error != nil {
		o.Error.HTTPStatus = resp.StatusCode
	}
	return o
}

func (c *call) verdict(ctx context.Context, resp *http.Response, expect client.Expect, body content, detail error) client.Outcome {
	status := resp.StatusCode
	answered := fmt.Sprintf("%s answered %s", c, statusText(status))
	stopped := body.err != nil && ctx.Err() != nil
	switch {
	case stopped && errors.Is(context.Cause(ctx), worker.ErrCancelled):
		return ended(ctx, c.attempt)
	case !expected(status, expect.Status):
		o := failed(typeHTTP, retryable(status), answered)
		if detail != nil {
			o.Error.Message += " " + detail.Error()
		} else if len(expect.Status) > 0 {
			o.Error.Message += fmt.Sprintf(", which is not one of the expected %s", list(expect.Status))
		}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			o.RetryAfterMS = retryAfter(resp.Header).Milliseconds()
		}
		return o
	case stopped:
		o := ended(ctx, c.attempt)
		if o.Error.Type == typeTimeout {
			o.Error.Message = fmt.Sprintf("%s, but the body did not end %s", answered, within(c.attempt))
		}
		return o
	case body.err != nil:
		return failed(class(body.err), true, fmt.Sprintf("%s, but the body broke off: %s", answered, plainCause(body.err)))
	case !body.found:
		return failed(typeHTTP, true, fmt.Sprintf("%s, but the answer does not contain %q", answered, excerpt(*expect.BodyContains)))
	}
	if status == http.StatusAccepted && resp.Header.Get(asyncHeader) == "true" && !c.foreign && c.attempt.CallbackHeaders[tokenHeader] != "" {
		return client.Outcome{Status: client.Parked}
	}
	return succeeded()
}

// A target that answers 202 with asyncHeader completes the execution later, with the value it was sent in
// tokenHeader.
const (
	asyncHeader = "Carillon-Async"
	tokenHeader = "Carillon-Callback-Token"
)

func expected(status int, want []int) bool {
	if len(want) > 0 {
		return slices.Contains(want, status)
	}
	return status >= 200 && status <= 299
}

// retryable reports whether the same request may succeed later.
func retryable(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500 && status <= 599
}

// statusText words a status from our own table: a target's text is not trusted.
func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

func list(statuses []int) string {
	words := make([]string, 0, len(statuses))
	for _, s := range statuses {
		words = append(words, strconv.Itoa(s))
	}
	return excerpt(strings.Join(words, ", "))
}

// retryAfter returns the wait that the response asks for, at most a day; 0 if it asks for none.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	wait := time.Until(until)
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		wait = until.Sub(date) // both by the target's clock, regardless of ours
	}
	return min(max(wait, 0), maxRetryAfter)
}

// content holds what was read of a body.
type content struct {
	preview string
	whole   []byte // all of it, if it is short enough and was asked for
	large   bool   // all of it was asked for, and is too long
	found   bool   // the wanted text is in it, or none was wanted
	err     error  // it broke off
}

// read reads what is needed from the body, lets the connection be reused if little remains, and closes the body.
func read(resp *http.Response, want *string, whole int) content {
	defer func() { _ = resp.Body.Close() }() // all that matters was read
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return content{found: want == nil} // its body is the bare connection
	}
	size := int64(previewSize)
	if want != nil {
		size = scanSize
	}
	if whole > 0 {
		size = int64(whole) + 1
	}
	if n := resp.ContentLength; n >= 0 && n < size {
		size = n + 1 // room to see the end
	}
	buf := make([]byte, size)
	n, err := fill(resp.Body, buf)
	c := content{preview: preview(buf[:min(n, previewSize)]), found: want == nil || bytes.Contains(buf[:n], []byte(*want))}
	if whole > 0 && n <= whole && errors.Is(err, io.EOF) {
		c.whole = buf[:n]
	}
	c.large = whole > 0 && n > whole
	for total := n; err == nil && total < drainSize; total += n {
		n, err = resp.Body.Read(buf)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return c
}

// fill reads until buf is full or the reader ends. Unlike io.ReadFull it distinguishes an end from an unexpected one.
func fill(r io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		k, err := r.Read(buf[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// preview returns text, of at most previewSize bytes, that any database can store.
func preview(b []byte) string {
	cut := len(b) == previewSize
	var s strings.Builder
	s.Grow(len(b))
	for len(b) > 0 {
		if cut && !utf8.FullRune(b) {
			break
		}
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		if control(r) {
			r = utf8.RuneError
		}
		if s.Len()+utf8.RuneLen(r) > previewSize {
			break
		}
		s.WriteRune(r)
	}
	return s.String()
}

func control(r rune) bool {
	return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r >= 0x7f && r < 0xa0
}
