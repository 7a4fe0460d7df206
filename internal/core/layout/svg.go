package layout

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Shown is the state of a node in a run.
type Shown struct {
	Status string // such as RUNNING, as in the API
	Text   string // in place of the node's own text, such as "38 of 40 done"
}

// SVG draws a layout in pixels as a self-contained picture: it includes its colours for light and dark, and loads
// nothing. Screen readers read the title. The states of nodes in a run are optional.
func SVG(l *Layout, title string, run map[string]Shown) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`, l.Width, l.Height, l.Width, l.Height, escape(title))
	fmt.Fprintf(&b, "\n<title>%s</title>\n<style>%s</style>\n", escape(title), style)
	b.WriteString(`<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0.8 7 4 0 7.2z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect class="paper" width="%d" height="%d"/>`+"\n", l.Width, l.Height)
	if f := l.Finally; f != nil {
		fmt.Fprintf(&b, `<rect class="finally" x="%d" y="%d" width="%d" height="%d" rx="10"/><text class="small" x="%d" y="%d">finally</text>`+"\n", f.X, f.Y, f.W, f.H, f.X+12, f.Y+12)
	}
	for _, e := range l.Edges {
		if len(e.Points) > 1 {
			fmt.Fprintf(&b, `<path class="edge" d="%s" marker-end="url(#end)"/>`+"\n", Path(e.Points, l.Direction))
		}
	}
	for _, n := range l.Nodes {
		drawNode(&b, n, run)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// Path returns the course of an edge, as the d of an SVG path.
func Path(points []Point, d Direction) string {
	var b strings.Builder
	for i, p := range points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%d %d", p[0], p[1])
		case d == Down && points[i-1][0] != p[0]:
			m := (points[i-1][1] + p[1]) / 2
			fmt.Fprintf(&b, "C%d %d %d %d %d %d", points[i-1][0], m, p[0], m, p[0], p[1])
		case d != Down && points[i-1][1] != p[1]:
			m := (points[i-1][0] + p[0]) / 2
			fmt.Fprintf(&b, "C%d %d %d %d %d %d", m, points[i-1][1], m, p[1], p[0], p[1])
		default:
			fmt.Fprintf(&b, "L%d %d", p[0], p[1])
		}
	}
	return b.String()
}

func drawNode(b *strings.Builder, n Box, run map[string]Shown) {
	about := n.Key
	shown, has := run[n.Key]
	if has {
		about += ": " + statusWord(shown.Status)
	}
	class, text, glyph := "", n.Text, kindGlyphs[n.Kind]
	if has {
		class, glyph = " "+toneOf(shown.Status), statusGlyphs[shown.Status]
		if shown.Text != "" {
			text = shown.Text
		}
	}
	if n.Text != "" {
		about += " (" + n.Text + ")"
	}
	fmt.Fprintf(b, `<g class="node%s"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="7"/>`, class, escape(about), n.X, n.Y, n.W, n.H)
	if glyph == "" {
		glyph = kindGlyphs["job"]
	}
	fmt.Fprintf(b, `<path class="glyph" transform="translate(%d %d)" d="%s"/>`, n.X+10, n.Y+n.H/2-6, glyph)
	room := n.W - boxPadding
	if text == "" {
		fmt.Fprintf(b, `<text class="key" x="%d" y="%d">%s</text>`, n.X+30, n.Y+n.H/2+5, escape(fit(n.Key, room, keyChar)))
	} else {
		fmt.Fprintf(b, `<text class="key" x="%d" y="%d">%s</text><text class="small" x="%d" y="%d">%s</text>`,
			n.X+30, n.Y+n.H/2-3, escape(fit(n.Key, room, keyChar)), n.X+30, n.Y+n.H/2+13, escape(fit(text, room, textChar)))
	}
	right := n.X + n.W - 8
	for _, m := range slices.Backward(n.Marks) {
		w := len(m)*markChar + markMore - 4
		if right-w < n.X+8 {
			break
		}
		fmt.Fprintf(b, `<rect class="mark" x="%d" y="%d" width="%d" height="14" rx="7"/><text class="mark" x="%d" y="%d" text-anchor="middle">%s</text>`, right-w, n.Y-7, w, right-w/2, n.Y+3, escape(m))
		right -= w + 4
	}
	b.WriteString("</g>\n")
}

// fit cuts a text to about the given width.
func fit(text string, room int, char float64) string {
	r := []rune(text)
	n := int(float64(room) / char)
	if len(r) <= n {
		return text
	}
	return string(r[:max(n-1, 1)]) + "…"
}

func statusWord(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "_", " "))
}

// toneOf groups statuses by colour, as the dashboard does.
func toneOf(status string) string {
	switch status {
	case "SUCCEEDED":
		return "good"
	case "FAILED", "TIMED_OUT":
		return "bad"
	case "RUNNING":
		return "busy"
	case "RETRYING", "CANCELLING", "PAUSED":
		return "warn"
	}
	return "calm"
}

// escape makes text safe inside XML: it escapes markup, and replaces characters that XML does not allow.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&#34;")
		case r == '\'':
			b.WriteString("&#39;")
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

const style = `
svg { color-scheme: light dark; --paper: #f6f5f2; --panel: #fff; --line: #c3c0b6; --edge: #8b8e95; --text: #1d1f23; --dim: #5c6068; --good: #0b6e54; --bad: #b5301c; --busy: #1c5fb8; --warn: #8f5300; font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "Noto Sans", sans-serif; }
@media (prefers-color-scheme: dark) { svg { --paper: #101318; --panel: #1d222b; --line: #3a4250; --edge: #6f7887; --text: #e4e7ec; --dim: #a0a8b5; --good: #5cc9a7; --bad: #ff8a75; --busy: #86b7f7; --warn: #e9b04d; } }
.paper { fill: var(--paper); }
.finally { fill: none; stroke: var(--line); stroke-dasharray: 4 4; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.4; }
.head { fill: var(--edge); }
.node { --tone: var(--line); }
.node > rect { fill: var(--panel); stroke: var(--tone); stroke-width: 1.4; }
.node.good { --tone: var(--good); } .node.bad { --tone: var(--bad); } .node.busy { --tone: var(--busy); } .node.warn { --tone: var(--warn); }
.node.calm > rect { stroke-dasharray: 4 3; }
.glyph { fill: none; stroke: var(--dim); stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round; }
.good .glyph, .bad .glyph, .busy .glyph, .warn .glyph { stroke: var(--tone); }
text { fill: var(--text); font-size: 13px; }
.key { font-weight: 600; }
.small { fill: var(--dim); font-size: 11px; }
.node > rect.mark { fill: var(--paper); stroke: var(--line); stroke-width: 1; stroke-dasharray: none; }
text.mark { fill: var(--dim); font-size: 10px; }
`

// Glyphs of 12 × 12, drawn as lines. Each status has its own shape, too.
var statusGlyphs = map[string]string{
	"SUCCEEDED":  "m1.5 6.5 3 3 6-7",
	"FAILED":     "m2 2 8 8M10 2 2 10",
	"TIMED_OUT":  "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM6 3.2V6l2 1.4",
	"RUNNING":    "M3 1.5v9L10 6z",
	"RETRYING":   "M10.5 6A4.5 4.5 0 1 1 9 2.6M9.4.8v2.6H6.8",
	"CANCELLING": "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM2.6 9.4l6.8-6.8",
	"CANCELLED":  "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM2.6 9.4l6.8-6.8",
	"PAUSED":     "M3.5 2v8M8.5 2v8",
	"PENDING":    "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z",
	"WAITING":    "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM6 3.2V6l2 1.4",
	"EXPIRED":    "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM6 3.2V6l2 1.4",
	"SKIPPED":    "M1 6h3M6 6h5M8.5 3.5 11 6 8.5 8.5",
	"NOT_RUN":    "M2 6h8",
}

var kindGlyphs = map[string]string{
	"worker":   "M6 3.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4zM6 .8v1.4M6 9.8v1.4M.8 6h1.4M9.8 6h1.4M2.3 2.3l1 1M8.7 8.7l1 1M9.7 2.3l-1 1M3.3 8.7l-1 1",
	"http":     "M1 6h10M7.5 2.5 11 6 7.5 9.5",
	"command":  "m1.5 2.5 3.5 3.5-3.5 3.5M6.5 10h4.5",
	"job":      "M1.5 2.5h9v7h-9zM1.5 5h9",
	"workflow": "M1 1.5h3.5V5H1zM7.5 7H11v3.5H7.5zM2.8 5v3.7h4.7",
	"approval": "M6 5.6a2.1 2.1 0 1 0 0-4.2 2.1 2.1 0 0 0 0 4.2zM1.8 11a4.2 4.2 0 0 1 8.4 0",
	"timer":    "M6 1a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM6 3.2V6l2 1.4",
	"event":    "M7 .8 2.5 6.8h3L5 11.2l4.5-6h-3z",
	"simulate": "M1 9c2.5 0 2.5-6 5-6s2.5 6 5 6",
}
