package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/layout"
)

// drawing draws workflows and runs as text.
type drawing struct {
	columns int
	ascii   bool
	paint   func(text, colour string) string
}

// nodeState is the state of a node in a run.
type nodeState struct {
	Status     string
	Text       string // more detail, such as 38/40
	Start, End time.Time
}

// newDrawing returns a drawing for the output: as wide as the terminal, or 100 columns.
func newDrawing(out io.Writer, ascii bool) drawing {
	d := drawing{columns: 100, ascii: ascii || !knowsUnicode(), paint: func(text, _ string) string { return text }}
	f, ok := out.(*os.File)
	if !ok {
		return d
	}
	if drawable(f) {
		columns, _ := terminalWidth(f)
		d.columns = cmp.Or(columns, d.columns)
	}
	if coloured(f) {
		d.paint = func(text, colour string) string {
			if colour == "" || strings.TrimSpace(text) == "" {
				return text
			}
			return "\x1b[" + colour + "m" + text + "\x1b[0m"
		}
	}
	return d
}

// knowsUnicode reports whether lines may be drawn with box characters: unless the locale names another encoding.
func knowsUnicode() bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	if runtime.GOOS == "windows" {
		return true
	}
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return locale == "" || strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// statusSign returns a status as one character, and its colour.
func (d drawing) statusSign(status string) (sign, colour string) {
	type look struct{ sign, ascii, colour string }
	l, ok := map[string]look{
		"SUCCEEDED":  {"✓", "+", "32"},
		"FAILED":     {"✗", "x", "31"},
		"TIMED_OUT":  {"✗", "x", "31"},
		"EXPIRED":    {"✗", "x", "31"},
		"CANCELLED":  {"⊘", "/", "33"},
		"CANCELLING": {"⊘", "/", "33"},
		"SKIPPED":    {"»", "~", "2"},
		"NOT_RUN":    {"-", "-", "2"},
		"RUNNING":    {"▶", ">", "34"},
		"RETRYING":   {"↻", "r", "33"},
		"PAUSED":     {"‖", "=", "33"},
		"PENDING":    {"○", "o", "36"},
		"WAITING":    {"·", ".", "2"},
	}[status]
	switch {
	case !ok:
		return "", ""
	case d.ascii:
		return l.ascii, l.colour
	}
	return l.sign, l.colour
}

// graph draws nodes and the edges between them from left to right or, if the terminal is too narrow, as a tree.
func (d drawing) graph(nodes []layout.Node, run map[string]nodeState) string {
	heights := []int{3, 1}
	if len(nodes) > 24 {
		heights = heights[1:]
	}
	for _, height := range heights {
		if text, ok := d.plane(nodes, run, height); ok {
			return text
		}
	}
	return d.tree(nodes, run)
}

// cell is one character on a plane, and its colour.
type cell struct {
	char   rune
	lines  uint8 // that leave it: to the left, right, up, down
	lane   uint8 // the same, of the edge whose lane it is
	colour string
}

const (
	toLeft uint8 = 1 << iota
	toRight
	toUp
	toDown
)

// plane draws on a plane; it returns false if the terminal is too narrow.
func (d drawing) plane(nodes []layout.Node, run map[string]nodeState, height int) (string, bool) {
	labels := make(map[string][]string, len(nodes))
	for _, n := range nodes {
		labels[n.Key] = d.label(n, run)
	}
	l, err := layout.Compute(nodes, layout.Metrics{Height: height, LayerGap: 1, OneColumn: true, Width: func(n layout.Node) int {
		w := 0
		for i, part := range labels[n.Key] {
			w += utf8.RuneCountInString(part) + min(i, 1)
		}
		if height == 3 {
			return w + 4
		}
		return w + 2
	}})
	if err != nil || len(nodes) == 0 {
		return "", err == nil
	}
	p := &plane{drawing: d, l: l, height: height, labels: labels, run: run}
	if !p.arrange() {
		return "", false
	}
	p.fill()
	return p.text(), true
}

// label returns the text of a node: the sign of its status, its key, and its kind or progress.
func (d drawing) label(n layout.Node, run map[string]nodeState) []string {
	out := []string{"", n.Key, ""}
	if s, ok := run[n.Key]; ok {
		out[0], _ = d.statusSign(s.Status)
		out[2] = s.Text
	} else if len(n.Marks) > 0 {
		out[2] = "(" + strings.Join(n.Marks, ", ") + ")"
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// tree draws nodes below each other: each below the last of its parents to run, naming the others.
func (d drawing) tree(nodes []layout.Node, run map[string]nodeState) string {
	l, err := layout.Compute(nodes, layout.Metrics{Height: 1, LayerGap: 1, Width: func(layout.Node) int { return 1 }})
	if err != nil {
		return err.Error() + "\n"
	}
	layer := map[string]int{}
	for _, b := range l.Nodes {
		layer[b.Key] = b.Layer
	}
	below := map[string][]layout.Node{}
	for _, n := range nodes {
		last := ""
		for _, p := range n.After {
			if last == "" || layer[p] > layer[last] {
				last = p
			}
		}
		below[last] = append(below[last], n)
	}
	branch, end, down, none := "├─ ", "└─ ", "│  ", "   "
	arrow := "←"
	if d.ascii {
		branch, end, down, arrow = "|- ", "`- ", "|  ", "<-"
	}
	var b strings.Builder
	var show func(n layout.Node, own, next string)
	show = func(n layout.Node, own, next string) {
		text := strings.Join(d.label(n, run), " ")
		if n.Finally && len(n.After) == 0 {
			text += " finally"
		}
		var others []string
		for _, p := range n.After {
			if !slices.ContainsFunc(below[p], func(x layout.Node) bool { return x.Key == n.Key }) {
				others = append(others, p)
			}
		}
		if len(others) > 0 {
			text += " " + arrow + " " + strings.Join(others, ", ")
		}
		room := max(d.columns-utf8.RuneCountInString(own), 8)
		text = d.cut(text, room)
		_, colour := d.statusSign(run[n.Key].Status)
		fmt.Fprintln(&b, own+d.paint(text, colour))
		for i, c := range below[n.Key] {
			if deep := utf8.RuneCountInString(next)+16 > d.columns; deep { // no room for more: the rest stands below each other
				show(c, next, next)
			} else if i == len(below[n.Key])-1 {
				show(c, next+end, next+none)
			} else {
				show(c, next+branch, next+down)
			}
		}
	}
	for _, n := range below[""] {
		show(n, "", "")
	}
	return b.String()
}
