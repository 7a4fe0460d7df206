package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// picture holds the content of the live view at one instant.
type picture struct {
	at      time.Time
	server  string
	version string
	workers []client.Worker
	load    *client.Scaling     // nil: not for this role
	day     *client.QueueStatus // nil: not for this role, or unknown to this server
	dead    client.DeadLetters
	jobs    client.Jobs
	coming  []client.ForecastMinute
	rates   []rate // of the previous pictures, latest last
	problem string // why it is not of now
}

// rate is the number of executions that ended per second.
type rate struct{ done, failed float64 }

const keptRates = 60

func (s operateCommands) topCommand() *cobra.Command {
	every := 2 * time.Second
	var once bool
	c := &cobra.Command{
		Use: "top", Short: "Watch rates, queues, workers, failures and upcoming runs live", Args: cobra.NoArgs,
		Long: "Watch rates, queues, workers, failures and upcoming runs live. Press q or Ctrl-C to quit. If standard output is not a terminal, prints once, as with --once.",
	}
	s.flags(c)
	c.Flags().DurationVar(&every, "every", every, "refresh interval")
	c.Flags().BoolVar(&once, "once", false, "print once and exit")
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if every < 200*time.Millisecond {
			return usage{fmt.Errorf("--every %s: want 200ms or more", every)}
		}
		w := &watch{s: s.session, c: c}
		p, err := s.where()
		if err != nil {
			return err
		}
		w.server = strings.Join(p.servers, ", ")
		out, ok := s.out.(*os.File)
		if once || !ok || !drawable(out) {
			now, err := w.look(ctx)
			if err != nil {
				return err
			}
			_, err = io.WriteString(s.out, now.draw(100, 0, func(text, _ string) string { return text }))
			return err
		}
		return w.live(ctx, out, every)
	})
	return c
}

// watch refreshes repeatedly.
type watch struct {
	s      *session
	c      *client.Client
	server string

	last  picture
	past  []tally   // of the last rateWindow, earliest first
	asked time.Time // when the forecast was
}

// tally counts the completed and failed executions at an instant, by worker.
type tally struct {
	at    time.Time
	ended map[string][2]int64
}

// rateWindow is the period over which a rate is computed: workers report their counts with their heartbeats, which
// come every few seconds.
const rateWindow = 15 * time.Second

// look reads a picture.
func (w *watch) look(ctx context.Context) (p picture, err error) {
	p = picture{at: w.s.now(), server: w.server, rates: w.last.rates, coming: w.last.coming}
	h, err := w.c.Health(ctx)
	if err != nil {
		return p, err
	}
	p.version = h.Version
	for x, err := range w.c.Workers(ctx) {
		if err != nil {
			return p, err
		}
		if x.Status != "DEAD" {
			p.workers = append(p.workers, x)
		}
	}
	load, err := w.c.Scaling(ctx)
	switch {
	case err == nil:
		p.load = &load
	case !errors.Is(err, client.ErrForbidden):
		return p, err
	}
	day, err := w.c.QueueStatus(ctx, 0)
	switch {
	case err == nil:
		p.day = &day
	case !errors.Is(err, client.ErrForbidden) && !errors.Is(err, client.ErrNotFound):
		return p, err
	}
	if p.dead, err = w.c.ListDeadLetters(ctx, client.DeadLetterFilter{}, client.Page{Limit: 5}); err != nil {
		return p, err
	}
	if p.jobs, err = w.c.ListJobs(ctx, client.JobFilter{Status: "ACTIVE"}, client.Page{Limit: 200}); err != nil {
		return p, err
	}
	if w.asked.IsZero() || p.at.Sub(w.asked) > 30*time.Second {
		f, err := w.c.Forecast(ctx, 1)
		if err != nil {
			return p, err
		}
		p.coming, w.asked = f.Minutes, p.at
	}
	w.count(&p)
	w.last = p
	return p, nil
}

// count adds the rate of the last rateWindow.
func (w *watch) count(p *picture) {
	now := tally{p.at, map[string][2]int64{}}
	for _, x := range p.workers {
		now.ended[x.WorkerID] = [2]int64{x.Completed, x.Failed}
	}
	for len(w.past) > 1 && now.at.Sub(w.past[1].at) >= rateWindow {
		w.past = w.past[1:]
	}
	if len(w.past) > 0 {
		p.rates = append(slices.Clone(p.rates), now.since(w.past[0]))
		p.rates = p.rates[max(0, len(p.rates)-keptRates):]
	}
	w.past = append(w.past, now)
}

// since returns the rate between two tallies, over workers that are in both.
func (t tally) since(was tally) (r rate) {
	took := t.at.Sub(was.at).Seconds()
	for id, now := range t.ended {
		if before, ok := was.ended[id]; ok && took > 0 {
			r.done += float64(now[0]-before[0]) / took
			r.failed += float64(now[1]-before[1]) / took
		}
	}
	return r
}

// live draws until it is told to stop.
func (w *watch) live(ctx context.Context, out *os.File, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f, ok := w.s.in.(*os.File); ok && terminal(f) {
		if restore, err := keystrokes(f); err == nil {
			defer restore()
			go func() {
				in := bufio.NewReader(f)
				for {
					if b, err := in.ReadByte(); err != nil || b == 'q' || b == 'Q' {
						cancel()
						return
					}
				}
			}()
		}
	}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // the alternate screen, without a cursor
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	paint := func(text, colour string) string {
		if !coloured(out) {
			return text
		}
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		p, err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			p = w.last
			p.server, p.problem = w.server, err.Error()
		}
		columns, rows := terminalWidth(out)
		text := p.draw(cmp.Or(columns, 100), cmp.Or(rows, 40), paint)
		fmt.Fprint(out, "\x1b[H"+strings.ReplaceAll(text, "\n", "\x1b[K\r\n")+"\x1b[J")
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// draw returns the picture as text of the given number of columns and, unless 0, rows. paint colours a text.
func (p picture) draw(columns, rows int, paint func(text, colour string) string) string {
	var b strings.Builder
	head := fmt.Sprintf("Carillon %s at %s", p.version, p.server)
	at := p.at.UTC().Format("15:04:05 UTC")
	fmt.Fprintf(&b, "%s%s%s\n", paint(cut(head, columns-len(at)-2), "1"), strings.Repeat(" ", max(2, columns-utf8.RuneCountInString(head)-len(at))), at)
	if p.problem != "" {
		fmt.Fprintln(&b, paint(cut(line("not of now: "+p.problem), columns), "31"))
	}
	running, slots := 0, 0
	for _, w := range p.workers {
		running, slots = running+w.Running, slots+w.Capacity
	}
	waiting := "-"
	if p.load != nil {
		waiting = fmt.Sprint(p.load.Waiting)
	}
	var now rate
	if len(p.rates) > 0 {
		now = p.rates[len(p.rates)-1]
	}
	dead := fmt.Sprintf("dead letters %d", p.dead.Pagination.Total)
	if p.dead.Pagination.Total > 0 {
		dead = paint(dead, "31")
	}
	fmt.Fprintf(&b, "waiting %s   running %d/%d   workers %d   done %.1f/s   failed %.1f/s   %s\n", waiting, running, slots, len(p.workers), now.done, now.failed, dead)
	if d := p.day; d != nil {
		oldest := "nothing waits"
		if d.OldestPendingSeconds != nil {
			oldest = "the oldest for " + seconds(*d.OldestPendingSeconds)
		}
		fmt.Fprintf(&b, "24 h: %d done, %d failed, %d retried   wait %s on average, %s\n", d.Completed24h, d.Failed24h, d.Retried24h, seconds(d.AverageWaitSeconds), oldest)
	}
	var done []int64
	for _, r := range p.rates {
		done = append(done, int64(10*r.done))
	}
	fmt.Fprintf(&b, "done a second  %s\nnext 60 min    %s\n", paint(spark(done, 60), "32"), paint(spark(p.perMinute(), 60), "36"))

	room := func(n int) int { // each part has a fair share of the rows
		if rows == 0 {
			return n
		}
		return max(1, min(n, (rows-12)/4))
	}
	part := func(title string, n int, table [][]string) {
		if len(table) == 1 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", paint(title, "1"))
		var t strings.Builder
		_ = align(&t, table[:min(len(table), n+1)], func(s string) string { return s })
		for text := range strings.Lines(t.String()) {
			fmt.Fprintln(&b, cut(strings.TrimRight(text, " \n"), columns))
		}
	}
	if p.load != nil {
		queues := [][]string{{"QUEUE", "WAITING", "RUNNING", "SLOTS"}}
		for _, q := range slices.SortedFunc(slices.Values(p.load.Queues), func(a, b client.QueueScaling) int {
			return cmp.Or(b.Waiting-a.Waiting, strings.Compare(a.Queue, b.Queue))
		}) {
			queues = append(queues, []string{line(q.Queue), fmt.Sprint(q.Waiting), fmt.Sprint(q.Running), fmt.Sprint(q.Slots)})
		}
		part("Queues", room(8), queues)
	}
	workers := [][]string{{"WORKER", "HOST", "STATUS", "LOAD", "DONE", "FAILED ATTEMPTS", "BEAT"}}
	for _, w := range slices.SortedFunc(slices.Values(p.workers), func(a, b client.Worker) int {
		return cmp.Or(b.Running-a.Running, strings.Compare(a.WorkerID, b.WorkerID))
	}) {
		workers = append(workers, []string{w.WorkerID, line(w.Host), w.Status, fmt.Sprintf("%s %d/%d", bar(int64(w.Running), int64(w.Capacity), 8), w.Running, w.Capacity), fmt.Sprint(w.Completed), fmt.Sprint(w.Failed), ago(w.LastBeatAt, p.at)})
	}
	part("Workers", room(8), workers)
	part("Next fires", room(8), p.next())
	letters := [][]string{{"DIED", "JOB", "EXECUTION", "ERROR"}}
	for _, d := range p.dead.DeadLetters {
		letters = append(letters, []string{ago(d.DeadLetteredAt, p.at), cut(line(d.JobName), 24), d.ExecutionID, line(lastError(d))})
	}
	part("Latest dead letters", room(5), letters)
	return b.String()
}

func seconds(x float64) string { return span(time.Duration(x * float64(time.Second))) }

// next lists the jobs that fire next.
func (p picture) next() [][]string {
	jobs := slices.DeleteFunc(slices.Clone(p.jobs.Jobs), func(j client.Job) bool { return j.Schedule.NextRunAt == nil })
	slices.SortStableFunc(jobs, func(a, b client.Job) int { return a.Schedule.NextRunAt.Compare(*b.Schedule.NextRunAt) })
	out := [][]string{{"IN", "JOB", "SCHEDULE", "LAST"}}
	for _, j := range jobs {
		out = append(out, []string{strings.TrimPrefix(ago(*j.Schedule.NextRunAt, p.at), "in "), cut(line(j.Name), 40), cut(line(scheduleWords(j.Schedule)), 30), dash(or(j.Stats.LastStatus, ""))})
	}
	return out
}

// perMinute returns how many jobs fire in each of the next 60 minutes.
func (p picture) perMinute() []int64 {
	out := make([]int64, 60)
	for _, m := range p.coming {
		if i := int(m.At.Sub(p.at.Truncate(time.Minute)) / time.Minute); i >= 0 && i < len(out) {
			out[i] += m.Count
		}
	}
	return out
}

// spark draws numbers as bars: as many of the last ones as fit.
func spark(values []int64, width int) string {
	values = values[max(0, len(values)-width):]
	most := int64(1)
	for _, v := range values {
		most = max(most, v)
	}
	levels := []rune(" ▁▂▃▄▅▆▇█")
	out := make([]rune, len(values))
	for i, v := range values {
		k := int(v * int64(len(levels)-1) / most)
		if v > 0 {
			k = max(k, 1)
		}
		out[i] = levels[max(0, k)]
	}
	return string(out)
}
