package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/config"
)

// The exit codes.
const (
	done        = 0
	failed      = 1 // the request could not be carried out
	misuse      = 2 // bad usage or settings; the server found the request invalid
	notFound    = 3
	denied      = 4
	conflict    = 5
	unavailable = 6   // nothing answers, or the server asks to retry later
	runFailed   = 7   // the awaited execution or operation did not succeed
	stopped     = 130 // by Ctrl-C
)

// usage is an error that better arguments or settings would fix.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// unconfirmed means that nobody confirmed a change.
type unconfirmed struct{ error }

// interrupted means that Ctrl-C ended a command.
type interrupted struct{ error }

// unreachable is an error of the connection to a server.
type unreachable struct {
	place
	do  string // the remedy, if it is not the usual one
	err error
}

func (u unreachable) Error() string { return u.err.Error() }
func (u unreachable) Unwrap() error { return u.err }

// lost is the error that an awaited execution or operation did not succeed.
type lost struct{ error }

// missing is the error that a named thing does not exist.
type missing struct{ error }

// exit prints the error of a command with its cause and remedy, and returns the exit code.
func exit(c *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return done
	}
	var wrong config.Mistakes
	var p *client.Problem
	var far unreachable
	tell := func(code int) int {
		fmt.Fprintf(stderr, "carillon: %s\n", lines(err.Error()))
		return code
	}
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "carillon: the settings are invalid:\n%s\n", indent(wrong.Error()))
		return misuse
	case errors.As(err, new(usage)) || strings.HasPrefix(err.Error(), "unknown command"):
		path := "carillon"
		if c != nil {
			path = c.CommandPath()
		}
		fmt.Fprintf(stderr, "carillon: %s\nRun '%s --help' for usage.\n", lines(err.Error()), path)
		return misuse
	case errors.As(err, new(unconfirmed)):
		return tell(misuse)
	case errors.As(err, new(interrupted)):
		return stopped
	case errors.As(err, new(lost)):
		return tell(runFailed)
	case errors.As(err, new(missing)):
		return tell(notFound)
	case errors.As(err, &p):
		return tellProblem(c, p, stderr)
	case errors.As(err, &far):
		do := "Start one with 'carillon dev', or give an address with --server, CARILLON_SERVER or 'carillon login URL'."
		if far.do != "" {
			do = far.do
		} else if far.from != "the default" {
			do = "The address comes from " + far.from + ". Is the server running there? 'carillon doctor' checks."
		}
		fmt.Fprintf(stderr, "carillon: no server answers at %s\n  why: %s\n  do:  %s\n", strings.Join(far.servers, ", "), plain(reason(far.err)), do)
		return unavailable
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return tell(unavailable)
	}
	return tell(failed)
}

// reason is the innermost part of an error.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, "\": "); i >= 0 { // after the method and the URL
		text = text[i+3:]
	}
	return text
}

// tellProblem prints a server's error response.
func tellProblem(c *cobra.Command, p *client.Problem, w io.Writer) int {
	detail := p.Detail
	code, do := failed, ""
	switch {
	case errors.Is(p, client.ErrInvalid):
		code = misuse
		if len(p.Errors) > 0 {
			detail, _, _ = strings.Cut(detail, ":")
			detail += ":"
		}
	case errors.Is(p, client.ErrUnauthorized):
		code, do = denied, "Sign in with 'carillon login URL', or give a key with --token or CARILLON_TOKEN."
	case p.Code == "over_quota":
		code, do = denied, "Delete something, or ask an administrator to raise the quota."
	case errors.Is(p, client.ErrForbidden):
		code, do = denied, "Use a key whose role allows this; 'carillon context list' shows the contexts you have."
	case errors.Is(p, client.ErrNotFound):
		code = notFound
		if strings.HasPrefix(detail, "This run has no node") {
			do = "'carillon run get RUN' lists the nodes of a run."
		} else if list := lister(c); list != "" {
			do = "Look for it with '" + list + "', which lists only your own tenant."
		}
	case p.Status == http.StatusPreconditionFailed:
		code, do = conflict, "Load it again, then decide."
	case errors.Is(p, client.ErrConflict):
		code = conflict
	case errors.Is(p, client.ErrLimited), errors.Is(p, client.ErrUnavailable):
		code, do = unavailable, "Try again in a moment."
		if p.RetryAfter > 0 {
			do = "Try again in " + span(p.RetryAfter) + "."
		}
	}
	fmt.Fprintf(w, "carillon: %s\n", plain(detail))
	for _, f := range p.Errors {
		field := typed(c, cmp.Or(f.Field, "the body"))
		if f.Value == "" {
			fmt.Fprintf(w, "  %s: want %s\n", plain(field), plain(f.Want))
		} else {
			fmt.Fprintf(w, "  %s is %q; want %s\n", plain(field), f.Value, plain(f.Want))
		}
	}
	if do != "" {
		fmt.Fprintf(w, "  do: %s\n", do)
	}
	if p.RequestID != "" {
		fmt.Fprintf(w, "  request: %s\n", plain(p.RequestID))
	}
	return code
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
