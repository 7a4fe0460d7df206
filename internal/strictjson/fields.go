package strictjson

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// field is a member that a struct type accepts.
type field struct {
	name   string
	index  []int
	tagged bool
	of     reflect.Type
	plan   *plan
}

// structPlan describes how to decode into a struct type.
type structPlan struct {
	fields []field
	byName map[string]int
	names  []string
}

func (b *builder) fillStruct(p *plan, t reflect.Type) error {
	all, err := collectFields(nil, t, nil, nil)
	if err != nil {
		return err
	}
	s := &structPlan{byName: map[string]int{}}
	for _, f := range all {
		if !dominates(f, all) {
			continue
		}
		if f.plan, err = b.build(f.of); err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
		s.byName[f.name] = len(s.fields)
		s.fields = append(s.fields, f)
		s.names = append(s.names, f.name)
	}
	*p = plan{bind: s.bind, want: wantObject}
	return nil
}

// collectFields appends the fields of t and of the structs embedded in it; within are the enclosing types.
func collectFields(all []field, t reflect.Type, index []int, within []reflect.Type) ([]field, error) {
	within = append(slices.Clip(within), t)
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		inner := sf.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		embeds := sf.Anonymous && inner.Kind() == reflect.Struct
		if tag == "-" || !sf.IsExported() && !embeds {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		at := append(slices.Clip(index), i)
		switch {
		case embeds && !sf.IsExported() && (name != "" || inner != sf.Type):
			return nil, fmt.Errorf("field %s cannot be set, as it is not exported", sf.Name)
		case embeds && name == "":
			if slices.Contains(within, inner) {
				continue
			}
			var err error
			if all, err = collectFields(all, inner, at, within); err != nil {
				return nil, err
			}
			continue
		}
		f := field{name: name, index: at, tagged: name != "", of: sf.Type}
		if name == "" {
			f.name = sf.Name
		}
		all = append(all, f)
	}
	return all, nil
}

// dominates reports whether f is the field that its name refers to: the one embedded least deeply, among those the
// one with a tag, and none if that leaves two.
func dominates(f field, all []field) bool {
	for _, g := range all {
		if g.name != f.name || slices.Equal(g.index, f.index) {
			continue
		}
		if len(g.index) < len(f.index) || len(g.index) == len(f.index) && (g.tagged || !f.tagged) {
			return false
		}
	}
	return true
}

func (s *structPlan) bind(d *decoder, v reflect.Value) bool {
	if d.peek() != '{' {
		return d.mismatch(wantObject)
	}
	if !d.enter() {
		return false
	}
	var seen bitset
	guess := 0
	for first := true; ; first = false {
		k, more := d.member(first)
		if !more {
			break
		}
		i, known := s.find(d.name(k), guess)
		if !known {
			if s.unknown(d, k); !d.skip() {
				return false
			}
			continue
		}
		guess = i + 1
		if !seen.add(i) {
			d.duplicate(k)
		}
		f := &s.fields[i]
		if !f.plan.nullable {
			if null, ok := d.null(); !ok {
				return false
			} else if null {
				continue
			}
		}
		if !f.plan.bind(d, f.in(v)) {
			return false
		}
	}
	return d.leave()
}

// find returns the field with a name; guess is the likely one, as documents tend to keep the order of the fields.
func (s *structPlan) find(name []byte, guess int) (i int, known bool) {
	if guess < len(s.fields) && s.fields[guess].name == string(name) {
		return guess, true
	}
	i, known = s.byName[string(name)]
	return i, known
}

// in returns the field within v, creating embedded structs on the way.
func (f *field) in(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// bitset is a set of field numbers; almost all structs fit the first word, which needs no allocation.
type bitset struct {
	low  uint64
	high map[int]struct{}
}

// add returns false if i is there already.
func (s *bitset) add(i int) bool {
	if i < 64 {
		bit := uint64(1) << i
		added := s.low&bit == 0
		s.low |= bit
		return added
	}
	if s.high == nil {
		s.high = map[int]struct{}{}
	}
	_, there := s.high[i]
	s.high[i] = struct{}{}
	return !there
}
