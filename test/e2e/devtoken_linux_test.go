package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/carillon-jobs/carillon/test/harness"
)

// stranger is the id of a user who is neither this one nor root.
const stranger = 54321

// asStranger returns what another user of this machine gets from curl: the status and the answer.
func asStranger(t *testing.T, args ...string) (string, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user")
	}
	cmd := exec.Command("curl", append([]string{"-s", "-o", "-", "-w", "\n%{http_code}"}, args...)...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %v: %v", args, err)
	}
	at := strings.LastIndex(string(out), "\n")
	return string(out[at+1:]), string(out[:at])
}

var printedToken = regexp.MustCompile(`Open +(http://\S+)/\?token=(\S+)`)

// dev starts carillon dev, with settings of its own, and says where they and the data are.
func dev(t *testing.T, args ...string) (p *harness.Process, token, home, data string) {
	t.Helper()
	home, data = t.TempDir(), t.TempDir()
	p = harness.Start(t, []string{"XDG_CONFIG_HOME=" + home, "HOME=" + home}, append([]string{"dev", "--data", data}, args...)...)
	text, err := os.ReadFile(filepath.Join(data, "dev-token"))
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(string(text)), home, data
}

func TestDevAnswersItsUserOnly(t *testing.T) {
	t.Parallel()
	p, token, home, data := dev(t, "--demo")
	const job = `{"name": "x", "execution": {"target": "command", "command": ["id"]}}`
	api := p.Base + "/api/v1/jobs"

	// The user who started it needs nothing, as the README says.
	p.Key = ""
	if code, text, err := p.Ask("POST", "/api/v1/jobs", job); err != nil || code != 201 {
		t.Fatalf("its own user: %d %v %s", code, err, text)
	}
	// Another one needs the token.
	for _, args := range [][]string{{api}, {api, "-d", job}, {"-H", "Authorization: Bearer none", api}, {"-H", "Authorization: Bearer ", api}, {"-H", "Cookie: " + fmt.Sprintf("carillon-dev-%s=none", port(p.Base)), api}, {p.Base + "/metrics"}, {p.Base + "/api/v1/events/stream"}, {"-H", "Accept: application/json", p.Base + "/jobs"}} {
		code, text := asStranger(t, args...)
		if code != "401" || !strings.Contains(text, "dev-token") || strings.Contains(text, token) {
			t.Errorf("another user, %v: %s %s", args, code, text)
		}
	}
	if code, text := asStranger(t, "-H", "Authorization: Bearer "+token, api); code != "200" {
		t.Errorf("another user with the token: %s %s", code, text)
	}
	code, text := asStranger(t, "-i", p.Base+"/?token="+token)
	cookie := regexp.MustCompile(`Set-Cookie: (carillon-dev-` + port(p.Base) + `=[^;]+); Path=/; Max-Age=\d+; HttpOnly; SameSite=Strict`).FindStringSubmatch(text)
	if code != "303" || cookie == nil || strings.Contains(text, token) {
		t.Fatalf("another user's browser with the token in the address: %s %s", code, text)
	}
	if code, text := asStranger(t, "-H", "Cookie: "+cookie[1], api); code != "200" {
		t.Errorf("another user with the cookie: %s %s", code, text)
	}
	for _, path := range []string{"/healthz", "/readyz", "/docs"} {
		if code, text := asStranger(t, p.Base+path); code != "200" {
			t.Errorf("%s: %s %s", path, code, text)
		}
	}
	if code, text := asStranger(t, p.Base+"/demo/echo", "-d", "{}"); code != "200" {
		t.Errorf("the echo: %s %s", code, text)
	}
	if code, _ := asStranger(t, p.Base+"/?token=wrong"); code != "401" {
		t.Errorf("a wrong token in the address: %s", code)
	}

	// The token is in files that nobody else reads.
	files := []string{filepath.Join(data, "dev-token"), filepath.Join(home, "carillon", "dev", "127.0.0.1_"+port(p.Base))}
	for _, f := range files {
		if is, err := os.Stat(f); err != nil || is.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, is, err)
		}
	}
	if code := p.End(syscall.SIGTERM); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	for _, f := range files {
		if _, err := os.Stat(f); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", f, err)
		}
	}
}

func port(base string) string { return base[strings.LastIndex(base, ":")+1:] }

func TestDevTokenOpensABrowser(t *testing.T) {
	t.Parallel()
	p, token, _, _ := dev(t)
	if m := printedToken.FindStringSubmatch(p.Out.String()); m != nil && (m[1] != p.Base || m[2] != token) {
		t.Errorf("the printed address: %v, the token is %s", m, token)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(path string, headers ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequest("GET", p.Base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w
	}
	w := get("/jobs?q=a+b&token=" + token)
	if w.StatusCode != 303 || w.Header.Get("Location") != "/jobs?q=a+b" || len(w.Cookies()) != 0 { // its own user needs no cookie
		t.Fatalf("the token in an address: %d %v", w.StatusCode, w.Header)
	}
	if w := get("/?token=of-yesterday"); w.StatusCode != 303 || len(w.Cookies()) != 0 || w.Header.Get("Location") != "/" {
		t.Errorf("an old token of the same user: %d %v", w.StatusCode, w.Header)
	}
	// Pages of other sites get nothing, though they are of the same user.
	for _, site := range []string{"cross-site", "same-site"} {
		for path, want := range map[string]int{"/api/v1/jobs": 403, "/api/v1/secrets": 403, "/metrics": 403, "/openapi.json": 403, "/healthz": 200} {
			if w := get(path, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"); w.StatusCode != want {
				t.Errorf("%s, %s: %d, want %d", site, path, w.StatusCode, want)
			}
		}
		if w := get("/api/v1/jobs", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Accept", "text/html"); w.StatusCode != 403 {
			t.Errorf("%s goes to the API: %d", site, w.StatusCode)
		}
		if w := get("/docs", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Accept", "text/html"); w.StatusCode != 200 {
			t.Errorf("%s goes to a page: %d", site, w.StatusCode)
		}
		if w := get("/docs", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", "text/html"); w.StatusCode != 403 {
			t.Errorf("%s frames a page: %d", site, w.StatusCode)
		}
	}
	for _, site := range []string{"same-origin", "none"} {
		if w := get("/api/v1/jobs", "Sec-Fetch-Site", site); w.StatusCode != 200 {
			t.Errorf("%s: %d", site, w.StatusCode)
		}
	}
	if w := get("/api/v1/jobs", "Origin", "http://evil.example"); w.StatusCode != 403 {
		t.Errorf("another origin: %d", w.StatusCode)
	}
	r, _ := http.NewRequest("GET", p.Base+"/api/v1/jobs", nil)
	r.Host = "rebound.example:" + port(p.Base)
	if w, err := c.Do(r); err != nil || w.StatusCode != 403 {
		t.Errorf("another name: %v %v", w, err)
	}
}

// TestCommandLineFindsTheDevToken runs the command line and a worker as another user, who was given the file.
func TestCommandLineFindsTheDevToken(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user")
	}
	p, _, home, _ := dev(t)
	const under = "carillon/dev/"
	mine, err := os.MkdirTemp("", "carillon-stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(mine) })
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("cp -r %s/carillon %s/carillon && cp %s %s/binary && chown -R %d %s", home, mine, harness.Binary(), mine, stranger, mine)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.Command(mine+"/binary", args...)
		cmd.Dir, cmd.Env = mine, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + mine}, env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	found := []string{"XDG_CONFIG_HOME=" + mine}
	if out, err := run(found, "job", "create", "hello", "--simulate", "noop", "--wait", "--server", p.Base); err != nil {
		t.Errorf("with the file: %v: %s", err, out)
	}
	localhost := "http://localhost:" + port(p.Base)
	if out, err := run(found, "job", "list", "--server", localhost); err != nil {
		t.Errorf("by the name localhost: %v: %s", err, out)
	}
	if out, err := run(found, "open", "--print", "--server", p.Base); err != nil || !strings.Contains(out, "/?token=") {
		t.Errorf("open: %v: %s", err, out)
	}
	if out, err := run(nil, "job", "list", "--server", p.Base); err == nil || !strings.Contains(out, "dev-token") {
		t.Errorf("without the file (%s): %v: %s", under, err, out)
	}
	// The user who runs it needs no file, nor a token in the address.
	if out := cli(t, p, "open", "--print"); strings.Contains(out, "token") {
		t.Errorf("its own user opens %s", out)
	}
	worker := harness.Launch(t, []string{"XDG_CONFIG_HOME=" + home}, "worker", "--server", p.Base, "--capacity", "1")
	harness.Eventually(t, 20e9, "a worker", func() bool {
		_, text, err := p.Ask("GET", "/api/v1/workers", "")
		return err == nil && strings.Count(text, `"worker_id"`) >= 3 || worker.Says("registered")
	})
}
