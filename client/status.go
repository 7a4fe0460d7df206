package client

import "time"

// QueueStatus describes the state of the whole installation.
type QueueStatus struct {
	Pending               int           `json:"pending" doc:"Executions that are due and wait for a worker."`
	Paused                int           `json:"paused" doc:"Of those, how many wait because their queue is paused."`
	InProgress            int           `json:"in_progress"`
	Completed24h          int64         `json:"completed_24h" doc:"Executions that succeeded."`
	Failed24h             int64         `json:"failed_24h" doc:"Executions that failed or timed out for good."`
	Retried24h            int64         `json:"retried_24h" doc:"Attempts that failed, and that another one followed."`
	ActiveWorkers         int           `json:"active_workers"`
	DrainingWorkers       int           `json:"draining_workers"`
	Slots                 int           `json:"slots" doc:"Slots of the active workers."`
	AverageWaitSeconds    float64       `json:"average_wait_seconds" doc:"Average time from when executions were due until their first start, over 24 hours."`
	AverageWaitSeconds5m  float64       `json:"average_wait_seconds_5m" doc:"Over the last five minutes."`
	MaxWaitSeconds        float64       `json:"max_wait_seconds"`
	AverageTriggerDelay   float64       `json:"average_trigger_delay_seconds" doc:"Average time from the scheduled time until executions fired, over 24 hours."`
	OldestPendingSeconds  *float64      `json:"oldest_pending_seconds" doc:"null if nothing waits."`
	DeadLetters           int64         `json:"dead_letters"`
	DeadLettersIsEstimate bool          `json:"dead_letters_is_estimate,omitempty"`
	OverdueJobs           int64         `json:"overdue_jobs" doc:"Jobs that should have fired more than five seconds ago and have not."`
	OverdueJobsIsMinimum  bool          `json:"overdue_jobs_is_minimum,omitempty"`
	Queues                []QueueDepth  `json:"queues"`
	Minutes               []QueueMinute `json:"minutes,omitempty" doc:"As far back as requested, earliest first, without minutes in which nothing happened."`
}

// QueueDepth counts the executions that wait in a queue.
type QueueDepth struct {
	Queue                string   `json:"queue"`
	Pending              int      `json:"pending" doc:"Exact up to 10000."`
	Paused               int      `json:"paused" doc:"Of those, how many wait because a tenant has paused the queue."`
	InProgress           int      `json:"in_progress"`
	Slots                int      `json:"slots" doc:"Slots of active workers that serve it."`
	OldestPendingSeconds *float64 `json:"oldest_pending_seconds"`
}

// QueueMinute counts the events in one minute.
type QueueMinute struct {
	At                  time.Time `json:"at" doc:"When it starts."`
	Started             int64     `json:"started" doc:"Attempts that started."`
	Completed           int64     `json:"completed"`
	Failed              int64     `json:"failed"`
	Retried             int64     `json:"retried"`
	AverageWaitSeconds  float64   `json:"average_wait_seconds"`
	MaxWaitSeconds      float64   `json:"max_wait_seconds"`
	AverageTriggerDelay float64   `json:"average_trigger_delay_seconds"`
	MaxTriggerDelay     float64   `json:"max_trigger_delay_seconds"`
}
