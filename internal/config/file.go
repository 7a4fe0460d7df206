package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// line is a key's value in a file, and its place.
type line struct {
	value  string
	kind   string // what it was written as
	number int
}

// written describes how each kind is written in a file.
var written = map[string]string{
	Text: "text in quotes", Number: "a number without quotes", Span: "a number, or a duration in quotes", Truth: "true or false without quotes", List: `a list such as ["a", "b"]`,
}

// fits reports whether it was written with the type that its key requires.
func (l line) fits(kind string) bool {
	ok := map[string][]string{
		Text: {"text"}, Number: {"a number"}, Span: {"a number", "text"}, Truth: {"a boolean"}, List: {"a list", "text"},
	}
	return slices.Contains(ok[kind], l.kind)
}

// readFile reads a TOML file into values by dotted key; with path "" it returns none.
func readFile(path string) (map[string]line, Mistakes) {
	out := map[string]line{}
	if path == "" {
		return out, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Mistakes{{"config", path, "a file that can be read: " + err.Error(), "--config or CARILLON_CONFIG"}}
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		from := path
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			from = fmt.Sprintf("%s, line %d, column %d", path, row, column)
		}
		return nil, Mistakes{{"config", path, "valid TOML: " + strings.TrimPrefix(err.Error(), "toml: "), from}}
	}
	flatten("", tree, lines(data), out)
	return out, nil
}

// lines returns the line of each key in a valid file.
func lines(data []byte) map[string]int {
	at := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
			continue
		}
		var parts []string
		number := 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			parts = append(parts, string(n.Data))
			number = p.Shape(n.Raw).Start.Line
		}
		name := strings.Join(parts, ".")
		if e.Kind != unstable.KeyValue {
			table = name + "."
			at[name] = number
			continue
		}
		at[table+name] = number
	}
	return at
}

func flatten(prefix string, tree map[string]any, at map[string]int, out map[string]line) {
	for k, v := range tree {
		name := prefix + k
		if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
			if _, known := at[name]; known { // for a key of an inline table, the line of the table is the nearest
				for sub := range inner {
					if _, ok := at[name+"."+sub]; !ok {
						at[name+"."+sub] = at[name]
					}
				}
			}
			flatten(name+".", inner, at, out)
			continue
		}
		l := line{number: at[name], value: fmt.Sprint(v)}
		switch v := v.(type) {
		case string:
			l.kind = "text"
		case int64, float64:
			l.kind = "a number"
		case bool:
			l.kind = "a boolean"
		case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
			l.kind = "a time"
		case map[string]any:
			if slices.ContainsFunc(Keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") }) {
				continue // an empty table says nothing
			}
			l.kind, l.value = "a table", "{}"
		case []any:
			l.kind = "a list"
			parts := make([]string, len(v))
			for i, x := range v {
				s, ok := x.(string)
				if !ok {
					l.kind, s = "a list of something else than texts", fmt.Sprint(x)
				}
				parts[i] = s
			}
			l.value = strings.Join(parts, ",")
		}
		out[name] = l
	}
}
