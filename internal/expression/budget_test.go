package expression

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/watchdog"
)

// mostAllocated limits how many bytes one evaluation may allocate in total, whatever is evaluated.
const mostAllocated = 8 << 20

// mostUsed limits its processor time: many times what it takes, for slow machines.
const mostUsed = time.Second

// allocated returns how many bytes f allocates; others in the process are counted with it.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// repeated joins a term with itself as often as an expression has room for.
func repeated(term, operator string) string {
	for n := (MaxLength - len(term)) / (len(term) + len(operator)); ; n-- {
		text := term + strings.Repeat(operator+term, n)
		if _, err := Compile(text); err == nil || n == 0 {
			return text
		}
	}
}

func nestedCalls(f, arg string) string {
	n := (MaxLength - len(arg)) / (len(f) + 2)
	return strings.Repeat(f+"(", n) + arg + strings.Repeat(")", n)
}

// greedy are expressions and payloads that ask for as much as they can.
func greedy() (texts, payloads []string) {
	texts = []string{
		repeated("payload.a", "+"), repeated(`string(payload)`, "+"), repeated("string(payload.l)", "+"), repeated(`lower(payload.a)`, "=="), repeated(`upper(payload.a)`, "+"),
		nestedCalls("upper", "payload.a"), nestedCalls("lower", "payload.a"), nestedCalls("string", "payload.l"), nestedCalls("trim", "payload.a"),
		repeated("payload.l==payload.m", "||"), repeated("payload.l!=payload.m", "&&"), repeated("payload.o in payload.l", "||"), repeated("payload.n in payload.l", " or "),
		repeated("len(payload)", "+"), repeated("int(payload.a)", "??"), "payload[payload.a]", "payload[payload.l]", "int(payload.a)", "float(payload.a)",
		repeated("trim(payload.a,payload.b)", "+"), repeated("indexOf(payload.a,payload.b)", "+"), repeated("(payload.a contains payload.b)", "or"),
		"payload", "payload.a", "payload.l", "string(payload) + payload.a", `lower(payload.a) + upper(payload.a)`,
	}
	for _, size := range []int{100, MaxRead / 3, MaxRead - 100, 1 << 20} {
		payloads = append(payloads,
			fmt.Sprintf(`{"a": %q, "b": %q, "l": [], "m": []}`, strings.Repeat("é", size/4), strings.Repeat("é", size/5)),
			fmt.Sprintf(`{"a": "%s"}`, strings.Repeat(`\u00df`, size/6)),
			`{"o": {}, "n": 7, "l": [{}`+strings.Repeat(",{}", size/7)+`,1], "m": [{}`+strings.Repeat(",{}", size/7)+`,2]}`,
			`{"l": [`+strings.Repeat(`{"":0},`, size/8)+`0], "a": "x"}`,
			`{"l": [`+strings.Repeat(`[[[]]],`, size/8)+`0], "n": 1.5, "a": "x"}`,
			`{"l": [`+strings.Repeat(`1.5,`, size/5)+`0], "a": `+strings.Repeat("9", size/8)+`}`,
			strings.Repeat("[", 60)+strings.Repeat("1,", size/3)+"1"+strings.Repeat("]", 60),
		)
	}
	return texts, payloads
}

func TestMemoryOfOneEvaluation(t *testing.T) {
	texts, payloads := greedy()
	for _, text := range texts {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("%.40s: %v", text, err)
			continue
		}
		for _, p := range payloads {
			began := watchdog.CPU()
			got := allocated(func() {
				v, err := e.Eval([]byte(p))
				var x *Error
				if err != nil && !errors.As(err, &x) || err != nil && len(x.Reason) > maxReason+len("…") {
					t.Errorf("%.40s of %.40s: the error %.400q", text, p, err)
				}
				if len(v) > 6*MaxValue+2 {
					t.Errorf("%.40s of %.40s: a value of %d bytes", text, p, len(v))
				}
			})
			if got -= min(got, uint64(len(p))); got > mostAllocated { // the test copies the payload itself
				t.Errorf("%.40s of %.40s (%d bytes): allocated %d bytes; want at most %d", text, p, len(p), got, mostAllocated)
			}
			if used := watchdog.CPU() - began; used > watchdog.Allow(mostUsed) {
				t.Errorf("%.40s of %.40s (%d bytes): took %s of processor time; want at most %s", text, p, len(p), used, mostUsed)
			}
		}
	}
}

// Many evaluations at once need no more memory than those that have their turn.
func TestEvaluationsTakeTurns(t *testing.T) {
	for range cap(turns) {
		turns <- struct{}{}
	}
	e, done := &Expression{}, make(chan string, 1)
	go func() {
		var err error
		if e, err = Compile(`payload.turn + "!"`); err != nil {
			done <- err.Error()
			return
		}
		v, err := e.Eval([]byte(`{"turn": "mine"}`))
		done <- fmt.Sprint(v, err)
	}()
	select {
	case v := <-done:
		t.Fatalf("got %s while none had a turn left", v)
	case <-time.After(50 * time.Millisecond):
	}
	for range cap(turns) {
		<-turns
	}
	if v := <-done; v != `"mine!"<nil>` {
		t.Errorf("got %s", v)
	}
	var wg sync.WaitGroup
	for range 100 { // an evaluation that fails gives its turn back
		wg.Go(func() {
			if bad, err := Compile("upper(payload.n)"); err == nil {
				_, _ = bad.Eval([]byte(`{"n": 1}`))
			}
		})
	}
	wg.Wait()
}

// Of a payload that is too large to be decoded, an expression sees the same as of a small one.
func TestLargePayloads(t *testing.T) {
	pad := strings.Repeat("x", MaxRead)
	small := sample
	large := `{"pad": "` + pad + `", "d\u00e9j\u00e0": 1, ` + strings.TrimPrefix(sample, "{")
	for _, text := range []string{
		"payload.customer.id", "payload.customer.id + 1", "payload.customer.id + payload.x", `payload.customer.name + "/" + string(payload.customer.id)`, "len(payload.customer.tags)",
		"payload.customer.tags[1]", `"a" in payload.customer.tags`, `payload.region ?? "eu"`, "payload.nobody.at.all", "payload.customer == payload.customer", "payload.customer.name.first",
		"payload.customer.tags.first + 1", `string(payload.customer) + payload.customer.name`, "payload.big == payload.big2", `payload["dash-ed"] > 3 ? payload.text : payload.n`, "payload.customer.none == nil",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		got, gotErr := e.Eval([]byte(large))
		want, wantErr := e.Eval([]byte(small))
		if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s: %s, %v; want %s, %v", text, got, gotErr, want, wantErr)
		}
	}
	for text, says := range map[string]string{
		"len(payload)": "at most 65536", "payload[payload.text]": "at most 65536", `payload.pad + ""`: "at most 65536", "payload.pad": "at most 4096",
		`payload.pad == "x"`: "at most 65536",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval([]byte(large)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
	e, _ := Compile(`payload["déjà"]`)
	if got, err := e.Eval([]byte(large)); got != "1" || err != nil {
		t.Errorf("an escaped name: got %s, %v", got, err)
	}
}

func TestBudgetRefuses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	payload := []byte(`{"a": "` + long + `", "n": 7, "l": [1], "big": 12345678901234567890}`)
	for text, says := range map[string]string{
		"payload.a":                     "its value has 5000 bytes; at most 4096",
		`payload.a + ""`:                "its value has 5000 bytes; at most 4096",
		repeated("payload.a", "+"):      "more than 32768 bytes of text",
		"upper(payload.n)":              "upper takes a string, not a number",
		"trim(payload.l)":               "trim takes a string, not a list",
		"trim(payload.a, payload.a)":    "at most 256",
		"upper()":                       "upper takes 1 to 1 arguments",
		"trim(1, 2, 3)":                 "trim takes 1 to 2 arguments",
		"$env":                          `"$env"`,
		`string($env)`:                  `"$env"`,
		`string(payload.big["String"])`: "string takes a value",
		"int(payload.a)":                "int(xxx",
	} {
		e, err := Compile(text)
		if err == nil {
			_, err = e.Eval(payload)
		}
		if err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 400 {
			t.Errorf("%.40s: got %.400v, want %q", text, err, says)
		}
	}
}

// Whatever is evaluated, over whatever payload: memory is bounded.
func FuzzMemory(f *testing.F) {
	texts, payloads := greedy()
	for i, text := range texts {
		f.Add(text, payloads[i%7], uint16(1))
		f.Add(text, payloads[(i+1)%7], uint16(300))
	}
	f.Fuzz(func(t *testing.T, text, payload string, times uint16) {
		if n := int(times) * len(payload); n < 1<<20 && strings.HasPrefix(payload, "{") && strings.HasSuffix(payload, "}") {
			payload = `{"l": [` + strings.Repeat(payload+",", int(times)) + "0], " + payload[1:]
		}
		var e *Expression
		var err error
		if got := allocated(func() { e, err = Compile(text) }); got > mostAllocated {
			t.Fatalf("compiling %q allocated %d bytes", text, got)
		}
		if err != nil {
			return
		}
		doc := []byte(payload)
		if got := allocated(func() { _, _ = e.Eval(doc) }); got > mostAllocated {
			t.Fatalf("%q over %d bytes allocated %d bytes; want at most %d", text, len(doc), got, mostAllocated)
		}
	})
}
