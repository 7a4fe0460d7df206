package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/carillon-jobs/carillon/worker"
)

const (
	maxLine = 16<<10 - 256 // bytes of a line that are kept: with the note that it was cut it fits a line of the log
	maxTail = 2 << 10      // bytes of standard error that go into a failure's message
)

// output carries a command's output to the log: line by line, up to a limit, with at most one line of each stream in
// memory. Output beyond the limit is read and dropped, so that the command is not blocked.
type output struct {
	ctx  context.Context
	sink func(ctx context.Context, stream, text string)

	mu      sync.Mutex
	left    int64 // guarded by mu: bytes that may still be kept
	limit   int64
	dropped int64  // guarded by mu
	last    []byte // guarded by mu: the end of standard error, and some of what came before
	cut     bool   // guarded by mu: something came before that
}

func newLog(ctx context.Context, limit int64) *output {
	return &output{ctx: ctx, sink: worker.Log, left: limit, limit: limit}
}

// read forwards a stream until it ends.
func (o *output) read(stream string, r io.Reader) {
	b := bufio.NewReaderSize(r, maxLine)
	cut := 0 // bytes of the line that were left out so far
	for {
		part, err := b.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if stream == worker.Stderr {
			o.note(part)
		}
		switch {
		case cut > 0:
			cut += len(part)
			o.drop(len(part))
		case len(part) > 0:
			o.line(stream, part, long)
		}
		if long {
			cut = max(cut, 1)
			continue
		}
		cut = 0
		if err != nil {
			return
		}
	}
}

// line keeps one line, as far as there is room.
func (o *output) line(stream string, part []byte, long bool) {
	o.mu.Lock()
	fits := o.left > 0
	if fits {
		o.left -= int64(len(part))
	} else {
		o.dropped += int64(len(part))
	}
	full := fits && o.left <= 0
	o.mu.Unlock()
	if !fits {
		return
	}
	text := clean(part)
	if long {
		text += fmt.Sprintf("… [the line is longer than %d bytes; the rest of it was dropped]", maxLine)
	}
	o.sink(o.ctx, stream, text)
	if full {
		o.sink(o.ctx, stream, fmt.Sprintf("[the output is longer than %d bytes; what follows is dropped]", o.limit))
	}
}

func (o *output) drop(n int) {
	o.mu.Lock()
	o.dropped += int64(n)
	o.mu.Unlock()
}

// close reports how much was dropped, if anything.
func (o *output) close() {
	o.mu.Lock()
	n := o.dropped
	o.mu.Unlock()
	if n > 0 {
		o.sink(o.ctx, worker.Stderr, fmt.Sprintf("[%d bytes of output were dropped]", n))
	}
}

// note remembers the end of standard error.
func (o *output) note(part []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(part) > maxTail {
		part, o.cut = part[len(part)-maxTail:], true
	}
	if len(o.last)+len(part) > 8*maxTail { // now and then, not with every line
		o.last, o.cut = append(o.last[:0], o.last[len(o.last)-maxTail:]...), true
	}
	o.last = append(o.last, part...)
}

// tail returns the end of standard error.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) <= maxTail && !o.cut {
		return strings.TrimSpace(clean(o.last))
	}
	last := o.last[max(0, len(o.last)-maxTail):]
	if i := bytes.IndexByte(last, '\n'); i >= 0 && i < len(last)/2 { // whole lines, if they are not too long
		last = last[i+1:]
	}
	return "…" + strings.TrimSpace(clean(last)) // a secret may have begun before it; the mark lets the server recognise the rest of one
}

// clean returns untrusted bytes as valid text, without characters that no log may contain.
func clean(b []byte) string {
	text := strings.TrimRight(string(b), "\r\n")
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}
