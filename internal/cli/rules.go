package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s operateCommands) notificationCommand() *cobra.Command {
	v := view[client.NotificationRule]{columns[client.NotificationRule](
		col("NAME", func(r client.NotificationRule) string { return r.Name }),
		col("EVENTS", func(r client.NotificationRule) string { return strings.Join(r.Events, ",") }),
		col("JOBS", func(r client.NotificationRule) string { return orAll(append(r.Jobs, r.Tags...)) }),
		col("TO", func(r client.NotificationRule) string { return r.CallbackURL }),
		col("BLOCKED", func(r client.NotificationRule) string {
			if r.Blocked != nil {
				return "yes"
			}
			return ""
		}),
		when(s.session, "SILENT UNTIL", func(r client.NotificationRule) time.Time { return instant(r.SilenceUntil) }),
		wide("CHANGED (UTC)", func(r client.NotificationRule) string { return exact(r.UpdatedAt) }),
	), func(r client.NotificationRule) string { return r.Name }}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List notification rules", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no notification rules.", c.NotificationRules(ctx))
	})
	get := &cobra.Command{Use: "get NAME", Short: "Show a notification rule", Args: cobra.ExactArgs(1)}
	completeArgs(get, s.ruleNames())
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := c.NotificationRule(ctx, args[0])
		if err != nil {
			return err
		}
		return one(s.session, v, r, []field{
			{"Rule", r.Name},
			{"Events", strings.Join(r.Events, ", ")},
			{"Jobs", strings.Join(r.Jobs, ", ")},
			{"Tags", strings.Join(r.Tags, ", ")},
			{"To", r.CallbackURL},
			{"Blocked", or(r.Blocked, "")},
			{"Late after", span(time.Duration(r.LateAfterSeconds) * time.Second)},
			{"Silent until", s.both(instant(r.SilenceUntil))},
			{"Changed", s.both(r.UpdatedAt)},
		})
	})
	var w, wt write
	var r client.NotificationRuleRequest
	var late time.Duration
	var silence string
	set := &cobra.Command{
		Use: "set NAME --event EVENT --to URL", Aliases: []string{"create"}, Short: "Create or replace a notification rule", Args: cobra.ExactArgs(1),
		Example: "  carillon notification set on-call --event failed,late,recovered --tag billing --to https://example.com/on-call",
	}
	set.Flags().StringSliceVar(&r.Events, "event", nil, "events: failed, dead_lettered, late, missing, approval_waiting, recovered")
	set.Flags().StringSliceVar(&r.Jobs, "job", nil, "only for these jobs, by id or as key:…")
	set.Flags().StringSliceVar(&r.Tags, "tag", nil, "only for jobs with one of these tags")
	set.Flags().StringVar(&r.CallbackURL, "to", "", "URL to notify")
	set.Flags().DurationVar(&late, "late-after", 0, "how late counts as late (default 1m)")
	set.Flags().StringVar(&silence, "silence-until", "", "send nothing before this time, such as +2h")
	complete(set, "event", fixed("failed", "dead_lettered", "late", "missing", "approval_waiting", "recovered"))
	complete(set, "tag", s.tags())
	w.flags(set)
	completeArgs(set, s.ruleNames())
	set.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if late != 0 {
			r.LateAfterSeconds = new(int64(late / time.Second))
		}
		if silence != "" {
			t, err := parseTime(silence, time.Local, s.now())
			if err != nil {
				return usage{fmt.Errorf("--silence-until: %w", err)}
			}
			r.SilenceUntil = &t
		}
		if w.dryRun {
			return s.would("save this as the notification rule "+args[0], r)
		}
		x, err := c.PutNotificationRule(ctx, args[0], r)
		if err != nil {
			return err
		}
		s.say("Saved the notification rule %s. 'carillon notification test %s' sends a test notification.", x.Name, x.Name)
		return s.told(x)
	})
	var wait waiting
	test := &cobra.Command{Use: "test NAME", Short: "Send a test notification", Args: cobra.ExactArgs(1)}
	wt.flags(test)
	wait.flags(test)
	completeArgs(test, s.ruleNames())
	test.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if wt.dryRun {
			r, err := c.NotificationRule(ctx, args[0])
			if err != nil {
				return err
			}
			return s.would("post a sample notification to "+r.CallbackURL, nil)
		}
		t, err := c.TestNotificationRule(ctx, args[0])
		if err != nil {
			return err
		}
		return s.triggered(ctx, c, t, "the notification rule "+args[0], wait)
	})
	rm := remover(s.session, &cobra.Command{Use: "rm NAME", Aliases: []string{"delete"}, Short: "Delete a notification rule"}, "delete the notification rule", s.ruleNames(),
		func(ctx context.Context, c *client.Client, name string) (client.NotificationRule, error) {
			return c.NotificationRule(ctx, name)
		},
		func(ctx context.Context, c *client.Client, name string) (client.NotificationRule, error) {
			return c.DeleteNotificationRule(ctx, name)
		})
	return s.noun(&cobra.Command{Use: "notification", Aliases: []string{"notifications"}, Short: "Notification rules: which events to report, and where"}, list, get, set, test, rm)
}

func (s operateCommands) signingCommand() *cobra.Command {
	v := view[client.SigningSecret]{columns[client.SigningSecret](
		col("ID", func(x client.SigningSecret) string { return x.ID }),
		col("ALGORITHM", func(x client.SigningSecret) string { return x.Algorithm }),
		col("PREFIX", func(x client.SigningSecret) string { return cmp.Or(x.Prefix, "(not shown yet)") }),
		when(s.session, "CREATED", func(x client.SigningSecret) time.Time { return x.CreatedAt }),
		when(s.session, "EXPIRES", func(x client.SigningSecret) time.Time { return instant(x.ExpiresAt) }),
	), func(x client.SigningSecret) string { return x.ID }}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List signing secrets, without the secrets themselves", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := c.SigningSecrets(ctx)
		if err != nil {
			return err
		}
		return listedAll(s.session, v, "There are no signing secrets: callbacks are not signed. The server has no key to encrypt one with.", each(all))
	})
	var w write
	overlap := 24 * time.Hour
	var algorithm string
	create := &cobra.Command{
		Use: "create", Aliases: []string{"rotate"}, Short: "Create a signing secret that replaces the current one; it is printed once", Args: cobra.NoArgs,
		Long:    "Create a signing secret that replaces the current one. It is printed once. For ed25519, the public key is printed, which targets verify with; it is not secret.",
		Example: "  carillon signing create --overlap 72h\n  carillon signing create --algorithm ed25519",
	}
	create.Flags().StringVar(&algorithm, "algorithm", "", "hmac-sha256, with a secret shared with targets; or ed25519, with a public key for them (default hmac-sha256)")
	complete(create, "algorithm", fixed("hmac-sha256", "ed25519"))
	create.Flags().DurationVar(&overlap, "overlap", overlap, "how long the previous one keeps signing as well, up to 720h")
	w.flags(create)
	create.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if w.dryRun {
			return s.would("make a signing secret ("+cmp.Or(algorithm, "hmac-sha256")+"); those before it would sign for another "+span(overlap), nil)
		}
		x, err := c.AddSigningSecret(ctx, client.SigningSecretRequest{Algorithm: algorithm, OverlapSeconds: new(int64(overlap / time.Second))})
		if err != nil {
			return err
		}
		shown := x.Secret
		if x.PublicKey != "" {
			shown = x.PublicKey
			s.say("Created the signing key %s. Targets verify with its public key:", x.ID)
		} else {
			s.say("Created the signing secret %s. It is shown only once:", x.ID)
		}
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			_, err := fmt.Fprintln(s.out, shown)
			return err
		}
		return s.value(x)
	})
	show := &cobra.Command{
		Use: "show", Short: "Print a tenant's first signing secret; it is shown only once", Args: cobra.NoArgs,
		Long:    "Print a tenant's first signing secret. It is shown only once, to the first person who asks, which is audited; after that, create another with 'carillon signing create'.",
		Example: "  carillon signing show",
	}
	var shows write
	shows.flags(show)
	show.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := c.SigningSecrets(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errors.New("there is no signing secret: the server has no key to encrypt one with; set secrets.key_file")
		}
		i := max(0, slices.IndexFunc(all, func(x client.SigningSecret) bool { return !x.Shown })) // the server reports that the others were shown
		if shows.dryRun {
			return s.would("show the signing secret "+all[i].ID+", which could not be shown again", nil)
		}
		x, err := c.RevealSigningSecret(ctx, all[i].ID)
		if err != nil {
			return err
		}
		s.say("The signing secret %s. It is shown only once:", x.ID)
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			_, err := fmt.Fprintln(s.out, x.Secret)
			return err
		}
		return s.value(x)
	})
	rm := remover(s.session, &cobra.Command{Use: "rm ID", Aliases: []string{"revoke"}, Short: "Revoke a signing secret: nothing is signed with it after 5 s"}, "revoke the signing secret",
		lookup(s.session, func(ctx context.Context, c *client.Client) (out []string) {
			all, _ := c.SigningSecrets(ctx)
			for _, x := range all {
				out = append(out, x.ID+"\t"+x.Prefix)
			}
			return out
		}), nil,
		func(ctx context.Context, c *client.Client, id string) (client.SigningSecret, error) {
			return c.DeleteSigningSecret(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "signing", Short: "Signing secrets for callbacks"}, list, show, create, rm)
}
