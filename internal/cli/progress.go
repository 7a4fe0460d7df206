package cli

import (
	"fmt"
	"strings"
)

// progress shows the progress of a wait: one line that is redrawn on a terminal, else a line for each change.
type progress struct {
	s    *session
	last string
}

const wipe = "\r\x1b[2K"

// tell shows the progress.
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

// bar draws a progress bar.
func bar(part, whole int64, width int) string {
	full := width
	if whole > 0 {
		full = int(min(max(part, 0), whole) * int64(width) / whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
