package app

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/command"
	"github.com/carillon-jobs/carillon/internal/command/minder"
	"github.com/carillon-jobs/carillon/internal/config"
)

// commands reports whether this process runs commands.
func (r *running) commands() bool { return r.Config.Commands.Allow && runtime.GOOS != "windows" }

// commandRunner makes what runs commands; nil if none are run. A process that holds the store runs them only if they are kept
// from what it holds, or if the settings say that they need not be.
func (r *running) commandRunner(fetch artifact.Fetch) (*command.Runner, error) {
	if !r.commands() || !r.has("worker") { // others only accept them
		return nil, nil
	}
	c := r.Config.Commands
	folder := c.Folder
	if folder == "" {
		folder = filepath.Join(os.TempDir(), fmt.Sprintf("carillon-commands-%d", os.Getuid()))
	}
	runner, err := command.New(command.Config{
		Folder: folder, User: c.User, MaxOutput: int64(c.OutputKB) << 10, Grace: c.Grace, Log: r.log,
		Limit: minder.Limit{
			Files: uint64(c.Files), Processes: uint64(c.Processes), FileBytes: uint64(c.FileMB) << 20, CPU: uint64(c.CPU.Seconds()), Memory: uint64(c.MemoryMB) << 20,
		},
		Artifacts: artifact.NewCache(filepath.Join(folder, "artifacts"), int64(c.CacheMB)<<20, fetch),
		Hidden:    r.private(), Read: r.readable(), Write: r.writable(), Unconfined: c.Unconfined, NoNetwork: c.Network == config.NoNetwork, Digests: c.Digests,
	})
	if err != nil && r.Dev { // where nobody asked for them
		r.log.Warn("commands cannot be run here", "error", err)
		r.Config.Commands.Allow = false
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("make ready to run commands: %w", err)
	}
	r.onStop("commands", runner.Close)
	if err := r.judge(runner.Open()); err != nil {
		return nil, err
	}
	r.log.Info("commands are on", "held_by", runner.Walls(), "confined", runner.Open() == nil)
	return runner, runner.Harden()
}

// judge decides whether commands may run that are open to what this process holds, for the reason given; nil: they are not.
func (r *running) judge(open error) error {
	holds := "the database, the keys of secrets and this server's settings"
	if r.remote {
		holds = "this worker's API key"
	}
	switch {
	case open == nil:
		return nil
	case r.Config.Commands.Unconfined || r.Dev || r.remote:
		r.log.Warn("COMMANDS ARE NOT CONFINED: whoever may write a job of the target command can read "+holds, "because", open)
		return nil
	}
	return config.Mistakes{{
		Key: "commands.allow", Value: "true", From: "as set",
		Want: "commands that cannot read " + holds + "; here " + open.Error() + ". One of these helps:\n" +
			"  - leave the role worker, or --allow-commands, out here, and run commands in a process of their own: carillon worker --allow-commands\n" +
			"  - run this server as root, so that commands run as commands.user, or on a Linux kernel with Landlock (5.13 or later, with landlock in /sys/kernel/security/lsm)\n" +
			"  - --commands-unconfined (commands.unconfined = true), where everybody who may write jobs may also do all that this server can",
	}}
}

// readable lists the folders that commands may read beside the system's. Under dev it includes the folder dev was started in,
// usually the developer's project.
func (r *running) readable() []string {
	all := append([]string{}, r.Config.Commands.Paths...)
	if dir, err := os.Getwd(); err == nil && r.Dev {
		if home, err := os.UserHomeDir(); err == nil && dir != home && dir != "/" {
			all = append(all, dir)
		}
	}
	return all
}

// writable returns what commands may change beside their own folders: in dev also the system's temporary folder, where people
// look for what a job wrote.
func (r *running) writable() []string {
	all := append([]string{}, r.Config.Commands.WritePaths...)
	if r.Dev {
		all = append(all, os.TempDir())
	}
	return all
}

// private returns the folders of this process that commands must not reach.
func (r *running) private() []string {
	c := r.Config
	all := []string{r.ConfigFile, c.SecretsKeyFile, c.SecretsFiles, c.Vault.Credential, c.TLSCert, c.TLSKey}
	if !r.remote {
		all = append(all, c.Data, c.Artifacts.Folder)
		all = append(all, databaseFiles(c.Database)...)
	}
	for _, e := range os.Environ() {
		if name, path, _ := strings.Cut(e, "="); strings.HasPrefix(name, "CARILLON_") && strings.HasSuffix(name, "_FILE") {
			all = append(all, path)
		}
	}
	if dir, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(dir, "carillon")) // the command line's keys
	}
	out := []string{}
	for _, path := range all {
		if path != "" {
			out = append(out, path)
		}
	}
	return out
}

// databaseFiles returns the files of a database, or those that open it.
func databaseFiles(database string) (out []string) {
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		dir := filepath.Dir(path)
		if info, err := os.Stat(dir); err == nil && (dir == "/" || info.Mode()&os.ModeSticky != 0) { // others use it, too
			return []string{path, path + "-wal", path + "-shm", path + "-journal"}
		}
		return []string{dir}
	}
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(home, ".pgpass"), filepath.Join(home, ".pg_service.conf"), filepath.Join(home, ".postgresql"))
	}
	out = append(out, os.Getenv("PGPASSFILE"), os.Getenv("PGSERVICEFILE"), os.Getenv("PGSSLKEY"))
	if u, err := url.Parse(database); err == nil {
		out = append(out, u.Query().Get("sslkey"), u.Query().Get("passfile"))
	}
	return out
}
