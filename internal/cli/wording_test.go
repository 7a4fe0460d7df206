package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Days are read in times as they are shown: "-7d".
func TestTimesInDays(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"-7d": now.AddDate(0, 0, -7), "+1d": now.AddDate(0, 0, 1), "+1.5d": now.Add(36 * time.Hour)} {
		if got, err := parseTime(text, time.UTC, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"7d", "-d", "d", "+NaNd", "-1e9d", ""} {
		if got, err := parseTime(text, time.UTC, now); err == nil {
			t.Errorf("%s: %v; want an error", text, got)
		}
	}
}

// A usage error names the help of the command that was typed.
func TestUsageErrorsNameTheirCommand(t *testing.T) {
	for args, says := range map[string][]string{
		"job create --nope":                   {"unknown flag: --nope\n", "Run 'carillon job create --help' for usage."},
		"job create x":                        {"nothing to run; want --http URL", "Run 'carillon job create --help'"},
		"job pause":                           {"no arguments; want carillon job pause JOB...\n", "Run 'carillon job pause --help'"},
		"secret set a b":                      {"got 2 arguments; want carillon secret set NAME\n"},
		"nope":                                {"Run 'carillon --help' for usage."},
		"job backfill x --from -7x --to now":  {"-24h or -7d"},
		"queue limit mail --burst 3 --none":   {"--burst goes with a rate; want --rate"},
		"dlq redrive":                         {"which dead letters? Want ids"},
		"job bulk pause --add x --everything": {"--add goes with tag and --remove with untag, not with pause"},
	} {
		var out, err strings.Builder
		code := run(strings.Fields(args), &session{in: strings.NewReader(""), out: &out, err: &err, now: time.Now})
		for _, text := range says {
			if code != misuse || !strings.Contains(err.String(), text) {
				t.Errorf("%s: %d\n%swant %q", args, code, err.String(), text)
			}
		}
	}
}

// What a server finds wrong is told by the flag that was typed, and a 404 names the list of the command's things.
func TestProblemsNameFlagsAndLists(t *testing.T) {
	c, _, err := root(&session{}).Find([]string{"job", "create"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flags().Set("cron", "61 * * * *"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	exit(c, &client.Problem{Status: 422, Code: "invalid", Detail: "The request is invalid: x", Errors: []client.FieldProblem{
		{Field: "schedule.cron_expression", Value: "61 * * * *", Want: "0-59 in the minute field, not 61 (position 1)"},
		{Field: "schedule.every", Want: "at least 1s"},
	}}, &b)
	if got, want := b.String(), "carillon: The request is invalid:\n  --cron is \"61 * * * *\"; want 0-59 in the minute field, not 61 (position 1)\n  schedule.every: want at least 1s\n"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if c, _, err = root(&session{}).Find([]string{"tenant", "quota"}); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if exit(c, &client.Problem{Status: 404, Code: "not_found", Detail: `No tenant with id "acme".`}, &b); !strings.Contains(b.String(), "'carillon tenant list'") {
		t.Errorf("404 of a tenant: %s", b.String())
	}
}

func TestNumbersAndWords(t *testing.T) {
	two := 2
	for got, want := range map[string]string{
		counting(1, "dead letter"):                    "1 dead letter",
		counting(2, "job"):                            "2 jobs",
		counting(0, "job"):                            "0 jobs",
		past("delete the secret"):                     "Deleted the secret",
		past("end the sign-in"):                       "Ended the sign-in",
		past("revoke the key"):                        "Revoked the key",
		limitWords(client.Limit{}):                    "none",
		limitWords(client.Limit{MaxConcurrent: &two}): "2 at once",
		retryWords(client.JobRetryPolicy{}):           "none",
		retryWords(client.JobRetryPolicy{MaxRetries: 1, Backoff: "FIXED", InitialDelayMS: 4000, MaxDelayMS: 4000}):          "1, after 4s each",
		retryWords(client.JobRetryPolicy{MaxRetries: 3, Backoff: "EXPONENTIAL", InitialDelayMS: 1000, MaxDelayMS: 3600000}): "3, exponential backoff from 1s to 60m",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
