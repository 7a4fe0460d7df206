package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docsCommand writes the reference of all commands, for the repository and for packagers.
func docsCommand(*session) *cobra.Command {
	var markdown, man string
	c := &cobra.Command{
		Use: "docs", Short: "Write the reference of all commands", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if markdown != "" {
				if err := os.WriteFile(markdown, reference(c.Root()), 0o644); err != nil {
					return err
				}
			}
			if man == "" {
				return nil
			}
			if err := os.MkdirAll(man, 0o755); err != nil {
				return err
			}
			for _, x := range tree(c.Root()) {
				if err := os.WriteFile(filepath.Join(man, manName(x)+".1"), manPage(x), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&markdown, "markdown", "", "file for all commands in one")
	c.Flags().StringVar(&man, "man", "", "folder for man pages, one a command")
	return c
}

// tree returns a command and all visible ones below it.
func tree(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			out = append(out, tree(sub)...)
		}
	}
	return out
}

// exitCodes is the table of exit codes, for every form of the reference.
var exitCodes = []struct {
	code int
	what string
}{
	{done, "done"},
	{failed, "the command failed"},
	{misuse, "bad usage or settings, or the server rejected the request as invalid"},
	{notFound, "not found"},
	{denied, "the credential is missing, rejected, or not allowed to do this"},
	{conflict, "conflict: its state, or a change by someone else, does not allow this"},
	{unavailable, "no server answers, or it asks to retry later"},
	{runFailed, "the awaited execution or operation did not succeed"},
	{stopped, "stopped by Ctrl-C"},
}

// variables lists the environment variables.
var variables = [][2]string{
	{"CARILLON_SERVER", "server addresses, separated by commas"},
	{"CARILLON_TOKEN", "API key"},
	{"CARILLON_TOKEN_FILE", "file with the API key, if CARILLON_TOKEN is not set"},
	{"CARILLON_TENANT", "tenant to act in; needs the role system"},
	{"CARILLON_CONTEXT", "context to use"},
	{"NO_COLOR", "set to anything to turn colours off"},
}

// reference returns all commands as one page.
func reference(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# The command line\n\nGenerated from the commands by `make docs`; do not edit.\n\n")
	b.WriteString("Data goes to standard output, messages go to standard error. Every command that reads takes `-o table|wide|json|jsonl|yaml|name`; every\n" +
		"command that writes takes `--dry-run`; what cannot be undone asks for confirmation, or takes `--yes`. Name a job by its id, key or name. Commands\n" +
		"that only read executions also take a job, and show its latest execution. Without `--server`, `CARILLON_SERVER` and a context, the server is\n" +
		"`" + localServer + "`.\n\n")
	b.WriteString("| exit code | meaning |\n| --- | --- |\n")
	for _, x := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", x.code, x.what)
	}
	b.WriteString("\n| variable | meaning |\n| --- | --- |\n")
	for _, v := range variables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", v[0], v[1])
	}
	b.WriteString("\nShell completion, including names: `carillon completion bash|zsh|fish|powershell --help` explains how to install it.\n")
	for _, c := range tree(root)[1:] {
		fmt.Fprintf(&b, "\n%s `%s`\n\n%s.\n", strings.Repeat("#", 1+strings.Count(c.CommandPath(), " ")), strings.TrimSuffix(c.UseLine(), " [flags]"), strings.TrimSuffix(c.Short, "."))
		if c.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Long)
		}
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", outdent(c.Example))
		}
		if c.HasSubCommands() {
			continue
		}
		if rows := flagRows(c.NonInheritedFlags()); len(rows) > 0 {
			b.WriteString("\n| flag | |\n| --- | --- |\n")
			for _, r := range rows {
				fmt.Fprintf(&b, "| `%s` | %s |\n", r[0], strings.ReplaceAll(r[1], "|", "\\|"))
			}
		}
	}
	return b.Bytes()
}

func outdent(s string) string {
	var out []string
	for text := range strings.Lines(s) {
		out = append(out, strings.TrimPrefix(strings.TrimRight(text, "\n"), "  "))
	}
	return strings.Join(out, "\n")
}

// flagRows lists flags and their descriptions.
func flagRows(fs *pflag.FlagSet) (rows [][2]string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, doc := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		switch f.DefValue {
		case "", "0", "false", "[]", "0s":
		default:
			doc += " (default " + f.DefValue + ")"
		}
		rows = append(rows, [2]string{name, doc})
	})
	return rows
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command.
func manPage(c *cobra.Command) []byte {
	var b bytes.Buffer
	esc := strings.NewReplacer("\\", "\\e", "-", "\\-", "\n.", "\n\\&.", "\n'", "\n\\&'").Replace
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"carillon\" \"Carillon\"\n", strings.ToUpper(esc(manName(c))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", esc(manName(c)), esc(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", esc(c.UseLine()))
	if c.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		for i, paragraph := range strings.Split(c.Long, "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			fmt.Fprintln(&b, esc(paragraph))
		}
	}
	if rows := append(flagRows(c.NonInheritedFlags()), flagRows(c.InheritedFlags())...); len(rows) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, r := range rows {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", esc(r[0]), esc(r[1]))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", esc(outdent(c.Example)))
	}
	fmt.Fprint(&b, ".SH EXIT STATUS\n")
	for _, x := range exitCodes {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", x.code, esc(x.what))
	}
	fmt.Fprint(&b, ".SH ENVIRONMENT\n")
	for _, v := range variables {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", esc(v[0]), esc(v[1]))
	}
	if c.HasParent() || c.HasSubCommands() {
		var also []string
		if c.HasParent() {
			also = append(also, manName(c.Parent()))
		}
		for _, sub := range tree(c)[1:] {
			if sub.Parent() == c {
				also = append(also, manName(sub))
			}
		}
		for i, name := range also {
			also[i] = "\\fB" + esc(name) + "\\fP(1)"
		}
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.Bytes()
}
