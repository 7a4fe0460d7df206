package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// accept is a document that decodes into a T equal to want.
func accept[T any](name, doc string, want T) acceptRow {
	return acceptRow{name, func(t *testing.T) {
		var got T
		if err := Unmarshal([]byte(doc), &got); err != nil {
			t.Fatalf("Unmarshal(%s): %v", doc, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Unmarshal(%s)\n got %#v\nwant %#v", doc, got, want)
		}
	}}
}

type acceptRow struct {
	name string
	run  func(t *testing.T)
}

func TestAccept(t *testing.T) {
	seven, zero := 7, 0
	for _, row := range []acceptRow{
		accept("white space around", " \t\r\n{ }\n", job{}),
		accept("string", `"a"`, "a"),
		accept("string escapes", `"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC"`, "\"\\/\b\f\n\r\tAé€"),
		accept("surrogate pair", `"x\ud83d\uDE00y"`, "x😀y"),
		accept("escaped NUL", `"\u0000"`, "\x00"),
		accept("UTF-8", `"é€😀`+"\u007f"+`"`, "é€😀\u007f"),
		accept("U+FFFD as such", `"`+"\uFFFD"+`\ufffd"`, "\uFFFD\uFFFD"),
		accept("BOM inside a string", `"`+"\uFEFF"+`"`, "\uFEFF"),
		accept("named string", `"a"`, treeName("a")),
		accept("true", `true`, true),
		accept("false", `[false]`, []bool{false}),
		accept("int", `-12`, -12),
		accept("minus zero", `-0`, 0),
		accept("int8 limits", `[-128,127]`, []int8{-128, 127}),
		accept("int64 limits", `[-9223372036854775808,9223372036854775807]`, []int64{-1 << 63, 1<<63 - 1}),
		accept("uint16 limits", `[0,65535]`, []uint16{0, 65535}),
		accept("uint64 limits", `[0,18446744073709551615]`, []uint64{0, 1<<64 - 1}),
		accept("duration", `5`, time.Duration(5)),
		accept("float64", `[1,1.5,-2e-3,1E+2,0.0]`, []float64{1, 1.5, -0.002, 100, 0}),
		accept("float32", `1.5`, float32(1.5)),
		accept("number text", `1.00e2`, json.Number("1.00e2")),
		accept("pointer", `7`, &seven),
		accept("pointer null", `null`, (*int)(nil)),
		accept("pointer to zero", `{"A":0}`, struct{ A *int }{&zero}),
		accept("slice null", `null`, []int(nil)),
		accept("slice empty", `[]`, []int{}),
		accept("slice of pointers", `[7,null]`, []*int{&seven, nil}),
		accept("map null", `null`, map[string]int(nil)),
		accept("map empty", `{}`, map[string]int{}),
		accept("map", `{"a":1,"\u0062":2}`, map[string]int{"a": 1, "b": 2}),
		accept("map of text keys", `{"red":1}`, map[color]int{"red": 1}),
		accept("map of strings", `{"a":"1","b":"\n"}`, map[string]string{"a": "1", "b": "\n"}),
		accept("map of strings null", `null`, map[string]string(nil)),
		accept("raw verbatim", ` { "a" : 1.0e0 } `, json.RawMessage(`{ "a" : 1.0e0 }`)),
		accept("raw null", `{"payload":null}`, job{Payload: json.RawMessage("null")}),
		accept("raw same key in different objects", `{"a":{"k":1},"b":{"k":{"k":1}}}`,
			json.RawMessage(`{"a":{"k":1},"b":{"k":{"k":1}}}`)),
		accept[any]("any", `{"a":[1.0,"x",true,false,null,{}],"b":[]}`, map[string]any{
			"a": []any{json.Number("1.0"), "x", true, false, nil, map[string]any{}}, "b": []any{}}),
		accept[any]("any null", `null`, nil),
		accept("time", `"2026-01-02T15:04:05.5Z"`, time.Date(2026, 1, 2, 15, 4, 5, 5e8, time.UTC)),
		accept("text", `"green"`, color("green")),
		accept("text escaped", `"\u0062lue"`, color("blue")),
		accept("text in a struct", `["ab",""]`, []even{{"ab"}, {""}}),
		accept("null for fields as if omitted", `{"name":null,"enabled":null,"schedule":null,"not_before":null,"priority":null,"weight":null}`, job{}),
		accept("escaped field name", `{"\u006eame":"x"}`, job{Name: "x"}),
		accept("embedded", `{"id":"1","Name":2,"note":"n","-":"d"}`,
			withEmbedded{base: base{ID: "1"}, Name: 2, More: &More{"n"}, Dash: "d"}),
		accept("embedded pointer unused", `{"id":"1"}`, withEmbedded{base: base{ID: "1"}}),
		accept("embedded itself", `{"Same":1,"Tagged":2}`, Right{Same: 1, Tagged: 2}),
		accept("recursive type", `{"kids":[{"leaf":1}],"other":{"named":{"x":{"leaf":2}}}}`,
			tree{Kids: []tree{{Leaf: 1}}, Other: &tree{Named: treeMap{"x": {Leaf: 2}}}}),
		accept("opt omitted", `{}`, patch{}),
		accept("opt set", `{"name":"","tags":[],"retry":{"attempts":1},"color":"red"}`, patch{
			Name: Opt[string]{Set: true}, Tags: Opt[[]string]{Set: true, V: []string{}},
			Retry: Opt[*retry]{Set: true, V: &retry{Attempts: 1}}, Color: Opt[color]{Set: true, V: "red"}}),
		accept("opt null", `{"name":null,"retry":null}`, patch{
			Name: Opt[string]{Set: true, Null: true}, Retry: Opt[*retry]{Set: true, Null: true}}),
		accept("wide struct", `{"A69":1,"A63":2,"A64":3}`, wide{A69: 1, A63: 2, A64: 3}),
		accept("depth at the limit", nested(MaxDepth), json.RawMessage(nested(MaxDepth))),
		accept("many keys", manyKeys(100), json.RawMessage(manyKeys(100))),
	} {
		t.Run(row.name, row.run)
	}
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return "{" + strings.Join(keys, ",") + "}"
}

func TestTimeWithOffset(t *testing.T) {
	var got time.Time
	if err := Unmarshal([]byte(`"2026-01-02T15:04:05+02:00"`), &got); err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 13, 4, 5, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A job decodes as encoding/json decodes it.
func TestJobLikeEncodingJSON(t *testing.T) {
	var got, want []job
	doc := jobList(3)
	if err := Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestOmittedFieldsKeepTheirValues(t *testing.T) {
	got := job{Name: "default", Priority: 5, Retry: &retry{Attempts: 3, Factor: 2}}
	if err := Unmarshal([]byte(`{"priority":1,"name":null,"retry":{"factor":4}}`), &got); err != nil {
		t.Fatal(err)
	}
	want := job{Name: "default", Priority: 1, Retry: &retry{Attempts: 3, Factor: 4}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestListsAndMapsAreReplaced(t *testing.T) {
	tags := []string{"a", "b"}
	got := job{Tags: tags, Labels: map[string]string{"a": "1"}}
	if err := Unmarshal([]byte(`{"tags":["x"],"labels":{"b":"2"}}`), &got); err != nil {
		t.Fatal(err)
	}
	want := job{Tags: []string{"x"}, Labels: map[string]string{"b": "2"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if tags[0] != "a" {
		t.Errorf("the list the target had before reads %q now, want it unchanged", tags)
	}
}

// The decoded value shares no memory with the document.
func TestRawIsACopy(t *testing.T) {
	doc := []byte(`{"payload":{"a":1},"name":"n"}`)
	var got job
	if err := Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	clear(doc)
	if string(got.Payload) != `{"a":1}` || got.Name != "n" {
		t.Errorf("got %q and %q after the document was cleared", got.Payload, got.Name)
	}
}

func TestUnfitTargets(t *testing.T) {
	var nilJob *job
	for _, row := range []struct {
		name   string
		target any
		want   string
	}{
		{"nil", nil, "the target is <nil>, want a non-nil pointer"},
		{"no pointer", job{}, "want a non-nil pointer"},
		{"nil pointer", nilJob, "want a non-nil pointer"},
		{"channel in a list in a struct", &struct{ C []chan int }{}, "field C: chan int is not supported"},
		{"map with number keys", &map[int]string{}, "does not have strings for keys"},
		{"map of channels", &map[string]chan int{}, "chan int is not supported"},
		{"pointer to a channel", new(*chan int), "chan int is not supported"},
		{"optional channel", &Opt[chan int]{}, "chan int is not supported"},
		{"bytes", &[]byte{}, "use a string or json.RawMessage"},
		{"UnmarshalJSON", &[]onlyJSON{}, "has UnmarshalJSON, which is never called"},
		{"interface with methods", new(error), "is an interface with methods"},
		{"embedded pointer to an unexported struct", &struct{ *base }{}, "is not exported"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Unmarshal([]byte(`{}`), row.target)
			var doc *Error
			if err == nil || errors.As(err, &doc) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want a plain error with %q", err, row.want)
			}
		})
	}
}

// Plans are made and shared while other goroutines use and make them.
func TestConcurrentUse(t *testing.T) {
	type local struct {
		Tree tree        `json:"tree"`
		Next *local      `json:"next"`
		Opt  Opt[[]tree] `json:"opt"`
	}
	doc := []byte(`{"tree":{"leaf":1},"next":{"opt":[{"leaf":2}]}}`)
	want := local{Tree: tree{Leaf: 1}, Next: &local{Opt: Opt[[]tree]{Set: true, V: []tree{{Leaf: 2}}}}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var got local
			if err := Unmarshal(doc, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v and %v, want %+v", got, err, want)
			}
		})
	}
	wg.Wait()
}
