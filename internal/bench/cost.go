package bench

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Cost is the CPU time of a job, in microseconds. Unlike a rate it hardly depends on the machine's other load.
type Cost struct {
	Process  float64 `json:"process_us"`            // callers, server and workers
	Database float64 `json:"database_us,omitempty"` // all processes of a database server on this machine
}

// backend is a store with a server whose processes may be found.
type backend interface {
	// Backend returns the id of one of the server's processes, as the server knows it.
	Backend(ctx context.Context) (int, error)
}

// meter reads the CPU time of this process and of the database's.
type meter struct {
	server int // the parent of the database's processes; 0: not found
	began  Cost
}

// newMeter begins to measure. On systems that do not provide CPU times it measures nothing.
func newMeter(ctx context.Context, store engine.Store) *meter {
	m := &meter{}
	if b, ok := store.(backend); ok {
		if pid, err := b.Backend(ctx); err == nil {
			m.server = parentOf(pid, "postgres")
		}
	}
	m.began = m.read()
	return m
}

// per returns the cost of each of n jobs since the meter started; nil if unknown.
func (m *meter) per(n int) *Cost {
	now := m.read()
	if now.Process == 0 || n == 0 {
		return nil
	}
	return &Cost{Process: round((now.Process-m.began.Process)/float64(n), 1), Database: round((now.Database-m.began.Database)/float64(n), 1)}
}

func (m *meter) read() (c Cost) {
	self, _ := readStat("self")
	c.Process = self.own
	if m.server == 0 {
		return c
	}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		s, ok := readStat(filepath.Base(filepath.Dir(path)))
		switch {
		case ok && s.pid == m.server:
			c.Database += s.own + s.ended
		case ok && s.parent == m.server:
			c.Database += s.own
		}
	}
	return c
}

// parentOf returns the parent of the process if both have that name, else 0: then the process is on another machine.
func parentOf(pid int, name string) int {
	s, ok := readStat(strconv.Itoa(pid))
	if !ok || s.name != name {
		return 0
	}
	if p, ok := readStat(strconv.Itoa(s.parent)); !ok || p.name != name {
		return 0
	}
	return s.parent
}

// stat holds Linux's numbers about a process.
type stat struct {
	pid, parent int
	name        string
	own, ended  float64 // microseconds of CPU time, its own and of children that have ended
}

// tick is the unit in which Linux reports CPU time.
const tick = time.Second / 100

func readStat(process string) (stat, bool) {
	b, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(b)
}

// parseStat reads "pid (name) state parent …"; the name may contain anything.
func parseStat(b []byte) (s stat, ok bool) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || shut < open {
		return s, false
	}
	s.name = string(b[open+1 : shut])
	rest := bytes.Fields(b[shut+1:]) // from the third field on
	if len(rest) < 15 {
		return s, false
	}
	ok = true
	number := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		ok = ok && err == nil
		return n
	}
	micros := func(i int) float64 {
		return float64(number(rest[i])+number(rest[i+1])) * float64(tick/time.Microsecond)
	}
	s.pid, s.parent = number(bytes.TrimSpace(b[:open])), number(rest[1])
	s.own, s.ended = micros(11), micros(13)
	return s, ok
}
