package worker

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestMemoryOfThisProcess(t *testing.T) {
	m := Memory()
	if m.MemoryUsed == nil || *m.MemoryUsed < 1<<20 || m.MemoryLimit == nil || *m.MemoryLimit < *m.MemoryUsed {
		t.Errorf("this process uses %v of %v bytes", m.MemoryUsed, m.MemoryLimit)
	}
}

func TestMemoryLimits(t *testing.T) {
	page := int64(os.Getpagesize())
	const meminfo = "MemTotal:        8000 kB\nMemFree:         1000 kB\n"
	for name, tc := range map[string]struct {
		files       map[string]string
		used, limit int64
	}{
		"nothing can be read":         {nil, 0, 0},
		"the machine's memory":        {map[string]string{"proc/self/statm": "900 250 30 1 0 100 0\n", "proc/meminfo": meminfo}, 250 * page, 8000 << 10},
		"a cgroup without a limit":    {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0, 8000 << 10},
		"its cgroup":                  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4096\n"}, 0, 4096},
		"the cgroup above is smaller": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4096\n", "sys/fs/cgroup/a/memory.max": "2048"}, 0, 2048},
		"a container of its own":      {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 0, 1 << 20},
		"outside of its namespace":    {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 0, 1 << 20},
		"a limit above the machine's": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999\n"}, 0, 8000 << 10},
		"cgroups of version 1":        {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/a\n"}, 0, 8000 << 10},
		"files of another form":       {map[string]string{"proc/self/statm": "x\n", "proc/meminfo": "MemTotal: many kB\n", "proc/self/cgroup": "?", "sys/fs/cgroup/memory.max": "-1"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range tc.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if used, limit := residentIn(root), limitIn(root); used != tc.used || limit != tc.limit {
				t.Errorf("%d of %d bytes, want %d of %d", used, limit, tc.used, tc.limit)
			}
		})
	}
}
