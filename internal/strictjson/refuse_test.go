package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// refusal is a document and the one problem it has.
type refusal struct {
	name   string
	doc    string
	target any
	want   Problem
}

func (r refusal) check(t *testing.T, syntax bool) {
	target := r.target
	if target == nil {
		target = new(any)
	}
	var got *Error
	if err := Unmarshal([]byte(r.doc), target); !errors.As(err, &got) {
		t.Fatalf("Unmarshal(%q): got %v, want an *Error", r.doc, err)
	}
	if got.Syntax != syntax {
		t.Errorf("Unmarshal(%q): got Syntax %v, want %v", r.doc, got.Syntax, syntax)
	}
	if want := []Problem{r.want}; !reflect.DeepEqual(got.Problems, want) {
		t.Errorf("Unmarshal(%q)\n got %#v\nwant %#v", r.doc, got.Problems, want)
	}
}

func TestRefuseSyntax(t *testing.T) {
	const (
		value  = "a JSON value"
		escape = `one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX`
		hex    = `four hexadecimal digits after \u`
		pair   = `a surrogate pair such as \ud83d\ude00`
	)
	for _, row := range []refusal{
		{"empty for an object", "", &job{}, Problem{"", "", "a JSON object", 0}},
		{"empty for a list", "", &[]job{}, Problem{"", "", "a JSON array", 0}},
		{"empty for a pointer", "", new(*job), Problem{"", "", "a JSON object", 0}},
		{"white space only", " \n", &job{}, Problem{"", "", "a JSON object", 0}},
		{"BOM", "\uFEFF{}", nil, Problem{"", `\ufeff`, "a document without a byte order mark", 0}},
		{"text after the value", `{} x`, &job{}, Problem{"", "x", "nothing after the JSON value", 3}},
		{"second value", `{}{}`, nil, Problem{"", "{", "nothing after the JSON value", 2}},
		{"NUL after the value", "{}\x00", nil, Problem{"", `\x00`, "nothing after the JSON value", 2}},
		{"leading zero", `[01]`, nil, Problem{"[0]", "01", "a number without leading zeros", 1}},
		{"leading zero after minus", `-01`, nil, Problem{"", "-01", "a number without leading zeros", 0}},
		{"leading zero for an int", `{"priority":007}`, &job{}, Problem{"priority", "007", "a number without leading zeros", 12}},
		{"lone minus", `{"a":-}`, nil, Problem{"a", "-", "a digit after the minus sign", 5}},
		{"minus infinity", `-Infinity`, nil, Problem{"", "-Infinity", "a digit after the minus sign", 0}},
		{"no digit after the point", `1.`, nil, Problem{"", "1.", "a digit after the decimal point", 0}},
		{"no digit in the exponent", `[1e+]`, nil, Problem{"[0]", "1e+", "a digit in the exponent", 1}},
		{"no digit before the point", `.5`, nil, Problem{"", ".5", value, 0}},
		{"plus", `+1`, nil, Problem{"", "+1", value, 0}},
		{"hexadecimal", `0x1`, nil, Problem{"", "x1", "nothing after the JSON value", 1}},
		{"NaN", `{"weight":NaN}`, &job{}, Problem{"weight", "NaN", value, 10}},
		{"cut literal", `[nul]`, nil, Problem{"[0]", "nul", value, 1}},
		{"long literal", `[truee]`, nil, Problem{"", "e", "a comma or ]", 5}},
		{"literal in capitals", `True`, nil, Problem{"", "True", value, 0}},
		{"cut null for a field", `{"name":nul}`, &job{}, Problem{"name", "nul", value, 8}},
		{"cut null for a pointer", `{"retry":nul}`, &job{}, Problem{"retry", "nul", value, 9}},
		{"single quotes", `{"a":'b'}`, nil, Problem{"a", "'b'", value, 5}},
		{"bad escape", `"\x41"`, nil, Problem{"", `\x`, escape, 1}},
		{"bad escape of a letter", `"\é"`, nil, Problem{"", `\é`, escape, 1}},
		{"capital escape", `"\U0041"`, nil, Problem{"", `\U`, escape, 1}},
		{"short \\u", `"\u12"`, nil, Problem{"", `\u12"`, hex, 1}},
		{"bad \\u", `"\u12g4"`, nil, Problem{"", `\u12g4`, hex, 1}},
		{"lone high surrogate", `{"name":"\ud800"}`, &job{}, Problem{"name", `\ud800`, pair, 9}},
		{"lone low surrogate", `"\udc00"`, nil, Problem{"", `\udc00`, pair, 1}},
		{"surrogates in wrong order", `"\udc00\ud800"`, nil, Problem{"", `\udc00`, pair, 1}},
		{"two high surrogates", `"\ud800\ud800"`, nil, Problem{"", `\ud800`, pair, 1}},
		{"lone surrogate in a key", `{"\ud800":1}`, nil, Problem{"", `\ud800`, pair, 2}},
		{"line break in a string", "\"a\nb\"", nil, Problem{"", `\n`, `control characters escaped, such as \n or \u0000`, 2}},
		{"NUL in a string", "\"\x00\"", nil, Problem{"", `\x00`, `control characters escaped, such as \n or \u0000`, 1}},
		{"invalid UTF-8", "{\"name\":\"a\xffb\"}", &job{}, Problem{"name", `\xff`, "valid UTF-8", 10}},
		{"cut UTF-8", "\"\xe2\x82\"", nil, Problem{"", `\xe2`, "valid UTF-8", 1}},
		{"UTF-8 of a surrogate", "\"\xed\xa0\x80\"", nil, Problem{"", `\xed`, "valid UTF-8", 1}},
		{"invalid UTF-8 in a raw key", "{\"payload\":{\"\xc0\":1}}", &job{}, Problem{"payload", `\xc0`, "valid UTF-8", 13}},
		{"no closing quote", `"abc`, nil, Problem{"", "", "a closing quote", 4}},
		{"ends in an escape", `"\`, nil, Problem{"", "", "the rest of an escape and a closing quote", 2}},
		{"trailing comma in a list", `[1,]`, nil, Problem{"", "]", "a JSON value after the comma", 3}},
		{"trailing comma in an object", `{"a":1,}`, nil, Problem{"", "}", "a key in double quotes after the comma", 7}},
		{"leading comma", `[,1]`, nil, Problem{"[0]", ",", value, 1}},
		{"no comma in a list", `[1 2]`, nil, Problem{"", "2", "a comma or ]", 3}},
		{"no comma in an object", `{"a":1 "b":2}`, nil, Problem{"", `"`, "a comma or }", 7}},
		{"no colon", `{"a" 1}`, nil, Problem{"a", "1", "a colon after the key", 5}},
		{"no value", `{"a":}`, nil, Problem{"a", "}", value, 5}},
		{"bare key", `{a:1}`, nil, Problem{"", "a", "a key in double quotes or }", 1}},
		{"wrong closing bracket", `{"jobs":[{"a":1]]}`, nil, Problem{"jobs[0]", "]", "a comma or }", 15}},
		{"open object", `{"a":[{"b":1`, nil, Problem{"a[0]", "", "a comma or }", 12}},
		{"open list", `[`, &[]int{}, Problem{"[0]", "", value, 1}},
		{"line comment", "[ // x\n1]", nil, Problem{"[0]", "//", value + " (JSON has no comments)", 2}},
		{"block comment", `{/* x */}`, nil, Problem{"", "/*", "a key in double quotes or } (JSON has no comments)", 1}},
		{"hash comment", "{}\n# x", nil, Problem{"", "#", "nothing after the JSON value (JSON has no comments)", 3}},
		{"form feed as white space", "\f1", nil, Problem{"", `\f1`, value, 0}},
		{"after other problems", `{"nam":1,"name":2,"tags":[}`, &job{}, Problem{"tags[0]", "}", value, 26}},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, true) })
	}
}

func TestRefuseContent(t *testing.T) {
	const once = "a key only once"
	type small struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
		Kind string `json:"scheduleKind"`
	}
	const smallFields = "one of: id, name, scheduleKind"
	long := strings.Repeat("é", 200)
	for _, row := range []refusal{
		{"number for a string", `{"name":5}`, &job{}, Problem{"name", "5", "a string", 8}},
		{"object for a string", `{"name":{"a": [1]}}`, &job{}, Problem{"name", `{"a": [1]}`, "a string", 8}},
		{"string for a bool", `{"enabled":"true"}`, &job{}, Problem{"enabled", `"true"`, "true or false", 11}},
		{"string for an int", `{"priority":"1"}`, &job{}, Problem{"priority", `"1"`, "a whole number", 12}},
		{"1.0 for an int", `{"priority":1.0}`, &job{}, Problem{"priority", "1.0", "a whole number", 12}},
		{"1e2 for an int", `{"priority":1e2}`, &job{}, Problem{"priority", "1e2", "a whole number", 12}},
		{"1.5 for a uint", `{"attempts":1.5}`, &retry{}, Problem{"attempts", "1.5", "a whole number", 12}},
		{"too big for int8", `{"priority":128}`, &job{}, Problem{"priority", "128", "a whole number from -128 to 127", 12}},
		{"too small for int8", `{"priority":-129}`, &job{}, Problem{"priority", "-129", "a whole number from -128 to 127", 12}},
		{"too big for int64", `9223372036854775808`, new(int64),
			Problem{"", "9223372036854775808", "a whole number from -9223372036854775808 to 9223372036854775807", 0}},
		{"too big for uint16", `{"attempts":65536}`, &retry{}, Problem{"attempts", "65536", "a whole number from 0 to 65535", 12}},
		{"negative for uint64", `-1`, new(uint64), Problem{"", "-1", "a whole number from 0 to 18446744073709551615", 0}},
		{"string for a float", `{"weight":"1"}`, &job{}, Problem{"weight", `"1"`, "a number", 10}},
		{"too big for float64", `1e999`, new(float64),
			Problem{"", "1e999", "a number from -1.7976931348623157e+308 to 1.7976931348623157e+308", 0}},
		{"too big for float32", `1e39`, new(float32), Problem{"", "1e39", "a number from -3.4028234663852886e+38 to 3.4028234663852886e+38", 0}},
		{"string for a number", `"1"`, new(json.Number), Problem{"", `"1"`, "a number", 0}},
		{"list for an object", `[ ]`, &job{}, Problem{"", "[ ]", "a JSON object", 0}},
		{"null for the document", ` null`, &job{}, Problem{"", "null", "a JSON object", 1}},
		{"null for an element", `{"tags":["a",null]}`, &job{}, Problem{"tags[1]", "null", "a string", 13}},
		{"null for a map's string", `{"labels":{"a":null}}`, &job{}, Problem{"labels.a", "null", "a string", 15}},
		{"null for a map's number", `{"a":null}`, &map[string]int{}, Problem{"a", "null", "a whole number", 5}},
		{"object for a list", `{"tags":{}}`, &job{}, Problem{"tags", "{}", "a JSON array", 8}},
		{"list for a map", `{"labels":[]}`, &job{}, Problem{"labels", "[]", "a JSON object", 10}},
		{"string for a map of numbers", `"a"`, &map[string]int{}, Problem{"", `"a"`, "a JSON object", 0}},
		{"number behind a pointer", `{"retry":3}`, &job{}, Problem{"retry", "3", "a JSON object", 9}},
		{"number in an Opt", `{"name":3}`, &patch{}, Problem{"name", "3", "a string", 8}},
		{"time without zone", `{"not_before":"2026-01-02T15:04:05"}`, &job{},
			Problem{"not_before", `"2026-01-02T15:04:05"`, "a time such as 2026-01-02T15:04:05Z", 14}},
		{"time as a number", `1767366245`, new(time.Time), Problem{"", "1767366245", "a time such as 2026-01-02T15:04:05Z", 0}},
		{"time with a comma", `"2026-01-02T15:04:05,5Z"`, new(time.Time),
			Problem{"", `"2026-01-02T15:04:05,5Z"`, "a time such as 2026-01-02T15:04:05Z", 0}},
		{"time with one digit of hour", `"2026-01-02T5:04:05Z"`, new(time.Time),
			Problem{"", `"2026-01-02T5:04:05Z"`, "a time such as 2026-01-02T15:04:05Z", 0}},
		{"time with a zone of 24 hours", `"2026-01-02T15:04:05+24:00"`, new(time.Time),
			Problem{"", `"2026-01-02T15:04:05+24:00"`, "a time such as 2026-01-02T15:04:05Z", 0}},
		{"time with a zone of 60 minutes", `"2026-01-02T15:04:05-23:60"`, new(time.Time),
			Problem{"", `"2026-01-02T15:04:05-23:60"`, "a time such as 2026-01-02T15:04:05Z", 0}},
		{"time out of range", `"2026-02-30T15:04:05Z"`, new(time.Time),
			Problem{"", `"2026-02-30T15:04:05Z"`, "a time such as 2026-01-02T15:04:05Z", 0}},
		{"text with Want", `{"color":"r\u0065d!"}`, &patch{}, Problem{"color", `"r\u0065d!"`, "one of: red, green, blue", 9}},
		{"text without Want", `["abc"]`, &[]even{}, Problem{"[0]", `"abc"`, "a valid value: odd length", 1}},
		{"number for text", `1`, new(color), Problem{"", "1", "a string", 0}},
		{"text as a map key", `{"pink":1}`, &map[color]int{}, Problem{"pink", `"pink"`, "one of: red, green, blue", 1}},
		{"unknown field", `{"other":1}`, &small{}, Problem{"other", `"other"`, smallFields, 1}},
		{"unknown field with one edit", `{"nme":1}`, &small{}, Problem{"nme", `"nme"`, smallFields + ` (did you mean "name"?)`, 1}},
		{"unknown field with two edits", `{"naem":[{}]}`, &small{}, Problem{"naem", `"naem"`, smallFields + ` (did you mean "name"?)`, 1}},
		{"unknown field in another case", `{"SCHEDULEkIND":1}`, &small{},
			Problem{"SCHEDULEkIND", `"SCHEDULEkIND"`, smallFields + ` (did you mean "scheduleKind"?)`, 1}},
		{"unknown field with three edits", `{"scheduleK":1}`, &small{}, Problem{"scheduleK", `"scheduleK"`, smallFields, 1}},
		{"unknown field all different", `{"xy":1}`, &small{}, Problem{"xy", `"xy"`, smallFields, 1}},
		{"unknown field, escaped", `{"n\u0061m":1}`, &small{}, Problem{"nam", `"n\u0061m"`, smallFields + ` (did you mean "name"?)`, 1}},
		{"unknown field deep down", `[{},{"schedule":{"kron":""}}]`, &[]job{},
			Problem{"[1].schedule.kron", `"kron"`, `one of: type, cron, zone (did you mean "cron"?)`, 17}},
		{"unknown field of an empty struct", `{"a":1}`, &struct{}{}, Problem{"a", `"a"`, "no fields", 1}},
		{"skipped field", `{"Secret":"x"}`, &withEmbedded{}, Problem{"Secret", `"Secret"`, "one of: id, note, Name, -", 1}},
		{"duplicate in a struct", `{"name":"a","name":"b"}`, &job{}, Problem{"name", `"name"`, once, 12}},
		{"duplicate in a struct, escaped", `{"name":"a","nam\u0065":"b"}`, &job{}, Problem{"name", `"nam\u0065"`, once, 12}},
		{"duplicate after null", `{"name":null,"name":"b"}`, &job{}, Problem{"name", `"name"`, once, 13}},
		{"duplicate in a wide struct", `{"A65":1,"A66":1,"A65":1}`, &wide{}, Problem{"A65", `"A65"`, once, 17}},
		{"duplicate through embedding", `{"id":"1","id":"2"}`, &withEmbedded{}, Problem{"id", `"id"`, once, 10}},
		{"duplicate in a map", `{"a":1,"b":2,"a":3}`, &map[string]int{}, Problem{"a", `"a"`, once, 13}},
		{"duplicate in a map of strings", `{"labels":{"a":"1","a":"1"}}`, &job{}, Problem{"labels.a", `"a"`, once, 19}},
		{"duplicate in any", `{"a":[{"b":1,"b":1}]}`, nil, Problem{"a[0].b", `"b"`, once, 13}},
		{"duplicate in raw", `{"payload":{"x":[0,{"b":1,"b":1}]}}`, &job{}, Problem{"payload.x[1].b", `"b"`, once, 26}},
		{"duplicate in raw, escaped", `{"b":1,"\u0062":1}`, new(json.RawMessage), Problem{"b", `"\u0062"`, once, 7}},
		{"duplicate of an empty key", `{"":1,"":1}`, new(json.RawMessage), Problem{`[""]`, `""`, once, 6}},
		{"duplicate among many", manyKeys(50)[:1] + `"k40":0,` + manyKeys(50)[1:], new(json.RawMessage), Problem{"k40", `"k40"`, once, 349}},
		{"as deep as is shown whole", strings.Repeat("[", 15) + `{"a":1,"a":1}` + strings.Repeat("]", 15), new(json.RawMessage),
			Problem{strings.Repeat("[0]", 15) + ".a", `"a"`, once, 22}},
		{"too deep", nested(MaxDepth + 1), nil,
			Problem{strings.Repeat("[0]", 6) + "…" + strings.Repeat("[0]", 6), "[", "at most 64 levels of nesting", MaxDepth}},
		{"too deep in raw", `{"payload":` + nested(MaxDepth), &job{},
			Problem{"payload" + strings.Repeat("[0]", 5) + "…" + strings.Repeat("[0]", 6), "[", "at most 64 levels of nesting", MaxDepth + 10}},
		{"far too deep", strings.Repeat(`{"a":`, 1e6), new(json.RawMessage),
			Problem{"a.a.a.a.a.a….a.a.a.a.a.a", "{", "at most 64 levels of nesting", 5 * MaxDepth}},
		{"too deep in lists of structs", strings.Repeat(`{"kids":[`, 33), &tree{},
			Problem{"kids[0].kids[0].kids[0]….kids[0].kids[0].kids[0]", "{", "at most 64 levels of nesting", 9 * 32}},
		{"too deep in structs", strings.Repeat(`{"other":`, 65), &tree{},
			Problem{"other.other.other.other.other.other….other.other.other.other.other.other", "{", "at most 64 levels of nesting", 9 * 64}},
		{"too deep in maps", `{"other":` + strings.Repeat(`{"named":{"x":`, 33), &tree{},
			Problem{"other.named.x.named.x.named….x.named.x.named.x.named", "{", "at most 64 levels of nesting", 9 + 14*31 + 9}},
		{"ambiguous embedding", `{"Same":1}`, &struct {
			Left
			Right
		}{}, Problem{"Same", `"Same"`, "one of: tagged, Tagged", 1}},
		{"key with a hyphen", `{"execution":{"headers":{"X-A":1}}}`, &job{}, Problem{`execution.headers["X-A"]`, "1", "a string", 31}},
		{"key with odd characters", `{"labels":{"a.b\"]\n":1}}`, &job{}, Problem{`labels["a.b\"]\n"]`, "1", "a string", 22}},
		{"key not printable", `{"` + "\u202e" + `":1}`, &map[string]string{}, Problem{`["\u202e"]`, "1", "a string", 7}},
		{"long value", `"` + long + `"`, new(int), Problem{"", `"` + long[:198] + "…", "a whole number", 0}},
		{"long key", `{"` + strings.Repeat("k", 101) + `":1}`, &map[string]string{},
			Problem{strings.Repeat("k", 100) + "…", "1", "a string", 105}},
		{"value with line breaks", "[\n\t1]", new(string), Problem{"", `[\n\t1]`, "a string", 0}},
		{"list in a recursive type", `{"kids":[{"kids":[{},{"leaf":true}]}]}`, &tree{},
			Problem{"kids[0].kids[1].leaf", "true", "a whole number", 29}},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, false) })
	}
}
