package strictjson

import (
	"encoding/json"
	"reflect"
)

// bindSlice replaces v, a slice, by the list at pos. A fresh array rather
// than the old one keeps what others hold of the old one as it is.
func bindSlice(d *decoder, v reflect.Value, elem *plan, empty reflect.Value) bool {
	v.SetZero()
	if null, ok := d.null(); null || !ok {
		return ok
	}
	if d.peek() != '[' {
		return d.mismatch(wantArray)
	}
	if !d.enter() {
		return false
	}
	i := 0
	for ; d.elem(i); i++ {
		if i == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(i + 1)
		if !elem.bind(d, v.Index(i)) {
			return false
		}
	}
	if i == 0 {
		v.Set(empty)
	}
	return d.leave()
}

// mapPlan describes how to decode into a map type.
type mapPlan struct {
	of   reflect.Type
	elem *plan
	// textKeys means that keys implement UnmarshalText.
	textKeys bool
}

func (m *mapPlan) bind(d *decoder, v reflect.Value) bool {
	v.SetZero()
	if null, ok := d.null(); null || !ok {
		return ok
	}
	if d.peek() != '{' {
		return d.mismatch(wantObject)
	}
	if !d.enter() {
		return false
	}
	v.Set(reflect.MakeMap(m.of))
	elem := reflect.New(m.of.Elem()).Elem()
	name := reflect.New(m.of.Key()).Elem()
	for first := true; ; first = false {
		k, more := d.member(first)
		if !more {
			break
		}
		m.setKey(d, name, k)
		if v.MapIndex(name).IsValid() {
			d.duplicate(k)
		}
		elem.SetZero()
		if !m.elem.bind(d, elem) {
			return false
		}
		v.SetMapIndex(name, elem)
	}
	return d.leave()
}

func (m *mapPlan) setKey(d *decoder, name reflect.Value, k key) {
	text := d.name(k)
	if !m.textKeys {
		name.SetString(string(text))
		return
	}
	name.SetZero()
	if err := setText(name, text); err != nil {
		d.badKey(k, wantOf(err))
		// Without this, two bad keys would also count as one repeated key.
		name.SetString(string(text))
	}
}

// bindStringMap does what mapPlan.bind does for the most common map, such as
// headers and labels, several times faster.
func bindStringMap(d *decoder, v reflect.Value) bool {
	v.SetZero()
	if null, ok := d.null(); null || !ok {
		return ok
	}
	if d.peek() != '{' {
		return d.mismatch(wantObject)
	}
	if !d.enter() {
		return false
	}
	m := map[string]string{}
	for first := true; ; first = false {
		k, more := d.member(first)
		if !more {
			break
		}
		name := string(d.name(k))
		if _, ok := m[name]; ok {
			d.duplicate(k)
		}
		if d.peek() != '"' {
			m[name] = ""
			if !d.mismatch(wantString) {
				return false
			}
			continue
		}
		raw, escaped, ok := d.str()
		if !ok {
			return false
		}
		m[name] = string(d.text(raw, escaped))
	}
	*v.Addr().Interface().(*map[string]string) = m
	return d.leave()
}

func bindAny(d *decoder, v reflect.Value) bool {
	value, ok := d.anyValue()
	if value == nil {
		v.SetZero()
		return ok
	}
	v.Set(reflect.ValueOf(value))
	return ok
}

// anyValue reads the value at pos as encoding/json would with UseNumber.
func (d *decoder) anyValue() (value any, ok bool) {
	switch c := d.peek(); {
	case c == '"':
		raw, escaped, ok := d.str()
		return string(d.text(raw, escaped)), ok
	case c == '{':
		return d.anyObject()
	case c == '[':
		return d.anyArray()
	case isNumberStart(c):
		text, _, ok := d.number()
		return json.Number(text), ok
	case c == 't':
		return true, d.literal("true")
	case c == 'f':
		return false, d.literal("false")
	case c == 'n':
		return nil, d.literal("null")
	}
	return nil, d.unexpected(wantValue)
}

func (d *decoder) anyObject() (value any, ok bool) {
	if !d.enter() {
		return nil, false
	}
	m := map[string]any{}
	for first := true; ; first = false {
		k, more := d.member(first)
		if !more {
			break
		}
		name := string(d.name(k))
		if _, ok := m[name]; ok {
			d.duplicate(k)
		}
		if m[name], ok = d.anyValue(); !ok {
			return nil, false
		}
	}
	return m, d.leave()
}

func (d *decoder) anyArray() (value any, ok bool) {
	if !d.enter() {
		return nil, false
	}
	list := []any{}
	for i := 0; d.elem(i); i++ {
		item, ok := d.anyValue()
		if !ok {
			return nil, false
		}
		list = append(list, item)
	}
	return list, d.leave()
}
