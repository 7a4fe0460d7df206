package api

import (
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

func TestWhatIsConcealed(t *testing.T) {
	c := newConcealer([]string{"correct horse battery", "correct horse", "short", "carillon", "Postgres", "schedule", "idle", "scheduler", `a"b\c<d>e`}, []client.SupportSetting{{Key: "auth.scheduler_idle"}})
	for text, want := range map[string]string{
		"it is correct horse battery.":                           "it is (not shown).",
		`msg="a\"b\\c<d>e" {"x":"a\"b\\c\u003cd\u003ee"}`:        `msg="(not shown)" {"x":"(not shown)"}`,
		"carillon has a short schedule, and is idle":             "carillon has a short schedule, and is idle",
		"the scheduler says postgres":                            "the scheduler says postgres",
		"dial postgres://carillon:carillon@db/carillon":          "dial postgres://carillon:…@db/carillon",
		"parse postgres://u:p@ss@h/x: no":                        "parse postgres://u:…@h/x: no",
		"parse postgres://u:p/ss@h/x: no":                        "parse postgres://u:…@h/x: no",
		`Get "https://example.com/keys?key=short": EOF`:          `Get "https://example.com/keys?…": EOF`,
		`lines\ncar_live_abcdefgh_0123456789abcdef`:              `lines\ncar_live_abcdefgh_…`,
		`\ncas_0123456789 \tcct_0123456789 /badges/cbg_abcdefgh`: `\ncas_… \tcct_… /badges/cbg_…`,
		`\nBearer 0123456789 \neyJhbGciOiJIUzI1NiJ9.eyJzdWIi`:    `\nBearer … \neyJ…`,
		`\nwhsec_Y2FuYXJ5 password=hunter2 x`:                    `\nwhsec_… password=… x`,
		"http://localhost:8080/api/v1/jobs":                      "http://localhost:8080/api/v1/jobs",
	} {
		if got := c.text(text); got != want {
			t.Errorf("%s\nis told as %s\nwant       %s", text, got, want)
		}
	}
	if got := c.looks("carillon_up 1 correct horse battery"); got != "carillon_up 1 correct horse battery" {
		t.Errorf("metrics: %s", got)
	}
}

func TestALineIsCutWhenItIsConcealed(t *testing.T) {
	const secret = "correct horse battery"
	c := newConcealer([]string{secret}, nil)
	for at := supportLine - 30; at < supportLine+5; at++ {
		line := c.line(strings.Repeat("é", at/2) + " " + secret + strings.Repeat(" x", 500))
		if strings.Contains(line, "corr") || len(line) > supportLine+len("…") || !strings.HasSuffix(line, "…") {
			t.Errorf("at %d: %q", at, line[len(line)-60:])
		}
	}
	// What was cut before may end within a secret.
	for _, end := range []string{"correct hor", "correct horse batter", "see car_live_abcdefgh_0123", "see car_li", "see postgres://u:hun"} {
		if line := c.line("it said " + end + "…"); strings.Contains(line, "corr") || strings.Contains(line, "car_") || strings.Contains(line, "hun") || !strings.HasPrefix(line, "it said ") {
			t.Errorf("%s: %q", end, line)
		}
	}
	if line := c.line("as it is"); line != "as it is" {
		t.Errorf("%q", line)
	}
}
