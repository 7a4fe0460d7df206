package client

import (
	"encoding/json"
	"time"
)

// JobFilter chooses jobs, as the parameters of the list do; one that is empty chooses all that are not deleted.
type JobFilter struct {
	Status       string `json:"status,omitempty" enum:"ACTIVE,PAUSED,COMPLETED,DELETED"`
	Tag          string `json:"tag,omitempty" doc:"Jobs that carry this tag."`
	Name         string `json:"name,omitempty" doc:"Jobs of exactly this name."`
	ScheduleType string `json:"schedule_type,omitempty" enum:"IMMEDIATE,ONE_TIME,CRON,INTERVAL"`
	Q            string `json:"q,omitempty" doc:"Text in name, description or key."`
}

// BulkRequest does the same to many jobs, named by ids or by a filter.
type BulkRequest struct {
	Action          string          `json:"action" enum:"pause,resume,delete,trigger,tag,untag"`
	IDs             []string        `json:"ids,omitempty" doc:"Job ids, 1000 at the most."`
	Filter          *JobFilter      `json:"filter,omitempty" doc:"Instead of ids. Jobs that are created after the request are not included."`
	Reason          string          `json:"reason,omitempty" doc:"Of a pause."`
	Until           *time.Time      `json:"until,omitempty" doc:"Of a pause: when it ends by itself."`
	Tags            []string        `json:"tags,omitempty" doc:"That tag adds and untag removes."`
	PayloadOverride json.RawMessage `json:"payload_override,omitempty" doc:"Of a trigger: in place of each job's payload."`
	RatePerS        *float64        `json:"rate_per_s,omitempty" doc:"How many a second, from 0.001 to 10000; as fast as it goes when omitted."`
	DryRun          bool            `json:"dry_run,omitempty" doc:"Only count them, and show the first."`
}

// BulkBegun names an operation over jobs that has begun, and over how many it goes; without an id it was a dry run.
type BulkBegun struct {
	OperationID     string       `json:"operation_id,omitempty"`
	Count           int64        `json:"count"`
	CountIsEstimate bool         `json:"count_is_estimate,omitempty"`
	Sample          []BulkSample `json:"sample,omitempty" doc:"Of a dry run: the first ten."`
}

// BulkSample is one of the jobs that a selection comes to.
type BulkSample struct {
	JobID  string `json:"job_id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}
