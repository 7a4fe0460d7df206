package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/layout"
)

// ganttBar is a node in a Gantt chart: when it could have started, when it started, and when it ended (or now).
type ganttBar struct {
	node              layout.Node
	state             nodeState
	ready, start, end time.Time
}

// ganttBars lists the nodes that have started, by start. A node could have started when the last of its parents had ended, or when
// the run began; a finally node, when all others had ended.
func ganttBars(nodes []layout.Node, run map[string]nodeState, began, now time.Time) (bars []ganttBar, waiting int) {
	others := began
	for _, n := range nodes {
		if end := run[n.Key].End; !n.Finally && end.After(others) {
			others = end
		}
	}
	for _, n := range nodes {
		s := run[n.Key]
		if s.Start.IsZero() {
			waiting++
			continue
		}
		b := ganttBar{n, s, began, s.Start, s.End}
		if n.Finally {
			b.ready = others
		}
		for _, p := range n.After {
			if end := run[p].End; end.After(b.ready) {
				b.ready = end
			}
		}
		if b.ready.After(b.start) {
			b.ready = b.start
		}
		if b.end.IsZero() {
			b.end = now
		}
		bars = append(bars, b)
	}
	slices.SortStableFunc(bars, func(a, b ganttBar) int { return a.start.Compare(b.start) })
	return bars, waiting
}

// gantt draws when each node waited and ran.
func (d drawing) gantt(nodes []layout.Node, run map[string]nodeState, began, now time.Time) string {
	bars, waiting := ganttBars(nodes, run, began, now)
	if len(bars) == 0 {
		return "No node has started yet.\n"
	}
	last, name, said := began, 0, 0
	for _, b := range bars {
		if b.end.After(last) {
			last = b.end
		}
		name = max(name, utf8.RuneCountInString(b.node.Key))
		said = max(said, utf8.RuneCountInString(b.said()))
	}
	name = min(name, max(d.columns/3, 8))
	width := max(d.columns-name-said-6, 10)
	total := max(last.Sub(began), 1)
	at := func(t time.Time) int { return min(max(int(int64(t.Sub(began))*int64(width)/int64(total)), 0), width) }
	ran, waited, parked := "█", "░", "▒"
	if d.ascii {
		ran, waited, parked = "#", ".", "~"
	}
	var b strings.Builder
	end := span(total)
	fmt.Fprintf(&b, "%s  %s\n", strings.Repeat(" ", name+2), "0"+strings.Repeat(" ", max(width-1-len(end), 1))+end)
	var waits, parks bool
	for _, bar := range bars {
		from, start := at(bar.ready), min(at(bar.start), width-1)
		from = min(from, start)
		n := max(at(bar.end)-start, 1)
		fill := ran
		if slices.Contains([]string{"approval", "timer", "event"}, bar.node.Kind) {
			fill, parks = parked, true
		}
		waits = waits || start > from
		sign, colour := d.statusSign(bar.state.Status)
		key := d.cut(bar.node.Key, name)
		fmt.Fprintf(&b, "%s %s  %s%s%s%s  %s\n",
			d.paint(cmp.Or(sign, " "), colour), key+strings.Repeat(" ", name-utf8.RuneCountInString(key)),
			strings.Repeat(" ", from), d.paint(strings.Repeat(waited, start-from), "2"), d.paint(strings.Repeat(fill, n), colour),
			strings.Repeat(" ", max(width-start-n, 0)), bar.said())
	}
	var legend []string
	if waits {
		legend = append(legend, waited+" ready to start")
	}
	if parks {
		legend = append(legend, parked+" approval, timer or event")
	}
	if waiting > 0 {
		legend = append(legend, counting(int64(waiting), "node")+" not started")
	}
	if len(legend) > 0 {
		fmt.Fprintf(&b, "%s\n", d.paint(d.cut(strings.Join(legend, "   "), d.columns), "2"))
	}
	return b.String()
}

// said returns how long a node ran and, if it matters, how long it waited before.
func (b ganttBar) said() string {
	text := span(b.end.Sub(b.start))
	if w := b.start.Sub(b.ready); w >= 100*time.Millisecond && w*20 >= b.end.Sub(b.ready) {
		text += ", waited " + span(w)
	}
	if b.state.Text != "" {
		text += ", " + b.state.Text
	}
	return text
}

// cut shortens text to n characters, marking the cut with a sign that the terminal supports.
func (d drawing) cut(text string, most int) string {
	text = cut(text, most)
	if d.ascii {
		text = strings.ReplaceAll(text, "…", "~")
	}
	return text
}
