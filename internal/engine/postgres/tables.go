package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// table says how rows of a table are inserted: many by COPY, few by unnest.
type table struct {
	fields   []field
	elements []uint32 // the type of each column
	columns  string
	rows     string // the parameters as rows t
	values   string // of t
	insert   string
	copy     string
}

type field struct {
	name    string
	element uint32
}

func newTable(name string, fields ...field) table {
	t := table{fields: fields}
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
	t.copy = fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", name, t.columns)
	return t
}

// sqlType is the type that the column's values travel as.
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
		field{"expires_at", pgtype.TimestamptzOID}, field{"unique_key", pgtype.TextOID})
	schedulesTable = newTable("schedules",
		field{"part", pgtype.Int2OID}, field{"job", pgtype.UUIDOID}, field{"tenant", pgtype.TextOID}, field{"next_run_at", pgtype.TimestamptzOID},
		field{"runs", pgtype.Int8OID}, field{"revision", pgtype.Int4OID}, field{"active", pgtype.BoolOID})
	idempotencyTable = newTable("idempotency",
		field{"tenant", pgtype.TextOID}, field{"key", pgtype.TextOID}, field{"hash", pgtype.ByteaOID}, field{"answer", pgtype.ByteaOID},
		field{"expires_at", pgtype.TimestamptzOID})
)

// sheet gathers rows of a table, in one of the two forms.
type sheet struct {
	table table
	cols  []*array // nil: for COPY
	body  cells
	rows  int
	col   int
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

// copies begins a sheet for COPY, with room for rows of that many bytes.
func (t table) copies(room int) *sheet {
	return &sheet{table: t, body: make(cells, 0, room)}
}

// row begins a row.
func (s *sheet) row() {
	if s.cols == nil {
		s.body = binary.BigEndian.AppendUint16(s.body, uint16(len(s.table.elements)))
	}
	s.rows++
	s.col = 0
}

// next is where the row's next value goes.
func (s *sheet) next() *cells {
	s.col++
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

// sparse are the columns, with NULL for one that holds nothing else: elements of such an array are slow to reach.
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
	s.next().bytes(engine.EncodeSpec(*j))
	s.next().bytes(engine.EncodeTarget(j.Target))
	s.next().bytes(j.Payload)
	s.next().time(j.PausedTill)
	s.next().textOrNull(j.PauseNote)
}

// schedule adds what a job's schedule changes, if it has one.
func (s *sheet) schedule(t tenant.ID, j *job.Job) (added bool) {
	if j.Schedule.Type.OneOff() && j.NextRunAt.IsZero() {
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
}

func hold(e *job.Execution) int {
	if e.Status == job.Waiting {
		return 1
	}
	return 0
}
