package secret

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// layouts print bytes as programs do that people use to look at them.
var layouts = map[string]func([]byte) string{
	"xxd":            func(b []byte) string { return xxd(b, 2, 16) },
	"xxd -c 32":      func(b []byte) string { return xxd(b, 2, 32) },
	"xxd -g1":        func(b []byte) string { return xxd(b, 1, 16) },
	"xxd -g4":        func(b []byte) string { return xxd(b, 4, 16) },
	"xxd -e":         little,
	"xxd -b":         binaries,
	"xxd -i":         func(b []byte) string { return array(b, 12, "0x%02x", ", ") },
	"hexdump":        words,
	"hexdump -C":     hex.Dump,
	"hexdump -b":     func(b []byte) string { return numbers(b, "%07x", " %03o", 16, 1) },
	"od":             func(b []byte) string { return numbers(b, "%07o", " %06o", 16, 2) },
	"od -t x1":       func(b []byte) string { return numbers(b, "%07o", " %02x", 16, 1) },
	"od -A x -t x1z": od,
	"od -t x4":       func(b []byte) string { return numbers(b, "%07o", " %08x", 16, 4) },
	"od -t x8":       func(b []byte) string { return numbers(b, "%07o", " %016x", 16, 8) },
	"od -t o4":       func(b []byte) string { return numbers(b, "%07o", " %011o", 16, 4) },
	"od -t u1":       func(b []byte) string { return numbers(b, "%07o", " %3d", 16, 1) },
	"od -t d1": func(b []byte) string {
		return strings.NewReplacer("[", "0000000 ", "]", "\n").Replace(fmt.Sprint(slices.Collect(signed(b))))
	},
	"od -A n -t x4": func(b []byte) string { return numbers(b, "", " %08x", 16, 4) },
	"od -c":         func(b []byte) string { return characterRows(b, escaped) },
	"od -a":         func(b []byte) string { return characterRows(b, named) },
	"gdb x/xb":      func(b []byte) string { return numbers(b, "0x7fffffffe%03x:", "\t0x%02x", 8, 1) },
	"gdb x/xw":      func(b []byte) string { return numbers(b, "0x7fffffffe%03x <secret+4>:", "\t0x%08x", 16, 4) },
	"gdb x/xg":      func(b []byte) string { return numbers(b, "0x7fffffffe%03x:", "\t0x%016x", 16, 8) },
	"gdb x/c":       debugged,
	"lldb":          func(b []byte) string { return beside(b, "0x%09x: ", "%02x ", 1, 16, " ") },
	"tcpdump -X":    func(b []byte) string { return beside(b, "\t0x%04x:  ", "%04x ", 2, 16, " ") },
	"curl --trace":  func(b []byte) string { return beside(b, "%04x: ", "%02x ", 1, 16, "") },
	"openssl":       func(b []byte) string { return array(b, 15, "%02x", ":") },
	"C#":            func(b []byte) string { return array(b, 1<<20, "%02X", "-") },
	"Go, %v":        func(b []byte) string { return fmt.Sprintln(b) },
	"Go, %#v":       func(b []byte) string { return fmt.Sprintf("%#v\n", b) },
	"Go, % x":       func(b []byte) string { return fmt.Sprintf("% x\n", b) },
	"JSON": func(b []byte) string {
		text, _ := json.Marshal(map[string]any{"type": "Buffer", "data": slices.Collect(ints(b))})
		return string(text) + "\n"
	},
	"indented JSON": func(b []byte) string {
		text, _ := json.MarshalIndent(slices.Collect(ints(b)), "", "  ")
		return string(text) + "\n"
	},
	"indented":              func(b []byte) string { return "  " + strings.ReplaceAll(hex.Dump(b), "\n", "\n  ") },
	"with carriage returns": func(b []byte) string { return strings.ReplaceAll(hex.Dump(b), "\n", "\r\n") },
	"behind a prefix": func(b []byte) string {
		return "x | " + strings.ReplaceAll(strings.TrimSuffix(hex.Dump(b), "\n"), "\n", "\nx | ")
	},
	"behind a time": func(b []byte) string {
		const prefix = "2026-11-18 04:11:00 INFO [12] "
		return prefix + strings.ReplaceAll(strings.TrimSuffix(xxd(b, 2, 16), "\n"), "\n", "\n"+prefix) + "\n"
	},
	"quoted": func(b []byte) string { return fmt.Sprintf("%q", xxd(b, 2, 16)) },
}

func ints(b []byte) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, c := range b {
			if !yield(int(c)) {
				return
			}
		}
	}
}

func signed(b []byte) func(func(int8) bool) {
	return func(yield func(int8) bool) {
		for _, c := range b {
			if !yield(int8(c)) {
				return
			}
		}
	}
}

// xxd prints bytes as that program does: groups of so many bytes, in rows of so many.
func xxd(b []byte, group, columns int) string {
	var out strings.Builder
	for at := 0; at < len(b); at += columns {
		row := b[at:min(at+columns, len(b))]
		var digits strings.Builder
		for i, c := range row {
			if i > 0 && i%group == 0 {
				digits.WriteByte(' ')
			}
			fmt.Fprintf(&digits, "%02x", c)
		}
		width := 2*columns + (columns-1)/group
		fmt.Fprintf(&out, "%08x: %-*s  %s\n", at, width, digits.String(), printed(row))
	}
	return out.String()
}

// little prints bytes as xxd -e does: low bytes first, with a column of text in their order.
func little(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		var digits strings.Builder
		for rest := row; len(rest) > 0; rest = rest[min(4, len(rest)):] {
			group := slices.Clone(rest[:min(4, len(rest))])
			slices.Reverse(group)
			fmt.Fprintf(&digits, "%8x ", group)
		}
		fmt.Fprintf(&out, "%08x: %-36s  %s\n", at, digits.String(), printed(row))
	}
	return out.String()
}

// binaries prints bytes as xxd -b does.
func binaries(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 6 {
		row := b[at:min(at+6, len(b))]
		fmt.Fprintf(&out, "%08x: %-53s  %s\n", at, strings.Trim(fmt.Sprintf("%08b", row), "[]"), printed(row))
	}
	return out.String()
}

// od prints bytes as od -A x -t x1z does.
func od(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		fmt.Fprintf(&out, "%06x %-47s  >%s<\n", at, fmt.Sprintf("% x", row), printed(row))
	}
	return fmt.Sprintf("%s%06x\n", out.String(), len(b))
}

// words prints bytes as hexdump does without options, on a machine whose low bytes come first.
func words(b []byte) string { return numbers(b, "%07x", " %04x", 16, 2) }

// numbers prints bytes as numbers of so many, on a machine whose low bytes come first.
func numbers(b []byte, offset, format string, columns, size int) string {
	var out strings.Builder
	for at := 0; at < len(b); at += columns {
		if offset != "" {
			fmt.Fprintf(&out, offset, at)
		}
		for row := b[at:min(at+columns, len(b))]; len(row) > 0; row = row[min(size, len(row)):] {
			var word [8]byte
			copy(word[:size], row)
			fmt.Fprintf(&out, format, binary.LittleEndian.Uint64(word[:]))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// beside prints bytes with a column of text behind them, in groups of one or two.
func beside(b []byte, offset, format string, size, columns int, gap string) string {
	var out strings.Builder
	for at := 0; at < len(b); at += columns {
		row := b[at:min(at+columns, len(b))]
		var digits strings.Builder
		for rest := row; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if len(rest) < size {
				fmt.Fprintf(&digits, "%02x ", rest)
			} else {
				fmt.Fprintf(&digits, format, rest[:size])
			}
		}
		width := columns/size*(2*size+1) + len(gap)
		fmt.Fprintf(&out, offset+"%-*s%s\n", at, width, digits.String(), printed(row))
	}
	return out.String()
}

// array prints bytes with something between them, in rows of so many.
func array(b []byte, columns int, format, sep string) string {
	out := strings.Builder{}
	for i, c := range b {
		if i%columns == 0 {
			out.WriteString("  ")
		}
		fmt.Fprintf(&out, format, c)
		if i+1 < len(b) {
			out.WriteString(sep)
		}
		if (i+1)%columns == 0 {
			out.WriteByte('\n')
		}
	}
	return out.String() + "\n"
}

// characterRows prints bytes as od -c and od -a do.
func characterRows(b []byte, one func(byte) string) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		fmt.Fprintf(&out, "%07o", at)
		for _, c := range b[at:min(at+16, len(b))] {
			fmt.Fprintf(&out, "%4s", one(c))
		}
		out.WriteByte('\n')
	}
	return out.String() + fmt.Sprintf("%07o\n", len(b))
}

func escaped(c byte) string {
	switch {
	case c == '\n':
		return `\n`
	case c == 0:
		return `\0`
	case c < ' ' || c > '~':
		return fmt.Sprintf("%03o", c)
	}
	return string(rune(c))
}

func named(c byte) string {
	switch c {
	case '\n':
		return "nl"
	case ' ':
		return "sp"
	}
	return string(rune(c & 0x7f))
}

// debugged prints bytes as gdb's x/c does.
func debugged(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 8 {
		fmt.Fprintf(&out, "0x7fffffffe%03x:", at)
		for _, c := range b[at:min(at+8, len(b))] {
			text := string(rune(c))
			if c < ' ' || c > '~' {
				text = fmt.Sprintf(`\%03o`, c)
			}
			fmt.Fprintf(&out, "\t%d '%s'", int8(c), text)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func printed(row []byte) string {
	out := make([]byte, len(row))
	for i, c := range row {
		if out[i] = c; c < ' ' || c > '~' {
			out[i] = '.'
		}
	}
	return string(out)
}
