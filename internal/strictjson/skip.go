package strictjson

import "bytes"

// skip reads over the value at pos, checking all of it, repeated keys too.
func (d *decoder) skip() bool {
	switch c := d.peek(); {
	case c == '"':
		_, _, ok := d.str()
		return ok
	case c == '{':
		return d.skipObject()
	case c == '[':
		if !d.enter() {
			return false
		}
		for i := 0; d.elem(i); i++ {
			if !d.skip() {
				return false
			}
		}
		return d.leave()
	case isNumberStart(c):
		_, _, ok := d.number()
		return ok
	case c == 't':
		return d.literal("true")
	case c == 'f':
		return d.literal("false")
	case c == 'n':
		return d.literal("null")
	}
	return d.unexpected(wantValue)
}

func (d *decoder) skipObject() bool {
	if !d.enter() {
		return false
	}
	seen := keySet{base: len(d.keys)}
	for first := true; ; first = false {
		k, more := d.member(first)
		if !more {
			break
		}
		name := d.data[k.start:k.end]
		if k.escaped {
			name = unescape(nil, name)
		}
		if !seen.add(d, name) {
			d.duplicate(k)
		}
		if !d.skip() {
			return false
		}
	}
	d.keys = d.keys[:seen.base]
	return d.leave()
}

// fewKeys is the number of keys up to which looking at each beats hashing.
const fewKeys = 16

// keySet is the keys seen in one object: a few are on the decoder's stack of keys from base on, many in a map.
type keySet struct {
	base int
	many map[string]struct{}
}

// add returns false if the name is there already.
func (s *keySet) add(d *decoder, name []byte) bool {
	if s.many != nil {
		before := len(s.many)
		s.many[string(name)] = struct{}{}
		return len(s.many) > before
	}
	few := d.keys[s.base:]
	for _, k := range few {
		if bytes.Equal(k, name) {
			return false
		}
	}
	if d.keys == nil {
		d.keys = make([][]byte, 0, fewKeys)
	}
	d.keys = append(d.keys, name)
	if len(few) == fewKeys {
		s.many = make(map[string]struct{}, 4*fewKeys)
		for _, k := range d.keys[s.base:] {
			s.many[string(k)] = struct{}{}
		}
	}
	return true
}
