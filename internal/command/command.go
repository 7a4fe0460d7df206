package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/command/minder"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/worker"
)

// Config describes how commands are run.
type Config struct {
	Folder    string // where the scratch folders are
	User      string // the user that commands run as if the worker is root: a name, or UID:GID
	Limit     minder.Limit
	MaxOutput int64         // bytes of output that are kept per attempt
	Grace     time.Duration // from asking a command to end to killing it, if nothing else is pressing
	Artifacts *artifact.Cache
	Log       *slog.Logger

	Hidden     []string // files and folders that commands must not reach: the process's data, keys and settings
	Read       []string // what commands that run as the process's own user may read besides the system's folders
	Write      []string // and what they may change besides their own folder
	Unconfined bool     // no rules for files
	NoNetwork  bool     // a command gets its own, empty network
	Digests    []string // SHA-256 of the programs and artifacts that may run, in hex; nil: any

	plain bool // create no namespaces, as if none were allowed; for tests
}

// hurried is the grace period of a command whose server does not wait longer: five seconds after a timeout, a lost
// lease or a stop it considers the execution abandoned.
const hurried = 3 * time.Second

// Runner runs commands.
type Runner struct {
	cfg     Config
	scratch *scratch
	user    *minder.User // nil: as the worker
	walls   walls
}

// New makes a runner, and removes what an earlier one left behind when it was killed.
func New(cfg Config) (*Runner, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	user, err := unprivileged(cfg.User)
	if err != nil {
		return nil, err
	}
	s, err := newScratch(cfg.Folder, user, cfg.Log)
	if err != nil {
		return nil, err
	}
	r := &Runner{cfg: cfg, scratch: s, user: user}
	if err := r.raise(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return r, nil
}

// Open returns why commands are not isolated from what this process holds: its data, keys, settings and memory; nil
// if they are.
func (r *Runner) Open() error { return r.walls.open }

// Close removes the runner's folder. No command may be running.
func (r *Runner) Close() error { return r.scratch.close() }

// Ended describes how a command ended.
type Ended struct {
	Exit   int
	Signal string // the signal that ended it, such as SIGKILL; empty: none
	Result []byte // the content of the file that CARILLON_RESULT names
	Tail   string // the end of its standard error
	Full   bool   // the kernel killed some of it because it was out of memory
}

// NotRun is the error of a command that never began, for a reason that a retry would meet again.
type NotRun struct{ Why string }

func (n *NotRun) Error() string { return n.Why }

// Run runs a command to its end. If ctx ends first, the command has been stopped when Run returns. An error means
// that it could not be run, or that its result cannot be read.
func (r *Runner) Run(ctx context.Context, a client.Attempt) (e Ended, err error) {
	place, err := r.scratch.make()
	if err != nil {
		return e, fmt.Errorf("make a scratch folder: %w", err)
	}
	defer func() {
		if err := place.remove(); err != nil {
			r.cfg.Log.WarnContext(ctx, "a scratch folder could not be removed", "execution_id", a.ExecutionID, "folder", place.path, "error", err)
		}
	}()
	args, digests, err := r.prepare(ctx, a, place)
	if err != nil {
		return e, err
	}
	if err := place.give(); err != nil {
		return e, fmt.Errorf("hand the scratch folder over: %w", err)
	}
	if e, err = r.run(ctx, a, place, args, digests); err != nil || e.Exit != 0 || e.Signal != "" {
		return e, err
	}
	e.Result, err = place.result()
	return e, err
}

// prepare unpacks the artifact, if there is one, and returns the command line, and the digests of the programs that
// may run; nil: any.
func (r *Runner) prepare(ctx context.Context, a client.Attempt, place *place) (args, digests []string, err error) {
	t := a.Execution
	if t.ArtifactID == "" {
		if len(t.Command) == 0 {
			return nil, nil, &NotRun{"the job names neither a command nor an artifact"}
		}
		return t.Command, r.cfg.Digests, nil
	}
	if r.cfg.Digests != nil && !slices.Contains(r.cfg.Digests, t.ArtifactID) {
		return nil, nil, &NotRun{fmt.Sprintf("the artifact %s may not be run: commands.digests does not list it", t.ArtifactID)}
	}
	if r.cfg.Artifacts == nil {
		return nil, nil, &NotRun{"this worker has no access to artifacts"}
	}
	b, err := r.cfg.Artifacts.Open(ctx, tenant.ID(a.TenantID), t.ArtifactID)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil, &NotRun{fmt.Sprintf("there is no artifact %s", t.ArtifactID)}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get the artifact: %w", err)
	}
	defer b.Close()
	program, err := artifact.Unpack(ctx, b, artifact.DefaultLimits, place.work, t.Entrypoint)
	var no *artifact.Unsafe
	var large *artifact.TooLarge
	switch {
	case errors.As(err, &no), errors.As(err, &large):
		return nil, nil, &NotRun{fmt.Sprintf("the artifact is not unpacked: %v", err)}
	case err != nil:
		return nil, nil, fmt.Errorf("unpack the artifact: %w", err)
	case t.Entrypoint == "" && len(t.Command) > 0:
		return t.Command, r.cfg.Digests, nil
	case program == "":
		return nil, nil, &NotRun{"the artifact is an archive, and the job does not say which program in it to run: set entrypoint"}
	}
	if info, err := place.work.Stat(program); err != nil || !info.Mode().IsRegular() {
		return nil, nil, &NotRun{fmt.Sprintf("the artifact holds no file %q", t.Entrypoint)}
	}
	return append([]string{"./" + program}, t.Command...), nil, nil // its digest is the artifact's
}

// environment returns the whole environment of a command.
func environment(a client.Attempt, place *place) []string {
	env := map[string]string{"PATH": defaultPath, "HOME": place.home(), "TMPDIR": place.temp(), "LANG": "C.UTF-8"}
	for _, name := range []string{"PATH", "LANG"} {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	for name, v := range a.Execution.Env {
		env[name] = v
	}
	for name, v := range map[string]string{
		"JOB_ID": a.JobID, "EXECUTION_ID": a.ExecutionID, "ATTEMPT_NUMBER": strconv.Itoa(a.AttemptNumber), "IDEMPOTENCY_KEY": a.IdempotencyKey,
		"FENCING_TOKEN": strconv.FormatInt(a.FencingToken, 10), "SCHEDULED_TIME": a.ScheduledTime.UTC().Format(time.RFC3339Nano), "RESULT": place.resultFile(),
	} {
		env["CARILLON_"+name] = v
	}
	out := make([]string, 0, len(env))
	for name, v := range env {
		out = append(out, name+"="+v)
	}
	return out
}

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// process is a running command.
type process interface {
	term()                     // asks it to end
	kill()                     // kills it and everything it has started
	wait() (minder.End, error) // returns when it and everything it has started has ended
	streams() (out, err io.ReadCloser)
	outOfMemory() bool // it was killed because it was out of memory; known after wait
}

// run runs the program, and stops it when ctx ends.
func (r *Runner) run(ctx context.Context, a client.Attempt, place *place, args, digests []string) (e Ended, err error) {
	payload := []byte(a.Payload)
	spec := minder.Spec{Args: args, Env: environment(a, place), Dir: place.home(), Own: []string{place.path}, Limit: r.cfg.Limit, Digests: digests}
	if ctx.Err() != nil {
		return e, ctx.Err()
	}
	p, err := r.start(spec, bytes.NewReader(payload))
	if err != nil {
		return e, fmt.Errorf("start a process: %w", err)
	}
	stop := context.AfterFunc(ctx, p.term)
	defer stop()
	over := make(chan struct{})
	go r.enforce(ctx, p, over)
	log := newLog(ctx, r.cfg.MaxOutput)
	out, errs := p.streams()
	var reading sync.WaitGroup
	reading.Go(func() { log.read(worker.Stdout, out); out.Close() })
	reading.Go(func() { log.read(worker.Stderr, errs); errs.Close() })
	end, err := p.wait()
	close(over)
	reading.Wait()
	log.close()
	e = Ended{Exit: end.Exit, Tail: log.tail(), Full: p.outOfMemory()}
	if end.Signal != 0 {
		e.Signal = signalName(end.Signal)
	}
	if end.Left > 0 {
		r.cfg.Log.DebugContext(ctx, "a command left processes behind; they were killed", "execution_id", a.ExecutionID, "processes", end.Left)
	}
	switch {
	case err != nil:
		return e, err
	case end.Program:
		return e, &NotRun{end.Failed}
	case end.Failed != "":
		return e, errors.New(end.Failed)
	}
	return e, nil
}

// enforce kills a command that did not end when it was asked to.
func (r *Runner) enforce(ctx context.Context, p process, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	grace := min(r.cfg.Grace, hurried)
	if errors.Is(context.Cause(ctx), worker.ErrCancelled) {
		grace = r.cfg.Grace // a server waits longer for an execution that it asked to stop
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		p.kill()
	}
}
