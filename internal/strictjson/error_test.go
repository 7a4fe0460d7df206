package strictjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, row := range []struct {
		doc  string
		want string
	}{
		{"", "the body is empty; want a JSON object"},
		{`{"schedule":{"type":"cron"`, "schedule: the body ends too early at byte 26; want a comma or }"},
		{`{"tags":[1,]}`, "invalid JSON at byte 11: tags: got ], want a JSON value after the comma"},
		{`[]`, "got [], want a JSON object"},
		{`{"name":1,"retry":{"atempts":1}}`,
			`name: got 1, want a string; retry.atempts: got "atempts", want one of: attempts, factor (did you mean "attempts"?)`},
	} {
		err := Unmarshal([]byte(row.doc), &job{})
		if err == nil || err.Error() != row.want {
			t.Errorf("Unmarshal(%s)\n got %v\nwant %s", row.doc, err, row.want)
		}
	}
}

func TestProblemsAreCollectedInOrder(t *testing.T) {
	doc := `{"name":1,"name":2,"x":{"d":1,"d":2},"tags":["a",2,3],"labels":{"k":4,"l":5},"priority":999}`
	var got *Error
	if err := Unmarshal([]byte(doc), &job{}); !errors.As(err, &got) {
		t.Fatalf("got %v, want an *Error", err)
	}
	var fields []string
	for _, p := range got.Problems {
		fields = append(fields, p.Field)
	}
	want := "name name name x x.d tags[1] tags[2] labels.k labels.l priority"
	if strings.Join(fields, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(fields, " "), want)
	}
}

func TestAtMostTwentyProblems(t *testing.T) {
	doc := "[" + strings.Repeat(`{"x":1},`, 1000) + "{}"
	var got *Error
	if err := Unmarshal([]byte(doc+"]"), &[]job{}); !errors.As(err, &got) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if len(got.Problems) != 20 || got.Syntax || got.Problems[19].Field != "[19].x" {
		t.Errorf("got %d problems with Syntax %v, the last in %s, want 20 with Syntax false, the last in [19].x",
			len(got.Problems), got.Syntax, got.Problems[len(got.Problems)-1].Field)
	}
	if err := Unmarshal([]byte(doc), &[]job{}); !errors.As(err, &got) || !got.Syntax {
		t.Errorf("got %v without the last bracket, want a syntax error", err)
	}
}

// A hostile body must not cost more than its length allows for.
func TestManyRepeatedAndUnknownKeys(t *testing.T) {
	doc := []byte("{" + strings.Repeat(`"attempt":1,`, 1<<16) + `"attempts":1}`)
	for _, target := range []any{&retry{}, new(json.RawMessage), new(any), &map[string]int{}} {
		var got *Error
		if err := Unmarshal(doc, target); !errors.As(err, &got) || len(got.Problems) != maxProblems {
			t.Errorf("%T: got %.80v, want %d problems", target, err, maxProblems)
		}
	}
}

func TestShowIsSafeAndShort(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"", ""},
		{"a\x00\x1b[31m\u009b\u2028\xff\"\\", `a\x00\x1b[31m\u009b\u2028\xff"\`},
		{strings.Repeat("x", 100), strings.Repeat("x", 100)},
		{strings.Repeat("x", 101), strings.Repeat("x", 100) + "…"},
		{strings.Repeat("x", 99) + "\n", strings.Repeat("x", 99) + "…"},
		{strings.Repeat("😀", 101), strings.Repeat("😀", 100) + "…"},
	} {
		if got := show([]byte(row.in)); got != row.want {
			t.Errorf("show(%q): got %q, want %q", row.in, got, row.want)
		}
	}
}

// A body that was cut off anywhere is a syntax error, whatever the target.
func TestEveryPrefixIsASyntaxError(t *testing.T) {
	for end := range len(jobBody) {
		for _, target := range []any{&job{}, new(any), new(json.RawMessage), &map[string]any{}} {
			var got *Error
			if err := Unmarshal([]byte(jobBody[:end]), target); !errors.As(err, &got) || !got.Syntax {
				t.Errorf("%T: the first %d bytes: got %v, want a syntax error", target, end, err)
			}
		}
	}
}
