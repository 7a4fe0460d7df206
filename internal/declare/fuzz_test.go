package declare

import (
	"errors"
	"strings"
	"testing"
)

// Whatever a file says, it is read, or what is wrong is told with a place and what would be right; what was read is written
// so that it is read as the same.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"", "jobs: []", "jobs:\n- key: a\n  name: a\n  execution: {target: simulate, work_kind: noop}\n", `{"jobs": [{"key": "a", "name": "a", "execution": {}}]}`,
		"defaults: {queue: q}\njobs: [{key: b, name: b, execution: {callback_url: 'https://example.com'}}]", "jobs: &a [*a]", "jobs: [{key: a, name: a, depends_on: [b, {job: c}, 'true'], condition: always, execution: {}}]", "a: &a [b, *a]", "jobs:\n- key: a\n- key: a\n", "---\n---\n", "\t",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(strings.NewReader(text), "-")
		if err != nil {
			var wrong Problems
			if !errors.As(err, &wrong) || len(wrong) == 0 || err.Error() == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var b strings.Builder
		if err := Write(&b, got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		back, err := Read(strings.NewReader(b.String()), "-")
		if err != nil || len(back.Jobs) != len(got.Jobs) {
			t.Errorf("%q became %q, which is %v", text, b.String(), err)
		}
	})
}
