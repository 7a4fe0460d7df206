package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// column is a column of a table.
type column[T any] struct {
	name string
	wide bool // only in the wide form
	cell func(T) string
}

// view describes how to show a kind of object.
type view[T any] struct {
	columns []column[T]
	id      func(T) string
}

// col makes a column of every table, wide one of the wide form, and when a column of instants: relative and, in the
// wide form, exact.
func col[T any](name string, cell func(T) string) column[T] { return column[T]{name, false, cell} }

func wide[T any](name string, cell func(T) string) column[T] { return column[T]{name, true, cell} }

func when[T any](s *session, name string, at func(T) time.Time) []column[T] {
	return []column[T]{
		col(name, func(x T) string { return ago(at(x), s.now()) }),
		wide(name+" (UTC)", func(x T) string { return exact(at(x)) }),
	}
}

// columns joins columns and pairs of columns into one list.
func columns[T any](parts ...any) (out []column[T]) {
	for _, p := range parts {
		switch p := p.(type) {
		case column[T]:
			out = append(out, p)
		case []column[T]:
			out = append(out, p...)
		default:
			panic(fmt.Sprintf("cli: %T is no column", p))
		}
	}
	return out
}

// instant returns the time that a pointer points to.
func instant(t *time.Time) time.Time { return or(t, time.Time{}) }

// show prints a list: as a table once it is complete, in the other formats as it arrives.
func show[T any](s *session, v view[T], items iter.Seq2[T, error]) (n int, err error) {
	switch s.output {
	case "table", "wide":
		return showTable(s, v, items)
	case "json", "yaml":
		all := []T{}
		for x, err := range items {
			if err != nil {
				return 0, err
			}
			all = append(all, x)
		}
		return len(all), s.value(all)
	}
	for x, err := range items {
		if err != nil {
			return n, err
		}
		if s.output == "name" {
			_, err = fmt.Fprintln(s.out, plain(v.id(x)))
		} else {
			err = encodeJSON(s.out, x, "")
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func showTable[T any](s *session, v view[T], items iter.Seq2[T, error]) (int, error) {
	var cols []column[T]
	for _, c := range v.columns {
		if !c.wide || s.output == "wide" {
			cols = append(cols, c)
		}
	}
	rows := [][]string{nil}
	for _, c := range cols {
		rows[0] = append(rows[0], c.name)
	}
	for x, err := range items {
		if err != nil {
			return 0, err
		}
		row := make([]string, len(cols))
		for i, c := range cols {
			if row[i] = dash(line(c.cell(x))); s.output == "table" {
				row[i] = cut(row[i], 48)
			}
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return 0, nil
	}
	return len(rows) - 1, align(s.out, rows, s.paint)
}

// align prints rows in columns. paint colours a cell without changing its width.
func align(w io.Writer, rows [][]string, paint func(string) string) error {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var all strings.Builder
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(paint(cell))
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
		}
		all.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, all.String())
	return err
}

// field is one line in the description of an object.
type field struct{ name, value string }

// one prints one object: field by field, or as a value.
func one[T any](s *session, v view[T], x T, fields []field) error {
	switch s.output {
	case "name":
		_, err := fmt.Fprintln(s.out, plain(v.id(x)))
		return err
	case "table", "wide":
		width := 0
		for _, f := range fields {
			width = max(width, len(f.name))
		}
		for _, f := range fields {
			if f.value != "" {
				name := f.name
				for text := range strings.SplitSeq(strings.TrimRight(f.value, "\r\n"), "\n") { // continuation lines are aligned with the first
					if _, err := fmt.Fprintln(s.out, strings.TrimRight(fmt.Sprintf("%-*s  %s", width, name, s.paint(line(strings.TrimSuffix(text, "\r")))), " ")); err != nil {
						return err
					}
					name = ""
				}
			}
		}
		return nil
	}
	return s.value(x)
}

// value prints a value as json, jsonl or yaml; if a table was requested, as json.
func (s *session) value(x any) error {
	switch s.output {
	case "jsonl":
		return encodeJSON(s.out, x, "")
	case "yaml":
		data, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if data, err = yamlOf(data); err != nil {
			return err
		}
		_, err = s.out.Write(data)
		return err
	}
	return encodeJSON(s.out, x, "  ")
}

// encodeJSON writes a value as JSON, and escapes terminal control characters that JSON itself allows.
func encodeJSON(w io.Writer, x any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(x); err != nil {
		return err
	}
	obeyed := func(c rune) bool { return c >= 0x7f && control(c) }
	if bytes.ContainsFunc(b.Bytes(), obeyed) {
		var safe bytes.Buffer
		for _, c := range b.String() {
			if obeyed(c) {
				fmt.Fprintf(&safe, `\u%04x`, c)
			} else {
				safe.WriteRune(c)
			}
		}
		b = safe
	}
	_, err := w.Write(b.Bytes())
	return err
}

// colours of states, by meaning: the terminal's own green, yellow, red and so on.
var colours = map[string]string{
	"SUCCEEDED": "32", "COMPLETED": "32", "ACTIVE": "32", "IDLE": "32", "BUSY": "32", "ok": "32", "ran": "32", "caught_up": "32", "backfilled": "32",
	"RUNNING": "36", "PENDING": "34", "WAITING": "34", "RETRYING": "33", "CANCELLING": "33", "PAUSED": "33", "DRAINING": "33", "CORDONED": "33", "warning": "33", "skipped": "33", "paused": "33",
	"FAILED": "31", "TIMED_OUT": "31", "DEAD": "31", "EXPIRED": "31", "REVOKED": "31", "problem": "31", "missed": "31",
	"CANCELLED": "90", "SKIPPED": "90", "NOT_RUN": "90", "DELETED": "90",
}

// paint colours a state if the output is a terminal that wants colours.
func (s *session) paint(cell string) string {
	c, ok := colours[cell]
	if !ok || !coloured(s.out) {
		return cell
	}
	return "\x1b[" + c + "m" + cell + "\x1b[0m"
}
