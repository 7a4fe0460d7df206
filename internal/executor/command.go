package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/command"
)

const typeExit = "EXIT_CODE"

// command runs a program and judges how it ended.
func (e *Executor) command(ctx context.Context, a client.Attempt) client.Outcome {
	end, err := e.commands.Run(ctx, a)
	if ctx.Err() != nil {
		o := ended(ctx, a)
		o.Error.Message += afterwards(end)
		return o
	}
	var no *command.NotRun
	switch {
	case errors.As(err, &no):
		return failed(typeHandler, false, no.Why)
	case err != nil:
		return failed(typeInternal, true, "the command could not be run: "+err.Error())
	case end.Full && (end.Signal != "" || end.Exit != 0): // a command that recovered has succeeded
		return failed(typeExit, true, "the command used more memory than commands.max_memory_mb allows"+afterwards(end))
	case end.Signal != "":
		return failed(typeExit, true, "the command was ended by "+end.Signal+afterwards(end))
	case end.Exit != 0:
		return failed(typeExit, true, fmt.Sprintf("the command ended with exit code %d", end.Exit)+afterwards(end))
	}
	o := succeeded()
	o.Result = end.Result
	return o
}

// afterwards returns the end of a command's standard error, in the form in which it follows a message.
func afterwards(e command.Ended) string {
	if e.Tail == "" {
		return ""
	}
	line := strings.Map(func(r rune) rune {
		if control(r) || r == '\t' || r == '\r' {
			return '\ufffd'
		}
		return r
	}, strings.ReplaceAll(strings.ReplaceAll(e.Tail, "\t", " "), "\n", " | "))
	return "; standard error ends with: " + line
}
