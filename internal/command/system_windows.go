package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

var errSystem = errors.New("commands are not run on Windows")

const nonblock = 0

func lockFile(*os.File) bool                                    { return false }
func trusted(string) error                                      { return errSystem }
func owned(os.FileInfo, *minder.User) bool                      { return false }
func unprivileged(string) (*minder.User, error)                 { return nil, errSystem }
func signalName(n int) string                                   { return fmt.Sprintf("signal %d", n) }
func (r *Runner) start(minder.Spec, io.Reader) (process, error) { return nil, errSystem }
