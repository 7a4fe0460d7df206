package app

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/blob/location"
	"github.com/carillon-jobs/carillon/internal/command"
	"github.com/carillon-jobs/carillon/internal/command/minder"
	"github.com/carillon-jobs/carillon/internal/config"
)

// commands reports whether this process runs commands.
func (r *running) commands() bool { return r.Config.Commands.Allow && runtime.GOOS != "windows" }

// commandRunner returns the runner for commands; nil if none are run. A server runs commands only if its settings
// accept the risk, and only if they are isolated from the server's data, unless the settings waive that.
func (r *running) commandRunner(fetch artifact.Fetch) (*command.Runner, error) {
	if !r.commands() || !r.has("worker") { // others only accept them
		return nil, nil
	}
	if err := r.risk(); err != nil {
		return nil, err
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
	if err != nil && r.Dev { // if nobody asked for them
		r.log.Warn("commands cannot be run here", "error", err)
		r.Config.Commands.Allow = false
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("prepare to run commands: %w", err)
	}
	r.onStop("commands", runner.Close)
	if err := r.judge(runner.Open()); err != nil {
		return nil, err
	}
	if !r.remote && !r.Dev {
		r.log.Warn("COMMANDS RUN IN A SERVER: a command that escapes its confinement can take over the whole installation; carillon worker --allow-commands runs them in a separate process")
	}
	r.log.Info("commands are on", "held_by", runner.Walls(), "confined", runner.Open() == nil)
	return runner, runner.Harden()
}

// risk refuses to run commands in a server, which holds the store and the keys, unless its settings explicitly allow
// it. A remote worker holds only one key, and dev belongs to the developer who started it.
func (r *running) risk() error {
	if c := r.Config.Commands; r.remote || r.Dev || c.RiskServer || c.Unconfined {
		return nil
	}
	return config.Mistakes{{
		Key: "commands.allow", Value: "true", From: "as set",
		Want: "a process that holds nothing but its own key: a command that escapes here could take over the database and the secrets key. Do one of these:\n" +
			"  - run this server without the role worker (--roles api,scheduler), and run commands in a separate process: carillon worker --allow-commands\n" +
			"  - run this server without --allow-commands: it then refuses jobs with commands\n" +
			"  - --commands-risk-server (commands.risk_server = true), which runs confined commands in this process nevertheless",
	}}
}

// judge decides whether commands may run although they can reach this process's data for the given reason, which is
// nil if they cannot.
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
		Want: "commands that cannot read " + holds + "; here " + open.Error() + ". Do one of these:\n" +
			"  - run this server without the role worker or --allow-commands, and run commands in a separate process: carillon worker --allow-commands\n" +
			"  - run this server as root, so that commands run as commands.user, or on a Linux kernel with Landlock (5.13 or later, with landlock in /sys/kernel/security/lsm)\n" +
			"  - --commands-unconfined (commands.unconfined = true), if everybody who may write jobs may also do everything that this server can",
	}}
}

// readable lists the folders that commands may read besides the system's. Under dev it includes the folder dev was
// started in, usually the developer's project.
func (r *running) readable() []string {
	all := append([]string{}, r.Config.Commands.Paths...)
	if dir, err := os.Getwd(); err == nil && r.Dev {
		if home, err := os.UserHomeDir(); err == nil && dir != home && dir != "/" {
			all = append(all, dir)
		}
	}
	return all
}

// writable lists the folders that commands may write besides their own: in dev also the system's temporary folder,
// where people look for a job's output.
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
		all = append(all, c.Data, r.uploads())
		for _, url := range []string{c.Blobs.URL, c.Archive.URL, c.Replicate.URL, c.Backup.URL} {
			if at, err := location.Parse(url); err == nil {
				all = append(all, at.Path, at.CAFile)
			}
		}
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

// databaseFiles returns the files of a database, or those that grant access to it.
func databaseFiles(database string) (out []string) {
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		dir := filepath.Dir(path)
		if info, err := os.Stat(dir); err == nil && (dir == "/" || info.Mode()&os.ModeSticky != 0) { // others use it, too
			return []string{path, path + "-wal", path + "-shm", path + "-journal", path + spoolEnding, path + backupEnding}
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
