package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzUnmarshal compares with encoding/json: what is accepted here must be
// accepted there with the same result, and what is no JSON there is none here.
func FuzzUnmarshal(f *testing.F) {
	for _, doc := range seeds() {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		compare[any](t, doc)
		compare[json.RawMessage](t, doc)
		compare[job](t, doc)
		compare[[]job](t, doc)
		compare[tree](t, doc)
		compare[withEmbedded](t, doc)
		compare[map[string]*float64](t, doc)
		compare[map[color][]even](t, doc)
		compare[[]numbers](t, doc)
		refusesOnlyForAReason(t, doc)
		var p patch
		checkError(t, doc, Unmarshal(doc, &p))
	})
}

type numbers struct {
	U8  uint8
	I64 int64
	F32 float32
	N   json.Number
}

func compare[T any](t *testing.T, doc []byte) {
	var got, want T
	err := Unmarshal(doc, &got)
	checkError(t, doc, err)
	if err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("%T: accepted %q, encoding/json says %v", got, doc, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("%T: accepted %q, encoding/json finds more than one value", got, doc)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%T: %q\n got %#v\nwant %#v", got, doc, got, want)
	}
}

// checkError holds an error to what its documentation promises.
func checkError(t *testing.T, doc []byte, err error) {
	var e *Error
	switch {
	case err == nil:
		if !json.Valid(doc) {
			t.Fatalf("accepted %q, which is no JSON", doc)
		}
		return
	case !errors.As(err, &e) || len(e.Problems) == 0 || len(e.Problems) > maxProblems || e.Syntax && len(e.Problems) > 1:
		t.Fatalf("%q: got %#v", doc, err)
	case !e.Syntax && !json.Valid(doc) && !tooDeep(e):
		t.Fatalf("%q is no JSON, got %v without Syntax", doc, err)
	}
	last := -1
	for _, p := range e.Problems {
		if p.Offset < last || p.Offset > len(doc) || p.Want == "" || (p.Value == "") != (e.Syntax && atEnd(doc, p.Offset)) {
			t.Fatalf("%q: got %#v after offset %d", doc, p, last)
		}
		if utf8.RuneCountInString(p.Value) > maxShown+1 || !printable(p.Value) || !printable(p.Field) {
			t.Fatalf("%q: got %#v, which is not fit to print", doc, p)
		}
		last = p.Offset
	}
}

func atEnd(doc []byte, offset int) bool {
	return offset == len(doc) || len(bytes.Trim(doc, " \t\r\n")) == 0
}

// tooDeep tells whether reading may have stopped for the depth, which is not
// to be seen once there are as many problems as are kept.
func tooDeep(e *Error) bool {
	return slices.ContainsFunc(e.Problems, func(p Problem) bool { return p.Want == wantDepth }) ||
		len(e.Problems) == maxProblems
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

// refusesOnlyForAReason checks that JSON is refused for an any only where the
// rules go further than those of encoding/json.
func refusesOnlyForAReason(t *testing.T, doc []byte) {
	var v any
	var e *Error
	if err := Unmarshal(doc, &v); !json.Valid(doc) || !errors.As(err, &e) {
		return
	}
	for _, p := range e.Problems {
		switch p.Want {
		case wantDepth, "a key only once", wantSurrogate:
		case "valid UTF-8":
			if utf8.Valid(doc) {
				t.Fatalf("%q is valid UTF-8, got %v", doc, e)
			}
		default:
			t.Fatalf("%q is JSON, got %v", doc, e)
		}
	}
}

func seeds() []string {
	docs := []string{
		"", " ", "null", "true", "-0", "1.5e-7", "1e999", "01", `"`, `"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"",
		"\uFEFF{}", "[1,]", `{"a":1,}`, `{"a":1}{}`, `{"a":{"b":1,"b":2}}`, `{"":1,"\u0061":2,"a":3}`,
		nested(MaxDepth), nested(MaxDepth + 1), manyKeys(20), jobBody, string(jobList(2)),
		`{"id":"1","Name":2,"note":"n","-":"d"}`, `{"kids":[{"leaf":1}],"other":{"named":{"x":{"leaf":2}}}}`,
		`{"red":["ab",""],"blue":null}`, `{"a":1,"b":null}`, `[{"U8":255,"I64":-9,"F32":1e38,"N":1.0}]`,
		`{"name":null,"schedule":null,"retry":null,"payload":null,"extra":{"x":[1,"y"]},"not_before":"2026-01-02T15:04:05+01:00"}`,
		`{"not_before":"2026-01-02T15:04:05,5Z"}`, `{"Name":"x","NAME":1}`, "[\x00]", "[1]\x00", "{\"a\x1f\":1}", `{"a"`, `[tru`,
		// Found by the fuzzer as reaching new code.
		"-00", "0eA", "0e0000000000", "A0000\xf1\x89\xbc0", "[{\"0\x7f\":0", "\"\\\xd2", `"\u00a`, `"\u0x00`, `"\ud800\uaaa0`,
		`"\ud800\udCA0"`, "\"\xc3\b", "\"\u06c9\u0313\x8a\"", "\"\uaa1e\xee\x9e\xee\"", "\xfd\xad\x80\xff\xff\xff", `{"" `,
		"{\"\":\r\r", `{"\"":0`, `{"\u00aA"`, `{"id":"00"0000 0000`, "{\"kids\":[{\"leaf\":0}],\"other\":{\"\x80\"0",
		`{"labels":{"":"","":`, `{"name":null,"00000000":null,"retry":`, `{"r":["",""],"0":null}`,
	}
	return append(docs, strings.Repeat(`{"x":1,`, 30))
}
