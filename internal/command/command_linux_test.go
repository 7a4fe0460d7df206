package command

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/command/minder"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/worker"
)

// runner makes a runner whose folder is one that every user can get to.
func runner(t *testing.T, change func(*Config)) *Runner {
	t.Helper()
	base, err := os.MkdirTemp("", "carillon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o711); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Folder: filepath.Join(base, "commands"), User: "nobody", MaxOutput: 1 << 20, Grace: 200 * time.Millisecond,
		Limit: minder.Limit{Files: 256, Processes: 64, FileBytes: 8 << 20},
	}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(r.scratch.dir)
		if err != nil || len(left) != 1 {
			t.Errorf("left in the scratch folder: %v, %v; want the lock alone", left, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func attempt(args ...string) client.Attempt {
	return client.Attempt{
		ExecutionID: "e-1", JobID: "j-1", AttemptNumber: 2, FencingToken: 7, IdempotencyKey: "k", ScheduledTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Execution: client.Target{Target: "command", Command: args},
	}
}

func shell(script string) client.Attempt { return attempt("/bin/sh", "-c", script) }

// result runs a script that writes its answer, as a JSON string, to the result.
func result(t *testing.T, r *Runner, a client.Attempt) string {
	t.Helper()
	e, err := r.Run(t.Context(), a)
	if err != nil || e.Exit != 0 || e.Signal != "" {
		t.Fatalf("%+v, %v", e, err)
	}
	return strings.TrimSpace(string(e.Result))
}

func TestACommandEnds(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	for _, tt := range []struct {
		name string
		a    client.Attempt
		want Ended
		why  string // of an error
	}{
		{"well", attempt("true"), Ended{}, ""},
		{"with a code", shell("echo one >&2; echo 'it broke' >&2; exit 75"), Ended{Exit: 75, Tail: "one\nit broke"}, ""},
		{"by a signal", shell("kill -SEGV $$"), Ended{Signal: "SIGSEGV"}, ""},
		{"with a result", shell(`echo '{"n": 3}' > "$CARILLON_RESULT"`), Ended{Result: []byte("{\"n\": 3}\n")}, ""},
		{"with a code and a result", shell(`echo 1 > "$CARILLON_RESULT"; exit 1`), Ended{Exit: 1}, ""},
		{"with a result that is a folder", shell(`mkdir "$CARILLON_RESULT"`), Ended{}, "not a plain file"},
		{"with a result that is a pipe", shell(`mkfifo "$CARILLON_RESULT"`), Ended{}, "not a plain file"},
		{"with a result that leads away", shell(`ln -s /etc/hostname "$CARILLON_RESULT"`), Ended{}, "cannot be read"},
		{"with a result that is too large", shell(`head -c 2000000 /dev/zero > "$CARILLON_RESULT"`), Ended{}, "2000000 bytes"},
		{"nowhere", attempt("no-such-program"), Ended{}, `"no-such-program" was not found`},
		{"not executable", attempt("/etc/passwd"), Ended{}, "cannot be run"},
		{"not found by path", attempt("./nothing"), Ended{}, "was not found"},
		{"neither command nor artifact", attempt(), Ended{}, "neither"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := r.Run(t.Context(), tt.a)
			var no *NotRun
			if tt.why != "" && (!errors.As(err, &no) || !strings.Contains(err.Error(), tt.why)) || tt.why == "" && err != nil {
				t.Errorf("error %v, want %q", err, tt.why)
			}
			if tt.why == "" && (e.Exit != tt.want.Exit || e.Signal != tt.want.Signal || e.Tail != tt.want.Tail || !bytes.Equal(e.Result, tt.want.Result)) {
				t.Errorf("got %+v, want %+v", e, tt.want)
			}
		})
	}
}

func TestThePayloadIsOnStandardInput(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	a := shell(`cat > "$CARILLON_RESULT"`)
	a.Payload = json.RawMessage(`{"customer": 7}`)
	if got := result(t, r, a); got != `{"customer": 7}` {
		t.Errorf("got %s", got)
	}
	a = attempt("true") // does not read it
	a.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	if e, err := r.Run(t.Context(), a); err != nil || e.Exit != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestTheEnvironmentIsClean(t *testing.T) {
	t.Setenv("CARILLON_BOOTSTRAP_KEY", "canary-of-the-worker")
	t.Setenv("DATABASE_PASSWORD", "canary-of-the-worker")
	r := runner(t, nil)
	a := shell(`/usr/bin/env > "$CARILLON_RESULT"; pwd >> "$CARILLON_RESULT"; stat -c %a . >> "$CARILLON_RESULT"`)
	a.Execution.Env = map[string]string{"MINE": "a b", "LANG": "de_DE.UTF-8"}
	got := "\n" + result(t, r, a)
	for _, want := range []string{
		"\nMINE=a b\n", "\nLANG=de_DE.UTF-8\n", "\nPATH=", "\nHOME=" + r.scratch.dir, "\nTMPDIR=" + r.scratch.dir, "\nCARILLON_JOB_ID=j-1\n", "\nCARILLON_EXECUTION_ID=e-1\n",
		"\nCARILLON_ATTEMPT_NUMBER=2\n", "\nCARILLON_IDEMPOTENCY_KEY=k\n", "\nCARILLON_FENCING_TOKEN=7\n", "\nCARILLON_SCHEDULED_TIME=2026-01-02T03:04:05Z\n", "/work\n700",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "canary") {
		t.Error("the worker's environment leaks")
	}
}

func TestNoPrivilegesAndNoOpenFiles(t *testing.T) {
	r := runner(t, nil)
	leak, err := os.Open("/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	open, err := syscall.Dup(int(leak.Fd())) // without close-on-exec, as a parent of the worker may leave one
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(open)
	got := result(t, r, shell(`exec > "$CARILLON_RESULT"; grep -E '^(Uid|Gid|Groups|NoNewPrivs|Cap(Eff|Prm|Amb|Inh)):' /proc/self/status | tr '\t' ' '; ulimit -c; ulimit -n; ls /proc/self/fd | tr '\n' ' '`))
	for _, want := range []string{"NoNewPrivs: 1", "CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapAmb: 0000000000000000", "\n0\n256\n0 1 2 "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if fds := got[strings.LastIndex(got, "\n")+1:]; len(strings.Fields(fds)) > 4 { // ls opens one
		t.Errorf("open files: %s", fds)
	}
	if os.Getuid() != 0 {
		t.Skip("the rest needs root")
	}
	u, err := lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	n := strconv.Itoa(u.UID)
	if !strings.Contains(got, "Uid: "+n+" "+n+" "+n+" "+n+"\n") || strings.Contains(got, "Groups: 0") {
		t.Errorf("it runs as %s", got)
	}
}

func TestSetuidGivesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a setuid program")
	}
	t.Parallel()
	r := runner(t, nil)
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Skip(err)
	}
	place := filepath.Join(filepath.Dir(r.cfg.Folder), "id")
	if err := errors.Join(os.WriteFile(place, id, 0o755), os.Chmod(place, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if got := result(t, r, shell(place+` -u > "$CARILLON_RESULT"`)); got == "0" {
		t.Error("a setuid program made it root")
	}
	if e, err := r.Run(t.Context(), shell("cat /etc/shadow")); err != nil || e.Exit == 0 {
		t.Errorf("%+v, %v: it reads what is root's", e, err)
	}
}

func TestALinkOutOfTheScratchFolderIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	keep := filepath.Join(filepath.Dir(r.cfg.Folder), "keep")
	if err := errors.Join(os.Mkdir(keep, 0o755), os.WriteFile(filepath.Join(keep, "file"), []byte("here"), 0o644)); err != nil {
		t.Fatal(err)
	}
	e, err := r.Run(t.Context(), shell("ln -s "+keep+" out; ln -s "+keep+"/file f; mkdir -p a/b; touch a/b/c; chmod 000 a/b a"))
	if err != nil || e.Exit != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	if data, err := os.ReadFile(filepath.Join(keep, "file")); err != nil || string(data) != "here" {
		t.Errorf("%s, %v: what a link named was removed with the folder", data, err)
	}
}

func TestAFileMayNotBecomeTooLarge(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	e, err := r.Run(t.Context(), attempt("dd", "if=/dev/zero", "of=big", "bs=1M", "count=100"))
	if err != nil || e.Signal != "SIGXFSZ" && e.Exit == 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// marked counts processes that run with an argument of this text.
func marked(t *testing.T, mark string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range all {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(mark)) {
			n++
		}
	}
	return n
}

// until waits until something holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}

// stubborn ignores TERM, and leaves children in sessions of their own behind, which do so too.
func stubborn(mark string) client.Attempt {
	return shell(fmt.Sprintf(`trap '' TERM
		(setsid sh -c 'trap "" TERM; (setsid sh -c "trap \"\" TERM; while :; do sleep 1; done # %[1]s" &) ; while :; do sleep 1; done # %[1]s' &)
		while :; do sleep 1; done # %[1]s`, mark))
}

func TestWhatIgnoresTermIsKilledWithAllItsChildren(t *testing.T) {
	t.Parallel()
	for _, namespace := range []bool{true, false} {
		r := runner(t, func(c *Config) { c.plain = !namespace })
		mark := fmt.Sprintf("stubborn-%d-%v", os.Getpid(), namespace)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, stubborn(mark))
			ended <- err
		}()
		until(t, "three shells", func() bool { return marked(t, mark) >= 3 })
		cancel(worker.ErrCancelled)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("it did not end")
		}
		if n := marked(t, mark); n != 0 {
			t.Errorf("namespace %v: %d processes are left", namespace, n)
		}
	}
}

func TestWhatHeedsTermMayTidyUp(t *testing.T) {
	t.Parallel()
	r := runner(t, func(c *Config) { c.Grace = 20 * time.Second })
	ctx, cancel := context.WithCancelCause(t.Context())
	mark := fmt.Sprintf("heeds-%d", os.Getpid())
	time.AfterFunc(0, func() {
		until(t, "the shell", func() bool { return marked(t, mark) > 0 })
		cancel(worker.ErrCancelled)
	})
	e, err := r.Run(ctx, shell(`trap 'echo tidied >&2; exit 3' TERM; echo ready >&2; while :; do sleep 0.05; done # `+mark))
	if err != nil || e.Exit != 3 && e.Signal != "SIGTERM" { // the trap may not have been set yet
		t.Errorf("%+v, %v", e, err)
	}
}

func TestChildrenThatStayBehindEndWithTheCommand(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	mark := fmt.Sprintf("behind-%d", os.Getpid())
	e, err := r.Run(t.Context(), shell(`(setsid sh -c 'while :; do sleep 1; done # `+mark+`' &); exit 4`))
	if err != nil || e.Exit != 4 || marked(t, mark) != 0 {
		t.Errorf("%+v, %v, %d left", e, err, marked(t, mark))
	}
}

func TestAForkBombIsBounded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a user of its own")
	}
	uid := 1_000_000 + os.Getpid() // nobody else's, so that others' processes are not counted
	r := runner(t, func(c *Config) { c.User = fmt.Sprintf("%d:%d", uid, uid) })
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	most := make(chan int, 1)
	stop := make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				most <- n
				return
			default:
				n = max(n, tasksOf(uid))
			}
		}
	}()
	if _, err := r.Run(ctx, shell(`b() { b | b & }; b; while :; do sleep 1; done`)); err != nil {
		t.Error(err)
	}
	close(stop)
	if n := <-most; n > 64 || n < 2 {
		t.Errorf("%d processes at once, want at most 64", n)
	}
	if n := tasksOf(uid); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// lines collects what a command writes to its log.
type lines struct {
	n     int
	bytes int64
	last  string
}

func TestAFloodOfOutputIsCut(t *testing.T) {
	t.Parallel()
	var got lines
	o := newLog(t.Context(), 1000)
	o.sink = func(_ context.Context, _, text string) {
		got.n, got.bytes, got.last = got.n+1, got.bytes+int64(len(text)), text
	}
	o.read(worker.Stdout, io.LimitReader(zeros{}, 100<<20)) // a single line
	o.read(worker.Stderr, strings.NewReader(strings.Repeat("line of twenty bytes\n", 1<<20)))
	o.close()
	if got.n != 3 || got.bytes > 3*maxLine+500 || !strings.Contains(got.last, "bytes of output were dropped") {
		t.Errorf("%+v", got)
	}
	if len(o.tail()) > maxTail || !strings.HasSuffix(o.tail(), "line of twenty bytes") {
		t.Errorf("tail %q", o.tail())
	}
	r := runner(t, nil)
	if e, err := r.Run(t.Context(), shell("head -c 100000000 /dev/zero | tr '\\0' x")); err != nil || e.Exit != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestLinesAreKept(t *testing.T) {
	t.Parallel()
	var got []string
	o := newLog(t.Context(), 1<<20)
	o.sink = func(_ context.Context, stream, text string) { got = append(got, stream+" "+text) }
	o.read(worker.Stdout, strings.NewReader("one\r\n\ntwo \x00 \xff\nlast"))
	o.read(worker.Stdout, strings.NewReader(strings.Repeat("y", maxLine+5)+"\nnext\n"))
	o.close()
	want := []string{"stdout one", "stdout ", "stdout two \ufffd \ufffd", "stdout last"}
	if len(got) != 7 || strings.Join(got[:4], "|") != strings.Join(want, "|") || !strings.Contains(got[4], "longer than 16128 bytes") || len(got[4]) > job.MaxLogText || got[5] != "stdout next" || !strings.Contains(got[6], "[6 bytes") {
		t.Errorf("got %q", got)
	}
}

func TestADeadWorkersCommandsAndFoldersGo(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	// As a killed worker leaves it: a folder whose lock nobody holds.
	left := filepath.Join(r.cfg.Folder, "worker-left")
	if err := errors.Join(os.MkdirAll(filepath.Join(left, "a", "work"), 0o700), os.WriteFile(filepath.Join(left, lockName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := newScratch(r.cfg.Folder, r.user, r.cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a dead worker is still there: %v", err)
	}
	if _, err := os.Stat(r.scratch.dir); err != nil {
		t.Errorf("the folder of a living one is gone: %v", err)
	}
	// The end of the pipe is all that a killed worker says to its minder.
	place, err := r.scratch.make()
	if err != nil {
		t.Fatal(err)
	}
	defer place.remove()
	if err := place.give(); err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("orphan-%d", os.Getpid())
	a := stubborn(mark)
	p, err := r.start(minder.Spec{Args: a.Execution.Command, Env: environment(a, place), Dir: place.home(), Own: []string{place.path}}, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "three shells", func() bool { return marked(t, mark) >= 3 })
	p.(*minded).orders.Close()
	until(t, "the end of all", func() bool { return marked(t, mark) == 0 })
	p.wait()
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	single := []byte("#!/bin/sh\necho \"\\\"$0 $*\\\"\" > $CARILLON_RESULT\n")
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for name, text := range map[string]string{"bin/run": string(single), "data.txt": "42"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	w.Close()
	blobs := map[string][]byte{}
	id := func(data []byte) string {
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		blobs[name] = data
		return name
	}
	file, archive, evil := id(single), id(packed.Bytes()), id(badTar(t))
	r := runner(t, func(c *Config) {
		c.Artifacts = artifact.NewCache(filepath.Join(t.TempDir(), "cache"), 1<<20, func(_ context.Context, tn tenant.ID, id string) (io.ReadCloser, error) {
			if data, ok := blobs[id]; ok && tn == "acme" {
				return io.NopCloser(bytes.NewReader(data)), nil
			}
			return nil, artifact.ErrNotFound
		})
	})
	for _, tt := range []struct {
		name string
		in   client.Target
		want string
		why  string
	}{
		{"a file", client.Target{ArtifactID: file}, `"./program "`, ""},
		{"a file of another name", client.Target{ArtifactID: file, Entrypoint: "tool", Command: []string{"a", "b c"}}, `"./tool a b c"`, ""},
		{"an archive", client.Target{ArtifactID: archive, Entrypoint: "bin/run", Command: []string{"x"}}, `"./bin/run x"`, ""},
		{"beside an archive", client.Target{ArtifactID: archive, Command: []string{"sh", "-c", "cat data.txt > $CARILLON_RESULT"}}, "42", ""},
		{"an archive without an entrypoint", client.Target{ArtifactID: archive}, "", "set entrypoint"},
		{"an archive with another", client.Target{ArtifactID: archive, Entrypoint: "bin/no"}, "", `no file "bin/no"`},
		{"unknown", client.Target{ArtifactID: strings.Repeat("0", 64)}, "", "no artifact"},
		{"evil", client.Target{ArtifactID: evil, Entrypoint: "x"}, "", "leads out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := attempt()
			tt.in.Target = "command"
			a.Execution, a.TenantID = tt.in, "acme"
			e, err := r.Run(t.Context(), a)
			if tt.why != "" {
				if err == nil || !strings.Contains(err.Error(), tt.why) {
					t.Errorf("%v, want %q", err, tt.why)
				}
				return
			}
			if got := strings.TrimSpace(string(e.Result)); err != nil || got != tt.want {
				t.Errorf("%+v %s, %v; want %s", e, got, err, tt.want)
			}
		})
	}
}

func badTar(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "../out", Mode: 0o644, Size: 1, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	w.Close()
	return b.Bytes()
}

// A worker that is not root shares its user with its commands. They must not get rid of their minder for that, and so of
// what ends them.
func TestACommandCannotEndItsMinder(t *testing.T) {
	if os.Getuid() == 0 {
		asUser(t, 64_124)
		return
	}
	r := runner(t, func(c *Config) { c.Limit.Processes = 0 })
	mark := fmt.Sprintf("88%d.5", os.Getpid())
	e, err := r.Run(t.Context(), shell("(setsid sleep "+mark+" &); kill -KILL $PPID; kill -STOP $PPID; grep Cap /proc/self/status | grep -v CapBnd | grep -vw 0000000000000000 && exit 9; echo '1' >$CARILLON_RESULT"))
	if !r.walls.spec.Namespace {
		t.Skip("this user may make no namespaces")
	}
	if err != nil || e.Exit != 0 || string(e.Result) != "1\n" {
		t.Errorf("%+v, %v", e, err)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte("sleep\x00"+mark)) {
			t.Errorf("%s is left: %q", f, data)
		}
	}
}

// asUser runs this test again as another user.
func asUser(t *testing.T, uid uint32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(path, binary, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("as user %d: %v\n%s", uid, err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("as user %d: %s", uid, out)
	}
}
