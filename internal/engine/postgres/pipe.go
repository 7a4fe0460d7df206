package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pipe gathers statements, also COPY with its rows, to send them all at once as one transaction. The driver waits for
// the answer to each COPY.
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

// copyRows is how many rows go by one COPY: to undo what it set up for each row, the server walks over what it set up for
// all, so that a thousand cost a tenth more than as many in parts.
const copyRows = 200

// copy adds the rows of the chosen creations.
func (p *pipe) copy(from *page, chosen map[int]bool) {
	rows, start := 0, 0
	var part []byte
	flush := func() {
		if rows > 0 {
			p.query(from.table.copy)
			p.add(&pgproto3.CopyData{Data: append(part, 0xff, 0xff)})
			p.add(&pgproto3.CopyDone{})
		}
		part, rows = append(part[:0], copyHeader...), 0
	}
	flush()
	for n, end := range from.ends {
		if chosen[from.of[n]] {
			part = append(part, from.body[start:end]...)
			rows++
		}
		start = end
		if rows == copyRows || len(part) >= copyBytes {
			flush()
		}
	}
	flush()
}

// run sends everything and waits for all answers. The first error is returned; what follows it the server passes over, up
// to the commit, which then undoes all.
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
	if err != nil { // nobody can tell any more what the next answer would be to
		gone, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		_ = conn.Close(gone)
	}
	if refused != nil {
		return refused
	}
	return err
}
