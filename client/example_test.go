package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := client.New([]string{server}, os.Getenv("CARILLON_TOKEN"))

	job, err := c.CreateJob(ctx, client.JobRequest{
		Name:      "hello",
		Execution: client.Target{Target: "simulate", WorkKind: "noop"}, // or CallbackURL: "https://…"
	})
	if err != nil {
		log.Fatal(err)
	}
	e, err := c.WaitForExecution(ctx, job.ExecutionID, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.JobName, "has", e.Status)
	// Output: hello has SUCCEEDED
}

func ExampleClient_CreateJob() {
	c := client.New([]string{server}, "")
	job, err := c.CreateJob(context.Background(), client.JobRequest{
		Name:      "nightly report",
		Key:       new("nightly-report"),
		Schedule:  &client.Schedule{Type: "CRON", CronExpression: new("30 4 * * *"), Timezone: new("Europe/Berlin")},
		Execution: client.Target{CallbackURL: "https://reports.example/run", Payload: json.RawMessage(`{"kind": "daily"}`)},
		Tags:      []string{"reports"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Status, job.Schedule.NextRunAt.After(time.Now()))
	// Output: ACTIVE true
}

func ExampleClient_Jobs() {
	ctx := context.Background()
	c := client.New([]string{server}, "")
	for i := range 3 {
		_, err := c.CreateJob(ctx, client.JobRequest{
			Name: fmt.Sprintf("sweep %d", i), Tags: []string{"sweeps"},
			Schedule: &client.Schedule{Type: "INTERVAL", Every: new("24h")}, Execution: client.Target{Target: "worker", Kind: "sweep"},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for job, err := range c.Jobs(ctx, client.JobFilter{Tag: "sweeps"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Name)
	}
	// Output:
	// sweep 2
	// sweep 1
	// sweep 0
}

func ExampleProblem() {
	c := client.New([]string{server}, "")
	_, err := c.CreateJob(context.Background(), client.JobRequest{Name: "hello", Priority: new(11), Execution: client.Target{Target: "simulate", WorkKind: "noop"}})
	var p *client.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
		for _, f := range p.Errors {
			fmt.Printf("%s is %s; want %s\n", f.Field, f.Value, f.Want)
		}
	}
	_, err = c.Job(context.Background(), "key:nobody")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// 422 invalid
	// priority is 11; want a whole number from 1 (highest) to 10
	// true
}

func ExampleWithIdempotencyKey() {
	c := client.New([]string{server}, "")
	// The key is that of the order: however often this is called, the order is charged once.
	ctx := client.WithIdempotencyKey(context.Background(), "charge-order-17")
	charge := client.JobRequest{Name: "charge", Execution: client.Target{Target: "simulate", WorkKind: "noop"}}
	first, err := c.CreateJob(ctx, charge)
	if err != nil {
		log.Fatal(err)
	}
	second, err := c.CreateJob(ctx, charge)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.JobID == second.JobID)
	// Output: true
}

func ExampleClient_FollowLog() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := client.New([]string{server}, "")
	job, err := c.CreateJob(ctx, client.JobRequest{Name: "greet", Execution: client.Target{Target: "command", Command: []string{"echo", "good morning"}}})
	if err != nil {
		log.Fatal(err)
	}
	status, err := c.FollowLog(ctx, job.ExecutionID, client.LogOptions{}, func(l client.LoggedLine) error {
		if l.Stream == "stdout" {
			fmt.Println(l.Text)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status)
	// Output:
	// good morning
	// SUCCEEDED
}
