package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// PageMeasure holds how long a page took, in milliseconds.
type PageMeasure struct {
	Name    string  `json:"name"`
	Route   string  `json:"route,omitempty"` // none: a screen of several
	Callers int     `json:"callers"`         // who asked at once
	Asked   int     `json:"asked"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Goal    float64 `json:"goal_ms"` // for p99
	Met     bool    `json:"met"`
	Refused int     `json:"refused"` // not answered with 200
	Problem string  `json:"problem,omitempty"`
	// Disturbed counts the repeated requests because the host took CPU time away.
	Disturbed int `json:"disturbed"`

	group string
}

// title returns the title of a page.
func (p *PageMeasure) title() string {
	if p.Callers > 1 {
		return fmt.Sprintf("%s, %d callers", strings.TrimSpace(p.Name), p.Callers)
	}
	return strings.TrimSpace(p.Name)
}

// timed collects the times of the requests for a page.
type timed struct {
	PageMeasure
	mu   sync.Mutex
	took []time.Duration // guarded by mu, like refused
}

// get requests a page, and repeats the request if the host disturbed it.
func (t *timed) get(ctx context.Context, a *asker, path string) ([]byte, error) {
	var status int
	var body []byte
	var err error
	var took time.Duration
	n, ended := undisturbed(ctx, func() error {
		status, body, took, err = a.timed(ctx, path)
		return ctx.Err()
	})
	if ended != nil {
		return nil, ended
	}
	t.note(path, status, body, took, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Disturbed += n
	return body, nil
}

// timed makes a request, and returns its duration.
func (a *asker) timed(ctx context.Context, path string) (status int, body []byte, took time.Duration, err error) {
	began := time.Now()
	status, body, err = a.do(ctx, "GET", path, "")
	return status, body, time.Since(began), err
}

// note records the duration of a request, and whether it succeeded.
func (t *timed) note(path string, status int, body []byte, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
	switch {
	case err != nil:
		t.refuse(path, err.Error())
	case status != 200:
		t.refuse(path, fmt.Sprintf("%d: %.300s", status, body))
	}
}

func (t *timed) refuse(path, why string) {
	if t.Refused++; t.Problem == "" {
		t.Problem = "GET /api/v1" + path + ": " + why
	}
}

func (t *timed) measure() PageMeasure {
	m := t.PageMeasure
	m.Asked = len(t.took)
	m.P50, m.P99, m.Max = delayOf(t.took)
	m.Met = m.P99 < m.Goal && m.Refused == 0
	return m
}

// ask requests every page: one request at a time, page by page through long lists, screen by screen, and then all of
// them mixed by several callers at once.
func ask(ctx context.Context, a *asker, s *stock, o PagesOptions, rep *GoalReport) error {
	var asked atomic.Int64
	turned := walkPages * len(walks)
	end := watch(o.Options, "pages", 2*len(pageTable)*o.Samples+turned+len(screens)*o.Samples, func() int { return int(asked.Load()) })
	defer end()
	count := func(n int) { asked.Add(int64(n)) }
	if err := askAlone(ctx, a, s, o, rep, count); err != nil {
		return err
	}
	for _, w := range walks {
		t := &timed{PageMeasure: PageMeasure{Name: w.name, Route: w.route, Callers: 1, Goal: goalList, group: "long lists, one page after the other"}}
		if err := walkList(ctx, a, t, w.query, w.rows, w.id, count); err != nil {
			return err
		}
		rep.Pages = append(rep.Pages, t.measure())
	}
	for _, x := range screens {
		t := &timed{PageMeasure: PageMeasure{Name: x.name, Callers: 1, Goal: goalPage, group: "screens, until all that they ask for is there"}}
		for range o.Samples {
			if err := x.show(ctx, a, s, t); err != nil {
				return err
			}
			count(1)
		}
		rep.Pages = append(rep.Pages, t.measure())
	}
	return askTogether(ctx, a, s, o, rep, count)
}

// askAlone makes one request at a time, page by page.
func askAlone(ctx context.Context, a *asker, s *stock, o PagesOptions, rep *GoalReport, count func(int)) error {
	for _, p := range pageTable {
		t := &timed{PageMeasure: PageMeasure{Name: p.name, Route: p.route, Callers: 1, Goal: p.goal, group: "one request at a time"}}
		for range o.Samples {
			if _, err := t.get(ctx, a, p.path(s)); err != nil {
				return err
			}
			count(1)
		}
		rep.Pages = append(rep.Pages, t.measure())
	}
	return nil
}

// askTogether makes several callers request all pages in random order.
func askTogether(ctx context.Context, a *asker, s *stock, o PagesOptions, rep *GoalReport, count func(int)) error {
	all := make([]*timed, len(pageTable))
	var order []int
	for i, p := range pageTable {
		all[i] = &timed{PageMeasure: PageMeasure{Name: p.name, Route: p.route, Callers: o.Callers, Goal: p.goal, group: fmt.Sprintf("%d requests at once, of any pages", o.Callers)}}
		for range o.Samples {
			order = append(order, i)
		}
	}
	rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	err := each(ctx, o.Callers, len(order), func(ctx context.Context, n int) error {
		_, err := all[order[n]].get(ctx, a, pageTable[order[n]].path(s))
		count(1)
		return err
	})
	for _, t := range all {
		rep.Pages = append(rep.Pages, t.measure())
	}
	return err
}

// browserConnections is the number of requests that a browser makes to a server at once.
const browserConnections = 6

// show makes all requests of a screen.
func (x display) show(ctx context.Context, a *asker, s *stock, t *timed) error {
	parts := &timed{}
	var took time.Duration
	n, err := undisturbed(ctx, func() error {
		began := time.Now()
		for _, wave := range x.waves {
			err := each(ctx, browserConnections, len(wave), func(ctx context.Context, i int) error {
				path := pageNamed(wave[i]).path(s)
				status, body, took, err := a.timed(ctx, path)
				parts.note(path, status, body, took, err)
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		took = time.Since(began)
		return nil
	})
	if err != nil {
		return err
	}
	t.Disturbed += n
	t.took = append(t.took, took)
	if parts.Refused > 0 {
		if t.Refused++; t.Problem == "" {
			t.Problem = parts.Problem
		}
	}
	return nil
}

func pageNamed(name string) page {
	i := slices.IndexFunc(pageTable, func(p page) bool { return p.name == name })
	return pageTable[i]
}

// walkList pages through a list, and checks that nothing is repeated.
func walkList(ctx context.Context, a *asker, t *timed, query, rows, id string, count func(int)) error {
	seen := map[string]bool{}
	defer func() { count(max(0, walkPages-len(t.took))) }()
	for cursor, n := "", 0; n < walkPages; n++ {
		path := t.Route + "?" + query
		if cursor != "" {
			path += "&cursor=" + text(cursor)
		}
		body, err := t.get(ctx, a, path)
		if err != nil {
			return err
		}
		count(1)
		var got map[string]json.RawMessage
		var list []map[string]any
		var p struct {
			Next string `json:"next_cursor"`
		}
		if json.Unmarshal(body, &got) != nil || json.Unmarshal(got[rows], &list) != nil || json.Unmarshal(got["pagination"], &p) != nil {
			t.refuse(path, "no page of a list was answered")
			return nil
		}
		for _, row := range list {
			key := fmt.Sprint(row[id])
			if row[id] == nil || seen[key] {
				t.refuse(path, key+" came twice, or has no id")
			}
			seen[key] = true
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	return nil
}

// Unanswered is the error that requests failed.
type Unanswered struct {
	Requests, Refused int
	Problem           string // the first one
}

func (u Unanswered) Error() string {
	return fmt.Sprintf("%d of %d requests were not answered with 200, or not as they should be, such as %s", u.Refused, u.Requests, u.Problem)
}

// requests sums up the pages.
func (r GoalReport) requests() (u Unanswered) {
	for _, p := range r.Pages {
		u.Requests += p.Asked
		if u.Refused += p.Refused; u.Problem == "" {
			u.Problem = p.Problem
		}
	}
	return u
}

// refused returns Unanswered if a request failed.
func (r GoalReport) refused() error {
	if u := r.requests(); u.Refused > 0 {
		return u
	}
	return nil
}

// answered returns the last line of a report of pages, and its colour.
func (r GoalReport) answered() (text, code string) {
	u := r.requests()
	met := 0
	for _, p := range r.Pages {
		if p.Met {
			met++
		}
	}
	text = fmt.Sprintf("%s pages and screens asked for over %s executions; %d of %d within their goal", thousands(u.Requests), thousands(r.Accepted), met, len(r.Pages))
	if n := r.disturbed(); n > 0 {
		text += fmt.Sprintf("; %s more that the host disturbed were asked for again", thousands(n))
	}
	if u.Refused > 0 {
		return text + fmt.Sprintf("; %s NOT ANSWERED as they should be", thousands(u.Refused)), "31"
	}
	if code = "32"; met < len(r.Pages) {
		code = "31"
	}
	return text + "; all answered", code
}

// disturbed returns how often something was requested again.
func (r GoalReport) disturbed() (n int) {
	for _, p := range r.Pages {
		n += p.Disturbed
	}
	return n
}

// writePages prints one line per page.
func (r GoalReport) writePages(b *strings.Builder, paint func(code, text string) string) {
	group := ""
	for _, p := range r.Pages {
		if p.group != group {
			group = p.group
			fmt.Fprintf(b, "\n  %-44s %9s %9s %9s\n", group, "p50", "p99", "most")
		}
		verdict := paint("32", "met")
		switch {
		case p.Refused > 0:
			verdict = paint("31", fmt.Sprintf("%d of %d NOT ANSWERED", p.Refused, p.Asked))
		case !p.Met:
			verdict = paint("31", "MISSED")
		}
		fmt.Fprintf(b, "  %-44s %9s %9s %9s ms   p99 < %-4s %s\n", p.Name, number(p.P50), number(p.P99), number(p.Max), number(p.Goal), verdict)
	}
}
