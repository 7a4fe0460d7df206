package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s operateCommands) auditCommand() *cobra.Command {
	return s.noun(&cobra.Command{Use: "audit", Short: "Show the audit log, and verify it"}, s.auditTail(), s.auditVerify())
}

func (s operateCommands) auditTail() *cobra.Command {
	var f client.AuditFilter
	var t times
	var p paging
	var follow bool
	every := 2 * time.Second
	v := view[client.AuditEntry]{columns[client.AuditEntry](
		when(s.session, "AT", func(e client.AuditEntry) time.Time { return e.At }),
		col("WHO", func(e client.AuditEntry) string { return e.Principal }),
		col("ROLE", func(e client.AuditEntry) string { return e.Role }),
		col("ACTION", func(e client.AuditEntry) string { return e.Action }),
		col("OBJECT", func(e client.AuditEntry) string { return e.Object }),
		wide("COUNT", func(e client.AuditEntry) string { return fmt.Sprint(e.Count) }),
		col("CHANGE", func(e client.AuditEntry) string { return changeWords(e) }),
		wide("KEY", func(e client.AuditEntry) string { return or(e.KeyID, "") }),
		wide("FROM", func(e client.AuditEntry) string { return e.IP }),
		wide("REQUEST", func(e client.AuditEntry) string { return e.RequestID }),
	), func(e client.AuditEntry) string { return fmt.Sprint(e.Seq) }}
	c := &cobra.Command{
		Use: "tail", Aliases: []string{"list"}, Short: "Show who changed what, latest last", Args: cobra.NoArgs,
		Example: "  carillon audit tail --action job. --from -24h\n  carillon audit tail --follow -o jsonl",
	}
	c.Flags().StringVar(&f.Action, "action", "", "only this action, such as job.delete, or all that begin with it, such as job.")
	c.Flags().StringVar(&f.Object, "object", "", "only changes of the object with this id or name")
	c.Flags().StringVar(&f.Principal, "who", "", "only changes by the credential with this name")
	c.Flags().StringVar(&f.KeyID, "key", "", "only changes by this API key")
	t.flags(c, "at or after this, such as -24h", "before this")
	p.flags(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new entries until Ctrl-C")
	complete(c, "key", s.keyNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		var err error
		if f.From, f.To, err = t.read(s.session); err != nil {
			return err
		}
		read := func(ctx context.Context, p client.Page) ([]client.AuditEntry, client.Pagination, error) {
			page, err := c.ListAudit(ctx, f, p)
			return page.Audit, page.Pagination, err
		}
		var all []client.AuditEntry
		for e, err := range client.Walk(ctx, p.page(), read) {
			if err != nil {
				return err
			}
			if all = append(all, e); len(all) > p.limit && !p.all {
				s.say("Only the latest %d shown: --limit N shows more, --all shows all.", p.limit)
				all = all[:p.limit]
				break
			}
		}
		slices.Reverse(all)
		if err := listedAll(s.session, v, "Nobody changed anything.", each(all)); err != nil || !follow {
			return err
		}
		last := int64(0)
		if len(all) > 0 {
			last = all[len(all)-1].Seq
		}
		return s.tail(ctx, v, every, last, read)
	})
	return c
}

// tail prints the entries after the given one, until it is told to stop.
func (s operateCommands) tail(ctx context.Context, v view[client.AuditEntry], every time.Duration, last int64, read func(context.Context, client.Page) ([]client.AuditEntry, client.Pagination, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var fresh []client.AuditEntry
		for e, err := range client.Walk(ctx, client.Page{Limit: 100}, read) {
			if err != nil {
				return err
			}
			if e.Seq <= last {
				break
			}
			fresh = append(fresh, e)
		}
		if len(fresh) == 0 {
			continue
		}
		last = fresh[0].Seq
		slices.Reverse(fresh)
		if _, err := show(s.session, v, each(fresh)); err != nil {
			return err
		}
	}
}

// changeWords describes a change in words.
func changeWords(e client.AuditEntry) string {
	names := map[string]bool{}
	for k := range e.Before {
		names[k] = true
	}
	for k := range e.After {
		names[k] = true
	}
	var parts []string
	for name := range names {
		parts = append(parts, name+": "+dash(e.Before[name])+" → "+dash(e.After[name]))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (s operateCommands) auditVerify() *cobra.Command {
	c := &cobra.Command{
		Use: "verify", Short: "Check that nobody tampered with the audit log", Args: cobra.NoArgs,
		Long: "Check every entry against its seal; exit with 1 if one does not match. Store the printed head elsewhere: it shows later whether the end was cut off.",
	}
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		p := progress{s: s.session}
		defer p.end()
		var sum client.AuditVerification
		for cursor := ""; ; {
			v, err := c.VerifyAudit(ctx, cursor)
			if err != nil {
				return err
			}
			v.Entries, v.Seals = v.Entries+sum.Entries, v.Seals+sum.Seals
			if sum.FirstSeal != 0 {
				v.FirstSeal = sum.FirstSeal
			}
			sum = v
			if !v.OK || v.NextCursor == nil {
				break
			}
			cursor = *v.NextCursor
			p.tell(fmt.Sprintf("%d entries are unchanged", sum.Entries))
		}
		p.end()
		if err := s.verified(sum); err != nil {
			return err
		}
		if !sum.OK {
			return errors.New("the audit log does not match its seals")
		}
		return nil
	})
	return c
}

func (s operateCommands) verified(x client.AuditVerification) error {
	state := map[bool]string{true: "ok", false: "problem"}[x.OK]
	f := []field{
		{"State", state},
		{"Entries", fmt.Sprint(x.Entries)},
		{"Seals", fmt.Sprintf("%d, from %d to %d", x.Seals, x.FirstSeal, x.LastSeal)},
		{"Last seal", s.both(instant(x.LastSealAt))},
		{"Not sealed yet", fmt.Sprint(x.Unsealed)},
		{"Head", or(x.Head, "")},
	}
	if b := x.Broken; b != nil {
		f = append(f, field{"Broken", fmt.Sprintf("seal %d, entry %s: %s", b.Seal, dash(number(b.Seq)), b.Reason)})
	}
	return one(s.session, view[client.AuditVerification]{id: func(client.AuditVerification) string { return state }}, x, f)
}
