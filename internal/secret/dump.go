package secret

import "strings"

// What xxd, hexdump -C, od -t x1z and Go's hex.Dump print: an offset, bytes in hex, and the same bytes as text. A value that goes over
// several rows is in neither column as a whole, so rows that follow one another are read as the bytes that they stand for.

// dumps reads each run of rows of a hex dump as its bytes: once for the columns of hex, and once for the column of text.
func (l layer) dumps() (out []layer) {
	s := l.text
	var block dump
	end := func() {
		out = append(out, block.layers()...)
		block = dump{}
	}
	for at := 0; at < len(s); {
		line, next := s[at:], len(s)
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], at+i+1
		}
		if !block.row(l, at, strings.TrimRight(line, "\r")) {
			end()
		}
		at = next
	}
	end()
	return out
}

// dump is rows of a hex dump.
type dump struct {
	text    []byte
	hex     []origin // where each byte stands in hex …
	beside  []origin // … and as text; where there is none, in hex
	words   []origin // of two bytes, as where each is printed as one number
	column  bool     // there is a column of text
	unpairs bool     // not all is printed in numbers of two bytes
}

// row adds a line if it is a row of a dump, whatever is written before it.
func (d *dump) row(l layer, at int, line string) bool {
	for i := 0; i < len(line); i++ {
		begun, kind := i, inWord
		for ; i < len(line) && characters[line[i]] >= inWord; i++ {
			kind |= characters[line[i]]
		}
		if n := i - begun; n >= 4 && n <= 16 && kind == inWord && i < len(line) && (line[i] == ' ' || line[i] == ':' || line[i] == '\t') && d.bytes(l, at, line, i) {
			return true
		}
	}
	return false
}

const (
	inWord uint8 = 1 << iota // a hexadecimal digit …
	noHex                    // … or another letter, or a dash
)

var characters = func() (t [256]uint8) {
	for _, c := range "-ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ" {
		t[c] = noHex
	}
	for _, c := range "0123456789abcdefABCDEF" {
		t[c] = inWord
	}
	return t
}()

// bytes adds what stands behind an offset that ends at a place of a line.
func (d *dump) bytes(l layer, at int, line string, i int) bool {
	colon := i < len(line) && line[i] == ':'
	if colon {
		i++
	}
	begun, column := len(d.text), len(line)
	for {
		gap := blanks(line, i) - i
		if gap == 0 || i+gap == len(line) {
			break
		}
		from := i + gap
		marked := line[from] == '|' || line[from] == '>'
		if marked || colon && gap > 1 && len(d.text) > begun {
			column = from
			if marked {
				column++
				line = strings.TrimRight(line, " ")
				line = strings.TrimSuffix(strings.TrimSuffix(line, "|"), "<")
			}
			break
		}
		n := digits(line, from)
		if n == 0 || n%2 != 0 || n > 16 || from+n < len(line) && line[from+n] != ' ' {
			if len(d.text) > begun && gap > 1 { // of a dump that marks its text in another way
				column = from
			}
			break
		}
		for k := from; k < from+n; k += 2 {
			b, _ := unhex(line[k:], 2)
			d.text = append(d.text, byte(b))
			d.hex = append(d.hex, l.at(at+k, 2))
			d.words = append(d.words, l.at(at+from, n))
		}
		d.unpairs = d.unpairs || n != 4
		i = from + n
	}
	n := len(d.text) - begun
	if n == 0 {
		return false
	}
	shown := max(0, len(line)-column)
	d.column = d.column || shown > 0
	for k := range n {
		switch {
		case shown == 0:
			d.beside = append(d.beside, d.hex[begun+k])
		case shown > n: // it is not known which character stands for which byte
			d.beside = append(d.beside, l.at(at+column, shown))
		default:
			k = min(k, shown-1)
			d.beside = append(d.beside, l.at(at+column+k, 1))
		}
	}
	return true
}

// layers are the readings of the rows.
func (d *dump) layers() []layer {
	if len(d.text) < shortest {
		return nil
	}
	text := string(d.text)
	out := []layer{{text: text, from: d.hex}}
	if d.column {
		out = append(out, layer{text: text, from: d.beside})
	}
	if !d.unpairs && len(d.text)%2 == 0 { // as numbers of a machine whose low bytes come first
		swapped := []byte(text)
		for i := 0; i < len(swapped); i += 2 {
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		}
		out = append(out, layer{text: string(swapped), from: d.words})
	}
	for i := range out {
		out[i].part = true
	}
	return out
}

// blanks is where the blanks at a place of a line end.
func blanks(line string, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}

// digits is how many hexadecimal digits there are at a place of a line.
func digits(line string, i int) (n int) {
	for i+n < len(line) && characters[line[i+n]] == inWord {
		n++
	}
	return n
}
