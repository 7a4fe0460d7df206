package jsonschema

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// meter adds up the maximum cost of a check before the library, which has no budget, begins it.
type meter struct {
	costs map[*jsonschema.Schema]int // by measure
	left  int
}

// apply spends the cost of checking a value against a schema. The library may stop earlier.
func (m *meter) apply(s *jsonschema.Schema, v any, depth int) {
	if s == nil || m.left < 0 {
		return
	}
	m.left -= 1 + depth/8 + m.costs[s]
	if s.Bool != nil {
		return
	}
	for _, x := range same(s) {
		m.apply(x, v, depth+1)
	}
	switch v := v.(type) {
	case map[string]any:
		m.object(s, v, depth+1)
	case []any:
		m.array(s, v, depth+1)
	case json.Number:
		if m.left -= 4; s.MultipleOf != nil {
			m.left -= 16
		}
	case string:
		m.text(s, v)
	}
}

func (m *meter) object(s *jsonschema.Schema, v map[string]any, depth int) {
	m.left -= len(v) / 2
	for name, x := range v {
		if m.left < 0 {
			return
		}
		property, known := s.Properties[name]
		m.apply(property, x, depth)
		for p, sub := range s.PatternProperties {
			if m.left -= match(p, name); m.left >= 0 && p.MatchString(name) {
				known = true
				m.apply(sub, x, depth)
			}
		}
		if rest, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
			m.apply(rest, x, depth)
		}
		m.apply(s.UnevaluatedProperties, x, depth)
		m.apply(s.PropertyNames, name, depth)
	}
}

func (m *meter) array(s *jsonschema.Schema, v []any, depth int) {
	m.left -= len(v) / 2
	if s.UniqueItems {
		m.unique(v)
	}
	first, rest := s.PrefixItems, s.Items2020
	switch items := s.Items.(type) { // of older drafts
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		first = items
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
	}
	for i, x := range v {
		if m.left < 0 {
			return
		}
		if i < len(first) {
			m.apply(first[i], x, depth)
		} else {
			m.apply(rest, x, depth)
		}
		m.apply(s.Contains, x, depth)
		m.apply(s.UnevaluatedItems, x, depth)
	}
}

// unique spends the cost of looking for equal items. The library compares those with equal hashes, and its hash does
// not see where an array ends: [[],[]] and [[[]]] have the same.
func (m *meter) unique(items []any) {
	m.left -= 10 * nodes(items)
	seen, h := map[uint64]int{}, new(maphash.Hash)
	for _, x := range items {
		if m.left < 0 {
			return
		}
		h.Reset()
		hash(h, x)
		sum := h.Sum64()
		m.left -= seen[sum] * nodes(x) / 8
		seen[sum]++
	}
}

// hash writes what the library hashes.
func hash(h *maphash.Hash, v any) {
	switch v := v.(type) {
	case map[string]any:
		h.WriteByte(0)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			hash(h, name)
			hash(h, v[name])
		}
	case []any:
		h.WriteByte(1)
		for _, x := range v {
			hash(h, x)
		}
	case nil:
		h.WriteByte(2)
	case bool:
		h.WriteByte(3)
		if v {
			h.WriteByte(1)
		} else {
			h.WriteByte(0)
		}
	case string:
		h.WriteByte(4)
		h.WriteString(v)
	case json.Number:
		h.WriteByte(5)
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			h.Write(n.Num().Bytes())
			h.Write(n.Denom().Bytes())
		}
	}
}

func (m *meter) text(s *jsonschema.Schema, v string) {
	m.left -= len(v) / 1024
	if s.Pattern != nil {
		m.left -= match(s.Pattern, v)
	}
	if s.Format != nil {
		m.left -= 16 * len(v) // the format regex compiles it
	}
}

// match returns the cost of matching a text.
func match(re jsonschema.Regexp, text string) int {
	if p, ok := re.(*pattern); ok {
		return p.steps(text)
	}
	return 1 + len(text)
}
