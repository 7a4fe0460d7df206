package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/replica"
)

// exactTime is how restores show instants: a second is too coarse for them.
const exactTime = "2006-01-02T15:04:05.000Z"

// shownRecovery is a restore as -o json prints it.
type shownRecovery struct {
	Path         string    `json:"path,omitempty"` // empty: nothing was restored
	Place        string    `json:"place"`
	Source       string    `json:"source"` // the id of the generation or backup
	StoreCreated time.Time `json:"store_created"`
	Snapshot     time.Time `json:"snapshot"`
	Segments     int       `json:"segments"`
	CompleteTo   time.Time `json:"complete_to,omitzero"` // everything acknowledged before is there
	NothingAfter time.Time `json:"nothing_after,omitzero"`
	Stopped      string    `json:"stopped,omitempty"`
	Ignored      []string  `json:"ignored,omitempty"`
	Bytes        int64     `json:"bytes,omitempty"`
	Epoch        int64     `json:"epoch,omitempty"`
}

func restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "restore --from URL --to FILE", Short: "Restore the embedded store to an instant, from a folder or bucket", Args: cobra.NoArgs,
		Long: "Restore the embedded store from the continuous backup (--replicate) or the backups (carillon backup --to) in a folder or bucket into a new file, and verify it: every checksum, page and index.\n" +
			"Without --at it restores the latest instant. It says up to which instant everything is there. Credentials of a bucket come from the environment.\n" +
			"Executions that were running run again, and the store draws new fencing tokens: a worker that still holds an old one is refused.",
		Example: "  carillon restore --from s3://backups/carillon --to /var/lib/carillon/carillon.db\n  carillon restore --from file:/mnt/backups --to before.db --at 2026-11-16T09:30:00Z",
	}
	from := c.Flags().String("from", "", "the place: file:PATH or s3://BUCKET/PREFIX?endpoint=URL")
	to := c.Flags().String("to", "", "the file to create, which must not exist")
	at := c.Flags().String("at", "", "the instant to restore, such as 2026-11-16T09:30:00Z or -2h (default the latest)")
	source := c.Flags().String("source", "", "the generation or backup to restore from, if the place holds several that could be meant")
	lastGood := c.Flags().Bool("last-good", false, "if something is damaged or missing, restore to the last instant before it")
	dry := c.Flags().Bool("dry-run", false, "show what would be restored, and do nothing")
	form := formFlag(c, "table", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		want := replica.Want{From: *source, LastGood: *lastGood}
		if *from == "" || *to == "" && !*dry {
			return usage{errors.New("want --from with the place of the backup and --to with the file to create")}
		}
		if *at != "" {
			t, err := parseTime(*at, time.Local, time.Now())
			if err != nil {
				return usage{fmt.Errorf("--at: %w", err)}
			}
			want.At = t
		}
		as, err := form()
		if err != nil {
			return err
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		got, err := app.Recover(ctx, *from, *to, want, *dry, nil)
		if err != nil {
			if *dry && as == "table" && got.Survey != nil {
				err = errors.Join(err, listPlace(c.OutOrStdout(), c.ErrOrStderr(), got.Survey))
			}
			return restoreFailed(err)
		}
		out := shownRecovery{
			Path: got.Store.Path, Place: got.Place, Source: sourceOf(got.Choice), StoreCreated: got.Choice.Store, Snapshot: got.Snapshot.Ended, Segments: got.Segments,
			CompleteTo: got.Began, NothingAfter: got.Ended, Stopped: got.Stopped, Ignored: got.Survey.Ignored, Bytes: got.Store.Bytes, Epoch: got.Store.Epoch,
		}
		if as == "json" {
			return encodeJSON(c.OutOrStdout(), out, "  ")
		}
		return tellRestored(c.OutOrStdout(), c.ErrOrStderr(), out, got, !want.At.IsZero(), *dry)
	}
	return c
}

func sourceOf(c replica.Choice) string {
	if c.Generation != "" {
		return c.Generation
	}
	return c.Snapshot.ID()
}

// restoreFailed adds what to do about an error.
func restoreFailed(err error) error {
	var less *replica.Incomplete
	switch {
	case errors.Is(err, replica.ErrAmbiguous):
		return usage{fmt.Errorf("%w; --source ID chooses one", err)}
	case errors.Is(err, replica.ErrNone):
		return missing{err}
	case errors.As(err, &less) && less.Good.IsZero():
		return fmt.Errorf("%w; nothing was restored", err)
	case errors.As(err, &less):
		return fmt.Errorf("%w; nothing was restored; --last-good restores up to there", err)
	case errors.Is(err, engine.ErrConflict):
		return usage{err}
	}
	return err
}

// listPlace lists what a place holds.
func listPlace(out, told io.Writer, v *replica.Survey) error {
	for _, name := range v.Ignored {
		fmt.Fprintf(told, "Ignored: %s\n", line(name))
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "SOURCE\tHOST\tBEGAN\tSNAPSHOTS\tOLDEST\tNEWEST")
	for _, g := range v.Generations {
		oldest, newest := "-", "-"
		if n := len(g.Snapshots); n > 0 {
			oldest, newest = g.Snapshots[0].Ended.UTC().Format(exactTime), g.Snapshots[n-1].Ended.UTC().Format(exactTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", g.ID, line(g.Host), g.Began.UTC().Format(exactTime), len(g.Snapshots), oldest, newest)
	}
	for _, p := range v.Backups {
		at := p.Ended.UTC().Format(exactTime)
		fmt.Fprintf(w, "%s\t%s\t%s\t1\t%s\t%s\n", p.ID(), line(p.Host), at, at, at)
	}
	return w.Flush()
}

func tellRestored(out, told io.Writer, x shownRecovery, got app.Recovery, atInstant, dry bool) error {
	if dry {
		if err := listPlace(out, told, got.Survey); err != nil {
			return err
		}
		fmt.Fprintf(told, "It would restore from %s, snapshot of %s, and %s after it. Nothing was done.\n", x.Source, x.Snapshot.UTC().Format(exactTime), counting(got.Last-got.Snapshot.Index(), "segment"))
		return nil
	}
	for _, name := range x.Ignored {
		fmt.Fprintf(told, "Ignored: %s\n", line(name))
	}
	fmt.Fprintf(told, "Restored %s (%d bytes, every page and index checked) from %s, with %s after the snapshot of %s.\n", x.Path, x.Bytes, x.Source, counting(int64(x.Segments), "segment"), x.Snapshot.UTC().Format(exactTime))
	fmt.Fprintf(told, "Everything acknowledged before %s is there. Nothing committed after %s is.\n", x.CompleteTo.UTC().Format(exactTime), x.NothingAfter.UTC().Format(exactTime))
	switch {
	case x.Stopped != "":
		fmt.Fprintf(told, "It ends there because %s.\n", strings.TrimSuffix(line(x.Stopped), "."))
	case !atInstant && got.Generation != "":
		fmt.Fprintln(told, "Lost is what was acknowledged later and not shipped any more: about a second, unless the server had warned that its continuous backup was behind.")
	case !atInstant:
		fmt.Fprintln(told, "Lost is everything acknowledged after that backup.")
	}
	fmt.Fprintf(told, "Its fencing tokens start at epoch %d. The secrets key file is not part of it, nor are artifacts if blobs.url names a folder or a bucket.\n", x.Epoch)
	return nil
}
