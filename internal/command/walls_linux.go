package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// walls describes what confines the commands of this process, found out by trying.
type walls struct {
	spec   minder.Spec // what every command's has
	groups *cgroups    // nil: only rlimits bound memory
	open   error       // why commands are not isolated from what this process holds; nil: they are
}

// system lists what programs need to read on their machine.
var system = []string{
	"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/srv", "/app", "/nix/store", "/gnu/store", "/snap",
	"/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/var/lib/ca-certificates", "/var/lib/dpkg", "/var/lib/rpm",
}

// raise determines which walls this process can put around commands, by trying them on one that runs nothing.
func (r *Runner) raise() error {
	same, abi := r.user == nil, minder.Landlock()
	hidden := realPaths(r.cfg.Hidden)
	w := walls{spec: minder.Spec{User: r.user, Network: r.cfg.NoNetwork, Digests: r.cfg.Digests}}
	switch {
	case r.cfg.Unconfined:
	case same && abi > 0 && minder.Seccomp():
		w.spec.Files = &minder.Files{Read: r.readable(), Write: r.cfg.Write, Hidden: hidden}
		w.spec.NoSockets = abi < minder.SocketABI
	case !same && abi > 0:
		w.spec.Files = &minder.Files{Read: []string{"/"}, Write: topFolders()} // the user's own rights; the domain isolates it from other processes
	}
	open, err := r.try(&w, hidden)
	if err != nil {
		return err
	}
	if len(open) > 0 && !same && w.spec.Files != nil {
		w.spec.Files.Hidden = without(open, environOf(os.Getpid()))
		if open, err = r.probe(w.spec, r.openings(w.spec, hidden)); err != nil {
			return err
		}
	}
	switch {
	case r.cfg.Unconfined:
		w.open = errors.New("commands.unconfined is set")
	case same && w.spec.Files == nil && abi == 0:
		w.open = fmt.Errorf("they run as this process's own user (uid %d), and this kernel has no Landlock, or it is turned off", os.Getuid())
	case same && w.spec.Files == nil:
		w.open = fmt.Errorf("they run as this process's own user (uid %d), and their system calls cannot be filtered here (%s)", os.Getuid(), runtime.GOARCH)
	case len(open) > 0:
		w.open = fmt.Errorf("they can read or change %s", strings.Join(open, ", "))
	}
	w.groups = findCgroups(r.cfg.Limit, r.cfg.Log)
	r.walls = w
	return nil
}

// try finds the strongest namespaces that this process can create, and returns what a command could reach in them.
func (r *Runner) try(w *walls, hidden []string) (open []string, err error) {
	cover := slices.Sorted(slices.Values(append(slices.Clone(hidden), r.scratch.base)))
	var failed error
	for _, way := range []struct {
		namespace, proc bool
		mask            []string
	}{{true, true, cover}, {true, false, cover}, {true, false, nil}, {false, false, nil}} {
		if way.namespace && r.cfg.plain || way.mask != nil && r.cfg.Unconfined {
			continue
		}
		if !way.namespace && r.cfg.NoNetwork {
			return nil, fmt.Errorf("commands.network is none, which needs namespaces that this process may not make (%w); run it as root with CAP_SYS_ADMIN, or where users may make namespaces", failed)
		}
		w.spec.Namespace, w.spec.Proc, w.spec.Mask = way.namespace, way.proc, way.mask
		if open, err = r.probe(w.spec, r.openings(w.spec, hidden)); err == nil {
			return open, nil
		}
		r.cfg.Log.Debug("commands cannot be walled in this way", "namespaces", way.namespace, "proc", way.proc, "covers", way.mask != nil, "error", err)
		failed = err
	}
	return nil, err
}

// openings returns the paths that commands are tested against: what is hidden, and this process's environment if they
// can see it.
func (r *Runner) openings(spec minder.Spec, hidden []string) []string {
	all := append([]string{}, hidden...)
	if !spec.Proc && !r.cfg.Unconfined {
		all = append(all, environOf(os.Getpid()))
	}
	return all
}

// probe starts a would-be command, and returns which of the paths it could reach.
func (r *Runner) probe(spec minder.Spec, paths []string) ([]string, error) {
	place, err := r.scratch.make()
	if err != nil {
		return nil, err
	}
	defer place.remove()
	if err := place.give(); err != nil {
		return nil, err
	}
	spec.Dir, spec.Own, spec.Probe = place.home(), []string{place.path}, paths
	p, err := launch(spec, nil, nil)
	if err != nil {
		return nil, err
	}
	out, errs := p.streams()
	end, err := p.wait()
	err = errors.Join(err, out.Close(), errs.Close())
	if err == nil && end.Failed != "" {
		err = errors.New(end.Failed)
	}
	return end.Open, err
}

// readable returns what commands that run as this process's user may read.
func (r *Runner) readable() []string {
	all := append(slices.Clone(system), r.cfg.Read...)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && filepath.Clean(dir) != "/" {
			all = append(all, dir)
		}
	}
	return all
}

// topFolders returns the folders in / except the kernel's, to whose files commands must not write: one could make
// itself less likely to be killed when memory runs out.
func topFolders() (out []string) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "proc" && e.Name() != "sys" {
			out = append(out, "/"+e.Name())
		}
	}
	return out
}

// realPaths resolves the links in paths.
func realPaths(paths []string) (out []string) {
	for _, p := range paths {
		p, err := filepath.Abs(p)
		if err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// hideAnew hides the current targets of the hidden paths, besides those when the walls were tested: a link may have
// changed since, for example when a certificate or a mounted secret was renewed.
func (r *Runner) hideAnew(spec *minder.Spec) {
	covered := func(by []string, p string) bool {
		return slices.ContainsFunc(by, func(c string) bool { return p == c || strings.HasPrefix(p, c+"/") })
	}
	for _, p := range realPaths(r.cfg.Hidden) {
		if spec.Files != nil && len(spec.Files.Hidden) > 0 && !covered(spec.Files.Hidden, p) {
			f := *spec.Files
			f.Hidden = append(slices.Clone(f.Hidden), p)
			spec.Files = &f
		}
		if _, err := os.Stat(p); err == nil && spec.Mask != nil && !covered(spec.Mask, p) {
			spec.Mask = slices.Sorted(slices.Values(append(slices.Clone(spec.Mask), p)))
		}
	}
}

// without returns a list without one of its elements.
func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

func environOf(pid int) string { return fmt.Sprintf("/proc/%d/environ", pid) }

// Harden keeps other processes of this user from tracing this one and from reading its memory, environment and open
// files. If commands have user namespaces it does nothing, for then this process could no longer create them;
// commands in them do not see this process.
func (r *Runner) Harden() error {
	if r.user == nil && r.walls.spec.Namespace {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes from reading this one: %w", err)
	}
	return nil
}

// Walls describes in a line what confines commands.
func (r *Runner) Walls() string {
	s, parts := r.walls.spec, []string{}
	if s.User != nil {
		parts = append(parts, fmt.Sprintf("user %d", s.User.UID))
	}
	if s.Files != nil {
		parts = append(parts, fmt.Sprintf("Landlock %d", minder.Landlock()))
	}
	if minder.Seccomp() {
		parts = append(parts, "seccomp")
	}
	if s.Namespace {
		parts = append(parts, "namespaces")
	}
	if s.Network {
		parts = append(parts, "no network")
	}
	if r.walls.groups != nil {
		parts = append(parts, "cgroup")
	}
	return strings.Join(append(parts, "rlimits"), ", ")
}
