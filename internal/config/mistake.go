package config

import (
	"fmt"
	"slices"
	"strings"
)

// Mistake is one invalid setting.
type Mistake struct {
	Key   string
	Value string
	Want  string
	From  string // where it was set: a flag, a variable, a line of a file
}

// Mistakes is everything wrong with the settings.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, x := range m {
		lines[i] = fmt.Sprintf("%s = %q (%s): want %s", x.Key, x.Value, x.From, x.Want)
	}
	return strings.Join(lines, "\n")
}

// near suggests what an unknown key may have meant: the nearest known key, or else those of its table.
func near(key string) string {
	best, far := "", len(key)/2+1
	var same, tables []string
	table, _, in := strings.Cut(key, ".")
	for _, k := range Keys {
		if d := distance(key, k.Name); d < far {
			best, far = k.Name, d
		}
		t, _, nested := strings.Cut(k.Name, ".")
		if in && t == table {
			same = append(same, k.Name)
		}
		if nested {
			t = "[" + t + "]"
		}
		if !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
		if !in && strings.HasSuffix(k.Name, "."+key) { // it stands before its table, or in none
			return "a key that exists: " + k.Name + ", which stands in the table [" + k.Name[:len(k.Name)-len(key)-1] + "]"
		}
	}
	switch {
	case best != "" && far <= 3:
		return "a key that exists: perhaps " + best
	case len(same) > 0:
		return "a key that exists: of [" + table + "] there are " + strings.Join(same, ", ")
	case best != "":
		return "a key that exists: perhaps " + best
	}
	return "a key that exists: there are " + strings.Join(tables, ", ")
}

// Strangers returns environment variables that are not settings, but nearly are.
func Strangers(env []string) (out []string) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "CARILLON_") || slices.ContainsFunc(Keys, func(k Key) bool { return k.Variable() == name || k.FileVariable() == name }) {
			continue
		}
		for _, k := range Keys {
			if distance(name, k.Variable()) <= 2 {
				out = append(out, fmt.Sprintf("%s is no setting; perhaps %s is meant", name, k.Variable()))
				break
			}
		}
	}
	return out
}

// distance returns how many letters must be added, dropped, changed or swapped to turn one text into the other.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
