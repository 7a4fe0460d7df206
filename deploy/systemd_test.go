package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var units = []string{"carillon.service", "carillon-worker.service"}

// unit is the settings of a unit file by name; what is set again is added.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(read(t, filepath.Join("systemd", name))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

func TestUnits(t *testing.T) {
	users := read(t, "systemd/carillon.sysusers")
	for _, name := range units {
		u := unit(t, name)
		for key, want := range map[string]string{
			"KillMode": "mixed", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
			"CapabilityBoundingSet": "", "StateDirectoryMode": "0700", "UMask": "0077", "Restart": "always", "RestartPreventExitStatus": "2",
		} {
			if !slices.Equal(u[key], []string{want}) {
				t.Errorf("%s: %s is %q, want %q", name, key, u[key], want)
			}
		}
		if stop, err := time.ParseDuration(u["TimeoutStopSec"][0] + "s"); err != nil || stop < drained() {
			t.Errorf("%s: a stop is given %v, and may take %v", name, u["TimeoutStopSec"], drained())
		}
		if !strings.Contains(users, "\nu "+u["User"][0]+" ") {
			t.Errorf("%s: nobody makes the user %s", name, u["User"][0])
		}
		for _, c := range u["LoadCredential"] {
			id, _, _ := strings.Cut(c, ":")
			if !slices.ContainsFunc(u["Environment"], func(e string) bool { return strings.HasSuffix(e, "_FILE=%d/"+id) }) {
				t.Errorf("%s: nobody reads the credential %s", name, id)
			}
		}
		if !slices.Equal(u["SystemCallFilter"][:1], []string{"@system-service"}) && !strings.HasPrefix(u["SystemCallFilter"][0], "@system-service ") {
			t.Errorf("%s: system calls are %q", name, u["SystemCallFilter"])
		}
	}
}

// The first lines of a unit say all that it takes on a machine that has nothing yet.
func TestUnitsSayHowToInstallThem(t *testing.T) {
	for _, name := range units {
		head, _, _ := strings.Cut(read(t, filepath.Join("systemd", name)), "[Unit]")
		for _, want := range []string{"/usr/local/bin/carillon", "systemd-sysusers", name, "daemon-reload", "systemd 250"} {
			if !strings.Contains(head, want) {
				t.Errorf("%s does not say %s", name, want)
			}
		}
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	help, err := exec.Command("systemd-analyze", "--help").CombinedOutput()
	for _, flag := range []string{"--man", "--recursive-errors", "--offline", "--threshold"} {
		if err != nil || !strings.Contains(string(help), flag) {
			t.Skipf("this systemd-analyze has no %s: %v", flag, err)
		}
	}
	dir := t.TempDir()
	for _, name := range units {
		// What is not installed here stands in the way of the rest.
		text := strings.ReplaceAll(read(t, filepath.Join("systemd", name)), "/usr/local/bin/carillon", "/bin/true")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
		if err != nil || strings.Contains(string(out), name) {
			t.Errorf("%v: %s", err, out)
		}
		// In tenths: 10 is a unit without any of it.
		out, err = exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=25", "--no-pager", path).CombinedOutput()
		if err != nil {
			t.Errorf("%s is exposed: %s", name, out[max(0, len(out)-200):])
		}
	}
}
