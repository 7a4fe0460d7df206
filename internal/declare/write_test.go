package declare

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/client"
)

// What is written is read again as it was, whatever the texts look like.
func TestWrittenTextsComeBack(t *testing.T) {
	payloads := []string{
		`[null,"a",""]`, `{"a":"x: y # z","b":"\u0000\t\"'\r\n","c":"- a","d":{"e":[]},"f":"\u202e\u009b"}`, `"---"`, `"# no"`, `-0.0`, `1E+2`, `{}`, `[]`, `[[],{}]`, `true`, `"true"`, `12345678901234567890.10`,
		`{"a b: c":1,"<<":2,"? x":3,"null":4,"true":5,"":6,"&x":"*y","!t":"%d","@":"` + "`" + `","|":">"}`, `"` + strings.Repeat("long ", 300) + `"`, `"a\nb\n\n"`, `{"\u00fc":"\ud83d\ude00"}`,
	}
	texts := []string{"plain", "no", "8080", "0x1F", "1e3", "2026-01-01", "a: b", "a #b", "- x", "'q'", "\"q\"", " lead", "trail ", "two\nlines\n", "\ttab", "ü😀", "{a}", "[b]", "*x", "&y", "!z", "%a", "@b", "`c", "~", "null", "...", "---", "<<", "=", "\u202ex", ".inf", "a,b", "\\n"}
	var d Declared
	for i, p := range payloads {
		d.Jobs = append(d.Jobs, Job{JobRequest: client.JobRequest{Key: new("k" + strings.Repeat("x", i)), Name: "n", Execution: client.Target{Payload: json.RawMessage(p)}}})
	}
	for i, s := range texts {
		d.Jobs = append(d.Jobs, Job{JobRequest: client.JobRequest{
			Key: new("t" + strings.Repeat("x", i)), Name: s, Description: s, Tags: []string{s, "b"}, Execution: client.Target{Headers: map[string]string{s: s}, Command: []string{s, s}},
		}})
	}
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(b.Bytes()), "-")
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	same := cmp.Comparer(func(x, y json.RawMessage) bool {
		var a, b any
		return string(x) == string(y) || json.Unmarshal(x, &a) == nil && json.Unmarshal(y, &b) == nil && cmp.Equal(a, b)
	})
	if diff := cmp.Diff(d.Jobs, back.Jobs, same, cmpopts.IgnoreUnexported(Job{})); diff != "" {
		t.Errorf("%s\n%s", diff, b.String())
	}
	if strings.ContainsAny(b.String(), "\u202e\u009b") {
		t.Error("a control character is written")
	}
}

// A change names every field that there is.
func TestFieldsAreAll(t *testing.T) {
	f, err := Job{JobRequest: client.JobRequest{Name: "n", Schedule: &client.Schedule{Type: "CRON"}, Execution: client.Target{Payload: json.RawMessage(`{"a":1}`)}}}.fields()
	if err != nil {
		t.Fatal(err)
	}
	schedule, execution := f["schedule"].(map[string]any), f["execution"].(map[string]any)
	if len(f) != reflect.TypeFor[client.JobRequest]().NumField() || f["priority"] != nil || f["retry_policy"] != nil || string(f["name"].(json.RawMessage)) != `"n"` {
		t.Errorf("%d: %v", len(f), f)
	}
	if v, ok := schedule["calendar"]; !ok || v != nil || string(execution["payload"].(json.RawMessage)) != `{"a":1}` {
		t.Errorf("%v, %v", schedule, execution)
	}
	if _, ok := execution["expect"]; !ok {
		t.Error("no expect")
	}
}
