package jsonschema

import (
	"fmt"
	"strings"
	"testing"
)

// chain is a schema a0 of n definitions; each is written by f with the name of the next.
func chain(n int, f func(next string) string) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"a%d":%s`, i, f(fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1))))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s,"a%d":false}}`, strings.Join(defs, ","), n)
}

func twice(keyword string) func(next string) string {
	return func(next string) string { return fmt.Sprintf(`{%q:[%s,%s]}`, keyword, next, next) }
}

func TestCompileBounds(t *testing.T) {
	for doc, want := range map[string]string{
		chain(40, twice("allOf")): "at most 5000",
		chain(40, twice("anyOf")): "at most 5000",
		chain(40, func(next string) string { return fmt.Sprintf(`{"not":%s,"if":%[1]s,"then":true}`, next) }):       "at most 5000",
		chain(40, func(next string) string { return fmt.Sprintf(`{"dependentSchemas":{"a":%s,"b":%[1]s}}`, next) }): "at most 5000",
		`{"$ref":"#"}`:                                                                             "circle",
		`{"allOf":[{"not":{"$ref":"#"}}]}`:                                                         "circle",
		`{"items":{"anyOf":[{"$ref":"#/items"}]}}`:                                                 "circle",
		`{"$dynamicAnchor":"a","anyOf":[{"$dynamicRef":"#a"}]}`:                                    "circle",
		`{"$defs":{"a":{"$dynamicAnchor":"n"},"b":{"$id":"/b","$dynamicAnchor":"n"}}}`:             `$dynamicAnchor "n" twice`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"$recursiveRef":"#"}}`: "want $ref",
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`:                                  "only refer to itself",
		strings.Repeat(`{"not":`, 101) + "true" + strings.Repeat("}", 101):                         "nested more than 100",
		`{"anyOf":[` + strings.Repeat("true,", 5000) + `true]}`:                                    "more than 5000 subschemas",
		`{"minimum":1e999999}`:                                                                     "too many digits",
		`{"pattern":"` + strings.Repeat("x", 1001) + `"}`:                                          "at most 1000",
		`{"pattern":"` + strings.Repeat("x{1000}", 50) + `"}`:                                      "more than 20000 states",
	} {
		if _, err := Compile([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v; want %q", doc, err, want)
		}
	}
}

const tree = `{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`

func TestHonestSchemas(t *testing.T) {
	leaf, deep := `{"name":"x","children":[]}`, `{"name":"x"}`
	for range 300 {
		deep = `{"name":"x","children":[` + deep + `]}`
	}
	wide := `{"children":[` + strings.Repeat(leaf+",", 10_000) + leaf + `]}`
	dates := `["` + strings.Repeat(`2026-01-02","`, 20_000) + `2026-01-02"]`
	var objects strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&objects, `{"id":%d,"tags":["a","b%d"]},`, i, i)
	}
	for _, c := range [][2]string{
		{tree, leaf}, {tree, deep}, {tree, wide},
		{`{"$dynamicAnchor":"n","properties":{"next":{"$dynamicRef":"#n"}}}`, `{"next":{"next":{}}}`},
		{`{"items":{"type":"string","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}}`, dates},
		{`{"uniqueItems":true,"items":{"required":["id"],"patternProperties":{"^t":{"items":{"enum":["a","b",{}]}}}}}`, `[{"id":1},{"id":2,"tags":["a"]}]`},
		{`{"uniqueItems":true,"items":{"required":["id"]}}`, `[` + objects.String() + `{"id":"last"}]`},
		{strings.ReplaceAll(chain(10, twice("allOf")), "false", "true"), `{}`},
		{strings.ReplaceAll(chain(800, func(next string) string { return fmt.Sprintf(`{"allOf":[%s]}`, next) }), "false", "true"), `{}`},
		{strings.Repeat(`{"properties":{"a":`, 45) + "{}" + strings.Repeat("}}", 45), `{"a":{"a":{"a":1}}}`},
	} {
		s, err := Compile([]byte(c[0]))
		if err != nil {
			t.Errorf("%.80s: %v", c[0], err)
			continue
		}
		if bad := s.Check([]byte(c[1])); len(bad) > 0 {
			t.Errorf("%.80s: %v", c[0], bad)
		}
	}
}

func TestCheckBounds(t *testing.T) {
	deep := `{}`
	for range 60 {
		deep = `{"a":` + deep + `}`
	}
	var trees []string // all arrays of arrays with 11 pairs of brackets: they have the same hash
	var grow func(text string, open, left int)
	grow = func(text string, open, left int) {
		if left > 0 {
			grow(text+"[", open+1, left-1)
		}
		if open > 0 {
			grow(text+"]", open-1, left)
		} else if left == 0 {
			trees = append(trees, "["+text+"]")
		}
	}
	grow("", 0, 10)
	same := strings.ReplaceAll(strings.Join(trees, ","), "][", "],[")
	for _, c := range []struct{ schema, value, want string }{
		{tree, `{"children":[` + strings.Repeat(`{"name":"x","children":[]},`, 200_000) + `{}]}`, "more than 1000000 steps"},
		{`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`, deep, "more than 1000000 steps"},
		{`{"items":{"enum":[` + strings.Repeat(`"x",`, 10_000) + `1]}}`, `[` + strings.Repeat(`2,`, 10_000) + `2]`, "more than 1000000 steps"},
		{`{"items":{"pattern":"(x{1000}){1}y"}}`, `["` + strings.Repeat("x", 500_000) + `"]`, "more than 1000000 steps"},
		{`{"uniqueItems":true}`, `[` + same + `]`, "more than 1000000 steps"},
		{`{"minimum":1}`, `1e9999999`, "too many digits"},
		{`{"type":"integer"}`, `[1e-1000000]`, "too many digits"},
		{`{"type":"integer"}`, strings.Repeat("1", 401), "too many digits"},
	} {
		s, err := Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%.80s: %v", c.schema, err)
			continue
		}
		if got := fmt.Sprint(s.Check([]byte(c.value))); !strings.Contains(got, c.want) || len(got) > 2000 {
			t.Errorf("%.80s: got %.200s; want %q", c.schema, got, c.want)
		}
	}
}
