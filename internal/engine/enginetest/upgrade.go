package enginetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// FirstSchema returns the schema of the first release, of which testdata/first_schema.sql of the package under test
// holds a copy. It fails if the first step differs from it. Before the first tag the step may change, with its copy;
// after it, neither may.
func FirstSchema(t *testing.T, first engine.Migration) string {
	t.Helper()
	const copied, original = "testdata/first_schema.sql", "migrations/0001_schema.sql"
	text, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	tag, there := firstTag(t)
	if tag == "" {
		t.Logf("there is no tag yet: %s may still change", original)
	}
	if sum(text) != first.Sum {
		if tag == "" {
			t.Fatalf("%s has changed, which it may until the first tag. Copy it: cp %[1]s %s", original, copied)
		}
		t.Fatalf("%s has the SHA-256 %s, want %s, which %s was released with. Leave it as it was, and write a new step", original, first.Sum, sum(text), tag)
	}
	if tag == "" {
		return string(text)
	}
	released, err := exec.Command("git", "show", tag+":"+path.Join(there, original)).Output()
	if err != nil {
		t.Fatalf("read %s of %s: %v", original, tag, err)
	}
	if !bytes.Equal(released, text) {
		t.Fatalf("%s has the SHA-256 %s, want %s, that of %s in %s. Put both back as they were", copied, sum(text), sum(released), original, tag)
	}
	return string(text)
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// firstTag returns the first release, and the working folder within the repository; "" if there is none, or no
// repository.
func firstTag(t *testing.T) (tag, there string) {
	t.Helper()
	tags, err := exec.Command("git", "tag", "--list", "v*", "--sort=creatordate").Output()
	if err != nil {
		t.Logf("git cannot be asked for tags: %v", err)
		return "", ""
	}
	prefix, err := exec.Command("git", "rev-parse", "--show-prefix").Output()
	if err != nil {
		t.Fatal(err)
	}
	tag, _, _ = strings.Cut(strings.TrimSpace(string(tags)), "\n")
	return tag, strings.TrimSpace(string(prefix))
}

// firstID returns the id that ends with a number, in decimal digits, in testdata/first_rows.sql.
func firstID(n byte) (id [16]byte) {
	id = [16]byte{6: 0x70, 8: 0x80}
	id[15] = n/10*16 + n%10
	return id
}

// FirstRows reads the rows of testdata/first_rows.sql after the schema was migrated.
func FirstRows(t *testing.T, s engine.Store) {
	t.Helper()
	ctx := t.Context()
	next := time.UnixMicro(9_000_000).UTC()
	cron, later, over := job.ID(firstID(1)), job.ID(firstID(2)), job.ID(firstID(3))
	for id, want := range map[job.ID]job.Job{
		cron:  {Definition: job.Definition{Name: "recurs", Key: "nightly"}, NextRunAt: next, Runs: 7, State: job.Paused, Revision: 4},
		later: {Definition: job.Definition{Name: "later"}, NextRunAt: next, State: job.Active, Revision: 1},
		over:  {Definition: job.Definition{Name: "over"}, State: job.Completed, Revision: 1},
	} {
		got, err := s.Job(ctx, tenant.Default, engine.Ref{ID: id})
		if err != nil || got.Name != want.Name || got.Key != want.Key || !got.NextRunAt.Equal(want.NextRunAt) || got.Runs != want.Runs || got.State != want.State || got.Revision != want.Revision {
			t.Errorf("job %s: got %+v, %v; want %+v", id, got, err, want)
		}
	}
	if due, err := s.Due(ctx, engine.DueFilter{Until: next, Limit: 10}); err != nil || len(due) != 1 || due[0].Job.ID != later {
		t.Errorf("due: %+v, %v; want the job that is not paused", due, err)
	}
	for n, want := range map[byte]job.Execution{
		10: {Job: cron, Status: job.Pending, Token: 7, Attempt: 1, MaxAttempts: 4, Partition: 5, Payload: []byte("payload")},
		11: {Job: cron, Status: job.Running, Token: 8, Attempt: 1, MaxAttempts: 4, Partition: 5},
		12: {Job: cron, Status: job.Failed, Token: 5, Attempt: 1, MaxAttempts: 1, Partition: 5},
		3:  {Job: over, Status: job.Succeeded, Token: 6, Attempt: 1, MaxAttempts: 1, Partition: 5},
	} {
		got, err := s.Execution(ctx, tenant.Default, job.ExecutionID(firstID(n)))
		if err != nil || got.Job != want.Job || got.Status != want.Status || got.Token != want.Token || got.Attempt != want.Attempt ||
			got.MaxAttempts != want.MaxAttempts || got.Partition != want.Partition || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("execution %d: got %+v, %v; want %+v", n, got, err, want)
		}
	}
	if lanes, err := s.Lanes(ctx, nil, 10); err != nil || len(lanes) != 1 || lanes[0].Tenant != tenant.Default || lanes[0].Partition != 5 || lanes[0].Priority != 6 {
		t.Errorf("lanes: %+v, %v; want that of the execution that waits", lanes, err)
	}
	if got, err := s.Stats(ctx, tenant.Default, []job.ID{cron, over}); err != nil || got[0].Total != 1 || got[0].LastStatus != job.Failed || got[1].Total != 1 || got[1].Succeeded != 1 {
		t.Errorf("statistics: %+v, %v", got, err)
	}
	page, err := s.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})
	if err != nil || len(page.DeadLetters) != 1 || page.DeadLetters[0].Execution.ID != job.ExecutionID(firstID(12)) {
		t.Errorf("dead letters: %+v, %v", page, err)
	}
}
