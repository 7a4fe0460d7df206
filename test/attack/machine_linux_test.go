package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Two users of this machine, neither of them root.
const (
	developer = 61_234
	neighbour = 61_235
)

// ask is curl as another user: it prints the status.
func ask(t *testing.T, uid int, args ...string) string {
	t.Helper()
	c := exec.Command("curl", append([]string{"-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	c.Dir = "/"
	out, err := c.Output()
	if err != nil && len(out) == 0 {
		return err.Error()
	}
	return string(out)
}

// TestNeighbours attacks `carillon dev` as another user of the machine.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can act as two other users")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	r := newReport(t)
	data := t.TempDir()
	p := harness.Start(t, nil, "dev", "--data", data)
	// The server is root's here; a developer's own is the same with another number.
	command := `{"name": "x", "execution": {"target": "command", "command": ["id"]}}`
	r.row(ask(t, 0, p.Base+"/api/v1/jobs", "-d", `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop"}}`) == "201", "its own user needs no credential", "201")
	for _, x := range [][]string{
		{p.Base + "/api/v1/jobs"}, {p.Base + "/api/v1/jobs", "-d", command}, {p.Base + "/api/v1/executions"}, {p.Base + "/metrics"}, {p.Base + "/api/v1/audit"}, {p.Base + "/api/v1/api-keys", "-d", `{"name": "x", "role": "admin"}`},
		{p.Base + "/api/v1/workers", "-d", "{}"}, {p.Base + "/api/v1/jobs", "-H", "Authorization: Bearer guess"}, {p.Base + "/api/v1/jobs", "-H", "X-Forwarded-For: 127.0.0.1"}, {p.Base + "/api/v1/jobs?token=guess"}, {p.Base + "/api/v1/session"},
	} {
		got := ask(t, neighbour, x...)
		r.row(got == "401" || got == "403" || got == "429", "another user: "+strings.TrimPrefix(strings.Join(x, " "), p.Base), got)
	}
	for _, path := range files(t, data) {
		c := exec.Command("cat", path)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: neighbour, Gid: neighbour}}
		r.row(c.Run() != nil, "another user reads "+filepath.Base(path), "refused")
	}
}

// files are those below a folder.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCommands runs programs that look for what the server holds: as root's server and as another user's.
func TestCommands(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a server as another user")
	}
	for _, uid := range []int{0, developer} {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			t.Parallel()
			r := newReport(t)
			dir, err := os.MkdirTemp("", "carillon-attack-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			if err := os.Chown(dir, uid, uid); err != nil {
				t.Fatal(err)
			}
			key := filepath.Join(dir, "secrets.key")
			if err := os.WriteFile(key, []byte(sealKey), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(key, uid, uid); err != nil {
				t.Fatal(err)
			}
			db := filepath.Join(dir, "c.db")
			p := harness.LaunchWith(t, func(c *exec.Cmd) {
				c.Dir = dir
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			}, harness.Settings("CARILLON_SECRETS_KEY_FILE="+key, "HOME="+dir), "serve", "--database", "sqlite:"+db, "--allow-commands", "--commands-risk-server", "--listen", "127.0.0.1:0")
			started := harness.Within(20*time.Second, func() bool { return harness.Address(p.Out.String()) != "" || p.Exited() })
			if !started || p.Exited() {
				// A machine on which commands cannot be kept away from the server: then it must say so and not start.
				r.row(p.Exited() && p.Exit() == 2 && strings.Contains(p.Out.String(), "command"), "serve --allow-commands where commands cannot be confined", "it does not start")
				return
			}
			p.Greeted()
			run := func(argv ...string) client.Execution {
				t.Helper()
				list := make([]string, len(argv))
				for i, a := range argv {
					list[i] = quote(a)
				}
				j := p.Create(fmt.Sprintf(`{"name": "x", "execution": {"target": "command", "command": [%s], "timeout_seconds": 20}, "retry_policy": {"max_retries": 0}}`, strings.Join(list, ", ")))
				var e client.Execution
				harness.Eventually(t, 40*time.Second, "an end", func() bool { e = p.Execution(j.ExecutionID); return e.FinishedAt != nil })
				return e
			}
			ok := run("/bin/sh", "-c", "echo hello")
			r.row(ok.Status == "SUCCEEDED", "an honest command runs", ok.Status)
			for what, script := range map[string]string{
				"reading secrets.key":            "cat " + key,
				"reading the database":           "head -c 100 " + db,
				"writing the database":           "echo x >> " + db,
				"listing the data folder":        "ls " + dir + "/*",
				"copying the key by a link":      "ln " + key + " stolen && cat stolen",
				"a symbolic link to the key":     "ln -s " + key + " stolen && cat stolen",
				"the server's environment":       fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ | grep CARILLON", p.PID()),
				"the server's memory":            fmt.Sprintf("head -c 1 /proc/%d/mem", p.PID()),
				"the server's open files":        fmt.Sprintf("ls /proc/%d/fd/", p.PID()),
				"the server's folder":            fmt.Sprintf("ls /proc/%d/root%s/*", p.PID(), dir),
				"stopping the server":            fmt.Sprintf("kill -0 %d", p.PID()),
				"its own environment holds none": "env | grep -i -e carillon_bootstrap -e carillon_token -e carillon_secrets",
				"an inherited file":              "ls -l /proc/self/fd | grep -e c.db -e secrets",
				"a new user namespace":           "unshare -U true",
				"becoming root":                  "test $(id -u) = 0 && cat /etc/shadow",
			} {
				e := run("/bin/sh", "-c", script)
				log, err := p.Do("GET", "/api/v1/executions/"+e.ExecutionID+"/logs", "")
				if err != nil {
					t.Fatal(err)
				}
				leaked := strings.Contains(log.Body, sealKey) || strings.Contains(log.Body, harness.Key)
				r.row(e.Status != "SUCCEEDED" && !leaked, "a command: "+what, fmt.Sprintf("%s, leaked: %v", e.Status, leaked))
			}
			r.row(p.Ready(), "the server is still ready", "")
		})
	}
}
