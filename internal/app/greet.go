package app

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// greeting is the text that a process prints when it has started.
type greeting struct {
	Dev, Demo, TLS  bool
	Pages           bool // the dashboard is in the binary
	Store, Address  string
	Embedded        string   // the file of the embedded store; "": none
	Metrics         net.Addr // the separate metrics listener; nil: none
	Roles           []string
	Slots, MaxSlots int
	Targets         []string
	Allow           []netip.Prefix // private ranges that callbacks may reach
	Key             string         // the first API key, if it was just created
	SigningSecret   string         // the signing secret of callbacks, in dev
	Token           string         // of dev: the token for other users of the machine
	TokenFile       string
	Unknown         bool // this system does not reveal who connects, so everyone needs the token
}

// greet returns what runs where and what to type next.
func greet(w io.Writer, g greeting) {
	scheme := "http"
	if g.TLS {
		scheme = "https"
	}
	base := scheme + "://" + g.Address
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprint(&b, "\nCarillon is running.\n\n")
	if slices.Contains(g.Roles, "api") {
		if g.Pages {
			line("Open", "%s", g.open(base))
		} else {
			line("Open", "%s says how to get the dashboard; this build has none", base)
		}
		line("API", "%s/api/v1, described at %s/docs", base, base)
	}
	line("Health", "%s/readyz", base)
	line("Version", "%s", Version)
	if g.Metrics != nil {
		line("Metrics", "http://%s/metrics", hostPort(g.Metrics))
	}
	line("Store", "%s", g.Store)
	line("Roles", "%s", strings.Join(g.Roles, ", "))
	if slices.Contains(g.Roles, "worker") {
		line("Workers", "%d to %d slots in this process, for the targets %s", g.Slots, g.MaxSlots, strings.Join(g.Targets, ", "))
	}
	if g.SigningSecret != "" {
		line("Signing", "callbacks are signed with %s", g.SigningSecret)
	}
	if g.TokenFile != "" {
		line("Token", "in %s; only programs of other users of this machine need it", g.TokenFile)
	}
	if g.Key != "" {
		fmt.Fprintf(&b, "\nThe first API key, with role system, shown only once:\n\n  %s\n", g.Key)
	}
	if slices.Contains(g.Roles, "api") {
		auth, at := "", ""
		if !g.Dev {
			auth = " -H \"Authorization: Bearer $CARILLON_TOKEN\""
		} else if g.Unknown {
			auth = fmt.Sprintf(" -H \"Authorization: Bearer $(cat '%s')\"", g.TokenFile)
		}
		if g.Dev && g.Address != "127.0.0.1:8080" { // unless it is the command line's default
			at = " --server " + base
		}
		fmt.Fprint(&b, "\nTry it: create a job and see how it runs.\n\n")
		if !g.Dev {
			fmt.Fprintf(&b, "  carillon login %s\n", base)
		}
		fmt.Fprintf(&b, "  carillon job create hello --simulate noop --wait%s\n  carillon top%s\n\nOr with curl:\n\n", at, at)
		fmt.Fprintf(&b, "  curl -s%s %s/api/v1/jobs -d '{\"name\": \"hello\", \"execution\": {\"target\": \"simulate\", \"work_kind\": \"noop\"}}'\n", auth, base)
		fmt.Fprintf(&b, "  curl -s%s %s/api/v1/executions/<execution_id>\n", auth, base)
		if g.Demo {
			fmt.Fprint(&b, "\nSample jobs are running; one fails on purpose:\n\n")
			fmt.Fprintf(&b, "  carillon job list --tag demo%s\n", at)
			fmt.Fprintf(&b, "  carillon dlq list%s\n", at)
		}
	}
	if slices.Contains(g.Roles, "api") {
		g.more(&b, base)
	}
	fmt.Fprint(&b, "\nCtrl-C stops it once running executions have ended. Accepted jobs are kept, even after a crash.\n\n")
	io.WriteString(w, b.String())
}

// open returns the address for a browser; the token in it becomes a cookie.
func (g greeting) open(base string) string {
	if g.Token == "" {
		return base
	}
	return base + "/?token=" + g.Token
}

// more lists suggested next steps for dev, one per line.
func (g greeting) more(b *strings.Builder, base string) {
	token := " --token $CARILLON_TOKEN"
	if g.Dev {
		token = "" // the worker finds this server's token by itself
	}
	fmt.Fprint(b, "\nNext steps:\n\n")
	fmt.Fprintf(b, "  a worker     carillon worker --server %s%s --capacity 50%s\n", base, token, g.callbackFlags())
	if g.Embedded != "" {
		fmt.Fprintf(b, "  PostgreSQL   carillon move --database sqlite:%s --to postgres://USER:PASSWORD@HOST/NAME\n", g.Embedded)
	}
	if g.Dev && g.Embedded != "" {
		fmt.Fprintf(b, "  an API key   carillon serve --database sqlite:%s requires one, and prints the first\n", g.Embedded)
	} else if !g.Dev {
		fmt.Fprint(b, "  an API key   carillon key create NAME --role operator\n")
	}
}

// callbackFlags returns flags that let a worker call what this process may call: a job must not depend on who runs it.
func (g greeting) callbackFlags() string {
	all := g.Allow
	if g.Dev {
		all = append([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, all...)
	}
	var b strings.Builder
	for _, p := range all {
		b.WriteString(" --allow-callback " + p.String())
	}
	return b.String()
}

// embeddedFile returns the file of an embedded database; "" if it is on a server.
func embeddedFile(database string) string {
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		return path
	}
	return ""
}
