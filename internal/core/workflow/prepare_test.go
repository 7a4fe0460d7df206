package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// kept are results and errors by the key of their node.
type kept struct {
	g       *Graph
	results map[string]string
	errors  map[string]*job.Error
}

func (k kept) Result(n int) json.RawMessage { return json.RawMessage(k.results[k.g.nodes[n].key]) }
func (k kept) Error(n int) *job.Error       { return k.errors[k.g.nodes[n].key] }

// prepare runs a workflow of a, with this result, and b, until b starts, and prepares b.
func prepare(t testing.TB, b, result string) Prepared {
	t.Helper()
	g := compiled(t, `{"nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],`+b+`}]}`)
	s, _ := Begin(g)
	if d := Advance(g, s, Event{Kind: NodeEnded, Node: 0, Status: Succeeded}); fmt.Sprint(d.Start) != "[1]" {
		t.Fatalf("got %+v", d)
	}
	r := Run{ID: "r1", Key: "etl", Input: json.RawMessage(`{"day":"2026-01-02","n":3}`), Scheduled: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return Prepare(g, s, 1, r, kept{g: g, results: map[string]string{"a": result}})
}

func TestTemplates(t *testing.T) {
	const result = `{"name":"x","n":7,"f":1.5,"list":[1,"two",null],"secret":"${secret:db}","end":"$","rest":"{secret:db}","double":"$${secret:db}"}`
	for payload, want := range map[string]string{
		`"{{ nodes.a.result.n }}"`:                                          `7`,
		`"{{nodes.a.result.list}}"`:                                         `[1,"two",null]`,
		`"n is {{ nodes.a.result.n }}."`:                                    `"n is 7."`,
		`"{{ run.input.day }}/{{ nodes.a.result.f }}"`:                      `"2026-01-02/1.5"`,
		`"{{ nodes.a.result.list }}!"`:                                      `"[1,\"two\",null]!"`,
		`"{{ nodes.a.result.none }}"`:                                       `null`,
		`"{{ nodes.a.result.none }}-"`:                                      `"null-"`,
		`["{{ run.id }}",{"k":"{{ run.key }}"},1.50]`:                       `["r1",{"k":"etl"},1.50]`,
		`"{{ run.scheduled_time }} {{ run.attempt }}"`:                      `"2026-01-02T03:04:05Z 1"`,
		`"{{ '{{ run.id }}' }}"`:                                            `"{{ run.id }}"`,
		`"{{ \"}}\" }}"`:                                                    `"}}"`,
		`{"{{ run.id }}":1,"x":"{{ 1 }}"}`:                                  `{"x":1,"{{ run.id }}":1}`,
		`"${secret:own} {{ run.id }}"`:                                      `"${secret:own} r1"`,
		`"{{ nodes.a.result.secret }}"`:                                     `"$${secret:db}"`,
		`"is {{ nodes.a.result.secret }}"`:                                  `"is $${secret:db}"`,
		`"{{ nodes.a.result.double }}"`:                                     `"$$${secret:db}"`,
		`"{{ nodes.a.result.end }}{secret:db}"`:                             `"$${secret:db}"`,
		`"${{ nodes.a.result.rest }}"`:                                      `"$${secret:db}"`,
		`"{{ nodes.a.result.end }}{{ nodes.a.result.rest }} ${secret:own}"`: `"$${secret:db} ${secret:own}"`,
		`"{{ nodes.a.status }}"`:                                            `"SUCCEEDED"`,
	} {
		p := prepare(t, `"execution":{"target":"worker","payload":`+payload+`}`, result)
		want = `{"payload":` + want + `,"target":"worker"}`
		if p.Failure != nil || p.Event != nil || string(p.Execution) != want {
			t.Errorf("%s: got %s, %v; want %s", payload, p.Execution, p.Failure, want)
		}
	}
	p := prepare(t, `"execution":{"headers":{"X-Day":"{{ run.input.day }}"},"callback_url":"https://x/{{ nodes.a.result }}","command":["run","{{ run.input.n }}"],"env":{"A":"{{ left }}"}}`, `"y"`)
	if want := `{"callback_url":"https://x/y","command":["run",3],"env":{"A":"{{ left }}"},"headers":{"X-Day":"2026-01-02"}}`; string(p.Execution) != want {
		t.Errorf("got %s; want %s", p.Execution, want)
	}
	large := "[" + strings.Repeat("1.5,", 260_000) + "0]" // just under 1 MiB
	if p := prepare(t, `"execution":{"payload":"{{ nodes.a.result }}"}`, large); p.Failure != nil || string(p.Execution) != `{"payload":`+large+`}` {
		t.Errorf("a large list: %d bytes, %v", len(p.Execution), p.Failure)
	}
	if p := prepare(t, `"execution":{"payload":{"a": 1.0}}`, `1`); string(p.Execution) != `{"payload":{"a": 1.0}}` {
		t.Errorf("without templates: %s", p.Execution)
	}
	if p := prepare(t, `"job_id":"key:x","payload_override":{"n":"{{ nodes.a.result }}"}`, `5`); string(p.Payload) != `{"n":5}` || p.Execution != nil {
		t.Errorf("of an existing job: %s", p.Payload)
	}
	if p := prepare(t, `"job_id":"key:x"`, `5`); p.Payload != nil || p.Execution != nil {
		t.Errorf("of an existing job without payload: %s", p.Payload)
	}
}

func TestPrepare(t *testing.T) {
	big := `"` + strings.Repeat("x", MaxValue-100) + `"`
	for name, c := range map[string]struct {
		node, result string
		status       Status
		reason       Reason
		says         string
	}{
		"if true":         {`"if":"nodes.a.result == 1","execution":{}`, `1`, 0, 0, ""},
		"if false":        {`"if":"nodes.a.result == 1","execution":{}`, `2`, Skipped, ByIf, ""},
		"if null":         {`"if":"nodes.a.result.x","execution":{}`, `{}`, Skipped, ByIf, ""},
		"if a number":     {`"if":"nodes.a.result","execution":{}`, `1`, Failed, BadExpression, "EXPRESSION: if: `nodes.a.result` gives the number 1; want true, false or null"},
		"if a string":     {`"if":"nodes.a.result","execution":{}`, `"true"`, Failed, BadExpression, `the string "true"`},
		"if an error":     {`"if":"nodes.a.result + 1 > 0","execution":{}`, `"x"`, Failed, BadExpression, "EXPRESSION: if:"},
		"template error":  {`"execution":{"payload":"{{ upper(nodes.a.result) }}"}`, `1`, Failed, BadExpression, "execution: "},
		"map of a string": {`"map":"nodes.a.result","execution":{}`, `"abc"`, Failed, MapNotAList, "MAP_NOT_A_LIST: map: `nodes.a.result` gives the string \"abc\"; want a list"},
		"map of null":     {`"map":"nodes.a.result","execution":{}`, `null`, Failed, MapNotAList, "gives null"},
		"map of -1":       {`"map":"nodes.a.result","execution":{}`, `-1`, Failed, MapNotAList, "gives the number -1"},
		"map of 1.5":      {`"map":"nodes.a.result","execution":{}`, `1.5`, Failed, MapNotAList, "gives the number 1.5"},
		"map too wide":    {`"map":"nodes.a.result","execution":{}`, `100001`, Failed, MapTooWide, "gives 100001 items; at most 100000"},
		"match error":     {`"wait":{"event":"e","match":"upper(nodes.a.result)"}`, `1`, Failed, BadExpression, "wait.match"},
		"too much":        {`"if":"nodes.a.result == ''","execution":{}`, big, Failed, InputTooLarge, "more than 1048576 bytes together, with the result of a"},
		"rendered twice":  {`"execution":{"payload":["{{ nodes.a.result }}","{{ nodes.a.result }}"]}`, `"` + strings.Repeat("x", MaxValue/2) + `"`, Failed, BadExpression, "more than 1048576 bytes"},
	} {
		if name == "too much" {
			c.result = `"` + strings.Repeat("x", MaxValue) + `"`
		}
		p := prepare(t, c.node, c.result)
		got := Event{}
		if p.Event != nil {
			got = *p.Event
		}
		says := ""
		if p.Failure != nil {
			says = p.Failure.Error()
		}
		if got.Status != c.status || got.Reason != c.reason || !strings.Contains(says, c.says) || (c.says == "") != (says == "") {
			t.Errorf("%s: got %+v, %.200s; want %s, %s, %q", name, got, says, c.status, c.reason, c.says)
		}
	}
	for doc, want := range map[string]int{`[1,2]`: 2, `[]`: 0, `3`: 3, `2.0`: 2} {
		p := prepare(t, `"map":"nodes.a.result","execution":{"payload":"{{ index }}:{{ item }}"}`, doc)
		if p.Event == nil || p.Event.Kind != Expanded || p.Event.Width != want {
			t.Fatalf("a map of %s: %+v", doc, p)
		}
		if want > 1 {
			got, f := p.Items.Prepare(1)
			if w := map[string]string{`[1,2]`: "1:2", `3`: "1:1", `2.0`: "1:1"}[doc]; f != nil || string(got) != `{"payload":"`+w+`"}` {
				t.Errorf("item 1 of %s: %s, %v; want %s", doc, got, f, w)
			}
		}
	}
	if f := CheckResult(make([]byte, MaxValue+1)); f == nil || !strings.Contains(f.Error(), "$artifact") {
		t.Errorf("a large result: %v", f)
	}
}

func TestWaits(t *testing.T) {
	p := prepare(t, `"wait":{"event":"order.paid","match":"nodes.a.result"},"timeout":"1h"`, `{"b":2,"a":1.0}`)
	w := p.Wait
	if w == nil || w.Timeout != time.Hour || string(w.Match) != `{"a":1,"b":2}` {
		t.Fatalf("got %+v", p)
	}
	for match, want := range map[string]bool{`{"a":1,"b":2}`: true, `{ "b": 2, "a": 1 }`: true, `{"a":1}`: false, ``: false, `{`: false} {
		if got := w.Matches("order.paid", json.RawMessage(match)); got != want {
			t.Errorf("%s: %t", match, got)
		}
	}
	if w.Matches("order.lost", w.Match) {
		t.Error("another event matches")
	}
	if w := prepare(t, `"wait":{"event":"e"}`, `1`).Wait; !w.Matches("e", nil) || w.Match != nil {
		t.Error("without match, any event of the name releases a wait")
	}
	if w := prepare(t, `"wait":{"timer":"2h"}`, `1`).Wait; w.For != 2*time.Hour {
		t.Errorf("got %+v", w)
	}
	if w := prepare(t, `"wait":{"timer":"2030-01-02T15:04:05Z"}`, `1`).Wait; w.Until.Year() != 2030 {
		t.Errorf("got %+v", w)
	}
}

func TestOutput(t *testing.T) {
	g := compiled(t, `{"output":"run.failed ? nodes.a.error.type : nodes.a.result","nodes":[{"key":"a","execution":{}}]}`)
	for status, want := range map[Status]string{Succeeded: `{"x":1}`, Failed: `"BOOM"`} {
		s, _ := Begin(g)
		Advance(g, s, Event{Kind: NodeEnded, Node: 0, Status: status})
		got, f := Output(g, s, Run{}, kept{g, map[string]string{"a": `{"x":1}`}, map[string]*job.Error{"a": {Type: "BOOM"}}})
		if f != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", status, got, f, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ run.id }}", "a {{ nodes.a.result }} ${secret:x}", "{{ '}}' }}", "{{", "$ {{ run.input }}{secret:x}", "${secret:a}{{ run.key }}", "$${secret:x} {{ run.id }}"} {
		f.Add(s, "${secret:x}")
		f.Add(s, "{secret:x}$")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		payload, _ := json.Marshal(text)
		result, _ := json.Marshal(value)
		g, err := compile(`{"nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],"execution":{"payload":` + string(payload) + `}}]}`)
		if err != nil {
			return
		}
		s, _ := Begin(g)
		Advance(g, s, Event{Kind: NodeEnded, Node: 0, Status: Succeeded})
		r := Run{ID: value, Key: value, Input: result}
		p := Prepare(g, s, 1, r, kept{g: g, results: map[string]string{"a": string(result)}})
		if p.Failure != nil {
			return
		}
		var got struct{ Payload any }
		if err := json.Unmarshal(p.Execution, &got); err != nil {
			t.Fatalf("%s: %v", p.Execution, err)
		}
		rendered, _ := got.Payload.(string)
		if n, own := references(rendered), references(text); n > own {
			t.Fatalf("%q of %q gives %q, which has %d references to secrets; the definition has %d", text, value, rendered, n, own)
		}
	})
}

// references counts what would be replaced by a secret.
func references(s string) (n int) {
	for {
		i := strings.Index(s, secretOpening)
		if i < 0 {
			return n
		}
		if i == 0 || s[i-1] != '$' {
			n++
		}
		s = s[i+len(secretOpening):]
	}
}
