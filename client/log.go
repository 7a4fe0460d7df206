package client

import "time"

// LogLine is a line that an attempt wrote.
type LogLine struct {
	At     time.Time `json:"at,omitzero" doc:"When it was written; when it arrived, if left out."`
	Stream string    `json:"stream,omitempty" enum:"stdout,stderr,log,system" doc:"stdout when omitted; log is for what a handler logs, system for notes from Carillon."`
	Text   string    `json:"text" doc:"At most 16 KiB; the rest is cut off."`
}

// LogRequest adds lines to the log of an attempt.
type LogRequest struct {
	ExecutionID  string    `json:"execution_id"`
	FencingToken int64     `json:"fencing_token"`
	Offset       *int      `json:"offset,omitempty" doc:"How many lines of this attempt you sent before; it makes a repeated request safe. When omitted, lines are appended."`
	Lines        []LogLine `json:"lines"`
}

// LogAnswer returns how much of an attempt's log is stored.
type LogAnswer struct {
	Lines int  `json:"lines" doc:"Lines kept for this attempt; the next offset."`
	Cut   bool `json:"cut" doc:"The log has reached its limit: nothing more of this attempt is kept."`
}

// MaxLogLines is the maximum number of lines in one request.
const MaxLogLines = 10_000

// LoggedLine is a line of a log as returned by the API.
type LoggedLine struct {
	ID      string    `json:"id" doc:"Its position: send it as after, or as Last-Event-ID, to read what follows."`
	Attempt int       `json:"attempt"`
	Line    int       `json:"line" doc:"Its number in the attempt's log, from 0."`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"`
	Text    string    `json:"text"`
}

// Log is a part of an execution's log, attempt by attempt.
type Log struct {
	Lines      []LoggedLine `json:"lines"`
	Pagination Pagination   `json:"pagination"`
}

// LogEnd is the event that ends a log stream.
type LogEnd struct {
	Status string `json:"status" doc:"The status of the execution."`
}
