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

// destructive adds the flag that spares the question.
func (w *write) destructive(c *cobra.Command) {
	w.flags(c)
	c.Flags().BoolVarP(&w.yes, "yes", "y", false, "skip the confirmation")
}

// would tells what a dry run leaves out: for people in words, and the body that would be sent as data.
func (s *session) would(what string, body any) error {
	s.say("Dry run: nothing was changed. It would %s.", line(what))
	if body == nil {
		return nil
	}
	return s.value(body)
}

// confirm has whoever is at the terminal type a name before what cannot be undone.
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
