package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// asked makes DuckDB answer a query with rows of JSON.
const asked = `
const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
	const c = await (await DuckDBInstance.create(':memory:')).connect();
	const out = [];
	for (const sql of JSON.parse(process.argv[1])) out.push((await c.runAndReadAll(sql)).getRowsJson());
	console.log(JSON.stringify(out));
})().catch((e) => { console.error(e); process.exit(1); });`

// DuckDB reads the files as they are, with the partitions of their folders and everything nested in them.
func TestDuckDB(t *testing.T) {
	t.Parallel()
	at := os.Getenv("CARILLON_TEST_DUCKDB")
	if at == "" {
		t.Skip("make test-all runs it: DuckDB is not there; scripts/with-duckdb go test ./internal/archive -run DuckDB")
	}
	root := t.TempDir()
	put := func(name string, data []byte) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := source{rand.New(rand.NewPCG(1, 2))}
	all, file, _ := write(t, s, 700)
	put(Name(engine.ArchivedExecutions, Shared, "", day, 0), file)
	more, file, _ := write(t, s, 300)
	put(Name(engine.ArchivedExecutions, Shared, "", day.AddDate(0, 0, 1), 0), file)
	var logs bytes.Buffer
	w := NewLogWriter(&logs)
	e := all[0].Execution
	if err := w.Write(&e, engine.LogChunk{Token: 7, Attempt: 1, To: 1, Data: engine.EncodeLog([]job.LogLine{{At: day, Stream: "stdout", Text: "hello ü"}})}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	put(Name(engine.ArchivedLogs, Shared, "", day, 0), logs.Bytes())

	failed, attempts := 0, 0
	for _, f := range append(all, more...) {
		if f.Execution.Status == job.Failed {
			failed++
		}
		attempts += len(f.Attempts)
	}
	executions := fmt.Sprintf("read_parquet('%s/executions/**/*.parquet', hive_partitioning = true)", root)
	one := all[350].Execution
	queries := []string{
		"SELECT month::VARCHAR, day::VARCHAR, count(*)::INTEGER FROM " + executions + " GROUP BY ALL ORDER BY ALL",
		"SELECT count(*)::INTEGER FROM " + executions + " WHERE status = 'FAILED'",
		"SELECT count(*)::INTEGER FROM (SELECT unnest(attempts) AS a FROM " + executions + ")",
		"SELECT tenant, job_id, strftime(finished_at, '%Y-%m-%d %H:%M:%S.%f'), max_attempts::INTEGER FROM " + executions + " WHERE execution_id = '" + one.ID.String() + "'",
		fmt.Sprintf("SELECT text, stream, line::INTEGER FROM read_parquet('%s/logs/**/*.parquet', hive_partitioning = true) WHERE year = 2026", root),
	}
	sql, err := json.Marshal(queries)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", asked, string(sql))
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(at, "node_modules"))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	want, err := json.Marshal([][][]any{
		{{"11", "18", 700}, {"11", "19", 300}}, {{failed}}, {{attempts}},
		{{one.Tenant, one.Job.String(), one.FinishedAt.Format("2006-01-02 15:04:05.000000"), one.MaxAttempts}},
		{{"hello ü", "stdout", 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.TrimSpace(out); !bytes.Equal(got, want) {
		t.Errorf("DuckDB says %s\nwant        %s", got, want)
	}
}
