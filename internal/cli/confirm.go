package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// write holds the flags of commands that change something.
type write struct {
	dryRun bool
	yes    bool
}

func (w *write) flags(c *cobra.Command) {
	c.Flags().BoolVar(&w.dryRun, "dry-run", false, "show what would be done, and do nothing")
}

// destructive adds the flag that skips the confirmation.
func (w *write) destructive(c *cobra.Command) {
	w.flags(c)
	c.Flags().BoolVarP(&w.yes, "yes", "y", false, "skip the confirmation")
}

// would shows what a dry run leaves out: in words for people, and as data the body that would be sent.
func (s *session) would(what string, body any) error {
	s.say("Dry run: nothing was changed. It would %s.", line(what))
	if body == nil {
		return nil
	}
	return s.value(body)
}

// confirm makes the person at the terminal type a name before an irreversible change.
func (s *session) confirm(w write, what, name string) error {
	if w.yes {
		return nil
	}
	f, ok := s.in.(*os.File)
	if !ok || !terminal(f) {
		return unconfirmed{fmt.Errorf("this would %s, which cannot be undone; nothing was done. Add --yes to go ahead without being asked", line(what))}
	}
	fmt.Fprintf(s.err, "This will %s, which cannot be undone. Type %s to continue: ", line(what), line(name))
	typed, _ := bufio.NewReader(f).ReadString('\n')
	if strings.TrimSpace(typed) != name {
		return fmt.Errorf("%q is not %q: nothing was done", strings.TrimSpace(typed), name)
	}
	return nil
}
