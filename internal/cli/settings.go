package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// told prints a written object, if an output format was requested.
func (s *session) told(x any) error {
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		return nil
	}
	return s.value(x)
}

// past turns "delete the secret" into "Deleted the secret".
func past(what string) string {
	verb, rest, _ := strings.Cut(what, " ")
	verb = strings.TrimSuffix(verb, "e") + "ed"
	return strings.ToUpper(verb[:1]) + verb[1:] + " " + rest
}

// remover makes a command that deletes things by name.
func remover[T any](s *session, c *cobra.Command, what string, n names, look, drop func(context.Context, *client.Client, string) (T, error)) *cobra.Command {
	var w write
	w.destructive(c)
	c.Args = cobra.ExactArgs(1)
	if n != nil {
		completeArgs(c, n)
	}
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if look != nil {
			if _, err := look(ctx, c, args[0]); err != nil {
				return err
			}
		}
		if w.dryRun {
			return s.would(what+" "+args[0], nil)
		}
		if err := s.confirm(w, what+" "+args[0], args[0]); err != nil {
			return err
		}
		x, err := drop(ctx, c, args[0])
		if err != nil {
			return err
		}
		s.say("%s %s.", past(what), line(args[0]))
		return s.told(x)
	})
	return c
}

func (s accessCommands) secretCommand() *cobra.Command {
	v := view[client.Secret]{columns[client.Secret](
		col("NAME", func(x client.Secret) string { return x.Name }),
		col("VERSION", func(x client.Secret) string { return fmt.Sprint(x.Version) }),
		when(s.session, "CHANGED", func(x client.Secret) time.Time { return x.UpdatedAt }),
		when(s.session, "CREATED", func(x client.Secret) time.Time { return x.CreatedAt }),
	), func(x client.Secret) string { return x.Name }}
	var w write
	set := &cobra.Command{
		Use: "set NAME", Aliases: []string{"rotate"}, Short: "Create a secret, or its next version", Args: cobra.ExactArgs(1),
		Long:    "Create a secret, or its next version. The value is prompted for and not echoed; if standard input is not a terminal, all of it is the value, except one final line break. It cannot be read back.",
		Example: "  carillon secret set payments-token\n  carillon secret set payments-token < token.txt",
	}
	w.flags(set)
	completeArgs(set, s.secretNames())
	set.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		value, err := s.secretValue("Value of " + args[0] + ": ")
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.would(fmt.Sprintf("save %d bytes as the secret %s", len(value), args[0]), nil)
		}
		x, err := c.PutSecret(ctx, args[0], value)
		if err != nil {
			return err
		}
		s.say("Saved version %[2]d of the secret %[1]s. Use it in jobs as ${secret:%[3]s}.", x.Name, x.Version, x.Name)
		return s.told(x)
	})
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List secrets, without their values", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no secrets.", c.Secrets(ctx))
	})
	var force bool
	rm := remover(s.session, &cobra.Command{Use: "rm NAME", Aliases: []string{"delete"}, Short: "Delete a secret that no job uses"}, "delete the secret", s.secretNames(),
		func(ctx context.Context, c *client.Client, name string) (client.Secret, error) {
			return c.Secret(ctx, name)
		},
		func(ctx context.Context, c *client.Client, name string) (client.Secret, error) {
			return c.DeleteSecret(ctx, name, force)
		})
	rm.Flags().BoolVar(&force, "force", false, "delete it even if jobs use it; these then fail")
	return s.noun(&cobra.Command{Use: "secret", Aliases: []string{"secrets"}, Short: "Secret values for jobs; they cannot be read back"}, set, list, rm, rekeyCommand())
}

// secretValue reads a secret, which may have several lines.
func (s accessCommands) secretValue(prompt string) (string, error) {
	if f, ok := s.in.(*os.File); ok && terminal(f) {
		return s.secretLine(prompt)
	}
	data, err := io.ReadAll(io.LimitReader(s.in, 1<<20))
	if err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", usage{errors.New("standard input is empty; want the value of the secret")}
	}
	return value, nil
}

func (s accessCommands) keyCommand() *cobra.Command {
	v := view[client.APIKey]{columns[client.APIKey](
		col("ID", func(k client.APIKey) string { return k.KeyID }),
		col("NAME", func(k client.APIKey) string { return k.Name }),
		col("ROLE", func(k client.APIKey) string { return k.Role }),
		col("TENANT", func(k client.APIKey) string { return k.TenantID }),
		col("STATUS", func(k client.APIKey) string { return k.Status }),
		when(s.session, "EXPIRES", func(k client.APIKey) time.Time { return instant(k.ExpiresAt) }),
		when(s.session, "USED", func(k client.APIKey) time.Time { return instant(k.LastUsedAt) }),
		wide("PREFIX", func(k client.APIKey) string { return k.Prefix }),
		wide("CREATED (UTC)", func(k client.APIKey) string { return exact(k.CreatedAt) }),
	), func(k client.APIKey) string { return k.KeyID }}
	// made prints the key itself to standard output: it is shown only once.
	made := func(k client.APIKey) error {
		if k.Key == nil {
			return fmt.Errorf("the key %s was created, but the response with the key was lost\n  do: revoke it with 'carillon key revoke %s --yes' and create another", k.KeyID, k.KeyID)
		}
		s.say("Created the key %s (%s, role %s, tenant %s). It is shown only once:", k.KeyID, line(k.Name), k.Role, k.TenantID)
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			_, err := fmt.Fprintln(s.out, *k.Key)
			return err
		}
		return s.value(k)
	}
	var w, wr write
	var r client.KeyRequest
	var of, expires string
	create := &cobra.Command{
		Use: "create NAME --role ROLE", Short: "Create an API key; it is printed once", Args: cobra.ExactArgs(1),
		Example: "  carillon key create ci --role operator --expires 2030-01-01\n  carillon key create 'workers in eu' --role worker",
	}
	create.Flags().StringVar(&r.Role, "role", "", "viewer, operator, admin, worker or system")
	create.Flags().StringVar(&of, "for-tenant", "", "tenant of the key, or * for all with the role worker (default your own)")
	create.Flags().StringVar(&expires, "expires", "", "when it expires, such as 2030-01-01 or +720h (default never)")
	complete(create, "role", fixed("viewer", "operator", "admin", "worker", "system"))
	complete(create, "for-tenant", s.tenantNames)
	w.flags(create)
	create.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if r.Name = args[0]; r.Role == "" {
			return usage{errors.New("want --role viewer, operator, admin, worker or system")}
		}
		if of != "" {
			r.TenantID = &of
		}
		if expires != "" {
			t, err := parseTime(expires, time.Local, s.now())
			if err != nil {
				return usage{fmt.Errorf("--expires: %w", err)}
			}
			r.ExpiresAt = &t
		}
		if w.dryRun {
			return s.would("make this key", r)
		}
		k, err := c.CreateKey(ctx, r)
		if err != nil {
			return err
		}
		return made(k)
	})
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List API keys, newest first, without the keys themselves", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no keys.", c.Keys(ctx))
	})
	overlap := 24 * time.Hour
	rotate := &cobra.Command{Use: "rotate ID", Short: "Replace a key; the old one keeps working for a while", Args: cobra.ExactArgs(1)}
	rotate.Flags().DurationVar(&overlap, "overlap", overlap, "how long the old key keeps working, up to 720h")
	wr.flags(rotate)
	completeArgs(rotate, s.keyNames())
	rotate.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		old, err := c.Key(ctx, args[0])
		if err != nil {
			return err
		}
		if wr.dryRun {
			return s.would(fmt.Sprintf("replace key %s (%s); the old one would keep working for %s", old.KeyID, old.Name, span(overlap)), nil)
		}
		k, err := c.RotateKey(ctx, args[0], client.RotateRequest{OverlapSeconds: new(int64(overlap / time.Second))})
		if err != nil {
			return err
		}
		return made(k)
	})
	revoke := remover(s.session, &cobra.Command{Use: "revoke ID", Aliases: []string{"rm"}, Short: "Revoke a key: every server refuses it within 5 s"}, "revoke the key", s.keyNames(),
		func(ctx context.Context, c *client.Client, id string) (client.APIKey, error) { return c.Key(ctx, id) },
		func(ctx context.Context, c *client.Client, id string) (client.APIKey, error) {
			return c.RevokeKey(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "key", Aliases: []string{"keys"}, Short: "API keys"}, create, list, rotate, revoke, recoverCommand())
}

func (s accessCommands) tenantCommand() *cobra.Command {
	v := view[client.Tenant]{columns[client.Tenant](
		col("ID", func(t client.Tenant) string { return t.TenantID }),
		col("NAME", func(t client.Tenant) string { return t.Name }),
		col("TIER", func(t client.Tenant) string { return t.Tier }),
		when(s.session, "CREATED", func(t client.Tenant) time.Time { return t.CreatedAt }),
	), func(t client.Tenant) string { return t.TenantID }}
	tell := func(t client.Tenant) error {
		return one(s.session, v, t, append([]field{{"Tenant", t.TenantID}, {"Name", t.Name}, {"Tier", t.Tier}, {"Created", s.both(t.CreatedAt)}}, quotaFields(t)...))
	}
	var w, wq write
	var r client.TenantRequest
	create := &cobra.Command{Use: "create NAME", Short: "Create a tenant and print its id, such as acme-066241bd", Args: cobra.ExactArgs(1), Example: "  carillon tenant create Acme --tier pro"}
	create.Flags().StringVar(&r.Tier, "tier", "", "free (default), pro or enterprise")
	complete(create, "tier", fixed("free", "pro", "enterprise"))
	w.flags(create)
	create.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if r.Name = args[0]; w.dryRun {
			return s.would("create this tenant", r)
		}
		t, err := c.CreateTenant(ctx, r)
		if err != nil {
			return err
		}
		s.say("Created the tenant %s. Create a key for it: carillon key create NAME --role admin --for-tenant %s", line(t.Name), t.TenantID)
		if p, err := s.where(); err == nil && len(p.servers) == 1 && client.DevToken(p.servers[0]) != "" {
			s.warn("this server is 'carillon dev', which serves only the tenant \"default\": the key works with 'carillon serve'")
		}
		if s.output == "table" {
			_, err := fmt.Fprintln(s.out, t.TenantID)
			return err
		}
		return tell(t)
	})
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List tenants", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no tenants.", c.Tenants(ctx))
	})
	var tier, name string
	var sets, ranges []string
	var https bool
	quota := &cobra.Command{Use: "quota TENANT", Short: "Show a tenant's tier and quotas, or change them", Args: cobra.ExactArgs(1), Example: "  carillon tenant quota acme-066241bd\n  carillon tenant quota acme-066241bd --tier enterprise\n  carillon tenant quota acme-066241bd --set active_jobs=50000 --set requests_per_second=-1\n  carillon tenant quota acme-066241bd --allow-callback 10.1.0.0/16\n  carillon tenant quota acme-066241bd --https-only"}
	quota.Flags().StringArrayVar(&sets, "set", nil, "override a quota of the tier, as NAME=VALUE; -1 is no limit, null restores the tier's (repeatable)")
	quota.Flags().StringSliceVar(&ranges, "allow-callback", nil, "private address ranges that its callbacks may reach, replacing the previous ones; '' for none (repeatable)")
	quota.Flags().BoolVar(&https, "https-only", false, "refuse its callbacks over plain http; --https-only=false allows them again")
	quota.Flags().StringVar(&tier, "tier", "", "free, pro or enterprise")
	quota.Flags().StringVar(&name, "name", "", "new name; the id stays the same")
	complete(quota, "tier", fixed("free", "pro", "enterprise"))
	completeArgs(quota, s.tenantNames)
	wq.flags(quota)
	quota.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		t, err := c.Tenant(ctx, args[0])
		reach, secure := quota.Flags().Changed("allow-callback"), quota.Flags().Changed("https-only")
		if err != nil || tier == "" && name == "" && len(sets) == 0 && !reach && !secure {
			if err == nil {
				err = tell(t)
			}
			return err
		}
		var change client.TenantChange
		if tier != "" {
			change.Tier = &tier
		}
		if name != "" {
			change.Name = &name
		}
		if change.Quotas, err = quotaChange(sets); err != nil {
			return err
		}
		if reach {
			change.CallbacksAllow = new(slices.DeleteFunc(append([]string{}, ranges...), func(r string) bool { return r == "" }))
		}
		if secure {
			change.CallbacksHTTPSOnly = &https
		}
		if wq.dryRun {
			return s.would("change the tenant "+t.TenantID+", whose tier is "+t.Tier, change)
		}
		if t, err = c.ChangeTenant(ctx, args[0], change); err != nil {
			return err
		}
		return tell(t)
	})
	limit := &cobra.Command{Use: "limit", Short: "Limit how many executions of your tenant run at once or start per period", Args: cobra.NoArgs, Example: "  carillon tenant limit --max-concurrent 100 --rate 50/1s"}
	s.limitFlags(limit, func(ctx context.Context, c *client.Client, _ []string, r client.LimitRequest) (client.Limit, error) {
		return c.SetTenantLimit(ctx, r)
	}, func([]string) string { return "the tenant" })
	return s.noun(&cobra.Command{Use: "tenant", Aliases: []string{"tenants"}, Short: "Tenants, their tiers and limits"}, create, list, quota, limit)
}

// quotaFields shows a tenant's quotas, and which of them override its tier.
func quotaFields(t client.Tenant) (out []field) {
	v := reflect.ValueOf(t.Quotas)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		text := fmt.Sprint(v.Field(i).Interface())
		switch {
		case text == "-1":
			text = "no limit"
		case name == "active_jobs" && t.Usage != nil && t.Usage.ActiveJobs != nil:
			text = fmt.Sprintf("%s, of which %d are used", text, *t.Usage.ActiveJobs)
		}
		if slices.Contains(t.Overridden, name) {
			text += " (not the tier's)"
		}
		out = append(out, field{name, text})
	}
	if len(t.CallbacksAllow) > 0 {
		out = append(out, field{"callbacks_allow", strings.Join(t.CallbacksAllow, ", ")})
	}
	if t.CallbacksHTTPSOnly {
		out = append(out, field{"callbacks_https_only", "true"})
	}
	return out
}

// quotaChange parses NAME=VALUE.
func quotaChange(sets []string) (*client.QuotaChange, error) {
	if len(sets) == 0 {
		return nil, nil
	}
	body := map[string]json.RawMessage{}
	var reset []string
	for _, set := range sets {
		name, value, ok := strings.Cut(set, "=")
		if !ok || !json.Valid([]byte(value)) {
			return nil, usage{fmt.Errorf("--set %s: want NAME=VALUE, such as active_jobs=50000, dead_letters=true, or max_retries=null to restore the tier's", set)}
		}
		if body[name] = json.RawMessage(value); value == "null" {
			reset = append(reset, name)
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var out client.QuotaChange
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return nil, usage{fmt.Errorf("--set: %w; carillon tenant quota TENANT lists the names", err)}
	}
	out.Reset = reset
	return &out, nil
}

func (s accessCommands) calendarCommand() *cobra.Command {
	v := view[client.Calendar]{columns[client.Calendar](
		col("NAME", func(x client.Calendar) string { return x.Name }),
		col("LEAVES OUT", calendarWords),
		col("ZONE", func(x client.Calendar) string { return or(x.Timezone, "the schedule's") }),
		when(s.session, "CHANGED", func(x client.Calendar) time.Time { return x.UpdatedAt }),
	), func(x client.Calendar) string { return x.Name }}
	get := &cobra.Command{Use: "get NAME", Short: "Show a calendar", Args: cobra.ExactArgs(1)}
	completeArgs(get, s.calendarNames())
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		x, err := c.Calendar(ctx, args[0])
		if err != nil {
			return err
		}
		var windows []string
		for _, w := range x.Windows {
			windows = append(windows, w.From+" to "+w.To)
		}
		return one(s.session, v, x, []field{
			{"Calendar", x.Name},
			{"Dates", strings.Join(x.Dates, ", ")},
			{"Yearly", strings.Join(x.Yearly, ", ")},
			{"Weekdays", strings.Join(x.Weekdays, ", ")},
			{"Windows", strings.Join(windows, ", ")},
			{"Zone", or(x.Timezone, "the schedule's")},
			{"Changed", s.both(x.UpdatedAt)},
		})
	})
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List calendars", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no calendars.", c.Calendars(ctx))
	})
	var w write
	var r client.CalendarRequest
	var zone, body string
	var windows []string
	set := &cobra.Command{
		Use: "set NAME", Aliases: []string{"create"}, Short: "Create or replace a calendar of days and times that schedules skip", Args: cobra.ExactArgs(1),
		Example: "  carillon calendar set holidays --yearly 12-25,12-26 --date 2026-12-28 --weekday SAT,SUN --tz Europe/Berlin",
	}
	set.Flags().StringSliceVar(&r.Dates, "date", nil, "dates to skip, such as 2026-12-28")
	set.Flags().StringSliceVar(&r.Yearly, "yearly", nil, "days to skip every year, such as 12-25")
	set.Flags().StringSliceVar(&r.Weekdays, "weekday", nil, "weekdays to skip, MON to SUN")
	set.Flags().StringSliceVar(&windows, "window", nil, "periods of local time to skip, as FROM/TO, such as 2026-12-24T18:00/2026-12-27")
	set.Flags().StringVar(&zone, "tz", "", "time zone (default that of the schedule)")
	set.Flags().StringVar(&body, "body", "", "the whole calendar as JSON or YAML, as in the API: text, @file, or -")
	w.flags(set)
	completeArgs(set, s.calendarNames())
	set.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if body != "" {
			if err := s.decodeBody(body, &r); err != nil {
				return err
			}
		}
		for _, text := range windows {
			from, to, ok := strings.Cut(text, "/")
			if !ok {
				return usage{fmt.Errorf("--window %q: want FROM/TO, such as 2026-12-24T18:00/2026-12-27", text)}
			}
			r.Windows = append(r.Windows, client.CalendarWindow{From: from, To: to})
		}
		if zone != "" {
			r.Timezone = &zone
		}
		if w.dryRun {
			return s.would("save this as the calendar "+args[0], r)
		}
		x, err := c.PutCalendar(ctx, args[0], r)
		if err != nil {
			return err
		}
		s.say("Saved the calendar %s: %s. Jobs use it with --calendar %s.", x.Name, line(calendarWords(x)), x.Name)
		return s.told(x)
	})
	rm := remover(s.session, &cobra.Command{Use: "rm NAME", Aliases: []string{"delete"}, Short: "Delete a calendar that no job uses"}, "delete the calendar", s.calendarNames(),
		func(ctx context.Context, c *client.Client, name string) (client.Calendar, error) {
			return c.Calendar(ctx, name)
		},
		func(ctx context.Context, c *client.Client, name string) (client.Calendar, error) {
			return c.DeleteCalendar(ctx, name)
		})
	return s.noun(&cobra.Command{Use: "calendar", Aliases: []string{"calendars"}, Short: "Calendars of days and times that schedules skip"}, get, list, set, rm)
}

func calendarWords(x client.Calendar) string {
	var parts []string
	if len(x.Weekdays) > 0 {
		parts = append(parts, strings.Join(x.Weekdays, ","))
	}
	if n := len(x.Dates); n > 0 {
		parts = append(parts, fmt.Sprintf("%d dates", n))
	}
	if n := len(x.Yearly); n > 0 {
		parts = append(parts, fmt.Sprintf("%d days a year", n))
	}
	if n := len(x.Windows); n > 0 {
		parts = append(parts, fmt.Sprintf("%d windows", n))
	}
	return dash(strings.Join(parts, ", "))
}

// decodeBody reads a complete request body.
func (s accessCommands) decodeBody(text string, into any) error {
	data, err := s.content(text, "--body")
	if err != nil {
		return err
	}
	if data, err = jsonOf(data); err != nil {
		return usage{fmt.Errorf("--body: want JSON or YAML: %w", err)}
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return usage{fmt.Errorf("--body: %s", strings.TrimPrefix(err.Error(), "json: "))}
	}
	return nil
}
