package importer

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/declare"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares what came of a file, and the differences, with what is kept.
func golden(t *testing.T, name string, got Imported) {
	t.Helper()
	var b bytes.Buffer
	if err := declare.Write(&b, got.Declared); err != nil {
		t.Fatal(err)
	}
	if _, err := declare.Read(bytes.NewReader(b.Bytes()), "-"); err != nil && len(got.Jobs) > 0 {
		t.Errorf("what was written cannot be read:\n%v", err)
	}
	b.WriteString("---\n")
	for _, d := range got.Differences {
		fmt.Fprintf(&b, "# %d %s [%s] %s: %s\n", d.Line, d.Key, d.Kind, d.About, d.What)
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%s (%v): got\n%s", file, err, b.Bytes())
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCrontabs(t *testing.T) {
	golden(t, "user.crontab", Crontab{Timezone: "Europe/Berlin", Tag: "cron"}.Read(read(t, "user.crontab")))
	golden(t, "system.crontab", Crontab{System: true}.Read(read(t, "system.crontab")))
}

func TestCronJobs(t *testing.T) {
	for name, c := range map[string]CronJobs{"cronjobs": {Tag: "k8s"}, "images": {Runner: []string{"docker", "run", "--rm"}}} {
		got, err := c.Read(read(t, "cronjobs.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, got)
	}
	if _, err := (CronJobs{}).Read([]byte("a: [")); err == nil {
		t.Error("what is no YAML is taken")
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string][3]string{
		"a b":          {"a b", "", "false"},
		`date +\%F`:    {"date +%F", "", "false"},
		"mail x%hi%ho": {"mail x", "hi\nho\n", "true"},
		`a%b\%c`:       {"a", "b%c\n", "true"},
		"a%":           {"a", "", "true"},
	} {
		run, input, piped := splitPercent(text)
		if got := [3]string{run, input, fmt.Sprint(piped)}; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzImports(f *testing.F) {
	f.Add("* * * * * x")
	f.Add("@daily a%b")
	f.Add("kind: CronJob\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {containers: [{command: [a]}]}}}}}")
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []Imported{Crontab{}.Read([]byte(text)), Crontab{System: true}.Read([]byte(text)), func() Imported { i, _ := CronJobs{}.Read([]byte(text)); return i }()} {
			var b strings.Builder
			if err := declare.Write(&b, got.Declared); err != nil {
				t.Fatal(err)
			}
			back, err := declare.Read(strings.NewReader(b.String()), "-")
			if err != nil || len(back.Jobs) != len(got.Jobs) {
				t.Errorf("%q became %s, which is %v", text, b.String(), err)
			}
		}
	})
}
