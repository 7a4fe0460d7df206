package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// table describes how rows of a table are inserted: many by COPY, few by unnest.
type table struct {
	fields   []field
	elements []uint32 // the type of each column
	columns  string
	rows     string // the parameters as rows t
	values   string // of t
	name     string
	insert   string
}

type field struct {
	name    string
	element uint32
}

func newTable(name string, fields ...field) table {
	t := table{name: name, fields: fields}
	var columns, values, params []string
	for i, f := range fields {
		t.elements = append(t.elements, f.element)
		columns = append(columns, f.name)
		params = append(params, fmt.Sprintf("$%d::%s[]", i+1, f.sqlType()))
		if f.element == pgtype.TextArrayOID {
			values = append(values, f.name+"::text[]") // unnest would flatten arrays in arrays
		} else {
			values = append(values, f.name)
		}
	}
	t.columns, t.values = strings.Join(columns, ", "), strings.Join(values, ", ")
	t.rows = fmt.Sprintf("unnest(%s) t(%s)", strings.Join(params, ", "), t.columns)
	t.insert = fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", name, t.columns, t.values, t.rows)
	return t
}

// columnSet is a set of columns of a table, a bit for each.
type columnSet uint64

// column is one of the table's.
func (t table) column(name string) columnSet {
	return 1 << slices.IndexFunc(t.fields, func(f field) bool { return f.name == name })
}

// copy returns the statement that inserts rows without some of the columns.
func (t table) copy(without columnSet) string {
	var names []string
	for i, f := range t.fields {
		if without>>i&1 == 0 {
			names = append(names, f.name)
		}
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", t.name, strings.Join(names, ", "))
}

// sqlType returns the wire type of the column's values.
func (f field) sqlType() string {
	return map[uint32]string{
		pgtype.UUIDOID: "uuid", pgtype.Int2OID: "int2", pgtype.Int4OID: "int4", pgtype.Int8OID: "int8",
		pgtype.TimestamptzOID: "timestamptz", pgtype.TextOID: "text", pgtype.ByteaOID: "bytea", pgtype.TextArrayOID: "text",
		pgtype.BoolOID: "bool",
	}[f.element]
}

var (
	jobsTable = newTable("jobs",
		field{"tenant", pgtype.TextOID}, field{"id", pgtype.UUIDOID}, field{"key", pgtype.TextOID}, field{"name", pgtype.TextOID},
		field{"description", pgtype.TextOID}, field{"state", pgtype.Int2OID}, field{"kind", pgtype.Int2OID}, field{"part", pgtype.Int2OID},
		field{"priority", pgtype.Int2OID}, field{"max_attempts", pgtype.Int4OID}, field{"revision", pgtype.Int4OID},
		field{"created_at", pgtype.TimestamptzOID}, field{"updated_at", pgtype.TimestamptzOID},
		field{"tags", pgtype.TextArrayOID}, field{"spec", pgtype.ByteaOID}, field{"target", pgtype.ByteaOID}, field{"payload", pgtype.ByteaOID},
		field{"paused_until", pgtype.TimestamptzOID}, field{"pause_note", pgtype.TextOID})
	liveTable = newTable("live",
		field{"id", pgtype.UUIDOID}, field{"tenant", pgtype.TextOID}, field{"job", pgtype.UUIDOID}, field{"part", pgtype.Int2OID},
		field{"class", pgtype.TextOID}, field{"priority", pgtype.Int2OID}, field{"due_at", pgtype.TimestamptzOID}, field{"scheduled_at", pgtype.TimestamptzOID},
		field{"nonce", pgtype.Int8OID}, field{"trigger", pgtype.Int2OID}, field{"max_attempts", pgtype.Int4OID}, field{"hold", pgtype.Int2OID},
		field{"tally", pgtype.BoolOID}, field{"retry_of", pgtype.UUIDOID}, field{"payload", pgtype.ByteaOID},
		field{"group_key", pgtype.Int8OID}, field{"group_max", pgtype.Int4OID}, field{"rate_count", pgtype.Int4OID}, field{"rate_us", pgtype.Int8OID},
		field{"rate_burst", pgtype.Int4OID}, field{"timeout_ms", pgtype.Int8OID}, field{"stall_ms", pgtype.Int8OID},
		field{"expires_at", pgtype.TimestamptzOID}, field{"unique_key", pgtype.TextOID}, field{"lane", pgtype.Int8OID})
	schedulesTable = newTable("schedules",
		field{"part", pgtype.Int2OID}, field{"job", pgtype.UUIDOID}, field{"tenant", pgtype.TextOID}, field{"next_run_at", pgtype.TimestamptzOID},
		field{"runs", pgtype.Int8OID}, field{"revision", pgtype.Int4OID}, field{"active", pgtype.BoolOID})
	idempotencyTable = newTable("idempotency",
		field{"tenant", pgtype.TextOID}, field{"key", pgtype.TextOID}, field{"hash", pgtype.ByteaOID}, field{"answer", pgtype.ByteaOID},
		field{"expires_at", pgtype.TimestamptzOID})
)

// sheet collects rows of a table, in one of the two forms.
type sheet struct {
	table table
	cols  []*array // nil: for COPY
	body  cells
	rows  int
	col   int
	none  columnSet // columns that all rows leave out, since they would be NULL
	void  cells     // where those go

	class  classOf // of the last execution …
	number int64   // … and the common part of its lanes
}

type classOf struct {
	tenant tenant.ID
	class  job.Class
}

func (t table) arrays() *sheet {
	s := &sheet{table: t}
	for _, e := range t.elements {
		if e == pgtype.TextArrayOID {
			e = pgtype.TextOID
		}
		s.cols = append(s.cols, &array{element: e})
	}
	return s
}

// copies begins a sheet for COPY in a buffer. Some columns of each row are left out: the server sets them to NULL
// without reading anything.
func (t table) copies(room []byte, without columnSet) *sheet {
	return &sheet{table: t, body: room, none: without}
}

// row begins a row.
func (s *sheet) row() {
	if s.cols == nil {
		s.body = binary.BigEndian.AppendUint16(s.body, uint16(len(s.table.elements)-bits.OnesCount64(uint64(s.none))))
	}
	s.rows++
	s.col = 0
}

// next returns the buffer for the row's next value.
func (s *sheet) next() *cells {
	s.col++
	if s.none>>(s.col-1)&1 == 1 {
		s.void = s.void[:0]
		return &s.void
	}
	if s.cols == nil {
		return &s.body
	}
	return &s.cols[s.col-1].cells
}

// texts writes an array of texts.
func (s *sheet) texts(list []string) {
	c := s.next()
	if s.cols == nil || len(list) == 0 {
		c.texts(list)
		return
	}
	quoted := make([]string, len(list))
	for i, t := range list {
		quoted[i] = `"` + arrayEscape.Replace(t) + `"`
	}
	c.text("{" + strings.Join(quoted, ",") + "}")
}

var arrayEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (s *sheet) queue(b *pgx.Batch) {
	if s.rows == 0 {
		return
	}
	b.Queue(s.table.insert, s.args()...)
}

func (s *sheet) args() []any {
	args := make([]any, len(s.cols))
	for i, c := range s.cols {
		args[i] = c
	}
	return args
}

// sparse returns the columns, with NULL for one that holds nothing else: elements of such an array are slow to
// access.
func (s *sheet) sparse() []any {
	args := s.args()
	for i, c := range s.cols {
		if len(c.cells) == 4*s.rows {
			args[i] = (*array)(nil)
		}
	}
	return args
}

var copyHeader = append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)

// copyReader is rows as COPY reads them.
func copyReader(rows []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(copyHeader), bytes.NewReader(rows), bytes.NewReader([]byte{0xff, 0xff}))
}

// Columns that few rows have.
var (
	jobKey, jobDescription, jobTags, jobPayload = jobsTable.column("key"), jobsTable.column("description"), jobsTable.column("tags"), jobsTable.column("payload")
	jobPause                                    = jobsTable.column("paused_until") | jobsTable.column("pause_note")
	jobFew                                      = jobKey | jobDescription | jobTags | jobPayload | jobPause

	liveRetryOf, livePayload, liveUniqueKey = liveTable.column("retry_of"), liveTable.column("payload"), liveTable.column("unique_key")
	liveStall, liveExpires                  = liveTable.column("stall_ms"), liveTable.column("expires_at")
	liveLimits                              = liveTable.column("group_max") | liveTable.column("rate_count") | liveTable.column("rate_us") | liveTable.column("rate_burst")
	liveFew                                 = liveRetryOf | livePayload | liveUniqueKey | liveStall | liveExpires | liveLimits
)

// jobHas returns those that a job has.
func jobHas(j *job.Job) (has columnSet) {
	if j.Key != "" {
		has |= jobKey
	}
	if j.Description != "" {
		has |= jobDescription
	}
	if len(j.Tags) > 0 {
		has |= jobTags
	}
	if j.Payload != nil {
		has |= jobPayload
	}
	if !j.PausedTill.IsZero() || j.PauseNote != "" {
		has |= jobPause
	}
	return has
}

// liveHas returns those that an execution has.
func liveHas(e *job.Execution) (has columnSet) {
	if e.RetryOf != (job.ExecutionID{}) {
		has |= liveRetryOf
	}
	if e.Payload != nil {
		has |= livePayload
	}
	if e.UniqueKey != "" {
		has |= liveUniqueKey
	}
	if e.Stall != 0 {
		has |= liveStall
	}
	if !e.ExpiresAt.IsZero() {
		has |= liveExpires
	}
	if e.Group.Max != 0 || e.Group.Rate != (job.Rate{}) {
		has |= liveLimits
	}
	return has
}

func (s *sheet) job(t tenant.ID, j *job.Job) {
	s.row()
	s.next().text(string(t))
	s.next().uuid(j.ID)
	s.next().textOrNull(j.Key)
	s.next().text(j.Name)
	s.next().textOrNull(j.Description)
	s.next().int2(int(j.State))
	s.next().int2(int(j.Schedule.Type))
	s.next().int2(int(job.PartitionOf(j.ID)))
	s.next().int2(j.Priority)
	s.next().int4(j.Retry.MaxRetries + 1)
	s.next().int4(j.Revision)
	s.next().time(j.CreatedAt)
	s.next().time(j.UpdatedAt)
	s.texts(j.Tags)
	c := s.next()
	at := c.open()
	*c = engine.AppendSpec(*c, j)
	c.shut(at)
	c = s.next()
	at = c.open()
	*c = engine.AppendTarget(*c, &j.Target)
	c.shut(at)
	s.next().bytes(j.Payload)
	s.next().time(j.PausedTill)
	s.next().textOrNull(j.PauseNote)
}

// schedule adds what a job's schedule changes, if it has one.
func (s *sheet) schedule(t tenant.ID, j *job.Job) (added bool) {
	if !j.Schedule.Type.Recurs() && j.NextRunAt.IsZero() {
		return false
	}
	s.row()
	s.next().int2(int(job.PartitionOf(j.ID)))
	s.next().uuid(j.ID)
	s.next().text(string(t))
	s.next().time(j.NextRunAt)
	s.next().int8(j.Runs)
	s.next().int4(j.Revision)
	s.next().bool(j.State == job.Active)
	return true
}

func (s *sheet) execution(t tenant.ID, e *job.Execution, tally bool) {
	s.row()
	s.next().uuid(e.ID)
	s.next().text(string(t))
	s.next().uuid(e.Job)
	s.next().int2(int(e.Partition))
	s.next().text(string(e.Class))
	s.next().int2(e.Priority)
	s.next().time(e.DueAt)
	s.next().time(e.ScheduledAt)
	s.next().int8(e.Nonce())
	s.next().int2(int(e.Trigger))
	s.next().int4(e.MaxAttempts)
	s.next().int2(hold(e))
	s.next().bool(tally)
	s.next().uuidOrNull(e.RetryOf)
	s.next().bytes(e.Payload)
	s.next().int8(int64(e.Group.Key))
	s.next().int4OrNull(e.Group.Max)
	s.next().int4OrNull(e.Group.Rate.Count)
	s.next().int8OrNull(e.Group.Rate.Per.Microseconds())
	s.next().int4OrNull(e.Group.Rate.Burst)
	s.next().int8(e.Timeout.Milliseconds())
	s.next().int8OrNull(e.Stall.Milliseconds())
	s.next().time(e.ExpiresAt)
	s.next().textOrNull(e.UniqueKey)
	s.next().int8(s.lane(t, e))
}

// lane returns the number of the execution's lane. Most of a sheet are of one class, whose number is computed once.
func (s *sheet) lane(t tenant.ID, e *job.Execution) int64 {
	if k := (classOf{t, e.Class}); s.rows == 1 || k != s.class {
		s.class, s.number = k, engine.LaneNumber(0, t, e.Class)
	}
	return int64(e.Partition)<<56 | s.number
}

// hold is 2 for what waits for the jobs that its job depends on; a pause holds with 1.
func hold(e *job.Execution) int {
	if e.Status == job.Waiting {
		return 2
	}
	return 0
}
