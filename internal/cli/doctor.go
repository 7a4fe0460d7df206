package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// finding is one result of the doctor.
type finding struct {
	State   string `json:"state"` // ok, warning, problem
	Check   string `json:"check"`
	Finding string `json:"finding"`
	Fix     string `json:"fix,omitempty"`
}

// doctor looks for problems.
type doctor struct {
	s        *session
	p        place
	data     string
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{"ok", check, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) warn(check, found, fix string) {
	d.findings = append(d.findings, finding{"warning", check, found, fix})
}

func (d *doctor) problem(check, found, fix string) {
	d.findings = append(d.findings, finding{"problem", check, found, fix})
}

func (s operateCommands) doctorCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use: "doctor", Short: "Find problems and say how to fix them", Args: cobra.NoArgs,
		Long: "Check the connection, the server, its workers and its jobs, and say how to fix each problem. Exits with 1 if there is a problem.",
	}
	s.flags(c)
	c.Flags().StringVar(&data, "data", "./carillon-data", "folder of the embedded store, if the server runs on this machine")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := s.where()
		if err != nil {
			return err
		}
		if _, err := s.client(); err != nil {
			return err
		}
		d := &doctor{s: s.session, p: p, data: data}
		d.examine(cmd.Context())
		if err := d.print(); err != nil {
			return err
		}
		n := 0
		for _, f := range d.findings {
			if f.State == "problem" {
				n++
			}
		}
		if n > 0 {
			return fmt.Errorf("there are problems: %d", n)
		}
		return nil
	}
	return c
}

func (d *doctor) print() error {
	if d.s.output != "table" && d.s.output != "wide" {
		_, err := show(d.s, view[finding]{id: func(f finding) string { return f.State + " " + f.Check }}, each(d.findings))
		return err
	}
	for _, f := range d.findings {
		if _, err := fmt.Fprintf(d.s.out, "%s%s  %s: %s\n", d.s.paint(f.State), strings.Repeat(" ", 7-len(f.State)), f.Check, line(f.Finding)); err != nil {
			return err
		}
		if f.Fix != "" {
			fmt.Fprintf(d.s.out, "         do: %s\n", line(f.Fix))
		}
	}
	return nil
}

// examine checks from the outside in: it skips what is unreachable.
func (d *doctor) examine(ctx context.Context) {
	d.key()
	d.disk()
	if !d.servers(ctx) {
		return
	}
	c, err := d.s.client(client.WithRetries(client.Retries{}))
	if err != nil {
		d.problem("settings", err.Error(), "")
		return
	}
	if ready, err := c.Ready(ctx); err != nil {
		d.problem("store", "the server says that it is not ready: "+detail(err), "Look at the server's log: its database may be down, full, or of another version.")
	} else {
		d.ok("store", "reachable, and its migrations are current")
		for _, text := range ready.Warnings {
			d.warn("server", text, "Look at the server's log, and at carillon_replication_behind_seconds.")
		}
	}
	if _, err := c.ListJobs(ctx, client.JobFilter{}, client.Page{Limit: 1}); err != nil {
		fix := "Try again in a moment."
		if errors.Is(err, client.ErrUnauthorized) || errors.Is(err, client.ErrForbidden) {
			fix = "Sign in with 'carillon login " + d.p.servers[0] + "', or give a key of the role viewer or more with --token or CARILLON_TOKEN."
		}
		d.problem("access", detail(err), fix)
		return
	}
	d.ok("access", "the server takes the credential, or needs none")
	workers, ok := d.workers(ctx, c)
	if ok {
		d.jobs(ctx, c, workers)
	}
	d.schedules(ctx, c)
	d.queues(ctx, c)
	d.rules(ctx, c)
	d.letters(ctx, c)
}

func detail(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Detail
	}
	return reason(err)
}

// servers asks every server whether it is up, and for its version and time.
func (d *doctor) servers(ctx context.Context) (answered bool) {
	secure, err := d.p.tls.Config()
	if err != nil {
		d.problem("certificates", err.Error(), "Name other files with --tls-cert, --tls-key and --tls-ca.")
		return false
	}
	for _, server := range d.p.servers {
		c := client.New([]string{server}, "", client.WithRetries(client.Retries{}), client.WithTLS(secure))
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		began := d.s.now()
		h, err := c.Health(short)
		cancel()
		if err != nil {
			d.problem("server", server+" does not answer: "+detail(err), "Start it ('carillon dev', or 'carillon serve'), or name another with --server. The address is from "+d.p.from+".")
			continue
		}
		answered = true
		d.ok("server", "%s answers, within %s", server, span(d.s.now().Sub(began)))
		if h.Version != app.Version {
			d.warn("version", fmt.Sprintf("%s has version %s, this command line %s", server, h.Version, app.Version), "Use the same version on both sides; the server is upgraded first.")
		} else {
			d.ok("version", "%s on both sides", h.Version)
		}
		switch skew := h.At.Sub(began).Abs(); {
		case h.At.IsZero():
		case skew > 30*time.Second:
			d.problem("clock", fmt.Sprintf("the clock of %s differs from this machine's by %s", server, span(skew)), "Synchronise both clocks, with chrony or systemd-timesyncd; schedules follow the server's store.")
		case skew > 3*time.Second:
			d.warn("clock", fmt.Sprintf("the clock of %s differs from this machine's by about %s", server, span(skew)), "Synchronise both clocks, with chrony or systemd-timesyncd.")
		default:
			d.ok("clock", "the same on both sides, within 3s")
		}
	}
	return answered
}

// key checks how the credential is stored and sent.
func (d *doctor) key() {
	for _, server := range d.p.servers {
		u, err := url.Parse(server)
		if err == nil && u.Scheme == "http" && d.p.token != "" && !local(u.Hostname()) {
			d.warn("access", "the key is sent to "+server+" without encryption", "Give the server a certificate (--tls-cert, --tls-key) or put it behind a proxy that has one, and use https://.")
		}
	}
	file, err := contextsFile()
	if err != nil {
		return
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		d.warn("contexts", fmt.Sprintf("others can read %s, which holds keys", file), "chmod 600 "+file)
	}
}

func local(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// disk checks the free space beside the embedded store.
func (d *doctor) disk() {
	if _, err := os.Stat(d.data); err != nil {
		return
	}
	free, all, ok := room(d.data)
	if !ok {
		return
	}
	text := fmt.Sprintf("%.1f GB of %.1f GB are free at %s", float64(free)/1e9, float64(all)/1e9, d.data)
	switch {
	case free < 200<<20:
		d.problem("disk", text, "Free some space, or move the folder: without space nothing can be accepted.")
	case free < 2<<30 || free < all/20:
		d.warn("disk", text, "Free some space, or move the folder to a larger disk.")
	default:
		d.ok("disk", "%s", text)
	}
}

func (d *doctor) workers(ctx context.Context, c *client.Client) (living []client.Worker, ok bool) {
	slots, silent, able := 0, 0, 0
	for w, err := range c.Workers(ctx) {
		if err != nil {
			d.problem("workers", detail(err), "")
			return nil, false
		}
		if w.Status == "DEAD" {
			continue
		}
		living = append(living, w)
		if takes(w) {
			able++
			slots += w.Capacity
		}
		if d.s.now().Sub(w.LastBeatAt) > time.Minute {
			silent++
		}
	}
	switch {
	case len(living) == 0:
		d.problem("workers", "there are none: nothing runs", "Start one with 'carillon worker --server "+d.p.servers[0]+" --token KEY', or a server with the role worker.")
	case silent > 0:
		d.warn("workers", fmt.Sprintf("%d of %d have sent no heartbeat for a minute", silent, len(living)), "'carillon workers list' shows which; look at their machines and clocks.")
	case able == 0:
		d.problem("workers", fmt.Sprintf("all %d are draining or cordoned: nothing new starts", len(living)), "'carillon workers list' shows them. Start one, or let one take work again with 'carillon workers uncordon'.")
	case able < len(living):
		d.ok("workers", "%d, with %d slots; %d more are draining or cordoned", able, slots, len(living)-able)
	default:
		d.ok("workers", "%d, with %d slots", able, slots)
	}
	return living, true
}

// takes reports whether a worker is given new executions.
func takes(w client.Worker) bool {
	return w.Status == "ACTIVE" || w.Status == "IDLE" || w.Status == "BUSY"
}

const leavingOnly = "all workers that could run them are draining or cordoned"

// lacking names the reason why no worker runs a job; "" if one does, or if no worker takes anything.
func lacking(j client.Job, workers []client.Worker) string {
	able := slices.DeleteFunc(slices.Clone(workers), func(w client.Worker) bool { return !takes(w) })
	if len(able) == 0 {
		return ""
	}
	why := unserved(j, able)
	if why != "" && unserved(j, workers) == "" {
		return leavingOnly
	}
	return why
}

// jobs looks for jobs that no worker can run, and for failing ones.
func (d *doctor) jobs(ctx context.Context, c *client.Client, workers []client.Worker) {
	const most = 2000
	n := 0
	lacks := map[string][]string{}
	var failing []string
	for j, err := range c.Jobs(ctx, client.JobFilter{Status: "ACTIVE"}) {
		if err != nil {
			d.problem("jobs", detail(err), "")
			return
		}
		if n++; n > most {
			break
		}
		if why := lacking(j, workers); why != "" {
			lacks[why] = append(lacks[why], j.Name)
		}
		if x := or(j.Stats.LastStatus, ""); x == "FAILED" || x == "TIMED_OUT" {
			failing = append(failing, j.Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(lacks)) {
		if why == leavingOnly {
			d.problem("jobs", why+": "+some(lacks[why]), "Start another such worker; 'carillon workers list' shows which take no new work.")
			continue
		}
		d.problem("jobs", fmt.Sprintf("no worker has %s, which %s: %s", why, needed(len(lacks[why])), some(lacks[why])), "Start a worker that has it, or change the jobs.")
	}
	if len(failing) > 0 {
		d.warn("jobs", fmt.Sprintf("%d failed the last time: %s", len(failing), some(failing)), "'carillon execution explain JOB' says why; 'carillon execution logs JOB' what it wrote.")
	}
	if len(lacks) == 0 && len(failing) == 0 {
		d.ok("jobs", "there is a worker for each of %d, and none failed the last time", min(n, most))
	}
	if n > most {
		d.warn("jobs", fmt.Sprintf("only the newest %d were looked at", most), "")
	}
}

func needed(n int) string {
	if n == 1 {
		return "1 job needs"
	}
	return fmt.Sprintf("%d jobs need", n)
}

// some names the first few.
func some(names []string) string {
	text := strings.Join(names[:min(3, len(names))], ", ")
	if n := len(names) - 3; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// unserved returns what a job needs that no worker has; "" if a worker has it all.
func unserved(j client.Job, workers []client.Worker) string {
	if j.Execution.Target == "workflow" {
		return "" // servers begin its runs; their nodes wait for workers
	}
	best := "the target " + j.Execution.Target
	for _, w := range workers {
		switch {
		case !slices.Contains(w.Targets, j.Execution.Target):
		case j.Execution.Target == "worker" && !slices.Contains(w.Kinds, j.Execution.Kind):
			best = "a handler of the kind " + j.Execution.Kind
		case len(w.Queues) > 0 && !slices.Contains(w.Queues, j.Queue):
			best = "the queue " + j.Queue
		case slices.ContainsFunc(j.Labels, func(l string) bool { return !slices.Contains(w.Labels, l) }):
			best = "the labels " + strings.Join(j.Labels, ", ")
		default:
			return ""
		}
	}
	return best
}

// because returns the reason in parentheses after its subject.
func because(reason *string) string {
	if reason == nil {
		return ""
	}
	return " (" + line(*reason) + ")"
}

// queues looks for limits and pauses that hold work back, and for queues with too few workers.
func (d *doctor) queues(ctx context.Context, c *client.Client) {
	held := false
	for q, err := range c.Queues(ctx) {
		if err != nil {
			d.problem("queues", detail(err), "")
			return
		}
		switch {
		case q.Pause != nil:
			held = true
			d.warn("queues", fmt.Sprintf("the queue %s is paused since %s by %s, and holds %d back%s", q.Queue, exact(q.Pause.At), line(q.Pause.By), q.Waiting, because(q.Pause.Reason)), "Resume it with 'carillon queue resume "+q.Queue+"'.")
		case q.Waiting > 0 && q.MaxConcurrent != nil && q.Running >= *q.MaxConcurrent:
			held = true
			d.warn("queues", fmt.Sprintf("the limit of the queue %s (%d at once) holds %d back", q.Queue, *q.MaxConcurrent, q.Waiting), "Raise it with 'carillon queue limit "+q.Queue+" --max-concurrent N', or wait.")
		case q.Waiting > 10*max(1, q.Slots):
			held = true
			d.warn("queues", fmt.Sprintf("%d wait in the queue %s for %d slots", q.Waiting, q.Queue, q.Slots), "Start more workers for it.")
		}
	}
	if !held {
		d.ok("queues", "no limit or pause holds work back")
	}
}

// schedules reports what the overview found about schedules and delays. Other checks report the rest in more detail.
func (d *doctor) schedules(ctx context.Context, c *client.Client) {
	o, err := c.Overview(ctx)
	if err != nil {
		d.problem("schedules", detail(err), "")
		return
	}
	for _, f := range o.Findings {
		switch {
		case f.About != "schedules" && f.About != "delays":
		case f.Health != "ok":
			d.warn(f.About, f.Text, "'carillon job list --late' shows what is late now; a server with the role scheduler may be missing or overloaded.")
		case f.About == "schedules":
			d.ok(f.About, "%s", f.Text)
		}
	}
}

// rules looks for notification rules whose notifications cannot be sent.
func (d *doctor) rules(ctx context.Context, c *client.Client) {
	for r, err := range c.NotificationRules(ctx) {
		if err != nil {
			d.problem("notifications", detail(err), "")
			return
		}
		if r.Blocked != nil {
			d.problem("notifications", fmt.Sprintf("the rule %s may not call %s: its notifications end as BLOCKED_ADDRESS. %s", r.Name, r.CallbackURL, *r.Blocked), "Give it another URL with 'carillon notification set "+r.Name+"', or ask for the rules for callbacks to be changed.")
		}
	}
}

func (d *doctor) letters(ctx context.Context, c *client.Client) {
	page, err := c.ListDeadLetters(ctx, client.DeadLetterFilter{}, client.Page{Limit: 1})
	switch {
	case err != nil:
		d.problem("dead letters", detail(err), "")
	case page.Pagination.Total > 0:
		l := page.DeadLetters[0]
		d.warn("dead letters", fmt.Sprintf("%d; the latest is of %s, %s", page.Pagination.Total, l.JobName, ago(l.DeadLetteredAt, d.s.now())), "'carillon dlq list' shows them; 'carillon dlq redrive' runs them again, 'carillon dlq discard' discards them.")
	default:
		d.ok("dead letters", "none")
	}
}
