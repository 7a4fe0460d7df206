package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// patience is how long a shell waits for names; tests wait longer.
var patience = time.Second

// names finds the completions of a prefix. A tab puts a description after a name.
type names func(ctx context.Context, prefix string) []string

func (n names) complete(cmd *cobra.Command, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	var out []string
	for _, name := range n(ctx, prefix) {
		if strings.HasPrefix(name, prefix) && !strings.ContainsFunc(name, func(c rune) bool { return c != '\t' && control(c) }) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// complete completes the value of a flag.
func complete(c *cobra.Command, flag string, n names) {
	err := c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return n.complete(cmd, prefix)
	})
	if err != nil {
		panic("cli: " + err.Error())
	}
}

// completeArgs completes the first argument of a command, and every further one if it takes many.
func completeArgs(c *cobra.Command, n names) {
	many := strings.HasSuffix(c.Use, "...")
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return n.complete(cmd, prefix)
	}
}

// lookup asks a server for names; it returns nothing if there is no answer.
func lookup(s *session, ask func(ctx context.Context, c *client.Client) []string) names {
	return func(ctx context.Context, _ string) []string {
		if s.output == "" {
			s.output = "table"
		}
		c, err := s.client(client.WithRetries(client.Retries{}))
		if err != nil {
			return nil
		}
		return ask(ctx, c)
	}
}

func (s *session) jobNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListJobs(ctx, client.JobFilter{}, client.Page{Limit: 200})
		for _, j := range page.Jobs {
			switch {
			case j.Key != nil:
				out = append(out, *j.Key+"\t"+j.Name+", "+j.Status)
			case !strings.ContainsAny(j.Name, "\t\n"):
				out = append(out, j.Name+"\t"+scheduleWords(j.Schedule)+", "+j.Status)
			}
		}
		return distinct(out)
	})
}

func (s *session) tags() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListJobs(ctx, client.JobFilter{}, client.Page{Limit: 200})
		for _, j := range page.Jobs {
			out = append(out, j.Tags...)
		}
		return distinct(out)
	})
}

func (s *session) executionNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListExecutions(ctx, client.ExecutionFilter{}, client.Page{Limit: 50})
		for _, e := range page.Executions {
			out = append(out, e.ExecutionID+"\t"+e.JobName+", "+e.Status)
		}
		return out
	})
}

func (s *session) deadLetterNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListDeadLetters(ctx, client.DeadLetterFilter{}, client.Page{Limit: 50})
		for _, d := range page.DeadLetters {
			out = append(out, d.ExecutionID+"\t"+d.JobName)
		}
		return out
	})
}

func (s *session) queueNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListQueues(ctx, client.Page{Limit: 200})
		for _, q := range page.Queues {
			out = append(out, q.Queue)
		}
		jobs, _ := c.ListJobs(ctx, client.JobFilter{}, client.Page{Limit: 200})
		for _, j := range jobs.Jobs {
			out = append(out, j.Queue)
		}
		return distinct(out)
	})
}

func (s *session) workerNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListWorkers(ctx, client.Page{Limit: 200})
		for _, w := range page.Workers {
			if w.Status != "DEAD" {
				out = append(out, w.WorkerID+"\t"+w.Host)
			}
		}
		return out
	})
}

func (s *session) operationNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListOperations(ctx, client.Page{Limit: 50})
		for _, o := range page.Operations {
			out = append(out, o.OperationID+"\t"+o.Kind+", "+o.State)
		}
		return out
	})
}

func (s *session) secretNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListSecrets(ctx, client.Page{Limit: 200})
		for _, x := range page.Secrets {
			out = append(out, x.Name)
		}
		return out
	})
}

func (s *session) calendarNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListCalendars(ctx, client.Page{Limit: 200})
		for _, x := range page.Calendars {
			out = append(out, x.Name)
		}
		return out
	})
}

func (s *session) keyNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListKeys(ctx, client.Page{Limit: 200})
		for _, k := range page.APIKeys {
			if k.Status == "ACTIVE" {
				out = append(out, k.KeyID+"\t"+k.Name+", "+k.Role)
			}
		}
		return out
	})
}

func (s *session) ruleNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListNotificationRules(ctx, client.Page{Limit: 200})
		for _, r := range page.NotificationRules {
			out = append(out, r.Name)
		}
		return out
	})
}

func (s *session) tenantNames(ctx context.Context, prefix string) []string {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListTenants(ctx, client.Page{Limit: 200})
		for _, t := range page.Tenants {
			out = append(out, t.TenantID+"\t"+t.Name)
		}
		return out
	})(ctx, prefix)
}

// fixed completes from a fixed list of words.
func fixed(words ...string) names { return func(context.Context, string) []string { return words } }

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
