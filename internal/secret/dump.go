package secret

import "strings"

// A dump prints bytes as numbers or as single characters, in rows, often with an offset before them and the same bytes as text behind
// them: xxd, od, hexdump, gdb, lldb, tcpdump, curl --trace, arrays in C, Go, Python and JSON. A value that goes over several rows is in
// no column as a whole, and where bytes are printed apart or in another order, it is nowhere in hex either.
//
// No rule here is of one program. A row is the longest run of units of one width in a line. Rows that follow one another are read
// as the bytes that their units stand for, in each notation that fits, and with the bytes of a unit in either order.

// dumps decodes each run of rows into its bytes.
func (l layer) dumps() (out []layer) {
	s := l.text
	var lines scanner
	var open [notations]dump
	for at := 0; at < len(s); {
		line, next := s[at:], len(s)
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], at+i+1
		}
		lines.scan(strings.TrimRight(line, "\r"))
		for n := range notations {
			if row := lines.find(n); len(row) > 0 {
				open[n].add(l, at, &lines, row, n)
			} else if len(open[n].text) > 0 {
				out = open[n].layers(out)
				open[n] = dump{}
			}
		}
		at = next
	}
	for n := range notations {
		out = open[n].layers(out)
	}
	return out
}

// dump holds consecutive rows in one notation.
type dump struct {
	text    []byte   // high bytes first
	from    []origin // where each byte is
	swapped []byte   // low bytes first
	units   []origin // the unit that contains each byte
	shown   []byte   // as the column of text has it
	beside  []origin // where each byte is in the text column; if a row has none, in its number
	wide    bool     // some units have several bytes
	column  bool     // some rows have a column of text
}

// add adds a row at a position of a layer.
func (d *dump) add(l layer, at int, s *scanner, row []unit, n notation) {
	line := s.line
	row, places, order := s.split(n, row)
	begun := len(d.text)
	for _, u := range row {
		first := len(d.text)
		d.text = u.bytes(line, n, d.text)
		whole := l.at(at+int(u.start), int(u.end-u.start))
		for k := len(d.text) - 1; k >= first; k-- {
			d.swapped, d.units = append(d.swapped, d.text[k]), append(d.units, whole)
		}
		if u.size == 1 || n != inHex {
			d.from = append(d.from, d.units[first:]...)
		} else {
			for k := int(u.end) - 2*int(u.size); k < int(u.end); k += 2 {
				d.from = append(d.from, l.at(at+max(k, int(u.digits)), min(2, k+2-int(u.digits))))
			}
		}
		d.wide = d.wide || u.size > 1
	}
	if order == lowest {
		d.shown = append(d.shown, d.swapped[begun:]...)
	} else {
		d.shown = append(d.shown, d.text[begun:]...)
	}
	if places == nil {
		d.beside = append(d.beside, d.from[begun:]...)
		return
	}
	d.column = true
	for _, p := range places {
		d.beside = append(d.beside, l.at(at+p.start, p.end-p.start))
	}
}

// layers adds the readings of the rows.
func (d *dump) layers(out []layer) []layer {
	if len(d.text) < shortest {
		return out
	}
	out = append(out, layer{text: string(d.text), from: d.from, part: true})
	if d.wide {
		out = append(out, layer{text: string(d.swapped), from: d.units, part: true})
	}
	if d.column {
		out = append(out, layer{text: string(d.shown), from: d.beside, part: true})
	}
	return out
}

// byteOrder is the order in which a column of text shows the bytes of its row.
type byteOrder uint8

const (
	unshown byteOrder = iota // there is none, or its order is unknown
	highest                  // the high byte of each unit first
	lowest                   // the low byte first
)

// split separates the units of a row from its column of text, which may look like more units. The column is
// recognised by its characters: they are the bytes of the row. It returns where each byte is in it, nil if there is
// no column.
func (s *scanner) split(n notation, row []unit) (units []unit, places []span, order byteOrder) {
	line := s.line
	if n == inLetters || len(row) > maxRow {
		return row, nil, unshown
	}
	var high, low [maxRow * maxUnit]byte
	h, w := high[:0], low[:0]
	for _, u := range row {
		first := len(h)
		h = u.bytes(line, n, h)
		for k := len(h) - 1; k >= first; k-- {
			w = append(w, h[k])
		}
	}
	last := len(row) - 1
	for i, k := last, len(h); i >= 0; i-- {
		if i < last {
			k -= int(row[i+1].size)
			if !s.after && row[i+1].start-row[i].end < 2 {
				continue // without a colon the column is set apart
			}
		}
		if places := column(line, int(row[i].end), h[:k]); places != nil {
			return row[:i+1], places, highest
		}
		if row[0].size > 1 {
			if places := column(line, int(row[i].end), w[:k]); places != nil {
				return row[:i+1], places, lowest
			}
		}
	}
	end := int(row[last].end)
	begin := blanks(line, end)
	if begin == len(line) || begin-end < 2 && line[begin] != '|' && line[begin] != '>' {
		return row, nil, unshown
	}
	places = make([]span, len(h)) // it is unknown which character stands for which byte
	for i := range places {
		places[i] = span{begin, len(line)}
	}
	return row, places, unshown
}

// column finds bytes as text from a position of a line up to its end, whatever happened to its blanks. It returns
// where each is, nil if they are not there.
func column(line string, i int, b []byte) []span {
	i = blanks(line, i)
	if i == len(line) {
		return nil
	}
	if line[i] == '|' || line[i] == '>' {
		if out := match(line, i+1, b); out != nil {
			return out
		}
	}
	return match(line, i, b)
}

// match does the same for a known start of the column.
func match(line string, i int, b []byte) (out []span) {
	for k, c := range b {
		if c == ' ' || c == '\t' {
			if out != nil {
				out[k] = out[max(k, 1)-1]
			}
			continue
		}
		i = blanks(line, i)
		if i == len(line) || line[i] != c && (c > ' ' && c < 0x7f || line[i] != '.' && line[i] != '?' && line[i] < 0x80) {
			return nil
		}
		begun := i
		for i++; i < len(line) && line[i]&0xc0 == 0x80; i++ { // the rest of a character
		}
		if out == nil {
			out = make([]span, len(b))
			for n := range k {
				out[n] = span{begun, i}
			}
		}
		out[k] = span{begun, i}
	}
	if strings.ContainsFunc(line[i:], func(r rune) bool { return r < 0x80 && characters[r] != 0 }) {
		return nil
	}
	return out
}

// blanks returns where the blanks at a position of a line end.
func blanks(line string, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}
