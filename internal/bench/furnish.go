package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// furniture holds the data around jobs and executions.
type furniture struct {
	operations []string
	tenants    []string
	workers    []string
	workflows  []string
	runs       []string // of workflows
}

// count stores the counts of the day before loading began, and of the week's failures, as servers would have.
func (s *stock) count(ctx context.Context) error {
	server := engine.ServerID(uuid.New())
	now := s.began.Truncate(time.Minute)
	minutes := make([]engine.Minute, 0, 1440)
	perMinute := int64(max(1, s.all/43_200)) // of a month
	var tally engine.Tally
	for back := 1440; back > 0; back-- {
		at := now.Add(-time.Duration(back) * time.Minute)
		minutes = append(minutes, engine.Minute{At: at, Started: perMinute, Completed: perMinute, Waited: perMinute, Wait: time.Second, MaxWait: time.Second, Fired: perMinute, Delay: time.Second, MaxDelay: time.Second})
		for _, t := range append(s.tenants[:], "") {
			m := engine.TenantMinute{Tenant: t, At: at, Started: perMinute, Succeeded: perMinute, Failed: 1, Waited: perMinute, Wait: time.Second, MaxWait: time.Second, MaxDelay: 2 * time.Second}
			for i := range 8 {
				m.Delays[i] = perMinute / int64(1+i)
			}
			tally.Minutes = append(tally.Minutes, m)
		}
		var ds []engine.TenantDepths
		for _, t := range append(s.tenants[:], "") {
			d := engine.TenantDepths{Tenant: t}
			for _, q := range queues {
				d.Queues = append(d.Queues, engine.QueueDepth{Queue: q, Waiting: rand.Int64N(1000), Running: rand.Int64N(50), Oldest: rand.N(time.Minute)})
			}
			ds = append(ds, d)
		}
		if _, err := s.rig.store.KeepDepths(ctx, at, ds); err != nil {
			return fmt.Errorf("keep depths: %w", err)
		}
	}
	if err := s.rig.store.KeepMinutes(ctx, server, minutes); err != nil {
		return fmt.Errorf("keep minutes: %w", err)
	}
	number := int64(0)
	keep := func() error {
		number++
		err := s.rig.store.KeepTally(ctx, server, number, tally)
		tally = engine.Tally{}
		if err != nil {
			return fmt.Errorf("keep a tally: %w", err)
		}
		return nil
	}
	if err := keep(); err != nil {
		return err
	}
	perHour := min(1000, max(1, s.all/50/720)) // two of a hundred fail
	for back := 167; back > 0; back-- {
		hour := now.Truncate(time.Hour).Add(-time.Duration(back) * time.Hour)
		type kind struct { // a row each
			print job.Fingerprint
			job   job.ID
		}
		seen := map[kind]bool{}
		for i := range perHour {
			e := errs[i%len(errs)]
			x := job.Error{Type: job.ErrorType(e.Type), Message: fmt.Sprintf(e.Message, i)}
			print, normal := x.Fingerprint()
			f := engine.Failure{Tenant: s.tenants[0], Hour: hour, Fingerprint: print, Failed: 1, First: hour, Last: hour.Add(time.Minute), Type: x.Type, Message: normal, Sample: x.Message}
			f.Job, f.Execution = s.one(), job.ExecutionID(idAt(hour))
			if k := (kind{print, f.Job}); !seen[k] {
				seen[k] = true
				tally.Failures = append(tally.Failures, f)
			}
		}
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// one returns one of the jobs whose ids are known.
func (s *stock) one() job.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plain.ids) == 0 {
		return job.ID(idAt(s.began))
	}
	id, _ := job.ParseID(s.plain.ids[rand.IntN(len(s.plain.ids))])
	return id
}

// furnish creates everything else an installation has, over HTTP like a user.
func (s *stock) furnish(ctx context.Context, a *asker) error {
	for i := range 20 {
		n := strconv.Itoa(i)
		for _, x := range [][3]string{
			{"POST", "/sign-in", `{"credential": "` + a.key + `"}`},
			{"POST", "/api-keys", `{"name": "key ` + n + `", "role": "operator"}`},
			{"PUT", "/calendars/holidays-" + n, `{"yearly": ["12-25", "12-26"], "weekdays": ["SUN"]}`},
			{"POST", "/tenants", `{"name": "Tenant ` + n + `", "tier": "free"}`},
			{"PUT", "/notification-rules/rule-" + n, `{"events": ["failed"], "tags": ["billing"], "callback_url": "https://example.com/on-call"}`},
			{"PUT", "/limits/queues/queue-" + n, `{"max_concurrent": 100}`},
		} {
			if _, err := a.send(ctx, x[0], x[1], x[2]); err != nil {
				return err
			}
		}
	}
	for i, id := range s.plain.ids[:min(100, len(s.plain.ids))] {
		for n := range 3 {
			if _, err := a.send(ctx, "PATCH", "/jobs/"+id, `{"priority": `+strconv.Itoa(1+(i+n)%9)+`}`); err != nil {
				return err
			}
		}
		if i >= 30 {
			continue
		}
		var begun struct {
			Operation string `json:"operation_id"`
		}
		body, err := a.send(ctx, "POST", "/jobs:bulk", `{"ids": ["`+id+`"], "action": "tag", "tags": ["seen"]}`)
		if err == nil {
			err = json.Unmarshal(body, &begun)
		}
		if err != nil {
			return err
		}
		s.furniture.operations = append(s.furniture.operations, begun.Operation)
	}
	for i := range 5 {
		var made struct {
			ID string `json:"workflow_id"`
		}
		body, err := a.send(ctx, "POST", "/workflows", chain(fmt.Sprintf("workflow %d", i), 1+i*i*50))
		if err == nil {
			err = json.Unmarshal(body, &made)
		}
		if err != nil {
			return err
		}
		s.furniture.workflows = append(s.furniture.workflows, made.ID)
		for range 10 {
			var run struct {
				ID string `json:"workflow_run_id"`
			}
			body, err := a.send(ctx, "POST", "/workflows/"+made.ID+"/trigger", "{}")
			if err == nil {
				err = json.Unmarshal(body, &run)
			}
			if err != nil {
				return err
			}
			s.furniture.runs = append(s.furniture.runs, run.ID)
		}
	}
	for _, t := range s.tenants {
		s.furniture.tenants = append(s.furniture.tenants, string(t))
	}
	var ws struct {
		Workers []struct {
			ID string `json:"worker_id"`
		}
	}
	body, err := a.send(ctx, "GET", "/workers", "")
	if err == nil {
		err = json.Unmarshal(body, &ws)
	}
	for _, w := range ws.Workers {
		s.furniture.workers = append(s.furniture.workers, w.ID)
	}
	return err
}

// chain is a workflow of n nodes in sequence, of which the first is a map.
func chain(name string, nodes int) string {
	var b strings.Builder
	for i := range nodes {
		after := ""
		if i > 0 {
			after = fmt.Sprintf(`, "depends_on": ["n%d"]`, i-1)
		}
		if i == 0 {
			after = `, "map": 3`
		}
		fmt.Fprintf(&b, `, {"key": "n%d"%s, "execution": {"target": "simulate", "work_kind": "noop"}}`, i, after)
	}
	return `{"name": "` + name + `", "nodes": [` + b.String()[2:] + `]}`
}

// asker sends requests over HTTP, with a key.
type asker struct {
	base, key string
	http      http.Client
}

// send makes a request that must succeed.
func (a *asker) send(ctx context.Context, method, path, body string) ([]byte, error) {
	status, answer, err := a.do(ctx, method, path, body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("it was answered with %d: %s", status, bytes.TrimSpace(answer))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

func (a *asker) do(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+"/api/v1"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
