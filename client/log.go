package client

import "time"

// LogLine is a line that an attempt has written.
type LogLine struct {
	At     time.Time `json:"at,omitzero" doc:"When it was written; when it arrived, if left out."`
	Stream string    `json:"stream,omitempty" enum:"stdout,stderr,log,system" doc:"stdout when omitted; log is what a handler logs, system what Carillon says about the log."`
	Text   string    `json:"text" doc:"Of at most 16 KiB; more is cut off."`
}

// LogRequest adds lines to the log of an attempt.
type LogRequest struct {
	ExecutionID  string    `json:"execution_id"`
	FencingToken int64     `json:"fencing_token"`
	Offset       *int      `json:"offset,omitempty" doc:"How many lines of this attempt were sent before: it makes sending the same lines again safe. When omitted, they are added at the end."`
	Lines        []LogLine `json:"lines"`
}

// LogAnswer is how far the log of an attempt has come.
type LogAnswer struct {
	Lines int  `json:"lines" doc:"That are kept of this attempt: the next offset."`
	Cut   bool `json:"cut" doc:"The log has reached its limit: nothing more of this attempt is kept."`
}

// MaxLogLines is how many lines one request may bring.
const MaxLogLines = 10_000

// LoggedLine is a line of a log as answered.
type LoggedLine struct {
	ID      string    `json:"id" doc:"Its place: what comes behind it is read with after, or Last-Event-ID."`
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

// LogEnd is the event that ends the stream of a log.
type LogEnd struct {
	Status string `json:"status" doc:"Of the execution."`
}
