package cli

import (
	"fmt"
	"strings"
)

// progress shows how something goes that is waited for: one line that is drawn again on a terminal, else a line when it changes.
type progress struct {
	s    *session
	last string
}

const wipe = "\r\x1b[2K"

// tell shows how it goes.
func (p *progress) tell(text string) {
	if p.s.quiet || text == p.last {
		return
	}
	p.last = text
	if drawable(p.s.err) {
		fmt.Fprint(p.s.err, wipe+cut(line(text), 100))
		return
	}
	fmt.Fprintln(p.s.err, line(text))
}

// end wipes the line.
func (p *progress) end() {
	if !p.s.quiet && p.last != "" && drawable(p.s.err) {
		fmt.Fprint(p.s.err, wipe)
	}
}

// bar draws a part of a whole.
func bar(part, whole int64, width int) string {
	full := width
	if whole > 0 {
		full = int(min(max(part, 0), whole) * int64(width) / whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
