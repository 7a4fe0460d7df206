package api

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

const (
	maxExports     = 8 // at once; more are turned away
	exportDeadline = 6 * time.Hour
	exportPatience = time.Minute // how long a reader may take for a part
	exportGroup    = 10_000      // rows of a Parquet file held in memory, if they are not long
	exportHeld     = 16 << 20    // approximate maximum of bytes of their texts
)

// sheet writes executions in one of the formats.
type sheet interface {
	write([]client.Execution) error
	end() error
}

// formats lists the formats of exports.
var formats = map[string]struct {
	kind string
	open func(io.Writer) sheet
}{
	"csv":     {"text/csv; charset=utf-8; header=present", newCSV},
	"jsonl":   {"application/x-ndjson", newJSONL},
	"parquet": {"application/vnd.apache.parquet", newParquet},
}

// exportExecutions streams all executions that a filter selects.
func (s executionAPI) exportExecutions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, append([]param{{name: "format"}}, searchParams...))
	if err != nil {
		return err
	}
	name := strings.ToLower(q.values.Get("format"))
	if name == "" {
		name = "jsonl"
	}
	format, ok := formats[name]
	if !ok {
		q.wrong("format", name, "csv, jsonl or parquet")
	}
	f, err := s.executions(r, p, q)
	if err != nil {
		return err
	}
	release, err := s.exports.take(p.Tenant, "too_many_exports", "exports")
	if err != nil {
		return err
	}
	defer release()
	vigil := s.watch(r, p, tenant.Read)
	pieces, stop := vigil.outlet(w, exportPatience)
	defer stop()
	out := &export{outlet: pieces}
	_ = out.rc.SetReadDeadline(time.Time{}) // the server's time limit is not meant for a stream
	buf := bufio.NewWriterSize(out, 64<<10)
	to := format.open(buf)
	out.head = func() {
		h := w.Header()
		h.Set("Content-Type", format.kind)
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="executions-%s.%s"`, time.Now().UTC().Format("20060102T150405Z"), name))
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
	}
	err = s.service.ExportExecutions(r.Context(), p, f, func(es []job.Execution) error {
		select {
		case <-s.stopping:
			return errStopping
		default:
		}
		if !vigil.allowed() {
			return errRevoked
		}
		wired := make([]client.Execution, len(es))
		for i, e := range es {
			wired[i] = wireExecution(e)
		}
		out.extend()
		return to.write(wired)
	})
	if err == nil {
		err = to.end()
	}
	if err == nil {
		err = buf.Flush()
	}
	switch {
	case err == nil:
		out.begin() // also where there is nothing
		return nil
	case !out.begun:
		return err
	case out.broken || r.Context().Err() != nil || err == errRevoked:
		panic(http.ErrAbortHandler) // the reader has gone, took too long, or may no longer read
	}
	s.log.Error("an export could not be completed", "request_id", requestID(r), "error", err)
	panic(http.ErrAbortHandler) // the response has begun; only breaking the connection shows that it is incomplete
}

var errStopping = refuse(http.StatusServiceUnavailable, "unavailable", "The server is stopping. Use another server, or try again.")

var errRevoked = refuse(http.StatusUnauthorized, "unauthorized", "The credential was revoked or has expired since the request started.")

// export is a response whose header is sent with its first bytes: errors before that are reported normally.
type export struct {
	*outlet
	head   func()
	begun  bool
	broken bool
}

func (e *export) begin() {
	if !e.begun {
		e.begun = true
		e.head()
	}
}

func (e *export) Write(p []byte) (int, error) {
	e.begin()
	n, err := e.outlet.Write(p)
	e.broken = e.broken || err != nil
	return n, err
}

type jsonLines struct{ to *json.Encoder }

func newJSONL(w io.Writer) sheet {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return jsonLines{e}
}

func (j jsonLines) write(es []client.Execution) error {
	for i := range es {
		if err := j.to.Encode(es[i]); err != nil {
			return err
		}
	}
	return nil
}

func (jsonLines) end() error { return nil }

// flat returns an execution as one row of a table.
type flat struct {
	ExecutionID    string     `parquet:"execution_id"`
	JobID          string     `parquet:"job_id,dict"`
	JobName        string     `parquet:"job_name,dict"`
	Status         string     `parquet:"status,dict"`
	Trigger        string     `parquet:"trigger,dict"`
	ScheduledTime  time.Time  `parquet:"scheduled_time,timestamp(microsecond)"`
	DueAt          time.Time  `parquet:"due_at,timestamp(microsecond)"`
	StartedAt      *time.Time `parquet:"started_at,optional,timestamp(microsecond)"`
	FinishedAt     *time.Time `parquet:"finished_at,optional,timestamp(microsecond)"`
	DurationMS     *int64     `parquet:"duration_ms,optional"`
	TriggerDelayMS int64      `parquet:"trigger_delay_ms"`
	AttemptNumber  int64      `parquet:"attempt_number"`
	MaxAttempts    int64      `parquet:"max_attempts"`
	LostAttempts   int64      `parquet:"lost_attempts"`
	WorkerID       *string    `parquet:"worker_id,optional,dict"`
	Priority       int64      `parquet:"priority"`
	IdempotencyKey string     `parquet:"idempotency_key"`
	HTTPStatus     *int64     `parquet:"http_status,optional"`
	ErrorType      *string    `parquet:"error_type,optional,dict"`
	ErrorMessage   *string    `parquet:"error_message,optional"`
	RetryOf        *string    `parquet:"retry_of,optional"`
	Result         *string    `parquet:"result,optional"`
}

func flatten(e client.Execution) flat {
	f := flat{
		ExecutionID: e.ExecutionID, JobID: e.JobID, JobName: e.JobName, Status: e.Status, Trigger: e.Trigger, ScheduledTime: e.ScheduledTime, DueAt: e.DueAt,
		StartedAt: e.StartedAt, FinishedAt: e.FinishedAt, DurationMS: e.DurationMS, TriggerDelayMS: e.TriggerDelayMS, AttemptNumber: int64(e.AttemptNumber),
		MaxAttempts: int64(e.MaxAttempts), LostAttempts: int64(e.LostAttempts), WorkerID: e.WorkerID, Priority: int64(e.Priority), IdempotencyKey: e.IdempotencyKey,
		RetryOf: e.RetryOf,
	}
	if e.CallbackResponse != nil {
		f.HTTPStatus = new(int64(e.CallbackResponse.HTTPStatus))
	}
	if e.Error != nil {
		f.ErrorType, f.ErrorMessage = new(e.Error.Type), new(e.Error.Message)
		if e.Error.HTTPStatus != 0 {
			f.HTTPStatus = new(int64(e.Error.HTTPStatus))
		}
	}
	if len(e.Result) > 0 {
		f.Result = new(string(e.Result))
	}
	return f
}

var csvHead = []string{
	"execution_id", "job_id", "job_name", "status", "trigger", "scheduled_time", "due_at", "started_at", "finished_at", "duration_ms", "trigger_delay_ms",
	"attempt_number", "max_attempts", "lost_attempts", "worker_id", "priority", "idempotency_key", "http_status", "error_type", "error_message", "retry_of", "result",
}

type csvSheet struct{ to *csv.Writer }

func newCSV(w io.Writer) sheet {
	c := csvSheet{csv.NewWriter(w)}
	c.to.UseCRLF = true
	_ = c.to.Write(csvHead) // into a buffer, which reports its errors later
	return c
}

func (c csvSheet) write(es []client.Execution) error {
	for _, e := range es {
		f := flatten(e)
		err := c.to.Write([]string{
			f.ExecutionID, f.JobID, harmless(f.JobName), f.Status, f.Trigger, cell(&f.ScheduledTime), cell(&f.DueAt), cell(f.StartedAt), cell(f.FinishedAt), count(f.DurationMS), count(&f.TriggerDelayMS),
			count(&f.AttemptNumber), count(&f.MaxAttempts), count(&f.LostAttempts), deref(f.WorkerID, ""), count(&f.Priority), f.IdempotencyKey, count(f.HTTPStatus),
			harmless(deref(f.ErrorType, "")), harmless(deref(f.ErrorMessage, "")), deref(f.RetryOf, ""), harmless(deref(f.Result, "")),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c csvSheet) end() error {
	c.to.Flush()
	return c.to.Error()
}

// harmless keeps a spreadsheet from reading a text as a formula.
func harmless(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

func cell(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func count(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// parquetSheet writes a Parquet file, holding one group of rows in memory.
type parquetSheet struct {
	to   *parquet.GenericWriter[flat]
	rows int
	held int // bytes of their texts
}

func newParquet(w io.Writer) sheet {
	return &parquetSheet{to: parquet.NewGenericWriter[flat](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("carillon", "", ""))}
}

func (s *parquetSheet) write(es []client.Execution) error {
	rows := make([]flat, len(es))
	for i, e := range es {
		rows[i] = flatten(e)
		s.held += len(e.Result) + len(deref(rows[i].ErrorMessage, ""))
	}
	if _, err := s.to.Write(rows); err != nil {
		return err
	}
	if s.rows += len(es); s.rows < exportGroup && s.held < exportHeld {
		return nil
	}
	s.rows, s.held = 0, 0
	return s.to.Flush()
}

func (s *parquetSheet) end() error { return s.to.Close() }
