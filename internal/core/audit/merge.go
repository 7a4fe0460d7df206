package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Other is a request that shares an entry: the same credential did the same from the same address, in the same
// commit.
type Other struct {
	Request string
	Object  string
	Count   int
}

// maxOthers bounds how many requests share an entry.
const maxOthers = 500

// Merge joins entries of one commit that differ only in their requests and objects, so that many concurrent requests
// cost one row instead of one each. The detail of the first entry lists the joined ones, see Others.
func Merge(all []*Entry) []*Entry {
	if len(all) < 2 {
		return all
	}
	type kind struct {
		tenant        tenant.ID
		by, key, from string
		action        string
		role          tenant.Role
	}
	type group struct {
		first  *Entry
		others []byte
		n      int
	}
	var out []*Entry
	groups := map[kind]*group{}
	var order []*group
	for _, e := range all {
		k := kind{e.Tenant, e.By, e.Key, e.From, e.Action, e.Role}
		g := groups[k]
		if g == nil || g.n == maxOthers {
			first := *e // the caller's entries stay as they are: they may be retried
			g = &group{first: &first}
			groups[k], order = g, append(order, g)
			continue
		}
		if g.n > 0 {
			g.others = append(g.others, ',')
		}
		g.n++
		g.others = AppendText(g.others, e.Request+" "+e.Object+" "+strconv.Itoa(e.Count))
		g.first.Count += e.Count
	}
	for _, g := range order {
		if g.n > 0 {
			d := g.first.Detail
			if len(d) < 2 {
				d = []byte("{}")
			}
			b := append(make([]byte, 0, len(d)+len(g.others)+16), d[:len(d)-1]...)
			if len(d) > 2 {
				b = append(b, ',')
			}
			g.first.Detail = append(append(append(b, `"also":[`...), g.others...), "]}"...)
		}
		out = append(out, g.first)
	}
	return out
}

// Others lists the requests that share an entry with its own.
func (e *Entry) Others() []Other {
	if !bytes.Contains(e.Detail, []byte(`"also":[`)) {
		return nil
	}
	var d struct{ Also []string }
	if json.Unmarshal(e.Detail, &d) != nil {
		return nil
	}
	var out []Other
	for _, text := range d.Also {
		parts := strings.SplitN(text, " ", 3)
		if len(parts) != 3 {
			continue
		}
		n, _ := strconv.Atoi(parts[2])
		out = append(out, Other{parts[0], parts[1], n})
	}
	return out
}

// AppendText appends a text as JSON.
func AppendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // of a text
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
