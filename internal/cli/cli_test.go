package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app/apptest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain keeps the settings of whoever runs the tests out of them, and stops the servers that they started.
func TestMain(m *testing.M) {
	flag.Parse()
	patience = time.Minute // what is completed must come, however slow the machine is
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "carillon-cli-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		os.Setenv("XDG_CONFIG_HOME", dir)
		os.Setenv("HOME", dir)
		for _, e := range os.Environ() {
			if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "CARILLON_") && !strings.HasPrefix(name, "CARILLON_TEST") {
				os.Unsetenv(name)
			}
		}
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		return m.Run()
	}())
}

var stops []func()

// server starts a server once, for all tests that ask for it.
func server(start func() (string, func(), error)) func(*testing.T) string {
	var mu sync.Mutex
	url := ""
	return func(t *testing.T) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if url != "" {
			return url
		}
		u, stop, err := start()
		if err != nil {
			t.Fatal(err)
		}
		url, stops = u, append(stops, stop)
		return url
	}
}

var (
	devServer  = server(apptest.Dev)
	realServer = server(apptest.Serve)
)

// console is a command line at a server.
type console struct {
	*testing.T
	at   []string // flags
	in   string
	now  func() time.Time
	code int
	out  string
	err  string
}

func at(t *testing.T, flags ...string) *console { return &console{T: t, at: flags, now: time.Now} }

// try runs a command.
func (c *console) try(args ...string) *console {
	c.Helper()
	var out, err strings.Builder
	if i := len(args); i > 0 {
		for k, a := range args {
			if a == "--" {
				i = k
				break
			}
		}
		args = append(append(append([]string{}, args[:i]...), c.at...), args[i:]...)
	}
	c.code = run(args, &session{in: strings.NewReader(c.in), out: &out, err: &err, now: c.now})
	c.out, c.err = out.String(), err.String()
	return c
}

// ok runs a command that works, and returns what it printed without the line's end.
func (c *console) ok(args ...string) string {
	c.Helper()
	if c.try(args...); c.code != done {
		c.Fatalf("carillon %q: exit code %d\n%s%s", args, c.code, c.out, c.err)
	}
	return strings.TrimSuffix(c.out, "\n")
}

// fails runs a command that does not work.
func (c *console) fails(code int, says string, args ...string) {
	c.Helper()
	if c.try(args...); c.code != code || !strings.Contains(c.err, says) {
		c.Errorf("carillon %q: exit code %d, want %d, and %q in\n%s%s", args, c.code, code, says, c.out, c.err)
	}
}

// golden compares with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (go test ./internal/cli -update rewrites it): %v\ngot:\n%s\nwant:\n%s", file, err, got, want)
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	got := string(reference(root(&session{})))
	file := filepath.Join("..", "..", "docs", "reference", "cli.md")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("docs/reference/cli.md is not current: run 'make docs' (%v)", err)
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	at(t).ok("docs", "--man", dir)
	for _, c := range tree(root(&session{})) {
		data, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH EXIT STATUS\n"} {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s has no %q", manName(c), want)
			}
		}
	}
}

// TestEveryCommandIsInOrder holds what is promised of all commands.
func TestEveryCommandIsInOrder(t *testing.T) {
	writes := map[string]bool{}
	for _, path := range strings.Split("apply,artifact push,artifact rm,badge create,badge revoke,calendar rm,calendar set,dlq discard,dlq redrive,execution cancel,execution retry,hold add,hold remove,job backfill,job bulk,job create,job delete,job depend,"+
		"job edit,job pause,job resume,job trigger,key create,key revoke,key rotate,notification rm,notification set,notification test,operation cancel,queue limit,queue pause,queue resume,secret rm,secret set,"+
		"sign-in end,signing create,signing show,signing rm,tenant create,tenant limit,tenant quota,workers cordon,workers drain,workers uncordon,backup create,backup restore,restore,key recover,login,migrate up,move,secret rekey,"+
		"workflow apply,workflow trigger,workflow backfill,workflow delete,run retry,run cancel,run pause,run unpause,run approve,run reject,run skip,run mark,run limit,event send", ",") {
		writes["carillon "+path] = true
	}
	for _, c := range tree(root(&session{})) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its short help is %q", c.CommandPath(), c.Short)
		}
		if c.HasSubCommands() {
			continue
		}
		if writes[c.CommandPath()] != (c.Flags().Lookup("dry-run") != nil) {
			t.Errorf("%s: --dry-run is for what writes", c.CommandPath())
		}
		delete(writes, c.CommandPath())
		if c.InheritedFlags().Lookup("server") != nil && c.InheritedFlags().Lookup("output") == nil {
			t.Errorf("%s: no -o", c.CommandPath())
		}
	}
	if len(writes) > 0 {
		t.Errorf("not there: %v", writes)
	}
}

func TestTextForPeople(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", 3500 * time.Millisecond: "in 3s", 90 * time.Second: "in 90s", 5 * time.Minute: "in 5m", 3 * time.Hour: "in 3h", 100 * time.Hour: "in 4d",
		-4 * time.Second: "4s ago", -3 * 365 * 24 * time.Hour: "3y ago",
	} {
		if got := ago(now.Add(d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for ms, want := range map[int64]string{0: "0ms", 412: "412ms", 3249: "3.2s", 45_000: "45s", 119_000: "119s", 600_000: "10m"} {
		if got := spanMS(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-02-01T15:04:05Z": "2026-02-01T15:04:05.000Z", "2026-02-01 15:04": "2026-02-01T14:04:00.000Z", "2026-02-01": "2026-01-31T23:00:00.000Z", "+10m": "2026-01-31T12:10:00.000Z",
		"-24h": "2026-01-30T12:00:00.000Z", "14:00": "2026-01-31T13:00:00.000Z", "12:30": "2026-02-01T11:30:00.000Z", "now": "2026-01-31T12:00:00.000Z",
	} {
		if got, err := parseTime(text, berlin, now); err != nil || exact(got) != want {
			t.Errorf("%q: %s, %v, want %s", text, exact(got), err, want)
		}
	}
	for _, text := range []string{"", "soon", "10m", "25:00", "2026-13-01"} {
		if got, err := parseTime(text, berlin, now); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	for text, want := range map[string]string{
		`pg_dump -Fc "my db"`: "[pg_dump -Fc my db]3", `a 'b "c' \ d`: `[a b "c  d]3`, `''`: "[]1",
	} {
		if got, err := words(text); err != nil || fmt.Sprint(got)+fmt.Sprint(len(got)) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "  ", `a "b`, `a \`} {
		if got, err := words(text); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

func TestChangesOfAnEditedJob(t *testing.T) {
	before, err := decodeFields([]byte(`{"name": "a", "priority": 5, "tags": ["x"], "owner": null, "execution": {"payload": {"n": 12345678901234567890}}, "runbook": "r"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := changes(before, []byte("# c\nname: a\npriority: 3\ntags: [x]\nexecution:\n  payload:\n    n: 12345678901234567890\n"))
	if err != nil || len(got) != 2 || fmt.Sprint(got["priority"]) != "3" || got["runbook"] != nil {
		t.Errorf("%v, %v", got, err)
	}
	before, err = decodeFields([]byte(`{"schedule": {"type": "CRON", "end_at": "x", "day": null}, "execution": {"target": "http", "headers": {"a": "1", "b": "2"}, "payload": {"n": 1.0, "m": 2e400}, "timeout_seconds": 3}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yamlOf(text); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ old, new, want string }{
		{"", "", `{}`},
		{"  end_at: x\n", "", `{"schedule":{"end_at":null}}`},
		{"    a: \"1\"\n", "", `{"execution":{"headers":{"b":"2"}}}`},
		{"timeout_seconds: 3", "timeout_seconds: 4", `{"execution":{"timeout_seconds":4}}`},
		{"target: http", "target: worker", `{"execution":{"headers":{"a":"1","b":"2"},"payload":{"m":2e400,"n":1.0},"target":"worker","timeout_seconds":3}}`},
	} {
		got, err := changes(before, []byte(strings.Replace(string(text), x.old, x.new, 1)))
		data, _ := json.Marshal(got)
		if err != nil || string(data) != x.want {
			t.Errorf("%q for %q: %s, %v; want %s", x.new, x.old, data, err, x.want)
		}
	}
	for _, text := range []string{"a: [", "7"} {
		if got, err := changes(before, []byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
