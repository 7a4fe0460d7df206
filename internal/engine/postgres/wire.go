package postgres

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// cells holds values in the binary form, each preceded by its length: the elements of an array, or the fields of a
// row for COPY.
type cells []byte

func (c *cells) null() { *c = append(*c, 0xff, 0xff, 0xff, 0xff) }

func (c *cells) bool(b bool) {
	n := byte(0)
	if b {
		n = 1
	}
	*c = append(*c, 0, 0, 0, 1, n)
}

func (c *cells) int2(n int) {
	*c = binary.BigEndian.AppendUint16(append(*c, 0, 0, 0, 2), uint16(n))
}

func (c *cells) int4(n int) {
	*c = binary.BigEndian.AppendUint32(append(*c, 0, 0, 0, 4), uint32(n))
}

func (c *cells) int8(n int64) {
	*c = binary.BigEndian.AppendUint64(append(*c, 0, 0, 0, 8), uint64(n))
}

// int4OrNull writes zero as NULL.
func (c *cells) int4OrNull(n int) {
	if n == 0 {
		c.null()
		return
	}
	c.int4(n)
}

// int8OrNull writes zero as NULL.
func (c *cells) int8OrNull(n int64) {
	if n == 0 {
		c.null()
		return
	}
	c.int8(n)
}

func (c *cells) uuid(u [16]byte) {
	*c = append(append(*c, 0, 0, 0, 16), u[:]...)
}

// uuidOrNull writes the zero id as NULL.
func (c *cells) uuidOrNull(u [16]byte) {
	if u == [16]byte{} {
		c.null()
		return
	}
	c.uuid(u)
}

func (c *cells) text(s string) {
	*c = append(binary.BigEndian.AppendUint32(*c, uint32(len(s))), s...)
}

// textOrNull writes the empty text as NULL.
func (c *cells) textOrNull(s string) {
	if s == "" {
		c.null()
		return
	}
	c.text(s)
}

// bytes writes nil as NULL.
func (c *cells) bytes(b []byte) {
	if b == nil {
		c.null()
		return
	}
	*c = append(binary.BigEndian.AppendUint32(*c, uint32(len(b))), b...)
}

// open begins a value that is appended, and shut ends it.
func (c *cells) open() (at int) {
	*c = append(*c, 0, 0, 0, 0)
	return len(*c)
}

func (c *cells) shut(at int) { binary.BigEndian.PutUint32((*c)[at-4:], uint32(len(*c)-at)) }

// y2k is PostgreSQL's epoch, in microseconds of Unix time.
const y2k = 946_684_800_000_000

// time writes the zero instant as NULL, and others to the microsecond.
func (c *cells) time(t time.Time) {
	if t.IsZero() {
		c.null()
		return
	}
	c.int8(t.UnixMicro() - y2k)
}

// texts writes an array of texts; none as NULL.
func (c *cells) texts(list []string) {
	if len(list) == 0 {
		c.null()
		return
	}
	var elements cells
	for _, s := range list {
		elements.text(s)
	}
	*c = binary.BigEndian.AppendUint32(*c, uint32(arrayHeader+len(elements)))
	*c = append(appendArrayHeader(*c, pgtype.TextOID, len(list)), elements...)
}

const arrayHeader = 20

func appendArrayHeader(b []byte, element uint32, n int) []byte {
	b = binary.BigEndian.AppendUint32(b, 1) // dimensions
	b = binary.BigEndian.AppendUint32(b, 1) // may hold NULL
	b = binary.BigEndian.AppendUint32(b, element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1) // lower bound
}

// array is an array parameter, built element by element in its wire form.
type array struct {
	cells
	element uint32
}

func newArray(element uint32, n, size int) *array {
	return &array{cells: make(cells, 0, n*(4+size)), element: element}
}

func uuids(n int) *array     { return newArray(pgtype.UUIDOID, n, 16) }
func smallints(n int) *array { return newArray(pgtype.Int2OID, n, 2) }
func ints(n int) *array      { return newArray(pgtype.Int4OID, n, 4) }
func bigints(n int) *array   { return newArray(pgtype.Int8OID, n, 8) }
func instants(n int) *array  { return newArray(pgtype.TimestamptzOID, n, 8) }
func texts(n int) *array     { return newArray(pgtype.TextOID, n, 12) }
func byteas(n int) *array    { return newArray(pgtype.ByteaOID, n, 0) }

// count walks the lengths, so that no builder can get it wrong.
func (a *array) count() int {
	n := 0
	for i := 0; i < len(a.cells); n++ {
		i += 4 + max(0, int(int32(binary.BigEndian.Uint32(a.cells[i:]))))
	}
	return n
}

// arrayCodec sends array as it is, and passes everything else to the codec it wraps.
type arrayCodec struct{ *pgtype.ArrayCodec }

func (arrayCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*array); ok && format == pgtype.BinaryFormatCode {
		return arrayPlan{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type arrayPlan struct{}

func (arrayPlan) Encode(value any, buf []byte) ([]byte, error) {
	a, ok := value.(*array)
	if !ok || a == nil {
		return nil, nil
	}
	return append(appendArrayHeader(buf, a.element, a.count()), a.cells...), nil
}

// registerArrays registers the arrays above with a connection.
func registerArrays(c *pgx.Conn) {
	m := c.TypeMap()
	for oid, element := range map[uint32]uint32{
		pgtype.UUIDArrayOID: pgtype.UUIDOID, pgtype.Int2ArrayOID: pgtype.Int2OID, pgtype.Int4ArrayOID: pgtype.Int4OID, pgtype.Int8ArrayOID: pgtype.Int8OID,
		pgtype.TimestamptzArrayOID: pgtype.TimestamptzOID, pgtype.TextArrayOID: pgtype.TextOID, pgtype.ByteaArrayOID: pgtype.ByteaOID,
		pgtype.BoolArrayOID: pgtype.BoolOID,
	} {
		t, _ := m.TypeForOID(element)
		known, _ := m.TypeForOID(oid)
		m.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: arrayCodec{&pgtype.ArrayCodec{ElementType: t}}})
	}
}
