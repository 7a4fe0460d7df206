package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/client/workflow"
	"github.com/carillon-jobs/carillon/internal/app/apptest"
)

// server is the address of Carillon in the examples, as carillon dev runs it.
var server string

func TestMain(m *testing.M) {
	url, stop, err := apptest.Dev()
	if err != nil {
		log.Fatal(err)
	}
	server = url
	code := m.Run()
	stop()
	os.Exit(code)
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := client.New([]string{server}, os.Getenv("CARILLON_TOKEN"))

	f := workflow.New(client.WorkflowRequest{
		Name: "Nightly ETL", Key: new("nightly-etl"), Timeout: "2h", Overlap: new("queue"),
		Schedule: &client.Schedule{Type: "CRON", CronExpression: new("0 2 * * *"), Timezone: new("Europe/Berlin")},
	})
	list := f.Node("list", workflow.Handler("list-files", map[string]any{"day": workflow.Input("day")}))
	load := f.Node("load", workflow.Handler("load-file", map[string]any{"file": workflow.Item})).
		After(list).Map(list.Result("files")).MaxParallel(20).ToleratePercent(1)
	ok := f.Node("ok", workflow.Approval("operator")).After(load).If(workflow.Input("publish")).Timeout(24 * time.Hour)
	sum := f.Node("sum", workflow.HTTP("https://reports.example/sum", nil)).After(load, ok).When(workflow.NoneFailed)
	f.Finally("clean", workflow.Handler("clean-up", nil))
	f.Output(sum.Result())

	w, err := f.Apply(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Name, "has", len(w.Nodes), "nodes and is at version", w.Version)
	// Output: Nightly ETL has 5 nodes and is at version 1
}

// What is built travels as the API has it.
func TestADefinitionThatWasBuilt(t *testing.T) {
	t.Parallel()
	f := workflow.New(client.WorkflowRequest{Name: "all", Key: new("all")})
	list := f.Node("list", workflow.Handler("list", struct {
		Day   string `json:"day"`
		Where any    `json:"where"`
	}{"of " + workflow.Input("day").String(), workflow.Input("place", "a-b")}))
	load := f.Node("load", workflow.Command("load", "--file", workflow.Item.String())).After(list).Map(list.Result("files")).MaxParallel(20).Tolerate(3)
	f.Node("fixed", workflow.Job("key:a", map[string]any{"n": workflow.Index})).MapOver([]string{"<a>", "b"}).ToleratePercent(0.5)
	f.Node("often", workflow.Job("key:b", nil)).Times(7).OnFailure(workflow.Ignore)
	f.Node("ok", workflow.Decision(client.WorkflowApproval{Roles: []string{"admin"}, Min: 2})).After(load).If(load.Items("failed") + " == 0").Timeout(time.Hour).OnTimeout(workflow.Skip)
	f.Node("sleep", workflow.Sleep(90*time.Second))
	f.Node("until", workflow.Until(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
	f.Node("paid", workflow.EventMatching("order.paid", workflow.Input("order")))
	f.Node("sent", workflow.EventMatching("order.sent", `o-"17"`))
	f.Node("seen", workflow.EventMatching("order.seen", 17))
	last := f.Node("any", workflow.Event("any")).After(list, load).When(workflow.AllDone)
	f.Finally("clean", workflow.HTTP("https://example.com/clean", nil)).Retry(client.RetryPolicy{MaxRetries: new(0)})
	f.Output(last.Error("message")).InputSchema(map[string]any{"type": "object"})
	r, err := f.Request()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/all.json")
	if os.Getenv("UPDATE") != "" {
		os.MkdirAll("testdata", 0o755)
		err = os.WriteFile("testdata/all.json", append(got, '\n'), 0o644)
		want = append(got, '\n')
	}
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("testdata/all.json (UPDATE=1 rewrites it): %v\n%s", err, got)
	}
	c := client.New([]string{server}, "")
	for _, name := range []string{"a", "b"} {
		if _, err := c.CreateJob(t.Context(), client.JobRequest{Name: name, Key: &name, Schedule: &client.Schedule{Type: "MANUAL"}, Execution: client.Target{Target: "simulate", WorkKind: "noop"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.LintWorkflow(t.Context(), r); err != nil {
		t.Errorf("the server refuses it: %v", err)
	}
	if again, err := f.Request(); err != nil || len(again.Nodes) != len(r.Nodes) {
		t.Errorf("asked again, it has %d nodes, %v", len(again.Nodes), err)
	}
}

// Applied again, the same definition changes nothing; another one becomes the next version.
func TestAWorkflowIsAppliedAgain(t *testing.T) {
	t.Parallel()
	c := client.New([]string{server}, "")
	build := func(nodes int) *workflow.Builder {
		f := workflow.New(client.WorkflowRequest{Name: "again", Key: new("again")})
		for i := range nodes {
			f.Node(fmt.Sprint("n", i), workflow.Run(client.Target{Target: "simulate", WorkKind: "noop"}, nil))
		}
		return f
	}
	for i, nodes := range []int{1, 1, 2} {
		w, err := build(nodes).Apply(t.Context(), c)
		if err != nil || w.Version != []int{1, 1, 2}[i] {
			t.Errorf("apply %d: version %d, %v", i, w.Version, err)
		}
	}
	if _, err := workflow.New(client.WorkflowRequest{Name: "no key"}).Apply(t.Context(), c); err == nil || !strings.Contains(err.Error(), "has no key") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := c.CreateJob(t.Context(), client.JobRequest{Name: "job", Key: new("a-job"), Schedule: &client.Schedule{Type: "MANUAL"}, Execution: client.Target{Target: "simulate", WorkKind: "noop"}}); err != nil {
		t.Fatal(err)
	}
	taken := workflow.New(client.WorkflowRequest{Name: "taken", Key: new("a-job")})
	taken.Node("n", workflow.Sleep(time.Second))
	if _, err := taken.Apply(t.Context(), c); err == nil || !strings.Contains(err.Error(), "belongs to another job") {
		t.Errorf("a key that a job has: %v", err)
	}
}

func TestWhatABuilderFindsWrong(t *testing.T) {
	t.Parallel()
	f := workflow.New(client.WorkflowRequest{Name: "wrong"})
	other := workflow.New(client.WorkflowRequest{Name: "other"}).Node("other", workflow.Sleep(time.Second))
	f.Node("nothing", nil)
	f.Node("payload", workflow.Handler("k", func() {}))
	f.Node("job", workflow.Job("", nil)).After(other, nil)
	f.Node("map", workflow.Sleep(time.Second)).MapOver(make(chan int))
	f.InputSchema(make(chan int))
	_, err := f.Request()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"node nothing: it does nothing", "node payload: its payload: json", "node job: no job is named", "node job: After names a node that is not of this workflow", "node map: its map: json", "the input schema: json"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}
