package importer

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestTasks(t *testing.T) {
	for name, read := range map[string]func([]byte) (Imported, error){
		"dkron.json": Dkron{Tag: "dkron"}.Read, "sidekiq-cron.yml": Sidekiq{Timezone: "Europe/Berlin"}.Read, "sidekiq-scheduler.yml": Sidekiq{Tag: "rails"}.Read,
		"celery-dump.json": Celery{Tag: "celery"}.Read, "celery-beat.yaml": Celery{Timezone: "UTC"}.Read,
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(data)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, got)
		if _, err := read([]byte("a: [")); err == nil {
			t.Errorf("%s: what is no YAML is taken", name)
		}
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "45s": 45 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w": 168 * time.Hour, "0.5": 500 * time.Millisecond, "10 m": 10 * time.Minute,
		"": 0, "0": 0, "-5": 0, "1y": 0, "5 minutes": 0, "1e400": 0, "h": 0, "9999999999d": 0,
	} {
		if got, err := span(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
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
	for _, name := range []string{"dkron.json", "sidekiq-cron.yml", "sidekiq-scheduler.yml", "celery-dump.json", "celery-beat.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	only := func(i Imported, _ error) Imported { return i }
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []Imported{
			only(Dkron{}.Read([]byte(text))), only(Sidekiq{}.Read([]byte(text))), only(Celery{}.Read([]byte(text))),
			Crontab{}.Read([]byte(text)), Crontab{System: true}.Read([]byte(text)), func() Imported { i, _ := CronJobs{}.Read([]byte(text)); return i }()} {
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

// Nothing goes without a line.
func TestWhatIsLeftOutIsTold(t *testing.T) {
	d, err := Dkron{}.Read([]byte(`[{"name": "odd", "schedule": "@every soon", "executor": "shell", "executor_config": {"command": "true"}}]`))
	if err != nil || len(d.Jobs) != 0 || len(d.Differences) != 1 || d.Differences[0].Kind != LeftOut || d.Differences[0].Key != "odd" {
		t.Errorf("a duration that is none: %+v, %v", d, err)
	}
	c, err := Celery{}.Read([]byte(`[
		{"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": {"every": 10, "period": "seconds"}},
		{"model": "django_celery_beat.periodictask", "pk": 1, "fields": {"name": "both", "task": "a.b", "interval": 1, "expires": "2027-01-01T00:00:00Z", "expire_seconds": 60}}]`))
	told := 0
	for _, x := range c.Differences {
		if x.About == "expires" && x.Kind == LeftOut {
			told++
		}
	}
	if err != nil || len(c.Jobs) != 1 || c.Jobs[0].ExpiresAfter == nil || *c.Jobs[0].ExpiresAfter != "1m0s" || told != 1 {
		t.Errorf("with both expiries: %+v, told %d times, %v", c, told, err)
	}
	b, err := Celery{}.Read([]byte(`{"beat_schedule": {"dated": {"task": "a.b", "schedule": 10, "options": {"expires": "2027-01-01T00:00:00Z"}}}}`))
	if err != nil || len(b.Jobs) != 1 || !strings.Contains(fmt.Sprint(b.Differences), "schedule.end_at") {
		t.Errorf("an expiry that is an instant: %+v, %v", b, err)
	}
}
