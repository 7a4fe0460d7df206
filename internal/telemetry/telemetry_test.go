package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	model "github.com/prometheus/client_model/go"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

var update = flag.Bool("update", false, "rewrite docs/reference/metrics.md")

const root = "../.."

// all are the numbers of a server, with every label that is known before something happens.
func all(t *testing.T) []*model.MetricFamily {
	t.Helper()
	m := telemetry.NewMetrics("test")
	m.PartitionsOwned(func() int { return 64 })
	m.BreakersOpen(func() int { return 0 })
	m.CallbacksPutOff(func() map[string]int64 { return map[string]int64{"rate": 0} })
	m.Replication(func() telemetry.Replication { return telemetry.Replication{} })
	m.BackupOverdue(func() time.Duration { return 0 })
	m.CountsLost(func() int64 { return 0 })
	m.WorkersUse(func() telemetry.Use { return telemetry.Use{Running: 1, Capacity: 4, MemoryLimit: 1 << 30} })
	m.Show(telemetry.NewGauges(func(context.Context) (telemetry.Picture, error) {
		return telemetry.Picture{Census: engine.Census{Memory: 1 << 20, MemoryShare: 0.5}}, nil
	}))
	m.Answered("GET /healthz", 200)
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(fs, func(f *model.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "carillon_") })
}

// TestNames holds the names against those that are promised, and the rules of Prometheus.
func TestNames(t *testing.T) {
	want := strings.Fields(`backup_overdue_seconds replication_behind_seconds replication_bytes_total replication_failures_total replication_generations_total replication_segments_total replication_snapshots_total replication_waiting_bytes
		trigger_delay_seconds queue_wait_seconds execution_duration_seconds end_to_end_seconds store_seconds{op}
		executions_total{status} retries_total timeouts_total dead_lettered_total leases_lost_total stale_results_total worker_deaths_total occurrences_missed_total traces_lost_total
		store_errors_total{op} http_requests_total{code,route} limited_total{limit} auth_failures_total{reason} counts_lost_total
		queue_depth{band,state} queue_paused oldest_pending_seconds overdue_jobs dead_letters oldest_dead_letter_seconds workers{state} worker_slots{state} worker_memory_bytes worker_memory_max_ratio process_slots{state} process_memory_limit_bytes partitions_owned partitions_unowned
		breakers_open callbacks_put_off_total{reason} archive_lag_seconds history_bytes{tier} history_written_total desired_workers build_info{go_version,version}
		workflow_runs_total{status} workflow_runs_in_flight workflow_node_wait_seconds workflow_decision_delay_seconds workflow_approvals_waiting workflow_oldest_approval_seconds workflow_oldest_undecided_seconds`)
	var got []string
	for _, f := range all(t) {
		got = append(got, strings.TrimPrefix(f.GetName(), "carillon_")+labels(f))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	m := telemetry.NewMetrics("test")
	if problems, err := testutil.GatherAndLint(m.Registry()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func labels(f *model.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	if names == nil {
		return ""
	}
	return "{" + strings.Join(names, ",") + "}"
}

// TestPageIsFresh holds docs/reference/metrics.md against the code.
func TestPageIsFresh(t *testing.T) {
	file := filepath.Join(root, "docs", "reference", "metrics.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- made by go test ./internal/telemetry -update -->\n", "<!-- until here -->"
	head, rest, ok := strings.Cut(string(page), begin)
	_, tail, there := strings.Cut(rest, end)
	if !ok || !there {
		t.Fatalf("%s has not the marks that the table stands between", file)
	}
	var b strings.Builder
	b.WriteString("\n| name | type | labels | what |\n| --- | --- | --- | --- |\n")
	for _, f := range all(t) {
		l := "–"
		if text := labels(f); text != "" {
			l = "`" + strings.ReplaceAll(strings.Trim(text, "{}"), ",", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), l, f.GetHelp())
	}
	b.WriteString("\n")
	fresh := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(file, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if fresh != string(page) {
		t.Errorf("%s is stale: go test ./internal/telemetry -run TestPageIsFresh -update", file)
	}
}

// expressions are all that the dashboards and alerts ask Prometheus for.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	boards, err := filepath.Glob(filepath.Join(root, "deploy", "grafana", "*.json"))
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range boards {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				ID      int
				Type    string
				Title   string
				Targets []struct{ Expr string }
			}
			Templating struct{ List []struct{ Definition string } }
		}
		if err := json.Unmarshal(data, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		ids := map[int]bool{}
		for _, p := range board.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %d, %q: its id is another's, or it has no title or no query", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			for i, x := range p.Targets {
				out[fmt.Sprintf("%s: %s %d", filepath.Base(file), p.Title, i)] = x.Expr
			}
		}
		for i, v := range board.Templating.List {
			if v.Definition != "" {
				out[fmt.Sprintf("%s: variable %d", filepath.Base(file), i)] = v.Definition
			}
		}
	}
	rules, err := filepath.Glob(filepath.Join(root, "deploy", "prometheus", "alerts*.yaml"))
	if err != nil || len(rules) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, file := range rules {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = string(data)
	}
	return out
}

// TestWhatIsAskedForExists holds each metric and label that a dashboard or an alert names against those there are.
func TestWhatIsAskedForExists(t *testing.T) {
	known, values := map[string][]string{}, map[string]bool{}
	for _, f := range all(t) {
		names := []string{f.GetName()}
		if f.GetType() == model.MetricType_HISTOGRAM {
			names = []string{f.GetName() + "_bucket", f.GetName() + "_count", f.GetName() + "_sum"}
		}
		for _, n := range names {
			known[n] = append(strings.Split(strings.Trim(labels(f), "{}"), ","), "namespace", "job", "instance", "le")
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				values[l.GetName()+"="+l.GetValue()] = true
			}
			for _, b := range m.GetHistogram().GetBucket() {
				values[fmt.Sprintf("le=%v", b.GetUpperBound())] = true
			}
		}
	}
	values["le=+Inf"] = true
	series := regexp.MustCompile(`(carillon_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(=~|=|!=|!~)"([^"]*)"`)
	asked := map[string]bool{}
	for where, expr := range expressions(t) {
		for _, m := range series.FindAllStringSubmatch(expr, -1) {
			has, ok := known[m[1]]
			if !ok {
				t.Errorf("%s asks for %s, which does not exist", where, m[1])
				continue
			}
			asked[m[1]] = true
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(has, l[1]) {
					t.Errorf("%s asks for the label %s of %s, which has %q", where, l[1], m[1], has)
				}
				for v := range strings.SplitSeq(l[3], "|") {
					if !slices.Contains([]string{"namespace", "job", "instance"}, l[1]) && !values[l[1]+"="+v] {
						t.Errorf("%s asks for %s=%q of %s, which never is", where, l[1], v, m[1])
					}
				}
			}
		}
	}
	for n := range known {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(n, "")
		if !asked[n] && !asked[base+"_bucket"] && n != "carillon_build_info" {
			t.Errorf("nothing shows %s", n)
		}
	}
}

// TestEveryAlertHasARunbook holds the pages against the alerts.
func TestEveryAlertHasARunbook(t *testing.T) {
	names := map[string]bool{"README": true}
	for where, text := range expressions(t) {
		if !strings.HasSuffix(where, ".yaml") || strings.HasSuffix(where, "_test.yaml") {
			continue
		}
		for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
			if _, err := os.Stat(filepath.Join(root, "docs", "operations", "runbooks", m[1]+".md")); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
			tests, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", strings.TrimSuffix(where, ".yaml")+"_test.yaml"))
			if err != nil || !regexp.MustCompile(`alertname: `+m[1]+`\n +exp_alerts:\n`).Match(tests) || !regexp.MustCompile(`alertname: `+m[1]+`\n +exp_alerts: \[\]`).Match(tests) {
				t.Errorf("%s has no test that it fires, and one that it does not: %v", m[1], err)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "operations", "runbooks", "*.md"))
	if err != nil || len(names) != 21 || len(pages) != len(names) {
		t.Errorf("%d alerts and a list, %d pages, %v", len(names)-1, len(pages), err)
	}
}

// TestEveryCallIsTimed finds a method of the port that goes past the wrapper.
func TestEveryCallIsTimed(t *testing.T) {
	spared := []string{"Migrate", "Steps", "CheckSchema", "Describe", "Close", "Now", "Ping"}
	port := reflect.TypeFor[engine.Store]()
	for i := range port.NumMethod() {
		name := port.Method(i).Name
		if slices.Contains(spared, name) {
			continue
		}
		m := telemetry.NewMetrics("test")
		s := telemetry.Over(failing{}, clock.System{}, m, nil)
		f := reflect.ValueOf(s).MethodByName(name)
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for k := 1; k < f.Type().NumIn(); k++ {
			args = append(args, reflect.Zero(f.Type().In(k)))
		}
		func() {
			defer func() { _ = recover() }() // there is no store
			f.Call(args)
		}()
		var calls, errs float64
		fs, err := m.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fs {
			for _, x := range f.GetMetric() {
				switch f.GetName() {
				case "carillon_store_seconds":
					calls += float64(x.GetHistogram().GetSampleCount())
				case "carillon_store_errors_total":
					errs += x.GetCounter().GetValue()
				}
			}
		}
		if calls != 1 {
			t.Errorf("%s is timed %v times", name, calls)
		}
		if name == "Lease" && errs != 1 || name == "Job" && errs != 0 {
			t.Errorf("%s: %v errors", name, errs)
		}
	}
}

// failing is a store that is away.
type failing struct{ engine.Store }

func (failing) Lease(context.Context, []engine.Grant, engine.Fence) ([]job.Attempt, error) {
	return nil, fmt.Errorf("lease: %w", engine.ErrUnavailable)
}

func (failing) Job(context.Context, tenantID, engine.Ref) (job.Job, error) {
	return job.Job{}, engine.ErrNotFound
}

func TestGaugesOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, asked := true, 0
		g := telemetry.NewGauges(func(context.Context) (telemetry.Picture, error) {
			asked++
			if away {
				return telemetry.Picture{}, errors.New("away")
			}
			return telemetry.Picture{Census: engine.Census{Workers: 3}}, nil // whose memory is unknown
		})
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(g)
		for range 2 {
			if n, err := testutil.GatherAndCount(r); n != 0 || err != nil {
				t.Errorf("%d numbers, %v", n, err)
			}
		}
		away = false
		time.Sleep(2 * time.Second)
		for range 3 {
			if n, err := testutil.GatherAndCount(r, "carillon_workers", "carillon_worker_memory_bytes", "carillon_worker_memory_max_ratio"); n != 3 || err != nil {
				t.Errorf("%d numbers, %v", n, err)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// A store that hangs holds no scrape up for longer than one picture may take, and not one after the other.
func TestGaugesOfAStoreThatHangs(t *testing.T) {
	for name, heeds := range map[string]bool{"and heeds its deadline": true, "and does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				free := make(chan struct{})
				g := telemetry.NewGauges(func(ctx context.Context) (telemetry.Picture, error) {
					asked.Add(1)
					if heeds {
						<-ctx.Done()
						return telemetry.Picture{}, ctx.Err()
					}
					<-free
					return telemetry.Picture{}, errors.New("late")
				})
				r := prometheus.NewPedanticRegistry()
				r.MustRegister(g)
				began := time.Now()
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						if n, err := testutil.GatherAndCount(r); n != 0 || err != nil {
							t.Errorf("%d numbers, %v", n, err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took > 5*time.Second || asked.Load() != 1 {
					t.Errorf("five scrapes took %s, and the store was asked %d times", took, asked.Load())
				}
				close(free)
			})
		})
	}
}

// instant is a store that does what it is told at once.
type instant struct {
	engine.Store
	as []job.Attempt
	vs []job.Verdict
	rs []job.Ready
}

func (s *instant) Lease(context.Context, []engine.Grant, engine.Fence) ([]job.Attempt, error) {
	return s.as, nil
}

func (s *instant) Finish(context.Context, []job.Finish) ([]job.Verdict, error) { return s.vs, nil }

func (s *instant) Fire(context.Context, []engine.Firing, engine.Fence) (engine.Fired, error) {
	return engine.Fired{Ready: s.rs}, nil
}

func TestFired(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m := telemetry.NewMetrics("test")
	id := func(n byte) job.ExecutionID { return job.ExecutionID{n} }
	inner := &instant{rs: []job.Ready{{ID: id(1)}, {ID: id(4)}, {ID: id(6)}}}
	s := telemetry.Over(inner, clock.NewManual(at.Add(3*time.Second)), m, nil)
	missed := job.Execution{Metadata: map[string]string{"reason": "missed", "count": "7"}}
	paused := job.Execution{Metadata: map[string]string{"reason": "pause"}}
	e := func(n byte, by job.Trigger) job.Execution {
		return job.Execution{ID: id(n), Trigger: by, ScheduledAt: at}
	}
	past := e(6, job.BySchedule)
	past.Job[6] = 7 << 4
	made := at.Add(2 * time.Second).UnixMilli()
	for i := range 6 {
		past.Job[i] = byte(made >> (40 - 8*i))
	}
	past.ScheduledAt = at.Add(-24 * time.Hour)
	_, err := s.Fire(t.Context(), []engine.Firing{
		{Executions: []job.Execution{e(1, job.BySchedule), e(2, job.BySchedule)}, Skips: []job.Execution{missed, paused}}, // one of two is skipped
		{Executions: []job.Execution{e(3, job.BySchedule)}, Skips: []job.Execution{missed}},                               // another was quicker
		{Executions: []job.Execution{e(4, job.ByCatchUp)}},
		{Skips: []job.Execution{{Metadata: map[string]string{"reason": "missed"}}}},
		{Overlap: job.OverlapSkip, Executions: []job.Execution{e(5, job.BySchedule)}},
		{Executions: []job.Execution{past}}, // of a job that was created for an instant a day ago
	}, engine.Fence{})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range fs {
		for _, x := range f.GetMetric() {
			switch {
			case f.GetName() == "carillon_occurrences_missed_total":
				got["missed"] = x.GetCounter().GetValue()
			case f.GetName() == "carillon_executions_total" && x.GetLabel()[0].GetValue() == "SKIPPED":
				got["skipped"] = x.GetCounter().GetValue()
			case f.GetName() == "carillon_trigger_delay_seconds":
				got["delays"], got["delay"] = float64(x.GetHistogram().GetSampleCount()), x.GetHistogram().GetSampleSum()
			}
		}
	}
	for k, want := range map[string]float64{"missed": 8, "skipped": 5, "delays": 2, "delay": 3 + 1} {
		if math.Abs(got[k]-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", k, got[k], want)
		}
	}
}

// BenchmarkExecution measures what counting and timing adds to an execution, in batches as they come.
func BenchmarkExecution(b *testing.B) {
	const batch = 100
	at := time.Now()
	inner := &instant{as: make([]job.Attempt, batch), vs: make([]job.Verdict, batch)}
	fs := make([]job.Finish, batch)
	for i := range batch {
		l := job.Lease{Execution: job.ExecutionID{byte(i), 1}, Token: job.Token(i + 1)}
		inner.as[i] = job.Attempt{Lease: l, DueAt: at, LeasedAt: at, StartedAt: at, ScheduledAt: at}
		inner.vs[i] = job.Verdict{Execution: l.Execution, Accepted: true}
		fs[i] = job.Finish{Outcome: job.Outcome{Lease: l, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}
	}
	s := telemetry.Over(inner, clock.System{}, telemetry.NewMetrics("test"), nil)
	ctx := b.Context()
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		if _, err := s.Lease(ctx, nil, engine.Fence{}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Finish(ctx, fs); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCountingAllocatesNothing is the promise of the benchmark that a test can hold.
func TestCountingAllocatesNothing(t *testing.T) {
	l := job.Lease{Execution: job.ExecutionID{1}, Token: 1}
	inner := &instant{as: []job.Attempt{{Lease: l}}, vs: []job.Verdict{{Execution: l.Execution, Accepted: true}}}
	fs := []job.Finish{{Outcome: job.Outcome{Lease: l, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}}
	s := telemetry.Over(inner, clock.System{}, telemetry.NewMetrics("test"), nil)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, _ = s.Lease(ctx, nil, engine.Fence{})
		_, _ = s.Finish(ctx, fs)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
