package strictjson

import (
	"strings"
	"unicode/utf8"
)

// maxEdits limits how many letters a name may be off and still be recognised.
const maxEdits = 2

// unknown records a key that is not a field, with the existing fields and the one it may stand for.
func (s *structPlan) unknown(d *decoder, k key) {
	if len(d.problems) == maxProblems {
		return
	}
	if len(s.names) == 0 {
		d.badKey(k, "no fields")
		return
	}
	want := "one of: " + strings.Join(s.names, ", ")
	if meant := closest(string(d.name(k)), s.names); meant != "" {
		want += ` (did you mean "` + meant + `"?)`
	}
	d.badKey(k, want)
}

// closest returns the name most similar to the given one, or "".
func closest(given string, names []string) (best string) {
	bestEdits := maxEdits + 1
	for _, name := range names {
		if strings.EqualFold(given, name) {
			return name
		}
		// Changing every letter is no similarity.
		if n := edits(given, name); n < bestEdits && n < utf8.RuneCountInString(name) {
			best, bestEdits = name, n
		}
	}
	return best
}

// edits returns the Levenshtein distance, or more than maxEdits if the lengths alone rule out less.
func edits(a, b string) int {
	if max(len(a)-len(b), len(b)-len(a)) > maxEdits*utf8.UTFMax {
		return maxEdits + 1
	}
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(to)]
}
