//go:build !linux

package command

import "errors"

// walls describes what confines the commands of this process.
type walls struct {
	open error // why commands are not isolated from what this process holds
}

// raise determines which walls this process can put around commands: on this system none.
func (r *Runner) raise() error {
	if r.cfg.NoNetwork || len(r.cfg.Digests) > 0 {
		return errors.New("commands.network and commands.digests need Linux")
	}
	r.walls.open = errors.New("on this system they run as this process's own user, and nothing keeps them from its files")
	return nil
}

// Harden does nothing on this system.
func (r *Runner) Harden() error { return nil }

// Walls describes in a line what confines commands.
func (r *Runner) Walls() string { return "process group" }
