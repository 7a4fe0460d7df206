package sqlstore

import (
	"strings"
	"sync"
)

// Dialect turns the statements of this package into those of one database.
//
// Parameters are written $1, $2 and so on. What only one database understands stands in a comment that begins with its
// name, such as /*postgres: FOR UPDATE SKIP LOCKED*/ or /*sqlite: INDEXED BY audit_tenant*/; each dialect takes its own
// comments for text.
type Dialect struct {
	name  string
	param string
	known sync.Map // from the text as written to that of the database
}

// The dialects.
var (
	PostgreSQL = &Dialect{name: "postgres", param: "$"}
	SQLite     = &Dialect{name: "sqlite", param: "?"}
)

// Text returns a statement in the form of the database.
func (d *Dialect) Text(sql string) string {
	if known, ok := d.known.Load(sql); ok {
		return known.(string)
	}
	text := d.uncomment(sql)
	if d.param != "$" {
		text = strings.ReplaceAll(text, "$", d.param)
	}
	d.known.Store(sql, text)
	return text
}

func (d *Dialect) uncomment(sql string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(sql, "/*")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		comment, after, _ := strings.Cut(rest, "*/")
		if whose, text, ok := strings.Cut(comment, ": "); ok && whose == d.name {
			out.WriteString(text)
		}
		sql = after
	}
}
