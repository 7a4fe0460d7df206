package schedule

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestDescribe compares the sentences with testdata/describe.golden; each line is an expression, a day mode and its sentence.
func TestDescribe(t *testing.T) {
	const file = "testdata/describe.golden"
	var b strings.Builder
	for _, x := range []struct {
		expr string
		day  Day
	}{
		{"* * * * *", ""},
		{"*/5 * * * *", ""},
		{"3/15 * * * *", ""},
		{"2/5 * * * *", ""},
		{"3-59/15 * * * *", ""},
		{"*/7 * * * *", ""},
		{"0 * * * *", ""},
		{"5,35 * * * *", ""},
		{"10-20 * * * *", ""},
		{"30 */2 * * *", ""},
		{"30 */5 * * *", ""},
		{"*/10 9-17 * * MON-FRI", ""},
		{"* 9 * * *", ""},
		{"* * * * * *", ""},
		{"*/10 * * * * *", ""},
		{"*/7 * * * * *", ""},
		{"*/10 5 * * * *", ""},
		{"15 * * * * *", ""},
		{"15 */5 * * * *", ""},
		{"15,45 5,10 9 * * *", ""},
		{"15,45 1,2 * * * *", ""},
		{"* * 3 * * *", ""},
		{"30 7 * * * *", ""},
		{"0-9 * 4 * * *", ""},
		{"30 4 * * *", ""},
		{"30 4,16 * * *", ""},
		{"30 4 1,15 * 5", ""},
		{"30 4 1,15 * 5", Both},
		{"0 0 13 * 5", Either},
		{"0 0 */2 * 1", ""},
		{"0 0 */2 * 1", Either},
		{"0 0 L * *", ""},
		{"0 0 L-3 * ?", ""},
		{"0 0 LW * *", ""},
		{"0 0 15W * *", ""},
		{"0 0 L-2W * *", ""},
		{"0 0 1,15W,LW * *", ""},
		{"0 0 * * FRIL", ""},
		{"0 0 ? * MON#1,MON#3,FRIL", ""},
		{"0 0 * * FRI-MON", ""},
		{"0 0 * * 1,3,5", ""},
		{"0 0 * * SAT,SUN", ""},
		{"0 0 1-7 * MON", Both},
		{"0 0 1 JAN,JUL *", ""},
		{"0 0 * NOV-FEB *", ""},
		{"0 0 1 */3 *", ""},
		{"*/5 * * 6 *", ""},
		{"0 0 1-31 * 5", ""},
		{"0 0 29 2 *", ""},
		{"0 0 1 1 1", ""},
		{"0 12 * * 1#1", Both},
		{"@yearly", ""},
		{"@hourly", ""},
		{"@every 90s", ""},
		{"@every 1h", ""},
		{"@every 1h30m", ""},
		{"@every 26h0m5s", ""},
	} {
		c, err := Parse(x.expr, Options{Zone: zone(t, "Europe/Berlin"), Day: x.day})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%-26s %-4s %s\n", x.expr, x.day, c.Describe())
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the sentences are now:\n%s", b.String())
	}
}
