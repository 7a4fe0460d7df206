package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pipe collects statements, including COPY with its rows, to send them all at once as one transaction. The driver
// would wait for the answer to each COPY.
type pipe struct {
	out   []byte // in the form they travel in
	sent  int    // statements
	fault error
}

func (p *pipe) query(sql string) {
	p.add(&pgproto3.Query{String: sql})
	p.sent++
}

func (p *pipe) add(m pgproto3.FrontendMessage) {
	out, err := m.Encode(p.out)
	if err != nil {
		p.fault = errors.Join(p.fault, err)
		return
	}
	p.out = out
}

// copyRows limits how many rows one COPY takes: to undo what it set up for each row, the server walks over what it
// set up for all, so that a thousand cost a tenth more than the same number in parts.
const copyRows = 200

// copy adds the rows of the chosen creations.
func (p *pipe) copy(from *page, chosen []bool) {
	sql := from.table.copy(from.none)
	rows, start, begun := 0, 0, 0
	flush := func() {
		if rows == 0 {
			return
		}
		p.out = append(p.out, 0xff, 0xff)
		binary.BigEndian.PutUint32(p.out[begun:], uint32(len(p.out)-begun))
		p.add(&pgproto3.CopyDone{})
		rows = 0
	}
	for n, end := range from.ends {
		if chosen[from.of[n]] {
			if rows == 0 {
				p.query(sql)
				begun = len(p.out) + 1 // CopyData, whose length is known at its end
				p.out = append(append(p.out, 'd', 0, 0, 0, 0), copyHeader...)
			}
			p.out = append(p.out, from.body[start:end]...)
			rows++
		}
		start = end
		if rows == copyRows || rows > 0 && len(p.out)-begun >= copyBytes {
			flush()
		}
	}
	flush()
}

// run sends everything and waits for all answers. It returns the first error; the server skips what follows it, up to
// the commit, which then rolls back everything.
func (p *pipe) run(ctx context.Context, c *pgx.Conn) error {
	if p.fault != nil {
		return p.fault
	}
	conn := c.PgConn()
	until, _ := ctx.Deadline()
	err := conn.Conn().SetWriteDeadline(until)
	if err == nil {
		_, err = conn.Conn().Write(p.out)
	}
	if err == nil {
		err = conn.Conn().SetWriteDeadline(time.Time{})
	}
	var refused error
	for answers := 0; err == nil && answers < p.sent; {
		var m pgproto3.BackendMessage
		m, err = conn.ReceiveMessage(ctx)
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			if refused == nil {
				refused = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			answers++
		}
	}
	if err != nil { // nobody can tell any more which statement the next answer belongs to
		gone, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		_ = conn.Close(gone)
	}
	if refused != nil {
		return refused
	}
	return err
}
