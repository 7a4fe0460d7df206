package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// compiled makes a graph out of JSON.
func compiled(t testing.TB, doc string) *Graph {
	t.Helper()
	g, err := compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func compile(doc string) (*Graph, error) {
	d, err := Decode([]byte(doc))
	if err != nil {
		return nil, err
	}
	return Compile(d, DefaultLimits())
}

// The example of the contract.
const example = `{"timeout":"2h","on_failure":"continue","input_schema":{"type":"object","required":["day"]},"output":"nodes.sum.result",
 "nodes":[{"key":"list","execution":{"target":"worker","kind":"list","payload":{"day":"{{ run.input.day }}"}}},
  {"key":"load","depends_on":["list"],"map":"nodes.list.result.files","max_parallel":20,"tolerate":"1%","execution":{"target":"worker","kind":"load","payload":{"file":"{{ item }}"}}},
  {"key":"ok","depends_on":["load"],"if":"run.input.publish","wait":{"approval":{"roles":["operator"]}},"timeout":"24h"},
  {"key":"sum","depends_on":["load","ok"],"trigger":"none_failed","job_id":"key:summary"},
  {"key":"clean","finally":true,"execution":{"target":"http","callback_url":"https://example.com/clean"}}]}`

func TestTheExampleOfTheContract(t *testing.T) {
	g := compiled(t, example)
	if g.Len() != 5 || g.Timeout().Hours() != 2 || g.NodeTimeout(2).Hours() != 24 || g.NodeTimeout(4) != FinallyTimeout {
		t.Errorf("%d nodes, the timeouts %s, %s and %s", g.Len(), g.Timeout(), g.NodeTimeout(2), g.NodeTimeout(4))
	}
	if fmt.Sprint(g.Reads(1)) != "[0]" || !g.ResultRead(0) || g.ResultRead(1) || !g.ResultRead(3) {
		t.Errorf("load reads %v; the results that are read: %t %t %t", g.Reads(1), g.ResultRead(0), g.ResultRead(1), g.ResultRead(3))
	}
	if err := g.CheckInput([]byte(`{"day":"2026-01-01"}`)); err != nil {
		t.Error(err)
	}
	err := g.CheckInput([]byte(`{}`))
	if err == nil || !strings.Contains(err.Error(), "input: {} is not valid; want a value that fits the schema: missing property 'day'") {
		t.Errorf("got %v", err)
	}
	typed := Definition{InputSchema: json.RawMessage(`{"properties":{"days":{"items":{"type":"string"}}}}`)}
	if err := typed.CheckInput([]byte(`{"days":["mon",7]}`)); err == nil || !strings.Contains(err.Error(), "input.days[1]: 7 is not valid; want") {
		t.Errorf("got %v", err)
	}
	if n, ok := g.Number("sum"); n != 3 || !ok || g.Node(n).JobID != "key:summary" {
		t.Errorf("sum is %d, %t", n, ok)
	}
	doc, err := json.Marshal(g.Definition())
	if err != nil {
		t.Fatal(err)
	}
	if again := compiled(t, string(doc)); again.Len() != 5 {
		t.Errorf("stored and read again: %d nodes", again.Len())
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"key":"n%d","execution":{}}`, i)
	}
	return `{"nodes":[` + b.String()[1:] + `]}`
}

func TestCompileRefuses(t *testing.T) {
	one := func(rest string) string { return `{"nodes":[{"key":"a","execution":{}},{"key":"b",` + rest + `}]}` }
	run := func(rest string) string { return one(`"execution":{},` + rest) }
	after := func(rest string) string { return run(`"depends_on":["a"],` + rest) }
	for name, c := range map[string]struct{ doc, field, says string }{
		"no JSON":                {`{`, "definition", "want"},
		"an unknown field":       {`{"nodes":[{"key":"a","execution":{},"dependson":[]}]}`, "nodes[0].dependson", "depends_on"},
		"a repeated field":       {`{"nodes":[],"nodes":[]}`, "nodes", ""},
		"a wrong type":           {`{"nodes":[{"key":7,"execution":{}}]}`, "nodes[0].key", "string"},
		"wrong parents":          {`{"nodes":[{"key":"a","depends_on":"b","execution":{}}]}`, "nodes[0].depends_on", "array"},
		"no nodes":               {`{"nodes":[]}`, "nodes", "at least one node"},
		"1001 nodes":             {many(1001), "nodes", "1001 nodes is not valid; want at most 1000 nodes"},
		"a cycle":                {`{"nodes":[{"key":"x","execution":{}},{"key":"a","depends_on":["c","x"],"execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"c","depends_on":["b"],"execution":{}},{"key":"d","depends_on":["c"],"execution":{}}]}`, "nodes", "a → b → c → a"},
		"itself":                 {`{"nodes":[{"key":"a","depends_on":["a"],"execution":{}}]}`, "nodes[0].depends_on[0]", "a → a"},
		"an unknown parent":      {run(`"depends_on":["z"]`), "nodes[1].depends_on[0]", "z is not valid; want the key of a node"},
		"a similar parent":       {`{"nodes":[{"key":"get_it","execution":{}},{"key":"b","depends_on":["get-it"],"execution":{}}]}`, "nodes[1].depends_on[0]", `did you mean "get_it"?`},
		"a parent twice":         {run(`"depends_on":["a","a"]`), "nodes[1].depends_on[1]", "only once"},
		"a doubled key":          {`{"nodes":[{"key":"a","execution":{}},{"key":"a","execution":{}}]}`, "nodes[1].key", "nodes[0] has it"},
		"a bad key":              {`{"nodes":[{"key":"A-1","execution":{}}]}`, "nodes[0].key", "beginning with a letter"},
		"a long key":             {`{"nodes":[{"key":"` + strings.Repeat("a", 65) + `","execution":{}}]}`, "nodes[0].key", "1 to 64"},
		"a bad trigger":          {after(`"trigger":"all"`), "nodes[1].trigger", "none_failed_min_one_success"},
		"a bad condition":        {after(`"condition":"done"`), "nodes[1].condition", "always"},
		"both":                   {after(`"condition":"always","trigger":"all_done"`), "nodes[1].condition", "two names"},
		"a lone handler":         {run(`"trigger":"one_failed"`), "nodes[1].trigger", "at least one node"},
		"a bad policy":           {run(`"on_failure":"panic"`), "nodes[1].on_failure", "one of continue, stop, handle, ignore"},
		"ignore for all":         {`{"on_failure":"ignore","nodes":[{"key":"a","execution":{}}]}`, "on_failure", "continue or stop"},
		"nothing to do":          {one(`"if":"true"`), "nodes[1]", "none of them is not valid; want exactly one of execution, job_id and wait"},
		"two things to do":       {run(`"job_id":"key:x"`), "nodes[1]", "execution and job_id"},
		"finally below":          {run(`"depends_on":["a"],"finally":true`), "nodes[1].depends_on[0]", "a finally node"},
		"above finally":          {`{"nodes":[{"key":"z","finally":true,"execution":{}},{"key":"b","depends_on":["z"],"execution":{}}]}`, "nodes[1].depends_on[0]", "without finally"},
		"no ancestor":            {run(`"if":"nodes.a.result"`), "nodes[1].if", "only ancestors of b; a is none: add it to depends_on"},
		"no node":                {after(`"if":"nodes.zz.result"`), "nodes[1].if", `not "zz"`},
		"any node":               {after(`"if":"nodes[run.key].result"`), "nodes[1].if", "written out"},
		"no field":               {after(`"if":"nodes.a.reslut"`), "nodes[1].if", "nodes.a.result"},
		"no field of run":        {after(`"if":"run.inputs"`), "nodes[1].if", "run.input"},
		"its end":                {after(`"if":"run.failed"`), "nodes[1].if", "only finally nodes"},
		"no name":                {after(`"if":"payload.a"`), "nodes[1].if", "payload"},
		"item":                   {after(`"if":"item == 1"`), "nodes[1].if", "item only in the execution of a node with map"},
		"bad syntax":             {after(`"if":"run.input +"`), "nodes[1].if", "at character"},
		"a long if":              {after(`"if":"` + strings.Repeat("1", 4097) + `"`), "nodes[1].if", "4096"},
		"a racing if":            {after(`"trigger":"one_success","if":"nodes.a.result"`), "nodes[1].if", "no parents in if beside the trigger one_success"},
		"below an eager one":     {`{"nodes":[{"key":"a","execution":{}},{"key":"b","execution":{}},{"key":"e","depends_on":["a","b"],"trigger":"one_done","execution":{}},{"key":"f","depends_on":["e"],"if":"nodes.b.result","execution":{}}]}`, "nodes[3].if", "does not wait for b"},
		"a bad output":           {`{"output":"nodes.z.result","nodes":[{"key":"a","execution":{}}]}`, "output", `not "z"`},
		"a bad template":         {one(`"execution":{"payload":{"x":["{{ nodes.a.result }}"]}}`), "nodes[1].execution.payload.x[0]", "only ancestors of b"},
		"an open template":       {one(`"execution":{"payload":"{{ run.input"}`), "nodes[1].execution.payload", "closed by }}"},
		"a secret by name":       {one(`"execution":{"headers":{"x":"${secret:{{ run.key }}}"}}`), "nodes[1].execution.headers.x", "write the secret's name out"},
		"a hidden secret":        {one(`"execution":{"headers":{"x":"{{ run.key }}${secret:k}"}}`), "nodes[1].execution.headers.x", "something between"},
		"execution of a list":    {one(`"execution":[]`), "nodes[1].execution", "an object"},
		"map of nothing":         {run(`"max_parallel":2`), "nodes[1].max_parallel", "map beside it"},
		"tolerate nothing":       {run(`"tolerate":2`), "nodes[1].tolerate", "map beside it"},
		"map of an object":       {run(`"map":{}`), "nodes[1].map", "a list, or a whole number"},
		"map of too many":        {run(`"map":100001`), "nodes[1].map", "from 0 to 100000"},
		"tolerate too much":      {run(`"map":3,"tolerate":"101%"`), "nodes[1].tolerate", `"1%"`},
		"tolerate less":          {run(`"map":3,"tolerate":-1`), "nodes[1].tolerate", `"1%"`},
		"parallel":               {run(`"map":3,"max_parallel":-1`), "nodes[1].max_parallel", "from 1 to"},
		"a timeout":              {run(`"timeout":"soon"`), "nodes[1].timeout", "such as 90s or 2h"},
		"the run's timeout":      {`{"timeout":"0s","nodes":[{"key":"a","execution":{}}]}`, "timeout", "from 1s"},
		"on_timeout":             {run(`"on_timeout":"skip"`), "nodes[1].on_timeout", "wait beside it"},
		"a bad on_timeout":       {one(`"wait":{"event":"x"},"timeout":"1h","on_timeout":"cry"`), "nodes[1].on_timeout", "one of fail, skip, succeed"},
		"a wait for nothing":     {one(`"wait":{}`), "nodes[1].wait", "exactly one of timer, approval and event"},
		"a wait for two":         {one(`"wait":{"timer":"1h","event":"x"}`), "nodes[1].wait", "timer and event"},
		"a bad timer":            {one(`"wait":{"timer":"tomorrow"}`), "nodes[1].wait.timer", "an instant such as"},
		"a timer's timeout":      {one(`"wait":{"timer":"1h"},"timeout":"2h"`), "nodes[1].timeout", "ends by itself"},
		"a bad role":             {one(`"wait":{"approval":{"roles":["boss"]}}`), "nodes[1].wait.approval.roles[0]", "viewer, operator, admin"},
		"too many votes":         {one(`"wait":{"approval":{"min":21}}`), "nodes[1].wait.approval.min", "from 1 to 20"},
		"a bad schema":           {one(`"wait":{"approval":{"schema":{"type":"thing"}}}`), "nodes[1].wait.approval.schema", "a JSON Schema"},
		"a bad event":            {one(`"wait":{"event":"order paid"}`), "nodes[1].wait.event", "without spaces"},
		"a lone match":           {one(`"wait":{"timer":"1h","match":"run.key"}`), "nodes[1].wait.match", "event beside it"},
		"a bad match":            {one(`"wait":{"event":"x","match":"nodes.z.result"}`), "nodes[1].wait.match", `not "z"`},
		"a mapped wait":          {one(`"wait":{"event":"x"},"map":3`), "nodes[1].map", "no map on a wait"},
		"a retried wait":         {one(`"wait":{"event":"x"},"retry_policy":{"max_retries":1}`), "nodes[1].retry_policy", "execution beside it"},
		"a lone payload":         {run(`"payload_override":{}`), "nodes[1].payload_override", "job_id beside it"},
		"an input schema":        {`{"input_schema":{"$ref":"https://example.com/s.json"},"nodes":[{"key":"a","execution":{}}]}`, "input_schema", "only refer to itself"},
		"an input schema's type": {`{"input_schema":[],"nodes":[{"key":"a","execution":{}}]}`, "input_schema", "no object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(c.doc)
			var bad job.Invalids
			if !errors.As(err, &bad) {
				t.Fatalf("got %v; want job.Invalids", err)
			}
			if bad[0].Field != c.field || !strings.Contains(bad[0].Error(), c.says) || len(bad) > 2 {
				t.Errorf("got %v\nwant %s: … %s", bad, c.field, c.says)
			}
		})
	}
}

func TestCompileAccepts(t *testing.T) {
	for name, doc := range map[string]string{
		"1000 nodes":        many(1000),
		"a handler's error": `{"nodes":[{"key":"a","execution":{}},{"key":"b","execution":{}},{"key":"h","depends_on":["a","b"],"trigger":"failure","execution":{"payload":"{{ nodes.a.error.message ?? nodes.b.error.message }}"}}]}`,
		"finally reads all": `{"nodes":[{"key":"a","execution":{}},{"key":"z","finally":true,"if":"run.failed && nodes.a.status == 'FAILED'","execution":{}}]}`,
		"braces":            `{"nodes":[{"key":"a","execution":{"payload":"{{ \"}}\" + '{{' }} {{ run.id }}","env":{"X":"{{ not a template"}}}]}`,
		"a sub-workflow":    `{"nodes":[{"key":"a","map":[1,2],"job_id":"key:sub","payload_override":{"n":"{{ item }}"}}]}`,
		"an event":          `{"nodes":[{"key":"a","wait":{"event":"order.paid","match":"run.input.order"},"timeout":"24h","on_timeout":"skip"}]}`,
		"a sure ancestor":   `{"nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"c","depends_on":["a"],"execution":{}},{"key":"e","depends_on":["b","c"],"trigger":"one_success","if":"nodes.a.result","execution":{}}]}`,
		"an instant":        `{"nodes":[{"key":"a","wait":{"timer":"2030-01-02T15:04:05Z"}}]}`,
	} {
		if _, err := compile(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNesting(t *testing.T) {
	uses := map[string][]string{"a": {"b", "c"}, "b": {"c"}, "x": {"y"}, "y": {"z"}, "z": {"x"}}
	for i := range 9 {
		uses[fmt.Sprint(i)] = []string{fmt.Sprint(i + 1)}
	}
	of := func(name string) []string { return uses[name] }
	for name, want := range map[string]string{
		"a": "", "x": "x → y → z → x", "1": "workflows nested 9 deep is not valid; want at most 8", "2": "",
	} {
		deep, err := Nesting(name, of)
		if err == nil {
			err = CheckNesting(deep)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want %q", name, err, want)
		}
	}
}

func TestLint(t *testing.T) {
	g := compiled(t, `{"nodes":[{"key":"a","execution":{}},{"key":"b","depends_on":["a"],"if":"nodes.a.result","execution":{}},
		{"key":"c","depends_on":["a","b"],"execution":{}},{"key":"d","depends_on":["a","b"],"trigger":"none_failed","execution":{}},{"key":"e","depends_on":["b"],"execution":{}}]}`)
	got := Lint(g)
	if len(got) != 1 || got[0].Node != "c" || !strings.Contains(got[0].Text, "joins b, which may be skipped") {
		t.Errorf("got %v", got)
	}
}

// A skip passes on through all_success, so a join is warned of however far it is below the condition.
func TestLintSeesSkipsFromFarAbove(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, want string
	}{
		"through a chain":             {`{"key":"a","if":"run.input","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"c","depends_on":["b"],"execution":{}},{"key":"x","execution":{}},{"key":"j","depends_on":["c","x"],"execution":{}}`, "j: c"},
		"through a join":              {`{"key":"a","if":"run.input","execution":{}},{"key":"x","execution":{}},{"key":"j","depends_on":["a","x"],"execution":{}},{"key":"k","depends_on":["j","x"],"execution":{}}`, "j: a; k: j"},
		"not through none_failed":     {`{"key":"a","if":"run.input","execution":{}},{"key":"x","execution":{}},{"key":"j","depends_on":["a","x"],"trigger":"none_failed","execution":{}},{"key":"k","depends_on":["j","x"],"execution":{}}`, ""},
		"all below one condition":     {`{"key":"a","if":"run.input","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"c","depends_on":["a"],"execution":{}},{"key":"j","depends_on":["b","c"],"execution":{}}`, ""},
		"the same condition twice":    {`{"key":"a","if":"run.input","execution":{}},{"key":"b","if":"run.input","execution":{}},{"key":"j","depends_on":["a","b"],"execution":{}}`, ""},
		"different conditions":        {`{"key":"a","if":"run.input","execution":{}},{"key":"b","if":"!run.input","execution":{}},{"key":"j","depends_on":["a","b"],"execution":{}}`, "j: a, b"},
		"below a handler":             {`{"key":"a","execution":{}},{"key":"h","depends_on":["a"],"trigger":"one_failed","execution":{}},{"key":"n","depends_on":["h"],"execution":{}},{"key":"j","depends_on":["a","n"],"execution":{}}`, "j: n"},
		"below a wait that may skip":  {`{"key":"w","wait":{"event":"e"},"timeout":"1h","on_timeout":"skip"},{"key":"n","depends_on":["w"],"execution":{}},{"key":"x","execution":{}},{"key":"j","depends_on":["n","x"],"execution":{}}`, "j: n"},
		"no join":                     {`{"key":"a","if":"run.input","execution":{}},{"key":"b","depends_on":["a"],"execution":{}}`, ""},
		"another trigger on the join": {`{"key":"a","if":"run.input","execution":{}},{"key":"b","depends_on":["a"],"execution":{}},{"key":"x","execution":{}},{"key":"j","depends_on":["b","x"],"trigger":"all_done","execution":{}}`, ""},
	} {
		var got []string
		for _, w := range Lint(compiled(t, `{"nodes":[`+c.nodes+`]}`)) {
			_, text, _ := strings.Cut(w.Text, " joins ")
			text, _, _ = strings.Cut(text, ", which")
			got = append(got, w.Node+": "+text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: got %q; want %q", name, got, c.want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(example)
	f.Add(`{"nodes":[{"key":"a","depends_on":["b"],"execution":{}},{"key":"b","depends_on":["a"],"execution":{}}]}`)
	f.Add(`{"nodes":[{"key":"a","map":"run.input","tolerate":"1%","execution":{"payload":"x {{ item }} {{ '}}' }}"}}]}`)
	f.Add(`{"nodes":[{"key":"a","wait":{"event":"x","match":"run.key"},"timeout":"1h","on_timeout":"skip"},{"key":"z","finally":true,"job_id":"j"}]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		d, err := Decode([]byte(doc))
		var g *Graph
		if err == nil {
			g, err = Compile(d, Limits{Nodes: 50, Edges: 200, MapWidth: 50})
		}
		if err != nil {
			var bad job.Invalids
			if !errors.As(err, &bad) || len(bad) == 0 || bad[0].Field == "" || bad[0].Want == "" {
				t.Fatalf("got %v; want an error that names a field and what would be right", err)
			}
			return
		}
		p := newPlayer(t, g, Run{Input: json.RawMessage(`{"files":[1,2],"publish":true}`)})
		p.begin()
		for len(p.live) > 0 { // every run ends, or waits
			p.finish(p.live[0])
		}
		c := p.s.Clone()
		if c.recount(g); !c.Equal(p.s) {
			t.Fatalf("the counters are %+v; a recount gives %+v", p.s, c)
		}
	})
}

// A workflow with very many expressions fills no memory: the same ones are compiled once, and different ones are bounded, also wrong ones.
func TestExpressionsAreBounded(t *testing.T) {
	compile := func(n int, each func(i int) string) (*Graph, error) {
		list := make([]string, n)
		for i := range list {
			list[i] = each(i)
		}
		doc, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode([]byte(`{"nodes":[{"key":"a","execution":{"payload":` + string(doc) + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return Compile(d, DefaultLimits())
	}
	if g, err := compile(40_000, func(int) string { return "{{ run.id }}" }); err != nil || g.Cost() > 100<<10 {
		t.Errorf("the same: %v, %d bytes", err, g.Cost())
	}
	if _, err := compile(maxExpressions, func(i int) string { return fmt.Sprintf("{{ run.attempt + %d }}", i) }); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	for name, each := range map[string]func(int) string{
		"different": func(i int) string { return fmt.Sprintf("{{ run.attempt + %d }}", i) },
		"wrong":     func(i int) string { return fmt.Sprintf("{{ nothing + %d }}", i) },
	} {
		var v job.Invalids
		if _, err := compile(40_000, each); !errors.As(err, &v) || len(v) > maxInvalids {
			t.Errorf("%s: %d mistakes, %v", name, len(v), v[:min(len(v), 1)])
		}
	}
}
