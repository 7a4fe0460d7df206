package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"
)

const (
	wantObject = "a JSON object"
	wantArray  = "a JSON array"
	wantString = "a string"
	wantBool   = "true or false"
	wantNumber = "a number"
	wantWhole  = "a whole number"
	wantTime   = "a time such as 2026-01-02T15:04:05Z"
)

// plan describes how to decode into one type.
type plan struct {
	// bind decodes the value at the decoder's pos into v, which is settable.
	bind func(d *decoder, v reflect.Value) bool
	want string
	// nullable means that bind accepts null.
	nullable bool
}

var plans sync.Map // of reflect.Type to *plan

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

func planFor(t reflect.Type) (*plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*plan), nil
	}
	b := builder{plans: map[reflect.Type]*plan{}}
	p, err := b.build(t)
	if err != nil {
		return nil, fmt.Errorf("strictjson: cannot decode into %s: %w", t, err)
	}
	// Only now are all of them complete and safe to share.
	for t, p := range b.plans {
		plans.Store(t, p)
	}
	return p, nil
}

// builder makes the plans of a type and of all types within it; keeping unfinished ones lets a type contain itself.
type builder struct {
	plans map[reflect.Type]*plan
}

func (b *builder) build(t reflect.Type) (*plan, error) {
	if p, ok := b.plans[t]; ok {
		return p, nil
	}
	p := &plan{}
	b.plans[t] = p
	return p, b.fill(p, t)
}

func (b *builder) fill(p *plan, t reflect.Type) error {
	switch t {
	case reflect.TypeFor[time.Time]():
		*p = plan{bind: bindText(wantTime, setTime), want: wantTime}
		return nil
	case reflect.TypeFor[json.RawMessage]():
		*p = plan{bind: bindRaw, want: wantValue, nullable: true}
		return nil
	case reflect.TypeFor[json.Number]():
		*p = plan{bind: bindNumber, want: wantNumber}
		return nil
	case reflect.TypeFor[map[string]string]():
		*p = plan{bind: bindStringMap, want: wantObject, nullable: true}
		return nil
	}
	// A struct that embeds an Opt has its methods too, hence the second half.
	if o, ok := reflect.New(t).Interface().(optional); ok && o.optType() == t {
		return b.fillOpt(p, t)
	}
	switch ptr := reflect.PointerTo(t); {
	case t.Kind() == reflect.Pointer:
		return b.fillPointer(p, t)
	case ptr.Implements(textUnmarshaler):
		*p = plan{bind: bindText(wantString, setText), want: wantString}
		return nil
	case ptr.Implements(jsonUnmarshaler):
		return fmt.Errorf("%s has UnmarshalJSON, which is never called; give it UnmarshalText", t)
	}
	return b.fillKind(p, t)
}

func (b *builder) fillKind(p *plan, t reflect.Type) error {
	switch t.Kind() {
	case reflect.String:
		*p = plan{bind: bindString, want: wantString}
	case reflect.Bool:
		*p = plan{bind: bindBool, want: wantBool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		*p = plan{bind: bindInt(t.Bits()), want: wantWhole}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*p = plan{bind: bindUint(t.Bits()), want: wantWhole}
	case reflect.Float32, reflect.Float64:
		*p = plan{bind: bindFloat(t.Bits()), want: wantNumber}
	case reflect.Slice:
		return b.fillSlice(p, t)
	case reflect.Map:
		return b.fillMap(p, t)
	case reflect.Struct:
		return b.fillStruct(p, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is an interface with methods", t)
		}
		*p = plan{bind: bindAny, want: wantValue, nullable: true}
	default:
		return fmt.Errorf("%s is not supported", t)
	}
	return nil
}

func (b *builder) fillPointer(p *plan, t reflect.Type) error {
	elem, err := b.build(t.Elem())
	if err != nil {
		return err
	}
	*p = plan{want: elem.want, nullable: true, bind: func(d *decoder, v reflect.Value) bool {
		if null, ok := d.null(); null || !ok {
			v.SetZero()
			return ok
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return elem.bind(d, v.Elem())
	}}
	return nil
}

func (b *builder) fillOpt(p *plan, t reflect.Type) error {
	value, _ := t.FieldByName("V")
	elem, err := b.build(value.Type)
	if err != nil {
		return err
	}
	*p = plan{want: elem.want, nullable: true, bind: func(d *decoder, v reflect.Value) bool {
		null, ok := d.null()
		v.Addr().Interface().(optional).mark(null)
		target := v.FieldByIndex(value.Index)
		if null || !ok {
			target.SetZero()
			return ok
		}
		return elem.bind(d, target)
	}}
	return nil
}

func (b *builder) fillSlice(p *plan, t reflect.Type) error {
	if t.Elem().Kind() == reflect.Uint8 {
		return fmt.Errorf("%s is not supported; use a string or json.RawMessage", t)
	}
	elem, err := b.build(t.Elem())
	if err != nil {
		return err
	}
	empty := reflect.MakeSlice(t, 0, 0)
	*p = plan{want: wantArray, nullable: true, bind: func(d *decoder, v reflect.Value) bool {
		return bindSlice(d, v, elem, empty)
	}}
	return nil
}

func (b *builder) fillMap(p *plan, t reflect.Type) error {
	if t.Key().Kind() != reflect.String {
		return fmt.Errorf("%s does not have strings for keys", t)
	}
	elem, err := b.build(t.Elem())
	if err != nil {
		return err
	}
	m := &mapPlan{of: t, elem: elem, textKeys: reflect.PointerTo(t.Key()).Implements(textUnmarshaler)}
	*p = plan{bind: m.bind, want: wantObject, nullable: true}
	return nil
}
