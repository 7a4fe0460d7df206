package cli

import (
	"github.com/spf13/cobra"
)

// flagOf maps fields of the API to the flags that set them.
var flagOf = map[string]string{
	"schedule.every": "every", "schedule.cron_expression": "cron", "schedule.scheduled_time": "at", "schedule.timezone": "tz",
	"schedule.calendar": "calendar", "schedule.jitter_ms": "jitter", "schedule.start_at": "start-at", "schedule.end_at": "end-at",
	"schedule.max_runs": "max-runs", "execution.callback_url": "http", "execution.method": "method", "execution.command": "command",
	"execution.artifact_id": "artifact", "execution.entrypoint": "entrypoint", "execution.kind": "kind", "execution.work_kind": "simulate",
	"execution.duration_ms": "duration", "execution.payload": "payload", "payload_override": "payload", "execution.timeout_seconds": "timeout",
	"retry_policy.max_retries": "retries", "retry_policy.backoff": "backoff", "retry_policy.initial_delay_ms": "retry-delay",
	"overlap": "overlap", "catch_up": "catch-up", "priority": "priority", "tags": "tag", "labels": "label", "queue": "queue",
	"max_concurrent": "max-concurrent", "concurrency_key": "concurrency-key", "rate_limit": "rate", "rate_limit.count": "rate",
	"rate_limit.per": "rate", "unique_key": "unique-key", "expires_after": "expires-after", "auto_redrive_after": "auto-redrive-after",
	"retention.days": "retention-days", "retention.failed_days": "retention-failed-days",
	"description": "description", "owner": "owner", "runbook": "runbook", "key": "key", "role": "role", "tenant_id": "for-tenant",
	"tier": "tier", "callback_url": "to", "events": "event", "reason": "reason", "until": "until", "rate_per_s": "rate",
	"input": "input", "nodes[0]": "node", "comment": "comment", "data": "data", "result": "result", "match": "match", "max_parallel": "max-parallel", "tolerate": "tolerate", "only": "only",
}

// typed names a field as the user typed it: by its flag, if that was given.
func typed(c *cobra.Command, field string) string {
	if name := flagOf[field]; c != nil && name != "" && c.Flags().Changed(name) {
		return "--" + name
	}
	return field
}

// lister returns the command that lists the subjects of a command; "" if there is none.
func lister(c *cobra.Command) string {
	for ; c != nil; c = c.Parent() {
		for _, sub := range c.Commands() {
			if sub.Name() == "list" {
				return sub.CommandPath()
			}
		}
	}
	return ""
}
