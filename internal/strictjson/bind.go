package strictjson

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

func bindString(d *decoder, v reflect.Value) bool {
	if d.peek() != '"' {
		return d.mismatch(wantString)
	}
	raw, escaped, ok := d.str()
	if ok {
		v.SetString(string(d.text(raw, escaped)))
	}
	return ok
}

func bindBool(d *decoder, v reflect.Value) bool {
	switch d.peek() {
	case 't':
		v.SetBool(true)
		return d.literal("true")
	case 'f':
		v.SetBool(false)
		return d.literal("false")
	}
	return d.mismatch(wantBool)
}

func bindInt(bits int) func(*decoder, reflect.Value) bool {
	last := int64(math.MaxInt64) >> (64 - bits)
	wantRange := fmt.Sprintf("a whole number from %d to %d", -last-1, last)
	return func(d *decoder, v reflect.Value) bool {
		text, ok := d.whole()
		if text == nil {
			return ok
		}
		n, err := strconv.ParseInt(string(text), 10, bits)
		if err != nil {
			d.add(d.pos-len(text), text, wantRange)
			return true
		}
		v.SetInt(n)
		return true
	}
}

func bindUint(bits int) func(*decoder, reflect.Value) bool {
	wantRange := fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	return func(d *decoder, v reflect.Value) bool {
		text, ok := d.whole()
		if text == nil {
			return ok
		}
		n, err := strconv.ParseUint(string(text), 10, bits)
		if err != nil {
			d.add(d.pos-len(text), text, wantRange)
			return true
		}
		v.SetUint(n)
		return true
	}
}

// whole reads an integer and returns it as written, or nil if it is something else.
func (d *decoder) whole() (text []byte, ok bool) {
	if !isNumberStart(d.peek()) {
		return nil, d.mismatch(wantWhole)
	}
	text, whole, ok := d.number()
	if ok && !whole {
		d.add(d.pos-len(text), text, wantWhole)
		return nil, true
	}
	return text, ok
}

func bindFloat(bits int) func(*decoder, reflect.Value) bool {
	last := math.MaxFloat64
	if bits == 32 {
		last = math.MaxFloat32
	}
	wantRange := fmt.Sprintf("a number from %g to %g", -last, last)
	return func(d *decoder, v reflect.Value) bool {
		start := d.pos
		if !isNumberStart(d.peek()) {
			return d.mismatch(wantNumber)
		}
		text, _, ok := d.number()
		if !ok {
			return false
		}
		n, err := strconv.ParseFloat(string(text), bits)
		if err != nil {
			d.add(start, text, wantRange)
			return true
		}
		v.SetFloat(n)
		return true
	}
}

func bindNumber(d *decoder, v reflect.Value) bool {
	if !isNumberStart(d.peek()) {
		return d.mismatch(wantNumber)
	}
	text, _, ok := d.number()
	v.SetString(string(text))
	return ok
}

func bindRaw(d *decoder, v reflect.Value) bool {
	start := d.pos
	if !d.skip() {
		return false
	}
	text := make(json.RawMessage, d.pos-start)
	copy(text, d.data[start:d.pos])
	*v.Addr().Interface().(*json.RawMessage) = text
	return true
}
