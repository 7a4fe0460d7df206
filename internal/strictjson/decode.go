package strictjson

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
)

// MaxDepth is the number of lists and objects that may lie within each other.
const MaxDepth = 64

// Opt is a field that remembers whether the document had it (Set) and whether it was null (Null).
type Opt[T any] struct {
	Set  bool
	Null bool
	V    T
}

// optional is implemented by every *Opt, whatever its type parameter.
type optional interface {
	optType() reflect.Type
	mark(null bool)
}

func (*Opt[T]) optType() reflect.Type { return reflect.TypeFor[Opt[T]]() }

func (o *Opt[T]) mark(null bool) { o.Set, o.Null = true, null }

// Unmarshal decodes the single JSON value in data into v, a non-nil pointer. It returns an *Error if the document is
// invalid; v may then be partly filled in.
func Unmarshal(data []byte, v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("strictjson: the target is %T, want a non-nil pointer", v)
	}
	p, err := planFor(target.Type().Elem())
	if err != nil {
		return err
	}
	d := &decoder{data: data}
	d.path = d.pathBuf[:0]
	d.document(p, target.Elem())
	if len(d.problems) > 0 {
		return &Error{Problems: d.problems, Syntax: d.syntax}
	}
	return nil
}

// decoder is the state of one pass over one document. Methods that read
// return false when reading cannot continue; the reason is then in problems.
type decoder struct {
	data     []byte
	pos      int
	depth    int
	path     []segment
	keys     [][]byte
	scratch  []byte
	problems []Problem
	stopped  bool
	syntax   bool
	pathBuf  [12]segment
}

func (d *decoder) document(p *plan, v reflect.Value) {
	switch d.next(); {
	case d.pos == len(d.data):
		d.fail(0, nil, p.want)
		return
	case bytes.HasPrefix(d.data[d.pos:], []byte(bom)):
		d.fail(d.pos, []byte(bom), "a document without a byte order mark")
		return
	}
	if !p.bind(d, v) {
		return
	}
	if d.next(); d.pos < len(d.data) {
		d.unexpected("nothing after the JSON value")
	}
}

// add records a problem that does not prevent reading the rest.
func (d *decoder) add(offset int, value []byte, want string) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{Field: d.field(), Value: show(value), Want: want, Offset: offset})
	}
}

// fail records a syntax error, which is reported alone: what was found before it may only be a consequence of it.
func (d *decoder) fail(offset int, value []byte, want string) bool {
	d.problems = d.problems[:0]
	d.add(offset, value, want)
	d.stopped, d.syntax = true, true
	return false
}

// mismatch skips the value at pos and records that it has the wrong type.
func (d *decoder) mismatch(want string) bool {
	start, before := d.pos, len(d.problems)
	if !d.skip() {
		return false
	}
	if before < maxProblems {
		// What was found within the value comes after the value itself.
		within := slices.Clone(d.problems[before:])
		d.problems = d.problems[:before]
		d.add(start, d.data[start:d.pos], want)
		d.problems = append(d.problems, within[:min(len(within), maxProblems-before-1)]...)
	}
	return true
}

// null reads the literal null if it is the value at pos.
func (d *decoder) null() (found, ok bool) {
	if d.peek() != 'n' {
		return false, true
	}
	ok = d.literal("null")
	return ok, ok
}

// badKey records a problem with a key rather than with its value.
func (d *decoder) badKey(k key, want string) {
	d.add(k.start-1, d.data[k.start-1:k.end+1], want)
}

func (d *decoder) duplicate(k key) { d.badKey(k, "a key only once") }
